"""`sandbox image …`: base images and environment images.

The commands use the Docker daemon that calls use, unless `--docker-host` names another.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sandbox.cli.env_build import PythonVersions, asked
from sandbox.cli.options import AsJson, Backend, Offline, PolicyName, StorePlace
from sandbox.cli.terminal import show_document, stages, tell

if TYPE_CHECKING:
    from docker import DockerClient

    from sandbox.cli.tables import Cell, ConsolePage
    from sandbox.environments.model import Environment
    from sandbox.images import BaseImage, Bootstrapped, EnvironmentImage, PruneReport

DockerHost = Annotated[
    str | None,
    typer.Option(
        "--docker-host",
        metavar="URL",
        help="Docker daemon; default: config.toml, then DOCKER_HOST.",
    ),
]


def connected(docker_host: str | None) -> closing[DockerClient]:
    """Yield a client of the daemon for the time of a `with` block."""
    from sandbox.backends.container.docker.client import connect
    from sandbox.config import load_configuration

    return closing(connect(docker_host or load_configuration().container.host))


_WAYS = {"present": "was there", "cached": "imported from the files kept", "built": "built"}


def bootstrap_image(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Base image.")] = "python",
    docker_host: DockerHost = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Rebuild from current packages even if one exists.")] = False,
    as_json: AsJson = False,
) -> int:
    """Build the base image of containers unless the daemon has it; needs root, debootstrap and a minute."""
    from sandbox.images import bootstrap

    with connected(docker_host) as client:
        done = bootstrap(client, name=name, fresh=fresh, on_stage=stages(is_silent=as_json))
    if as_json:
        document = {**asdict(done.image), "way": done.way, "seconds": round(done.seconds, 3)}
        show_document(json.dumps(document, indent=2))
    else:
        _page(done).show()
    return 0


def _page(done: Bootstrapped) -> ConsolePage:
    from sandbox.cli.tables import ConsolePage
    from sandbox.cli.terminal import rounded_bytes, rounded_seconds

    page = ConsolePage()
    page.facts(
        {
            "image": done.image.tag,
            "id": done.image.id,
            "made from": done.image.made_from,
            "created": done.image.created,
            "size": rounded_bytes(done.image.bytes),
            "it": f"{_WAYS[done.way]}, in {rounded_seconds(done.seconds)}",
        }
    )
    return page


def build_image(  # noqa: PLR0913  (each option is a parameter)
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Tool whose requirements the image contains.")
    ] = None,
    *,
    requirements: Annotated[
        list[str] | None, typer.Option("--with", metavar="REQ", help="Requirement, such as requests==2.32.3.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="Environment of the store, by key.")] = None,
    python: PythonVersions = None,
    policy: PolicyName = "default",
    offline: Offline = False,
    backend: Backend = None,
    store: StorePlace = None,
    docker_host: DockerHost = None,
    as_json: AsJson = False,
) -> int:
    """Build an environment and its image unless the daemon has it."""
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
    ):  # an open engine protects the environments that it built from pruning
        return _build(box.build(file, **fields), docker_host, as_json=as_json)


@contextmanager
def _stored(key: str, store: Path | None) -> Iterator[Environment]:
    """Yield the stored environment and protect it from pruning."""
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
        _build_page(image, way, seconds).show()
    return 0


def _build_page(image: EnvironmentImage, way: str, seconds: float) -> ConsolePage:
    from sandbox.cli.tables import ConsolePage
    from sandbox.cli.terminal import rounded_bytes, rounded_seconds

    page = ConsolePage()
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


def list_all_images(docker_host: DockerHost = None, as_json: AsJson = False) -> int:
    """List the base images and environment images of the daemon."""
    from sandbox.images import list_environment_images, list_images

    with connected(docker_host) as client:
        bases, environments = list_images(client), list_environment_images(client)
    if as_json:
        documents = [{"kind": "base", **asdict(image)} for image in bases]
        documents += [{"kind": "environment", **asdict(image)} for image in environments]
        show_document(json.dumps(documents, indent=2))
    else:
        _list_page(bases, environments).show()
    return 0


def _list_page(bases: Sequence[BaseImage], environments: Sequence[EnvironmentImage]) -> ConsolePage:
    from sandbox.cli.tables import ConsolePage

    page = ConsolePage()
    if not bases and not environments:
        page.line("no image of ours in this daemon: `sandbox image bootstrap` makes one")
        return page
    rows = [_row(image, image.name, f"{image.made_from}, Python {image.python.version}") for image in bases]
    by_content = {image.content: image.tag for image in bases}
    rows += [_row(image, "environment", by_content.get(image.base, "a base that is gone")) for image in environments]
    page.table(["image", "for", "made from", "size", "created"], rows)
    return page


def _row(image: BaseImage | EnvironmentImage, purpose: str, made_from: str) -> list[Cell]:
    from sandbox.cli.tables import Cell
    from sandbox.cli.terminal import rounded_bytes

    return [
        Cell(image.tag, "bold"),
        Cell(purpose),
        Cell(made_from),
        Cell(rounded_bytes(image.bytes)),
        Cell(image.created[:19].replace("T", " "), "dim"),
    ]


def prune_images(
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="TIME", help="Also environments older than this: 30d, 12h; 0s is all."),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="Only images of this environment (key or key prefix).")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also current images and their cached import files.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed.")] = False,
    docker_host: DockerHost = None,
    as_json: AsJson = False,
) -> int:
    """Remove images that a newer one replaced, and environments on a replaced base.

    Images that a container uses stay, and so do images that Sandbox did not build.
    """
    from sandbox.errors import SpecError
    from sandbox.images import prune, prune_environment_images

    if key is not None and (everything or older_than is not None):
        raise SpecError("a key says already which images go", remedy="give --key alone")
    age = None if older_than is None else _age(older_than)
    with connected(docker_host) as client:  # environments first: a base cannot go before the images on top of it
        report = prune_environment_images(client, older_than_s=age, key=key, everything=everything, dry_run=dry_run)
        if key is None:
            report = _both(report, prune(client, everything=everything, dry_run=dry_run))
    if as_json:
        show_document(json.dumps(asdict(report), indent=2))
    else:
        _prune_page(report).show()
    return 0


def _age(text: str) -> float:
    from sandbox.errors import SpecError
    from sandbox.policy.quantities import parse_seconds_or_zero

    try:
        return parse_seconds_or_zero(text)
    except ValueError as error:
        raise SpecError(f"--older-than {text[:80]!r} {error}") from None


def _both(first: PruneReport, second: PruneReport) -> PruneReport:
    from sandbox.images import PruneReport

    return PruneReport(
        first.removed + second.removed,
        first.in_use + second.in_use,
        first.bytes_freed + second.bytes_freed,
        first.is_dry_run,
    )


def _prune_page(report: PruneReport) -> ConsolePage:
    from sandbox.cli.tables import Cell, ConsolePage
    from sandbox.cli.terminal import rounded_bytes

    page = ConsolePage()
    verb = "would be removed" if report.is_dry_run else "removed"
    fates = {**dict.fromkeys(report.removed, verb), **dict.fromkeys(report.in_use, "in use, and stays")}
    if fates:
        page.table(["image", ""], [[Cell(tag, "bold"), Cell(fate)] for tag, fate in fates.items()])
        page.line("")
    freed = rounded_bytes(report.bytes_freed)
    page.line(f"{freed} {'would be ' if report.is_dry_run else ''}freed" if report.bytes_freed else "nothing to remove")
    return page


def pull_image(
    reference: Annotated[
        str, typer.Argument(metavar="IMAGE", help="Pinned reference from `image push`: REPOSITORY@sha256:…")
    ],
    docker_host: DockerHost = None,
    as_json: AsJson = False,
) -> int:
    """Pull an image that another machine pushed."""
    from sandbox.cli.tables import ConsolePage
    from sandbox.cli.terminal import rounded_bytes
    from sandbox.images import pull

    with connected(docker_host) as client:
        image = pull(client, reference, on_stage=stages(is_silent=as_json))
    if as_json:
        show_document(json.dumps(asdict(image), indent=2))
    else:
        page = ConsolePage()
        page.facts({"image": image.tag, "id": image.id, "size": rounded_bytes(image.bytes)})
        page.show()
    return 0


def push_image(
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="Image tag, or a prefix of its environment key or id.")],
    repository: Annotated[
        str, typer.Argument(metavar="REPOSITORY", help="Target, such as registry.example.org/tools/env.")
    ],
    docker_host: DockerHost = None,
    as_json: AsJson = False,
) -> int:
    """Push an image to a registry, with the Docker client's login."""
    from sandbox.cli.tables import ConsolePage
    from sandbox.images import push

    with connected(docker_host) as client:
        pushed = push(client, _named(client, image), repository, on_stage=stages(is_silent=as_json))
    if as_json:
        show_document(json.dumps(asdict(pushed), indent=2))
    else:
        page = ConsolePage()
        page.facts({"pushed": pushed.name, "pull it by": pushed.pinned})
        page.show()
    return 0


def _named(client: DockerClient, name: str) -> EnvironmentImage | BaseImage:
    from sandbox.errors import SpecError
    from sandbox.images import list_environment_images, list_images

    environments = list_environment_images(client)
    images: list[EnvironmentImage | BaseImage] = [*environments, *list_images(client)]
    found = [each for each in images if name and (each.tag == name or each.id.removeprefix("sha256:").startswith(name))]
    found += [each for each in environments if name and each.key.startswith(name) and each not in found]
    if len(found) == 1:
        return found[0]
    if not found:
        raise SpecError(f"no image of ours is named {name[:80]!r}", remedy="`sandbox image list` names them")
    tags = ", ".join(each.tag for each in found[:5])
    raise SpecError(f"{len(found)} images are named like {name[:80]!r}: {tags}", remedy="give its tag")
