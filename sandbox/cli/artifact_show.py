"""`sandbox artifact show`: a page of an artifact, text as it can be looked at and bytes as they are.

What is text is written with everything that could act on a terminal written out. What is none is described, unless
bytes are asked for and nobody looks: then they go to stdout as they are. As JSON, a page that is UTF-8 is `text`, any
other `base64`.
"""

from __future__ import annotations

import base64
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sandbox.cli.artifact_options import SHOWN_OF_AN_ID, ArtifactId, ArtifactPlace, Tenant, about, kept_in
from sandbox.cli.escape import visible
from sandbox.cli.run import AsJson
from sandbox.cli.terminal import is_terminal, show, show_bytes, show_document, tell

if TYPE_CHECKING:
    from sandbox.outcome import Artifact
    from sandbox.outputs.artifacts.reading import Page

_TEXTUAL = ("application/json", "application/xml", "image/svg+xml")


def show_artifact(
    id: ArtifactId,
    lines: Annotated[
        str | None, typer.Option("--lines", metavar="A:B", help="Lines A to B, counted from 1; either may be left out.")
    ] = None,
    bytes_: Annotated[
        str | None, typer.Option("--bytes", metavar="A:B", help="Bytes from A, counted from 0, up to B.")
    ] = None,
    artifacts: ArtifactPlace = None,
    tenant: Tenant = "",
    as_json: AsJson = False,
) -> int:
    """Show an artifact, or a page of it: 1 MiB at most at once."""
    from sandbox.outputs.artifacts.reading import Span

    kept = kept_in(artifacts)
    artifact = kept.find(id, tenant=tenant)
    spans = {"--lines": lines, "--bytes": bytes_}
    read = {option: Span.read(text, option=option) for option, text in spans.items() if text is not None}
    bounds = {option: (span.first, span.last) for option, span in read.items()}
    page = kept.show(id, lines=bounds.get("--lines"), bytes=bounds.get("--bytes"), tenant=tenant)
    if as_json:
        show_document(json.dumps(_document(artifact, page), ensure_ascii=False))
    elif artifact.mime.startswith("text/") or artifact.mime in _TEXTUAL or lines is not None:
        show(visible(page.text))
        _tell_the_rest(page)
    elif bytes_ is not None and not is_terminal(sys.stdout):
        show_bytes(page.data)
        _tell_the_rest(page)
    else:
        _describe(artifact)
    return 0


def _document(artifact: Artifact, page: Page) -> dict[str, Any]:
    place = {"start": page.start, "end": page.end, "total": page.total, "first_line": page.first_line}
    try:
        content = {"text": page.data.decode()}
    except UnicodeDecodeError:
        content = {"base64": base64.b64encode(page.data).decode("ascii")}
    return {**artifact.model_dump(), **place, "is_cut": page.is_cut, **content}


def _tell_the_rest(page: Page) -> None:
    """On stderr, so that a pipe gets the page and nothing else; on a line of its own where both are looked at."""
    if page.end < page.total:
        begin = "\n" if is_terminal(sys.stdout) and page.data[-1:] != b"\n" else ""
        tell(f"{begin}bytes {page.start} to {page.end} of {page.total}; go on with --bytes {page.end}:\n")


def _describe(artifact: Artifact) -> None:
    show(f"{about(artifact)}\n")
    tell(f"not text: save it with `sandbox artifact save {artifact.id[:SHOWN_OF_AN_ID]} PATH`\n")
