"""Pulling: what another machine pushed is had here under the name that it has there, so that nothing is built.

It is named by its digest, and by nothing that could be moved to other files: whoever hands that on answers for what is
in the image, and for what its labels say of that. The name it gets here follows from those labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from sandbox.backends.container.docker.config import usable_docker_config
from sandbox.backends.container.docker.failures import translate_failures
from sandbox.backends.ownership import OWNER_LABEL
from sandbox.errors import BackendUnavailable, SpecError
from sandbox.images.base import OWNER, BaseImage, base_tag, list_images, nobody
from sandbox.images.bootstrapping import OnStage
from sandbox.images.environment_image import EnvironmentImage, list_environment_images, tag_by_labels

if TYPE_CHECKING:
    from docker import DockerClient

_PINNED: Final = re.compile(r"(?P<repository>[a-z0-9][a-z0-9./:_-]{0,200})@(?P<digest>sha256:[0-9a-f]{64})")
_MOST_TOLD: Final = 500


def pull(client: DockerClient, reference: str, *, on_stage: OnStage = nobody) -> EnvironmentImage | BaseImage:
    """Have that image of ours, `repository@sha256:…` as `push` told it; `BackendUnavailable` where it cannot be had."""
    found = _PINNED.fullmatch(reference)
    if found is None:
        raise SpecError(
            f"{reference[:80]!r} does not name an image by its digest",
            remedy="write it as `sandbox image push` told it: registry.example.org/tools/env@sha256:…",
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
            told = str(said)[:_MOST_TOLD]
            remedy = "see that the daemon's machine can reach the registry, and is logged in there"
            raise BackendUnavailable(f"{reference} could not be pulled: {told}", remedy=remedy)


def _named(client: DockerClient, reference: str) -> EnvironmentImage | BaseImage:
    """Under the name that its labels give it, unless another image has that: such as one made on top of ours."""
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
    raise SpecError(f"{reference} is no image of ours", remedy="pull what `sandbox image push` has pushed")


def _has_that_name(client: DockerClient, tag: str) -> str | None:
    """Which image, by its id."""
    from docker.errors import ImageNotFound

    try:
        return str(client.images.get(tag).id)
    except ImageNotFound:
        return None
