"""`sandbox artifact save`: an artifact as a file of this host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sandbox.cli.artifact_options import ArtifactId, ArtifactPlace, Tenant, kept_in
from sandbox.cli.escape import one_line
from sandbox.cli.run import AsJson
from sandbox.cli.terminal import show_document, tell


def save_artifact(
    id: ArtifactId,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A file to make, or a folder to put it into.")],
    replace: Annotated[bool, typer.Option("--replace", help="Replace a file that is there.")] = False,
    artifacts: ArtifactPlace = None,
    tenant: Tenant = "",
    as_json: AsJson = False,
) -> int:
    """Save an artifact as a file."""
    kept = kept_in(artifacts)
    saved = kept.save(id, path, replace=replace, tenant=tenant)
    if as_json:
        show_document(json.dumps({"id": kept.find(id, tenant=tenant).id, "saved": str(saved)}, ensure_ascii=False))
    else:
        tell(f"saved {one_line(str(saved))}\n")
    return 0
