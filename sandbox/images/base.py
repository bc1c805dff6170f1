"""The base image in a daemon: made, found, listed, pruned.

Making it takes half a minute or more, once for a machine; the files are kept (see `tarball`), so that another daemon,
or the same after its images were lost, has it again in a second. An image is ours when our label *and* the tag that
follows from its content say so: images that somebody built on top of it inherit the labels.
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
"""What images of these ids answered; an id is the digest of all that an image is."""

Way = Literal["present", "cached", "built"]


@dataclass(frozen=True, slots=True)
class BaseImage:
    """One base image of ours in a daemon."""

    id: str
    """What containers are made from: `sha256:…`, which no tag can be moved away from."""
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
    """Unknown in a list of images that nobody has asked yet; who finds one, or makes one, is told."""


@dataclass(frozen=True, slots=True)
class Bootstrapped:
    """The image, and what had to be done for it."""

    image: BaseImage
    way: Way
    """It was there, its files were kept, or it had to be built."""
    seconds: float


@dataclass(frozen=True, slots=True)
class PruneReport:
    """Tags of images that went, and of those that stay because something uses them."""

    removed: tuple[str, ...]
    in_use: tuple[str, ...]
    bytes_freed: int
    is_dry_run: bool


def nobody(_: str) -> None:
    """Told of the stages where nobody asked to be."""


def bootstrap(
    client: DockerClient,
    *,
    name: str = "python",
    cache: Path | None = None,
    fresh: bool = False,
    on_stage: OnStage = nobody,
) -> Bootstrapped:
    """Have that image in the daemon. `fresh` makes it of today's packages, although there is one.

    Raises `BackendUnavailable` where it is not there and cannot be made: without root, debootstrap, or package sources.
    """
    began = time.monotonic()
    if not fresh and (image := find(client, name)):
        return Bootstrapped(image, "present", time.monotonic() - began)
    plan, kept = _plan(name), TarballCache(cache)
    _see_that_it_would_run(client, plan.architecture)
    with kept.locked(plan.inputs):
        record = None if fresh else kept.find(plan.inputs)
        way: Way = "built" if record is None else "cached"
        if record is None:
            record = _build(plan, kept, on_stage)
        on_stage("importing it into the daemon")
        image = _import(client, _asked(client, record, kept), kept.tarball(plan.inputs))
    return Bootstrapped(image, way, time.monotonic() - began)


def find(client: DockerClient, name: str = "python") -> BaseImage | None:
    """The newest image of the recipe as it is now."""
    found = newest(list_images(client), name)
    return found if found is None else _told(client, found)


def newest(images: Iterable[BaseImage], name: str) -> BaseImage | None:
    """Of these, the first that is of the recipe as it is now."""
    recipe = load_recipe(name).digest
    return next((each for each in images if each.recipe == recipe and each.name == name), None)


def _told(client: DockerClient, image: BaseImage) -> BaseImage:
    """Of an image without that label, its Python is asked once by this process."""
    if image.python != UNKNOWN:
        return image
    if image.id not in _PYTHONS:
        _PYTHONS[image.id] = ask_image(client, image.id)
    return replace(image, python=_PYTHONS[image.id])


def digest(client: DockerClient, name: str = "python") -> str:
    """What containers are made from; `BackendUnavailable` says how to make it where it is missing."""
    image = find(client, name)
    if image is None:
        raise BackendUnavailable(f"the daemon has no base image {name!r}", remedy="run `sandbox image bootstrap`")
    return image.id


def list_images(client: DockerClient) -> tuple[BaseImage, ...]:
    """Ours, the newest first."""
    with translate_failures("listing images"):
        found = client.api.images(filters={"label": f"{OWNER_LABEL}={OWNER}"})
    images = [image for entry in found if (image := _read(entry)) is not None]
    return tuple(sorted(images, key=lambda image: image.created, reverse=True))


def base_tag(labels: Mapping[str, str]) -> str | None:
    """What a base image with these labels is called; None where they are not those of one."""
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
        return read_python(said.get("python", "").replace('\\"', '"'))  # as Podman keeps it
    except ValueError:
        return UNKNOWN


def prune(
    client: DockerClient, *, everything: bool = False, dry_run: bool = False, cache: Path | None = None
) -> PruneReport:
    """Remove the base images of ours that a newer one has replaced, or all, and the files kept for them."""
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
    """Whether it is gone; what a container uses is not."""
    from docker.errors import APIError

    with translate_failures("removing an image"):
        try:
            client.api.remove_image(image)
        except APIError as error:
            if error.status_code not in (_CONFLICT, _GONE):
                raise
            return error.status_code == _GONE
    return True


def _see_that_it_would_run(client: DockerClient, architecture: str) -> None:
    with translate_failures("asking for its version"):
        theirs = str(client.api.version().get("Arch", architecture))
    if theirs != architecture:
        raise BackendUnavailable(
            f"an image made here is for {architecture}, and this daemon's machine is {theirs[:20]}",
            remedy=f"run `sandbox image bootstrap` on a machine that is {theirs[:20]}",
        )


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be built, and out of what."""

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
    bootstrapping.see_that_it_can()
    began = time.time()
    with kept.aside() as folder:
        tree, tarball = folder / "tree", folder / "image.tar"
        bootstrapping.make_tree(plan.recipe, tree, plan.distribution, on_stage=on_stage)
        on_stage("taking out what no tool needs")
        strip(plan.recipe, tree)
        bootstrapping.prove(plan.recipe, tree)
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


def _asked(client: DockerClient, record: Record, kept: TarballCache) -> Record:
    """With its Python: files that were kept without are imported to ask them, and that is noted for the next time."""
    if record.python is not None:
        return record
    image = _import(client, record, kept.tarball(record.inputs))
    record = record.model_copy(update={"python": ask_image(client, image.id)})
    kept.note(record)
    return record


def _import(client: DockerClient, record: Record, tarball: Path) -> BaseImage:
    """Have the files as an image; one with the same tag and other labels is replaced."""
    tag = record.content[:_SHOWN_DIGITS]
    before = [image for image in list_images(client) if image.content == record.content]
    if before and (before[0].recipe, before[0].python) == (record.recipe, record.python or UNKNOWN):
        return before[0]
    with translate_failures("importing an image"):
        made = json.loads(client.api.import_image(src=str(tarball), changes=_changes(record)))["status"]
        client.api.tag(made, REPOSITORY, tag)  # Podman would not, when it is asked to import
    for replaced in before:
        remove(client, replaced.id)
    image = next((each for each in list_images(client) if each.content == record.content), None)
    if image is None:
        raise BackendUnavailable(f"the daemon did not keep the image {REPOSITORY}:{tag}", remedy="see the daemon's log")
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
