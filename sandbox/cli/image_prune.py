"""`sandbox image prune`: remove the base images of ours that nobody needs."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from sandbox.cli.image_bootstrap import DockerHost
from sandbox.cli.run import AsJson
from sandbox.cli.terminal import show_document

if TYPE_CHECKING:
    from sandbox.cli.tables import Page
    from sandbox.images import PruneReport


def prune_images(
    everything: Annotated[
        bool, typer.Option("--all", help="Also those still wanted, and the files kept to import them again.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be removed.")] = False,
    docker_host: DockerHost = None,
    as_json: AsJson = False,
) -> int:
    """Remove base images that a newer one has replaced. What a container uses stays, and so does what is not ours."""
    from sandbox.daemon import connect
    from sandbox.images import prune

    with closing(connect(docker_host)) as client:
        report = prune(client, everything=everything, dry_run=dry_run)
    if as_json:
        show_document(json.dumps(asdict(report), indent=2))
    else:
        _page(report).show()
    return 0


def _page(report: PruneReport) -> Page:
    from sandbox.cli.figures import rounded_bytes
    from sandbox.cli.tables import Cell, Page

    page = Page()
    verb = "would be removed" if report.is_dry_run else "removed"
    fates = {**dict.fromkeys(report.removed, verb), **dict.fromkeys(report.in_use, "in use, and stays")}
    if fates:
        page.table(["image", ""], [[Cell(tag, "bold"), Cell(fate)] for tag, fate in fates.items()])
        page.line("")
    freed = rounded_bytes(report.bytes_freed)
    page.line(f"{freed} {'would be ' if report.is_dry_run else ''}freed" if report.bytes_freed else "nothing to remove")
    return page
