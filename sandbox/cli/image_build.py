"""`sandbox image build`: have an environment in the daemon as an image, for containers that can be shown no folder."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sandbox.cli.env_lock import PythonVersions, asked
from sandbox.cli.image_daemon import DockerHost, connected
from sandbox.cli.run import AsJson, Backend, Offline, PolicyName, StorePlace
from sandbox.cli.terminal import show_document, tell

if TYPE_CHECKING:
    from sandbox.cli.tables import Page
    from sandbox.environments.model import Environment
    from sandbox.images import EnvironmentImage


def build_image(  # noqa: PLR0913  (each option is a parameter)
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A tool, whose requirements the image is to meet.")
    ] = None,
    *,
    requirements: Annotated[
        list[str] | None, typer.Option("--with", metavar="REQ", help="What is required, such as requests==2.32.3.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="An environment that is in the store already.")
    ] = None,
    python: PythonVersions = None,
    policy: PolicyName = "default",
    offline: Offline = False,
    backend: Backend = None,
    store: StorePlace = None,
    docker_host: DockerHost = None,
    as_json: AsJson = False,
) -> int:
    """Make an image of an environment, which is built too if need be, unless the daemon has it."""
    from sandbox.cli.build_progress import build_progress
    from sandbox.client.client import Sandbox
    from sandbox.errors import SpecError

    if key is not None:
        if file or requirements or python:
            raise SpecError("a key says already what is installed", remedy="give --key or requirements, not both")
        with _stored(key, store) as environment:
            return _build(environment, docker_host, as_json=as_json)
    fields = asked(requirements, file=file, python=python)
    with (
        build_progress(is_shown=not as_json) as on_progress,
        Sandbox(backend=backend, policy=policy, store=store, offline=offline, on_progress=on_progress) as box,
    ):  # while the engine is open, nobody prunes what it built
        return _build(box.build(file, **fields), docker_host, as_json=as_json)


@contextmanager
def _stored(key: str, store: Path | None) -> Iterator[Environment]:
    """The environment of that key, kept from being pruned."""
    from sandbox.environments.model import Environment
    from sandbox.environments.store.store import Store
    from sandbox.errors import EnvironmentUnavailable

    there = Store(store)
    found = there.show(key)
    hold = there.use(found.key)
    if hold is None:
        raise EnvironmentUnavailable(f"the environment {found.key[:12]} was just pruned", remedy="build it again")
    with hold:
        interpreter = found.manifest.interpreter
        yield Environment(
            key=found.key,
            lock_digest=found.manifest.lock.digest,
            python=Path(interpreter["python"]),
            version=interpreter["version"],
            folders=(),
            hidden=(),
            installed=found.folder,
        )


def _build(environment: Environment, docker_host: str | None, *, as_json: bool) -> int:
    from sandbox.errors import BackendUnavailable
    from sandbox.images import environment_image, find

    began, stages = time.monotonic(), []

    def on_stage(stage: str) -> None:
        stages.append(stage)
        if not as_json:
            tell(f"{stage}\n")

    with connected(docker_host) as client:
        base = find(client)
        if base is None:
            raise BackendUnavailable("the daemon has no base image 'python'", remedy="run `sandbox image bootstrap`")
        image = environment_image(client, environment, base=base, on_stage=on_stage)
    seconds, way = round(time.monotonic() - began, 3), "built" if stages else "present"
    if as_json:
        show_document(json.dumps({**asdict(image), "way": way, "seconds": seconds}, indent=2))
    else:
        _page(image, way, seconds).show()
    return 0


def _page(image: EnvironmentImage, way: str, seconds: float) -> Page:
    from sandbox.cli.format import rounded_bytes, rounded_seconds
    from sandbox.cli.tables import Page

    page = Page()
    page.facts(
        {
            "image": image.tag,
            "id": image.id,
            "environment": image.key,
            "size": f"{rounded_bytes(image.bytes)}, with the base image",
            "it": f"was {'made' if way == 'built' else 'there'}, in {rounded_seconds(seconds)}",
        }
    )
    return page
