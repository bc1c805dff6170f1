"""`sandbox image prune`: remove the images of ours that nobody needs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from sandbox.cli.image_daemon import DockerHost, connected
from sandbox.cli.run import AsJson
from sandbox.cli.terminal import show_document

if TYPE_CHECKING:
    from sandbox.cli.tables import Page
    from sandbox.images import PruneReport


def prune_images(
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="TIME", help="Also environments made that long ago: 30d, 12h; 0s is all."),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="Only those of this environment, or key's beginning.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those still wanted, and the files kept to import them again.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be removed.")] = False,
    docker_host: DockerHost = None,
    as_json: AsJson = False,
) -> int:
    """Remove images that a newer one has replaced, and environments on a base that has been.

    What a container uses stays, and so does what is not ours.
    """
    from sandbox.errors import SpecError
    from sandbox.images import prune, prune_environment_images

    if key is not None and (everything or older_than is not None):
        raise SpecError("a key says already which images go", remedy="give --key alone")
    age = None if older_than is None else _age(older_than)
    with connected(docker_host) as client:  # environments first: their bases cannot go before them
        report = prune_environment_images(client, older_than_s=age, key=key, everything=everything, dry_run=dry_run)
        if key is None:
            report = _both(report, prune(client, everything=everything, dry_run=dry_run))
    if as_json:
        show_document(json.dumps(asdict(report), indent=2))
    else:
        _page(report).show()
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


def _page(report: PruneReport) -> Page:
    from sandbox.cli.format import rounded_bytes
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
