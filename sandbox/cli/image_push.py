"""`sandbox image push`: send an image of ours to a registry, so that other machines need not make it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from sandbox.cli.image_daemon import DockerHost, connected
from sandbox.cli.run import AsJson
from sandbox.cli.terminal import show_document, stages

if TYPE_CHECKING:
    from docker import DockerClient

    from sandbox.images import BaseImage, EnvironmentImage


def push_image(
    image: Annotated[
        str, typer.Argument(metavar="IMAGE", help="Its tag, or the beginning of its environment's key or of its id.")
    ],
    repository: Annotated[
        str, typer.Argument(metavar="REPOSITORY", help="Where to, such as registry.example.org/tools/env.")
    ],
    docker_host: DockerHost = None,
    as_json: AsJson = False,
) -> int:
    """Push an image to a registry, as whom the daemon's client is logged in there."""
    from sandbox.cli.tables import Page
    from sandbox.images import push

    with connected(docker_host) as client:
        pushed = push(client, _named(client, image), repository, on_stage=stages(is_silent=as_json))
    if as_json:
        show_document(json.dumps(asdict(pushed), indent=2))
    else:
        page = Page()
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
