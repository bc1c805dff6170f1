"""`sandbox artifact list`: what is kept, the youngest first."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sandbox.cli.artifact_options import SHOWN_OF_AN_ID, ArtifactPlace, Tenant, kept_in
from sandbox.cli.run import AsJson
from sandbox.cli.terminal import show_document

if TYPE_CHECKING:
    from sandbox.cli.tables import Page
    from sandbox.outputs.artifacts.store import Kept


def list_artifacts(artifacts: ArtifactPlace = None, tenant: Tenant = "", as_json: AsJson = False) -> int:
    """List the artifacts that are kept, the youngest first."""
    found = kept_in(artifacts).list(tenant=tenant)
    if as_json:
        documents = [{**each.artifact.model_dump(), "since": _moment(each.since)} for each in found]
        show_document(json.dumps(documents, ensure_ascii=False, indent=2))
    else:
        _page(found).show()
    return 0


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _page(found: Sequence[Kept]) -> Page:
    from sandbox.cli.escape import one_line
    from sandbox.cli.format import rounded_age, rounded_bytes
    from sandbox.cli.tables import Cell, Page

    page, now = Page(), time.time()
    if not found:
        page.line("no artifact is kept")
        return page
    rows = [
        [
            Cell(each.artifact.id[:SHOWN_OF_AN_ID], "bold"),
            Cell(one_line(each.artifact.name, most=60)),
            Cell(each.artifact.mime),
            Cell(rounded_bytes(each.artifact.bytes)),
            Cell(rounded_age(now - each.since), "dim"),
        ]
        for each in found
    ]
    page.table(["id", "name", "kind", "size", "kept"], rows)
    return page
