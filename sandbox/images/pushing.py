"""Pushing: an image goes to a registry, so that other machines need not make it.

Who may push there is what the daemon's own client knows of that registry (`docker login`); nothing of it is read here
but by the Docker SDK, and nothing of it gets into an image.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sandbox.backends.container.docker.config import usable_docker_config
from sandbox.backends.container.docker.failures import translate_failures
from sandbox.errors import BackendUnavailable, SpecError
from sandbox.images.base import BaseImage, nobody
from sandbox.images.bootstrapping import OnStage
from sandbox.images.environment_image import EnvironmentImage

if TYPE_CHECKING:
    from docker import DockerClient

_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REPOSITORY: Final = re.compile(rf"(?:[a-z0-9.-]+(?::[0-9]{{1,5}})?/)?{_PART}(?:/{_PART})*")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_LONGEST: Final = 200
_MOST_TOLD: Final = 500


@dataclass(frozen=True, slots=True)
class Pushed:
    """Where an image is now."""

    name: str
    """With its tag, which may be moved."""
    pinned: str
    """With its digest, by which other machines pull exactly this."""


def push(
    client: DockerClient, image: EnvironmentImage | BaseImage, repository: str, *, on_stage: OnStage = nobody
) -> Pushed:
    """Send the image to `repository`, such as `registry.example.org/tools/env`, under the tag it has here.

    Raises `BackendUnavailable` with what the registry or the daemon said when they refuse. The daemon keeps no further
    name for it.
    """
    if len(repository) > _LONGEST or not _REPOSITORY.fullmatch(repository):
        raise SpecError(
            f"{repository[:80]!r} is no repository",
            remedy="write it like registry.example.org/tools/env, without a tag",
        )
    tag = image.tag.partition(":")[2]
    with translate_failures(f"pushing to {repository}"):
        client.api.tag(image.id, repository, tag)
        try:
            on_stage(f"pushing {image.tag} to {repository}")
            with usable_docker_config(is_for_login=True):
                progress = client.api.push(repository, tag, stream=True, decode=True)
            digest = _digest_of(progress, repository)
        finally:
            client.api.remove_image(f"{repository}:{tag}")
    return Pushed(f"{repository}:{tag}", f"{repository}@{digest}")


def _digest_of(progress: Iterable[Mapping[str, Any]], repository: str) -> str:
    """What the registry has it under, as the daemon's last words tell."""
    digest = None
    for step in progress:
        if said := step.get("error"):
            raise _refused(str(said)[:_MOST_TOLD], repository)
        found = _DIGEST.search(str((step.get("aux") or {}).get("Digest", "")))
        digest = found.group() if found else digest
    if digest is None:
        raise BackendUnavailable(
            f"the daemon does not say what it pushed to {repository}", remedy="see what the daemon's own log says"
        )
    return digest


def _refused(said: str, repository: str) -> BackendUnavailable:
    registry = repository.partition("/")[0]
    is_login = any(word in said.lower() for word in ("denied", "unauthorized", "authentication", "credentials"))
    remedy = f"docker login {registry}" if is_login else f"see that the daemon's machine can reach {registry}"
    return BackendUnavailable(f"the image could not be pushed to {repository}: {said}", remedy=remedy)
