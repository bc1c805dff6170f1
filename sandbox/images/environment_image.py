"""An environment as an image: the base image, and one layer with the environment's files at `/environment`.

Such images are for daemons that cannot mount a folder of the store, because they are on another machine. A tool finds
the same files there, to the byte, and the tag follows from the image's inputs, so that no files need to be compared::

    sandbox/env:<16 digits of the environment's key>-<8 digits of the base's files and the format of layers>

The engine streams the files into a container that never runs, and commits the container. Measured for 290 MB in 7600
files on one machine: a build (which copies the files to the daemon, into a container, and into the layer) takes 23 to
41 s, a commit 10 to 16 s, and loading an archive with only the new layer 7 to 16 s. The engine does not use the last
method, because some daemons do not fill in the layers that an archive leaves out. Neither the engine nor the daemon
runs a program or opens a connection meanwhile, so none of this machine's settings, certificates or credentials can get
into the layer.

A single process of a machine makes an image, and the others wait for it. Another machine may make the same image for
the same daemon meanwhile: the later one takes the image of the earlier one and removes its own. A maker that was killed
leaves a container that never ran; the next maker of the same image removes it.

`prune_environment_images` removes images that no call will ask for: a call asks for an environment's key and the newest
base, so an image on an older base only takes up space. The daemon refuses to remove the image of a container.

The environment must be in use (`Store.use`) while an image is made, so that no other process prunes it.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from sandbox.backends.container.docker.client import tags_of
from sandbox.backends.container.docker.failures import translate_failures
from sandbox.backends.ownership import LABELS, OWNER_LABEL
from sandbox.errors import BackendUnavailable, SpecError
from sandbox.images.base import OWNER, BaseImage, PruneReport, ignore_stage, list_images, newest, remove
from sandbox.images.bootstrapping import OnStage
from sandbox.images.fitting import check_fit, read_facts
from sandbox.images.layer import LAYER_FORMAT, Layer
from sandbox.images.tarball import TarballCache

if TYPE_CHECKING:
    from docker import DockerClient

    from sandbox.environments.model import Environment

REPOSITORY: Final = "sandbox/env"
PLACE: Final = "environment"
_LABELS: Final = f"{LABELS}environment."
_FIELDS: Final = ("key", "lock_digest", "base", "created", "made_by")
_KEY_DIGITS: Final = 16
_BASE_DIGITS: Final = 8
_SENT_AT_ONCE: Final = 1 << 18
_WRITING_S: Final = 1800
_COMMITS: Final = Lock()


@dataclass(frozen=True, slots=True)
class EnvironmentImage:
    """An environment in a daemon."""

    id: str
    """The id `sha256:…`, from which containers are created; unlike a tag, it cannot move to another image."""
    tag: str
    key: str
    lock_digest: str
    base: str
    """The digest of the base image's files."""
    created: str
    made_by: str
    bytes: int
    """The size, including the base, which the daemon stores once."""


def environment_tag(key: str, base: BaseImage) -> str:
    """Return the tag of the image of that environment on that base."""
    return _tag(key, base.content)


def tag_by_labels(labels: Mapping[str, str]) -> str | None:
    """Return the tag of an image with these labels; None if they are not an environment's."""
    key, base = labels.get(f"{_LABELS}key"), labels.get(f"{_LABELS}base")
    return _tag(key, base) if key and base else None


def _tag(key: str, base: str) -> str:
    below = hashlib.sha256(f"{base} {LAYER_FORMAT}".encode()).hexdigest()
    return f"{REPOSITORY}:{key[:_KEY_DIGITS]}-{below[:_BASE_DIGITS]}"


def environment_image(
    client: DockerClient,
    environment: Environment,
    *,
    base: BaseImage,
    on_stage: OnStage = ignore_stage,
    cache: Path | None = None,
) -> EnvironmentImage:
    """Return the environment's image in the daemon, and make it if necessary; makers wait for each other in `cache`.

    Raises `EnvironmentUnavailable` if the environment was built for another Python than the base's, or if its files are
    gone or changed, and `BackendUnavailable` if the daemon cannot take the image.
    """
    if image := find_environment_image(client, environment.key, base=base):
        return image
    if environment.installed is None:
        raise SpecError("this environment has no packages", remedy="use the base image")
    check_fit(environment.installed, base.python, base=base.tag)
    with TarballCache(cache).locked(f"environment-{environment.key[:2]}"):
        if image := find_environment_image(client, environment.key, base=base):
            return image
        on_stage(f"sending the environment {environment.key[:12]} to the daemon")
        with _diagnosed(base):
            _make(client, environment.installed, _labels(environment, base), base=base, on_stage=on_stage)
    image = find_environment_image(client, environment.key, base=base)
    if image is None:
        raise BackendUnavailable(
            f"the image of environment {environment.key[:12]} disappeared right after it was made",
            remedy="check which program removes images of this daemon",
        )
    return image


def find_environment_image(client: DockerClient, key: str, *, base: BaseImage) -> EnvironmentImage | None:
    """Return the image of that environment on that base, if the daemon has it."""
    from docker.errors import ImageNotFound

    tag = environment_tag(key, base)
    with translate_failures("looking for an image"):
        try:
            found = client.images.get(tag).attrs
        except ImageNotFound:
            return None
    image = read_environment_image({**found, "Labels": (found.get("Config") or {}).get("Labels")})
    return image if image is not None and (image.tag, image.key, image.base) == (tag, key, base.content) else None


