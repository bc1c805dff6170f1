"""`sandbox artifact grep`: the lines of an artifact that match a pattern."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from sandbox.cli.artifact_options import ArtifactId, ArtifactPlace, Tenant, kept_in
from sandbox.cli.escape import one_line
from sandbox.cli.run import AsJson
from sandbox.cli.terminal import show, show_document, tell

_LONGEST = 500


def grep_artifact(
    id: ArtifactId,
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="A regular expression, as Python writes them.")],
    ignore_case: Annotated[bool, typer.Option("-i", "--ignore-case", help="Take no notice of case.")] = False,
    most: Annotated[int, typer.Option("--most", metavar="N", help="As many matches are shown.")] = 100,
    artifacts: ArtifactPlace = None,
    tenant: Tenant = "",
    as_json: AsJson = False,
) -> int:
    """Show the lines of an artifact that match a pattern. Exits with 1 where none does."""
    matches = kept_in(artifacts).grep(id, pattern, most=most, ignore_case=ignore_case, tenant=tenant)
    if as_json:
        show_document(json.dumps(asdict(matches), ensure_ascii=False))
    else:
        show("".join(f"{match.line}: {one_line(match.text, most=_LONGEST)}\n" for match in matches.found))
        if not matches.is_whole:
            tell("not all of it was searched: there are more matches, or the time was over\n")
    return 0 if matches.found else 1
