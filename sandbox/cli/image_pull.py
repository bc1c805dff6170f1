"""`sandbox image pull`: have an image of ours that another machine has pushed."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from sandbox.cli.image_daemon import DockerHost, connected
from sandbox.cli.run import AsJson
from sandbox.cli.terminal import show_document, stages


def pull_image(
    reference: Annotated[
        str, typer.Argument(metavar="IMAGE", help="By its digest, as `image push` told it: REPOSITORY@sha256:…")
    ],
    docker_host: DockerHost = None,
    as_json: AsJson = False,
) -> int:
    """Pull an image of ours from a registry, so that it need not be made here."""
    from sandbox.cli.format import rounded_bytes
    from sandbox.cli.tables import Page
    from sandbox.images import pull

    with connected(docker_host) as client:
        image = pull(client, reference, on_stage=stages(is_silent=as_json))
    if as_json:
        show_document(json.dumps(asdict(image), indent=2))
    else:
        page = Page()
        page.facts({"image": image.tag, "id": image.id, "size": rounded_bytes(image.bytes)})
        page.show()
    return 0
