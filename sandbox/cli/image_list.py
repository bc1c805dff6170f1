"""`sandbox image list`: the images of ours that a daemon has."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from sandbox.cli.image_daemon import DockerHost, connected
from sandbox.cli.run import AsJson
from sandbox.cli.terminal import show_document

if TYPE_CHECKING:
    from sandbox.cli.tables import Cell, Page
    from sandbox.images import BaseImage, EnvironmentImage


def list_all_images(docker_host: DockerHost = None, as_json: AsJson = False) -> int:
    """List the images in the daemon: what containers start from, and environments on top of that."""
    from sandbox.images import list_environment_images, list_images

    with connected(docker_host) as client:
        bases, environments = list_images(client), list_environment_images(client)
    if as_json:
        documents = [{"kind": "base", **asdict(image)} for image in bases]
        documents += [{"kind": "environment", **asdict(image)} for image in environments]
        show_document(json.dumps(documents, indent=2))
    else:
        _page(bases, environments).show()
    return 0


def _page(bases: Sequence[BaseImage], environments: Sequence[EnvironmentImage]) -> Page:
    from sandbox.cli.tables import Page

    page = Page()
    if not bases and not environments:
        page.line("no image of ours in this daemon: `sandbox image bootstrap` makes one")
        return page
    rows = [_row(image, image.name, f"{image.made_from}, Python {image.python.version}") for image in bases]
    by_content = {image.content: image.tag for image in bases}
    rows += [_row(image, "environment", by_content.get(image.base, "a base that is gone")) for image in environments]
    page.table(["image", "for", "made from", "size", "created"], rows)
    return page


def _row(image: BaseImage | EnvironmentImage, purpose: str, made_from: str) -> list[Cell]:
    from sandbox.cli.format import rounded_bytes
    from sandbox.cli.tables import Cell

    return [
        Cell(image.tag, "bold"),
        Cell(purpose),
        Cell(made_from),
        Cell(rounded_bytes(image.bytes)),
        Cell(image.created[:19].replace("T", " "), "dim"),
    ]
