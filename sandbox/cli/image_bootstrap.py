"""`sandbox image bootstrap`: make the base image of containers out of this machine's own packages."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from sandbox.cli.image_daemon import DockerHost, connected
from sandbox.cli.run import AsJson
from sandbox.cli.terminal import show_document, stages

if TYPE_CHECKING:
    from sandbox.cli.tables import Page
    from sandbox.images import Bootstrapped

_WAYS = {"present": "was there", "cached": "imported from the files kept", "built": "built"}


def bootstrap_image(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Which image.")] = "python",
    docker_host: DockerHost = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Make it of today's packages, although there is one already.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Make the image that containers start from, unless it is there; that takes a minute, root and debootstrap."""
    from sandbox.images import bootstrap

    with connected(docker_host) as client:
        done = bootstrap(client, name=name, fresh=fresh, on_stage=stages(is_silent=as_json))
    if as_json:
        document = {**asdict(done.image), "way": done.way, "seconds": round(done.seconds, 3)}
        show_document(json.dumps(document, indent=2))
    else:
        _page(done).show()
    return 0


def _page(done: Bootstrapped) -> Page:
    from sandbox.cli.format import rounded_bytes, rounded_seconds
    from sandbox.cli.tables import Page

    page = Page()
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
