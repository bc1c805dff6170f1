"""An environment as an image: the base image, and one layer with the environment's files at `/environment`.

For daemons that cannot be shown a folder of the store, because they are on another machine. What a tool finds there is
the same to the byte, and it is found by what it was made from, so that nobody has to compare::

    sandbox/env:<16 digits of the environment's key>-<8 digits of the base's files and the format of layers>

It is made by a container that never runs: the files are streamed into it and it is committed. Measured for 290 MB in
7600 files on one machine: a build (the files are copied to the daemon, then into a container, then into the layer)
takes 23 to 41 s, a commit 10 to 16 s, and loading an archive with only the new layer 7 to 16 s. The last is not used
all the same: it relies on a daemon that fills in layers which its archive leaves out, and not all do. Neither the
engine nor the daemon runs anything or opens a connection for it, so nothing of this machine's settings, certificates
or credentials could get into the layer.

One process of a machine makes an image and the others wait for it. Another machine may make the same for the same
daemon meanwhile: whoever is last takes the other's and removes its own. A maker that was killed leaves a container
that never ran; the next maker of the same image removes it.

The environment must be in use (`Store.use`) for as long as this works, so that nobody prunes it.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from sandbox.backends.container.docker.client import tags_of
from sandbox.backends.container.docker.failures import translate_failures
from sandbox.backends.ownership import LABELS, OWNER_LABEL
from sandbox.errors import BackendUnavailable, SpecError
from sandbox.images.base import OWNER, BaseImage, nobody
from sandbox.images.bootstrapping import OnStage
from sandbox.images.built import read_facts
from sandbox.images.fitting import see_that_it_fits
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
    """One environment of ours in a daemon."""

    id: str
    """What containers are made from: `sha256:…`, which no tag can be moved away from."""
    tag: str
    key: str
    lock_digest: str
    base: str
    """The digest of the base image's files."""
    created: str
    made_by: str
    bytes: int
    """With those of the base, which are there once."""


def environment_tag(key: str, base: BaseImage) -> str:
    """What the image of that environment on that base is called."""
    return _tag(key, base.content)


def tag_by_labels(labels: Mapping[str, str]) -> str | None:
    """What an image with these labels is called; None where they are not those of an environment."""
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
    on_stage: OnStage = nobody,
    cache: Path | None = None,
) -> EnvironmentImage:
    """Have the environment in the daemon as an image; `cache` is where makers wait for each other.

    Raises `EnvironmentUnavailable` when the base has another Python than it was built for, or its files are gone or
    changed, and `BackendUnavailable` when the daemon cannot take it.
    """
    if image := find_environment_image(client, environment.key, base=base):
        return image
    if environment.installed is None:
        raise SpecError("nothing is installed in this environment", remedy="the base image alone is enough for it")
    see_that_it_fits(environment.installed, base.python, base=base.tag)
    with TarballCache(cache).locked(f"environment-{environment.key[:2]}"):
        if image := find_environment_image(client, environment.key, base=base):
            return image
        on_stage(f"sending the environment {environment.key[:12]} to the daemon")
        with _diagnosed(base):
            _make(client, environment.installed, _labels(environment, base), base=base, on_stage=on_stage)
    image = find_environment_image(client, environment.key, base=base)
    if image is None:
        raise BackendUnavailable(
            f"the image of environment {environment.key[:12]} is gone as soon as it was made",
            remedy="see who removes images of this daemon",
        )
    return image


def find_environment_image(client: DockerClient, key: str, *, base: BaseImage) -> EnvironmentImage | None:
    """The image of that environment on that base, if the daemon has it."""
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
    """Ours, the newest first."""
    with translate_failures("listing images"):
        found = client.api.images(filters={"label": [f"{OWNER_LABEL}={OWNER}", f"{_LABELS}key"]})
    images = [image for entry in found if (image := read_environment_image(entry)) is not None]
    return tuple(sorted(images, key=lambda image: image.created, reverse=True))


def read_environment_image(entry: dict[str, Any]) -> EnvironmentImage | None:
    """One of ours, as a daemon lists it; None of any other, and of what was made on top of ours."""
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
    else:  # another machine's, made meanwhile
        api.remove_image(made)


@contextmanager
def _patient(client: DockerClient) -> Iterator[None]:
    """Where an answer may take as long as writing gigabytes does; one at a time, as the disk would have it anyway."""
    with _COMMITS:
        usual, client.api.timeout = client.api.timeout, _WRITING_S
        try:
            yield
        finally:
            client.api.timeout = usual


@contextmanager
def _container(client: DockerClient, base: BaseImage, *, name: str) -> Iterator[str]:
    """One that never runs. Those of the same beginning are of makers on this machine who died: we have their lock."""
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
    """What tells this machine from others that use the same daemon."""
    import socket

    try:
        said = Path("/etc/machine-id").read_text()
    except OSError:
        said = ""
    return hashlib.sha256(f"{said}{socket.gethostname()}".encode()).hexdigest()[:8]


def _in_pieces(archive: Iterable[bytes]) -> Iterator[bytes]:
    """Thousands of small files take a few large writes."""
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
    """Where what a daemon says of a lost base image gets the remedy that belongs to it."""
    try:
        with translate_failures("making an image of an environment"):
            yield
    except BackendUnavailable as error:
        if "No such image" in error.message:
            raise BackendUnavailable(
                f"the base image {base.tag} is gone from the daemon", remedy="run `sandbox image bootstrap`"
            ) from error
        raise
