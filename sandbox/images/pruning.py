"""Which images of environments go: those that nothing will ask for any more, that are old, or that somebody names.

An image is asked for by its environment's key and the base it stands on. When that base is not the newest any more, the
next call has the environment made on the new one, and the old image only takes up room. No image is taken from under a
container, running or not: the daemon refuses that, and it is told as in use.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sandbox.errors import SpecError
from sandbox.images.base import BaseImage, PruneReport, list_images, newest, remove
from sandbox.images.environment_image import EnvironmentImage, environment_tag, list_environment_images

if TYPE_CHECKING:
    from docker import DockerClient


def prune_environment_images(
    client: DockerClient,
    *,
    older_than_s: float | None = None,
    key: str | None = None,
    everything: bool = False,
    dry_run: bool = False,
) -> PruneReport:
    """Remove those of that environment, or else all that are made for another base, or that long ago, or all."""
    images = list_environment_images(client)
    if key is not None:
        unwanted = [image for image in images if image.key.startswith(_checked(key))]
    else:
        bases = _current_bases(client)
        unwanted = [each for each in images if everything or _is_outdated(each, bases) or _is_older(each, older_than_s)]
    if dry_run:
        return PruneReport(tuple(each.tag for each in unwanted), (), _own_bytes(client, unwanted), True)
    own = {image.id: _own_bytes(client, [image]) for image in unwanted}
    gone = [image for image in unwanted if remove(client, image.id)]
    in_use = tuple(image.tag for image in unwanted if image not in gone)
    return PruneReport(tuple(image.tag for image in gone), in_use, sum(own[image.id] for image in gone), False)


def _checked(key: str) -> str:
    if not key:
        raise SpecError("no key begins with nothing", remedy="`sandbox image list` names them; --all removes all")
    return key


def _current_bases(client: DockerClient) -> tuple[BaseImage, ...]:
    """The newest of each name; those of recipes that were changed since are not current."""
    images = list_images(client)
    found = (newest(images, name) for name in {image.name for image in images})
    return tuple(image for image in found if image is not None)


def _is_outdated(image: EnvironmentImage, bases: tuple[BaseImage, ...]) -> bool:
    """Whether there are bases, and none is the one it was made for; a daemon that lost its base will have it again."""
    return bool(bases) and image.tag not in {environment_tag(image.key, base) for base in bases}


def _is_older(image: EnvironmentImage, older_than_s: float | None) -> bool:
    if older_than_s is None:
        return False
    try:
        made = datetime.fromisoformat(image.created)
    except ValueError:
        return False
    return datetime.now(UTC) - made.astimezone(UTC) >= timedelta(seconds=older_than_s)


def _own_bytes(client: DockerClient, images: list[EnvironmentImage]) -> int:
    """What they have beyond their bases, which stay."""
    bases = {base.content: base.bytes for base in list_images(client)}
    return sum(max(image.bytes - bases.get(image.base, 0), 0) for image in images)
