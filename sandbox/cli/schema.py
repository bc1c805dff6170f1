"""`sandbox schema`: a tool's schema as one JSON document on stdout, in the shape that its reader takes.

What a shape cannot say is listed on stderr, and makes no error: the document is usable without it. `--json` puts it on
one line.
"""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from sandbox.cli.check import Entry, ToolFile
from sandbox.cli.escape import visible
from sandbox.cli.run import AsJson
from sandbox.cli.terminal import is_terminal, show_document, tell


def schema(
    file: ToolFile,
    *,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="openai, openai-responses, anthropic, mcp or json; by default name, description and parameters.",
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Every property required, every object closed.")] = False,
    entry: Entry = None,
    as_json: AsJson = False,
) -> int:
    """Show the schema that models are given of a tool."""
    from sandbox.client.client import Sandbox

    with Sandbox() as box:
        found = box.schema(file, format=format, strict=strict, entry=entry)
    is_read_by_people = is_terminal(sys.stdout) or not as_json
    show_document(json.dumps(found.document, ensure_ascii=False, indent=2 if is_read_by_people else None))
    for loss in found.losses:
        tell(f"lost: {visible(str(loss))}\n")
    return 0
