"""`sandbox env prune`: remove what is not wanted any more, and never what is in use."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from sandbox.cli.run import AsJson, StorePlace
from sandbox.cli.terminal import show_document

if TYPE_CHECKING:
    from sandbox.cli.tables import Page
    from sandbox.environments.store.store import PruneReport

Quantity = TypeVar("Quantity")


def prune_environments(
    keys: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY", help="These, by key or its beginning, whenever they were used last."),
    ] = None,
    *,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="TIME", help="Environments not used for that long: 30d, 12h; 0s is all."),
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option("--max-size", metavar="SIZE", help="The least recently used, until the rest fits: 5GiB."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be removed.")] = False,
    store: StorePlace = None,
    as_json: AsJson = False,
) -> int:
    """Remove environments that are not wanted any more.

    Those that are named go, or those that their age and the size of all say, and with them whatever no environment
    needs. What was imported goes by age and size alike, and stays until then. What is in use stays.
    """
    from sandbox.environments.store.store import Store
    from sandbox.errors import SpecError
    from sandbox.policy.quantities import parse_bytes, parse_seconds_or_zero

    if keys and (older_than is not None or max_size is not None):
        raise SpecError(
            "environments are named, and --older-than or --max-size is to choose them", remedy="give one of the two"
        )
    there = Store(store)
    report = there.prune(
        [there.show(key).key for key in keys or ()],
        older_than_s=_read("--older-than", older_than, parse_seconds_or_zero),
        max_bytes=_read("--max-size", max_size, parse_bytes),
        dry_run=dry_run,
    )
    if as_json:
        show_document(json.dumps(asdict(report), indent=2))
    else:
        _page(report).show()
    return 0


def _read(option: str, text: str | None, parse: Callable[[object], Quantity]) -> Quantity | None:
    from sandbox.errors import SpecError

    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise SpecError(f"{option} {text[:80] if text else ''!r} {error}") from None


def _page(report: PruneReport) -> Page:
    from sandbox.cli.env_list import SHOWN_OF_A_KEY
    from sandbox.cli.env_lock import counted
    from sandbox.cli.format import rounded_bytes
    from sandbox.cli.tables import Cell, Page

    page = Page()
    fates = dict.fromkeys(report.environments, "would be removed" if report.dry_run else "removed")
    fates |= dict.fromkeys(report.in_use, "in use, and stays")
    if fates:
        page.table(["key", ""], [[Cell(key[:SHOWN_OF_A_KEY], "bold"), Cell(fate)] for key, fate in fates.items()])
        page.line("")
    counts = {"environment": len(report.environments), "imported bundle": report.imports}
    counts |= {"package tree": report.trees, "wheel": report.wheels}
    counts |= {"unfinished build": report.building, "leftover": report.leftovers}
    gone = [counted(count, noun) for noun, count in counts.items() if count]
    verb = "would remove" if report.dry_run else "removed"
    page.line(f"{verb} {', '.join(gone)}: {rounded_bytes(report.bytes_freed)}" if gone else "nothing to remove")
    page.line(f"{rounded_bytes(report.bytes_left)} are left", style="dim")
    if report.is_somebody_building:
        page.line("Somebody is building: package trees and wheels stay until nobody does.", style="yellow")
    return page
