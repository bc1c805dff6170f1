"""`sandbox env verify`: is everything of an environment what it was when it was built?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sandbox.cli.run import AsJson, StorePlace
from sandbox.cli.terminal import show_document

if TYPE_CHECKING:
    from sandbox.cli.tables import Page
    from sandbox.environments.store.store import VerifyReport

_TAMPERED: Final = 4
_MOST_NAMED: Final = 50


def verify_environments(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="KEY", help="Which ones, by key or its beginning; else all.")
    ] = None,
    store: StorePlace = None,
    as_json: AsJson = False,
) -> int:
    """Read every file of environments again, and look at their modes and folders.

    Exits with 4 if anything differs from what was built, or if what is in the store is not whole.
    """
    from sandbox.environments.store.store import Store

    there = Store(store)
    reports = [there.verify(key) for key in keys] if keys else there.verify_all()
    if as_json:
        document = [{**asdict(report), "is_intact": report.is_intact} for report in reports]
        show_document(json.dumps(document, ensure_ascii=False, indent=2))
    else:
        _page(reports).show()
    return 0 if all(report.is_intact for report in reports) else _TAMPERED


def _page(reports: Sequence[VerifyReport]) -> Page:
    from sandbox.cli.env_list import SHOWN_OF_A_KEY
    from sandbox.cli.env_lock import counted
    from sandbox.cli.tables import Cell, Page, mark

    page = Page()
    if not reports:
        page.line("no environment to verify")
        return page
    rows = [
        [
            mark(report.is_intact),
            Cell(report.key[:SHOWN_OF_A_KEY], "bold"),
            Cell(f"{counted(report.files, 'file')} as built" if report.is_intact else "", note=_differences(report)),
        ]
        for report in reports
    ]
    page.table(["", "key", "found"], rows, whole=2)
    if not all(report.is_intact for report in reports):
        page.line("")
        page.line("Find out who could write to the store. What `sandbox env prune KEY` removes is built again.")
    if not all(report.is_whole for report in reports):
        page.line("What is not whole is used by nobody, and is built again when it is wanted.")
    return page


def _differences(report: VerifyReport) -> str:
    if not report.is_whole:
        return "not whole: its folder, its manifest or its marker is gone, or is another"
    kinds = {
        "changed": report.changed,
        "missing": report.missing,
        "not of it": report.extra,
        "another mode": report.modes,
    }
    lines = [f"{kind}: {name}" for kind, names in kinds.items() for name in names]
    more = [f"… and {len(lines) - _MOST_NAMED} more"] if len(lines) > _MOST_NAMED else []
    return "\n".join([*lines[:_MOST_NAMED], *more])
