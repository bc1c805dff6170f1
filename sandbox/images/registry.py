"""Images in registries: push an image, so that other machines need not build it, and pull it there.

The daemon's own client knows the login for a registry (`docker login`). Only the Docker SDK reads that login, and no
image contains it.

A pull names an image by its digest, never by a name that can move to other files: the sender of the digest answers for
the image, and for its labels. The local name of the image follows from those labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sandbox.backends.container.docker.config import usable_docker_config
from sandbox.backends.container.docker.failures import translate_failures
from sandbox.backends.ownership import OWNER_LABEL
from sandbox.errors import BackendUnavailable, SpecError
from sandbox.images.base import OWNER, BaseImage, base_tag, ignore_stage, list_images
from sandbox.images.bootstrapping import OnStage
from sandbox.images.environment_image import EnvironmentImage, list_environment_images, tag_by_labels

if TYPE_CHECKING:
    from docker import DockerClient

_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REPOSITORY: Final = re.compile(rf"(?:[a-z0-9.-]+(?::[0-9]{{1,5}})?/)?{_PART}(?:/{_PART})*")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_REPOSITORY: Final = 200
_PINNED: Final = re.compile(r"(?P<repository>[a-z0-9][a-z0-9./:_-]{0,200})@(?P<digest>sha256:[0-9a-f]{64})")
_MAX_QUOTED: Final = 500


@dataclass(frozen=True, slots=True)
class Pushed:
    """The names of an image in a registry."""

    name: str
    """The name with the tag, which may move to another image."""
    pinned: str
    """The name with the digest, by which other machines pull exactly this image."""


def push(
    client: DockerClient, image: EnvironmentImage | BaseImage, repository: str, *, on_stage: OnStage = ignore_stage
) -> Pushed:
    """Push the image to `repository`, such as `registry.example.org/tools/env`, under its local tag.

    Raises `BackendUnavailable` with the answer of the registry or the daemon if they refuse. The daemon keeps no
    additional name for the image.
    """
    if len(repository) > _MAX_REPOSITORY or not _REPOSITORY.fullmatch(repository):
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
    """Return the digest in the registry, from the daemon's last messages."""
    digest = None
    for step in progress:
        if said := step.get("error"):
            raise _refused(str(said)[:_MAX_QUOTED], repository)
        found = _DIGEST.search(str((step.get("aux") or {}).get("Digest", "")))
        digest = found.group() if found else digest
    if digest is None:
        raise BackendUnavailable(
            f"the daemon does not report the digest that it pushed to {repository}", remedy="read the daemon's own log"
        )
    return digest


def _refused(said: str, repository: str) -> BackendUnavailable:
    registry = repository.partition("/")[0]
    is_login = any(word in said.lower() for word in ("denied", "unauthorized", "authentication", "credentials"))
    remedy = f"docker login {registry}" if is_login else f"check that the daemon's machine can reach {registry}"
    return BackendUnavailable(f"the image could not be pushed to {repository}: {said}", remedy=remedy)


def pull(client: DockerClient, reference: str, *, on_stage: OnStage = ignore_stage) -> EnvironmentImage | BaseImage:
    """Pull an image of ours, `repository@sha256:…` as `push` returned it; raise `BackendUnavailable` if that fails."""
    found = _PINNED.fullmatch(reference)
    if found is None:
        raise SpecError(
            f"{reference[:80]!r} does not name an image by its digest",
            remedy="write it as `sandbox image push` prints it: registry.example.org/tools/env@sha256:…",
        )
    with translate_failures(f"pulling {reference}"):
        on_stage(f"pulling {reference}")
        with usable_docker_config(is_for_login=True):
            progress = client.api.pull(found["repository"], tag=found["digest"], stream=True, decode=True)
        _refuse_errors(progress, reference)
        try:
            return _named(client, reference)
        finally:
            client.api.remove_image(reference)


def _refuse_errors(progress: Iterable[Mapping[str, Any]], reference: str) -> None:
    for step in progress:
        if said := step.get("error"):
            message = f"{reference} could not be pulled: {str(said)[:_MAX_QUOTED]}"
            remedy = "check that the daemon's machine can reach the registry, and is logged in there"
            raise BackendUnavailable(message, remedy=remedy)


def _named(client: DockerClient, reference: str) -> EnvironmentImage | BaseImage:
    """Name the image by its labels, unless another image has that name, and return it."""
    # An image that a user built on top of ours has the same labels and another id.
    attributes = client.images.get(reference).attrs
    id, labels = str(attributes["Id"]), (attributes.get("Config") or {}).get("Labels") or {}
    tag = (tag_by_labels(labels) or base_tag(labels)) if labels.get(OWNER_LABEL) == OWNER else None
    if tag is not None and _has_that_name(client, tag) in (id, None):
        repository, _, version = tag.partition(":")
        client.api.tag(id, repository, version)
        images: list[EnvironmentImage | BaseImage] = [*list_environment_images(client), *list_images(client)]
        found = [each for each in images if (each.id, each.tag) == (id, tag)]
        if found:
            return found[0]
        client.api.remove_image(tag)
    raise SpecError(f"{reference} is no image of ours", remedy="pull an image that `sandbox image push` pushed")


def _has_that_name(client: DockerClient, tag: str) -> str | None:
    """Return the id of the image with that name."""
    from docker.errors import ImageNotFound

    try:
        return str(client.images.get(tag).id)
    except ImageNotFound:
        return None
