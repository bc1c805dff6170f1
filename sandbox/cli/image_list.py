"""`sandbox image list`: the base images of ours that a daemon has."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING

from sandbox.cli.image_bootstrap import DockerHost
from sandbox.cli.run import AsJson
from sandbox.cli.terminal import show_document

if TYPE_CHECKING:
    from sandbox.cli.tables import Page
    from sandbox.images import BaseImage


def list_all_images(docker_host: DockerHost = None, as_json: AsJson = False) -> int:
    """List the base images in the daemon, the newest first."""
    from sandbox.daemon import connect
    from sandbox.images import list_images

    with closing(connect(docker_host)) as client:
        found = list_images(client)
    if as_json:
        show_document(json.dumps([asdict(image) for image in found], indent=2))
    else:
        _page(found).show()
    return 0


def _page(found: Sequence[BaseImage]) -> Page:
    from sandbox.cli.figures import rounded_bytes
    from sandbox.cli.tables import Cell, Page

    page = Page()
    if not found:
        page.line("no image of ours in this daemon: `sandbox image bootstrap` makes one")
        return page
    rows = [
        [
            Cell(image.tag, "bold"),
            Cell(image.name),
            Cell(image.made_from),
            Cell(rounded_bytes(image.bytes)),
            Cell(image.created[:19].replace("T", " "), "dim"),
        ]
        for image in found
    ]
    page.table(["image", "for", "made from", "size", "created"], rows)
    return page