def list_environment_images(client: DockerClient) -> tuple[EnvironmentImage, ...]:
    """Return our environment images, the newest first."""
    with translate_failures("listing images"):
        found = client.api.images(filters={"label": [f"{OWNER_LABEL}={OWNER}", f"{_LABELS}key"]})
    images = [image for entry in found if (image := read_environment_image(entry)) is not None]
    return tuple(sorted(images, key=lambda image: image.created, reverse=True))


def read_environment_image(entry: dict[str, Any]) -> EnvironmentImage | None:
    """Return an image of ours from a daemon's list; None for others, also for images built on top of ours."""
    labels = {str(key): str(value) for key, value in (entry.get("Labels") or {}).items()}
    said = {field: labels.get(f"{_LABELS}{field}", "") for field in _FIELDS}
    start = f"{REPOSITORY}:{said['key'][:_KEY_DIGITS]}-"
    tag = next((tag for tag in tags_of(entry) if tag.startswith(start)), None)
    if tag is None or not all(said.values()) or labels.get(OWNER_LABEL) != OWNER:
        return None
    return EnvironmentImage(id=str(entry["Id"]), tag=tag, bytes=int(entry["Size"]), **said)


def _labels(environment: Environment, base: BaseImage) -> dict[str, str]:
    from importlib.metadata import version

    said = {
        "key": environment.key,
        "lock_digest": environment.lock_digest,
        "base": base.content,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "made_by": f"sandbox-engine {version('sandbox-engine')}",
    }
    kind = {OWNER_LABEL: OWNER, "sandbox.kind": "environment"}
    return kind | {f"{_LABELS}{name}": value for name, value in said.items()}


def _make(client: DockerClient, installed: Path, labels: dict[str, str], *, base: BaseImage, on_stage: OnStage) -> None:
    files = read_facts(installed).files
    api, tag = client.api, environment_tag(labels[f"{_LABELS}key"], base)
    with _container(client, base, name=f"sandbox-making-{tag.partition(':')[2]}-{_machine()}-") as container:
        api.put_archive(container, "/", _in_pieces(Layer(installed, place=PLACE, files=files)))
        on_stage("making an image of it")
        with _patient(client):
            made = api.commit(container, changes=[f"LABEL {key}={json.dumps(text)}" for key, text in labels.items()])[
                "Id"
            ]
    if find_environment_image(client, labels[f"{_LABELS}key"], base=base) is None:
        api.tag(made, REPOSITORY, tag.partition(":")[2])
    else:  # another machine made the image meanwhile
        api.remove_image(made)


@contextmanager
def _patient(client: DockerClient) -> Iterator[None]:
    """Allow the daemon the time to write gigabytes, for one commit at a time."""
    with _COMMITS:
        usual, client.api.timeout = client.api.timeout, _WRITING_S
        try:
            yield
        finally:
            client.api.timeout = usual


@contextmanager
def _container(client: DockerClient, base: BaseImage, *, name: str) -> Iterator[str]:
    """Create a container that never runs, and remove it afterwards."""
    # Containers with the same prefix belong to dead makers on this machine, because this process has their lock.
    api = client.api
    for left in api.containers(all=True, filters={"name": f"^/?{name}"}):
        api.remove_container(left["Id"], force=True)
    settings = api.create_host_config(network_mode="none")
    container = str(api.create_container(base.tag, host_config=settings, name=f"{name}{secrets.token_hex(4)}")["Id"])
    try:
        yield container
    finally:
        api.remove_container(container, force=True)


def _machine() -> str:
    """Return a digest that differs between the machines that use one daemon."""
    import socket

    try:
        said = Path("/etc/machine-id").read_text()
    except OSError:
        said = ""
    return hashlib.sha256(f"{said}{socket.gethostname()}".encode()).hexdigest()[:8]


def _in_pieces(archive: Iterable[bytes]) -> Iterator[bytes]:
    """Join small parts, so that thousands of small files take a few large writes."""
    waiting = bytearray()
    for part in archive:
        waiting += part
        if len(waiting) >= _SENT_AT_ONCE:
            yield bytes(waiting)
            waiting.clear()
    if waiting:
        yield bytes(waiting)


@contextmanager
def _diagnosed(base: BaseImage) -> Iterator[None]:
    """Translate failures, with the right remedy if the base image is gone."""
    try:
        with translate_failures("making an image of an environment"):
            yield
    except BackendUnavailable as error:
        if "No such image" in error.message:
            raise BackendUnavailable(
                f"the base image {base.tag} is gone from the daemon", remedy="run `sandbox image bootstrap`"
            ) from error
        raise


def prune_environment_images(
    client: DockerClient,
    *,
    older_than_s: float | None = None,
    key: str | None = None,
    everything: bool = False,
    dry_run: bool = False,
) -> PruneReport:
    """Remove the images of an environment; without `key`, those on an outdated base, the old ones, or all."""
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
        raise SpecError(
            "the key is empty", remedy="name a key of `sandbox image list`, or remove all images with --all"
        )
    return key


def _current_bases(client: DockerClient) -> tuple[BaseImage, ...]:
    """Return the newest base of each name, if its recipe has not changed since."""
    images = list_images(client)
    found = (newest(images, name) for name in {image.name for image in images})
    return tuple(image for image in found if image is not None)


def _is_outdated(image: EnvironmentImage, bases: tuple[BaseImage, ...]) -> bool:
    """Return whether the image stands on no current base."""
    # A daemon without any base has lost it, and will get it again.
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
    """Return the size of the images without their bases, which stay."""
    bases = {base.content: base.bytes for base in list_images(client)}
    return sum(max(image.bytes - bases.get(image.base, 0), 0) for image in images)
