"""The base image in a daemon: bootstrap, find, list, prune.

A machine takes half a minute or more to build the image, once; the cache keeps the files (see `tarball`), so that
another daemon, or a daemon that lost its images, gets the image in a second. An image is ours if our label *and* the
tag that follows from its content say so: images that a user built on top of it inherit the labels.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from sandbox.backends.container.docker.client import tags_of
from sandbox.backends.container.docker.failures import translate_failures
from sandbox.backends.ownership import LABELS, OWNER_LABEL
from sandbox.errors import BackendUnavailable
from sandbox.images import bootstrapping
from sandbox.images.apt_sources import Distribution, this_distribution
from sandbox.images.bootstrapping import OnStage
from sandbox.images.image_python import UNKNOWN, ImagePython, ask_image, read_python, write_python
from sandbox.images.recipe import Recipe, load_recipe
from sandbox.images.stripping import strip
from sandbox.images.tarball import Record, TarballCache, file_digest, write_tarball

if TYPE_CHECKING:
    from docker import DockerClient

REPOSITORY: Final = "sandbox/base"
OWNER: Final = "sandbox-engine"
_SHOWN_DIGITS: Final = 12
_USER: Final = "200000:200000"
_CONFLICT: Final = 409
_GONE: Final = 404
_IMPORT_S: Final = 600

_PYTHONS: Final[dict[str, ImagePython]] = {}
"""The Pythons of images, by id; an id is the digest of the whole image."""

Source = Literal["present", "cached", "built"]


@dataclass(frozen=True, slots=True)
class BaseImage:
    """A base image in a daemon."""

    id: str
    """The id `sha256:…`, from which containers are created; unlike a tag, it cannot move to another image."""
    tag: str
    name: str
    recipe: str
    inputs: str
    content: str
    made_from: str
    made_by: str
    created: str
    bytes: int
    python: ImagePython
    """Unknown in a list of images; `find` and `bootstrap` ask the image."""


@dataclass(frozen=True, slots=True)
class Bootstrapped:
    """The image, and its source."""

    image: BaseImage
    way: Source
    """Whether the image was present, came from cached files, or had to be built."""
    seconds: float


@dataclass(frozen=True, slots=True)
class PruneReport:
    """The tags of removed images, and of images that containers still use."""

    removed: tuple[str, ...]
    in_use: tuple[str, ...]
    bytes_freed: int
    is_dry_run: bool


def ignore_stage(_: str) -> None:
    """Ignore the stages of a build."""


def bootstrap(
    client: DockerClient,
    *,
    name: str = "python",
    cache: Path | None = None,
    fresh: bool = False,
    on_stage: OnStage = ignore_stage,
) -> Bootstrapped:
    """Return that image in the daemon, and build it if necessary, or, with `fresh`, in any case from today's packages.

    Raises `BackendUnavailable` if the image cannot be built: without root, debootstrap, or package sources.
    """
    began = time.monotonic()
    if not fresh and (image := find(client, name)):
        return Bootstrapped(image, "present", time.monotonic() - began)
    plan, kept = _plan(name), TarballCache(cache)
    _check_architecture(client, plan.architecture)
    with kept.locked(plan.inputs):
        record = None if fresh else kept.find(plan.inputs)
        way: Source = "built" if record is None else "cached"
        if record is None:
            record = _build(plan, kept, on_stage)
        on_stage("importing the image into the daemon")
        image = _import(client, _with_python(client, record, kept), kept.tarball(plan.inputs))
    return Bootstrapped(image, way, time.monotonic() - began)


def find(client: DockerClient, name: str = "python") -> BaseImage | None:
    """Return the newest image of the present recipe."""
    found = newest(list_images(client), name)
    return found if found is None else _ask_python(client, found)


def newest(images: Iterable[BaseImage], name: str) -> BaseImage | None:
    """Return the first of these images that was made from the present recipe."""
    recipe = load_recipe(name).digest
    return next((each for each in images if each.recipe == recipe and each.name == name), None)


def _ask_python(client: DockerClient, image: BaseImage) -> BaseImage:
    # This process asks the Python of an image without that label once.
    if image.python != UNKNOWN:
        return image
    if image.id not in _PYTHONS:
        _PYTHONS[image.id] = ask_image(client, image.id)
    return replace(image, python=_PYTHONS[image.id])


def digest(client: DockerClient, name: str = "python") -> str:
    """Return the id of the image; raise `BackendUnavailable` if it is missing."""
    image = find(client, name)
    if image is None:
        raise BackendUnavailable(f"the daemon has no base image {name!r}", remedy="run `sandbox image bootstrap`")
    return image.id


def list_images(client: DockerClient) -> tuple[BaseImage, ...]:
    """Return our base images, the newest first."""
    with translate_failures("listing images"):
        found = client.api.images(filters={"label": f"{OWNER_LABEL}={OWNER}"})
    images = [image for entry in found if (image := _read(entry)) is not None]
    return tuple(sorted(images, key=lambda image: image.created, reverse=True))


def base_tag(labels: Mapping[str, str]) -> str | None:
    """Return the tag of an image with these labels; None if they are not a base image's."""
    content = labels.get(f"{LABELS}content", "")
    return f"{REPOSITORY}:{content[:_SHOWN_DIGITS]}" if content else None


def _read(entry: dict[str, Any]) -> BaseImage | None:
    labels = {str(key): str(value) for key, value in (entry.get("Labels") or {}).items()}
    said = {key.removeprefix(LABELS): value for key, value in labels.items() if key.startswith(LABELS)}
    tag = base_tag(labels)
    fields = ("name", "recipe", "inputs", "content", "made_from", "made_by", "created")
    if tag is None or tag not in tags_of(entry) or any(field not in said for field in fields):
        return None
    return BaseImage(
        id=entry["Id"],
        tag=tag,
        bytes=int(entry["Size"]),
        python=_python(said),
        **{field: said[field] for field in fields},
    )


def _python(said: Mapping[str, str]) -> ImagePython:
    try:
        return read_python(said.get("python", "").replace('\\"', '"'))  # Podman escapes the quotes
    except ValueError:
        return UNKNOWN


def prune(
    client: DockerClient, *, everything: bool = False, dry_run: bool = False, cache: Path | None = None
) -> PruneReport:
    """Remove base images that a newer one has replaced; with `everything`, all of them and the cached files."""
    images = list_images(client)
    current = None if everything else {name: newest(images, name) for name in {image.name for image in images}}
    replaced = [image for image in images if current is None or current[image.name] not in (image, None)]
    if dry_run:
        return PruneReport(tuple(each.tag for each in replaced), (), sum(each.bytes for each in replaced), True)
    gone = [image for image in replaced if remove(client, image.id)]
    in_use = tuple(image.tag for image in replaced if image not in gone)
    freed = sum(image.bytes for image in gone)
    if everything:
        freed += TarballCache(cache).remove()
    return PruneReport(tuple(image.tag for image in gone), in_use, freed, False)


def remove(client: DockerClient, image: str) -> bool:
    """Remove an image, and return whether it is gone; the daemon keeps an image that a container uses."""
    from docker.errors import APIError

    with translate_failures("removing an image"):
        try:
            client.api.remove_image(image)
        except APIError as error:
            if error.status_code not in (_CONFLICT, _GONE):
                raise
            return error.status_code == _GONE
    return True


def _check_architecture(client: DockerClient, architecture: str) -> None:
    with translate_failures("asking for its version"):
        theirs = str(client.api.version().get("Arch", architecture))
    if theirs != architecture:
        raise BackendUnavailable(
            f"an image made here is for {architecture}, and this daemon's machine is {theirs[:20]}",
            remedy=f"run `sandbox image bootstrap` on a machine that is {theirs[:20]}",
        )


@dataclass(frozen=True, slots=True)
class _Plan:
    """The name, recipe and packages of an image to build."""

    name: str
    recipe: Recipe
    distribution: Distribution
    architecture: str

    @property
    def inputs(self) -> str:
        return self.recipe.inputs(distribution=str(self.distribution), architecture=self.architecture)


def _plan(name: str) -> _Plan:
    distribution = this_distribution()
    return _Plan(name, load_recipe(name), distribution, bootstrapping.architecture())


def _build(plan: _Plan, kept: TarballCache, on_stage: OnStage) -> Record:
    bootstrapping.check_host()
    began = time.time()
    with kept.aside() as folder:
        tree, tarball = folder / "tree", folder / "image.tar"
        bootstrapping.make_tree(plan.recipe, tree, plan.distribution, on_stage=on_stage)
        on_stage("removing files that no tool needs")
        strip(plan.recipe, tree)
        bootstrapping.verify(plan.recipe, tree)
        python = bootstrapping.python_of(tree)
        with tarball.open("wb") as file:
            write_tarball(tree, file, began=began)
        record = _record(plan, tarball, python)
        kept.keep(record, tarball)
    return record


def _record(plan: _Plan, tarball: Path, python: ImagePython) -> Record:
    return Record(
        name=plan.name,
        recipe=plan.recipe.digest,
        inputs=plan.inputs,
        content=file_digest(tarball),
        bytes=tarball.stat().st_size,
        created=datetime.now(UTC),
        made_from=f"{plan.distribution} {plan.architecture}",
        made_by=bootstrapping.debootstrap_version(),
        python=python,
    )


def _with_python(client: DockerClient, record: Record, kept: TarballCache) -> Record:
    """Return the record with its Python."""
    # Import cached files without a recorded Python to ask it, and record the answer.
    if record.python is not None:
        return record
    image = _import(client, record, kept.tarball(record.inputs))
    record = record.model_copy(update={"python": ask_image(client, image.id)})
    kept.note(record)
    return record


def _import(client: DockerClient, record: Record, tarball: Path) -> BaseImage:
    """Import the files as an image, in place of an image with the same tag and other labels."""
    tag = record.content[:_SHOWN_DIGITS]
    before = [image for image in list_images(client) if image.content == record.content]
    if before and (before[0].recipe, before[0].python) == (record.recipe, record.python or UNKNOWN):
        return before[0]
    with translate_failures("importing an image"):
        made = json.loads(client.api.import_image(src=str(tarball), changes=_changes(record)))["status"]
        client.api.tag(made, REPOSITORY, tag)  # Podman does not tag while it imports
    for replaced in before:
        remove(client, replaced.id)
    image = next((each for each in list_images(client) if each.content == record.content), None)
    if image is None:
        raise BackendUnavailable(
            f"the daemon did not keep the image {REPOSITORY}:{tag}", remedy="read the daemon's own log"
        )
    return image


def _changes(record: Record) -> list[str]:
    labels = {OWNER_LABEL: OWNER, f"{LABELS}kind": "base"}
    document = record.model_dump(mode="json", exclude={"bytes", "python"})
    labels |= {f"{LABELS}{key}": str(value) for key, value in document.items()}
    if record.python is not None:
        labels[f"{LABELS}python"] = write_python(record.python)
    return [
        *(f"LABEL {key}={json.dumps(value)}" for key, value in labels.items()),
        f"USER {_USER}",
        "ENV PATH=/usr/local/bin:/usr/bin:/bin",
        "ENV LANG=C.UTF-8",
        'CMD ["/usr/bin/python3"]',
    ]
