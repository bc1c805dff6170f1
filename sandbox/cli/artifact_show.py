"""`sandbox artifact show`: a page of an artifact, text as it can be looked at and bytes as they are.

What is text is written with everything that could act on a terminal written out. What is none is described, unless
bytes are asked for and nobody looks: then they go to stdout as they are.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from sandbox.cli.artifact_options import ArtifactId, ArtifactPlace, Tenant, about, kept_in
from sandbox.cli.terminal import is_terminal, show, tell
from sandbox.cli.visible import visible

if TYPE_CHECKING:
    from sandbox.outcome import Artifact
    from sandbox.outputs.artifacts.paging import Page

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
) -> int:
    """Show an artifact, or a page of it: 1 MiB at most at once."""
    from sandbox.outputs.artifacts.paging import Span

    kept = kept_in(artifacts)
    artifact = kept.find(id, tenant=tenant)
    spans = {"--lines": lines, "--bytes": bytes_}
    read = {option: Span.read(text, option=option) for option, text in spans.items() if text is not None}
    bounds = {option: (span.first, span.last) for option, span in read.items()}
    page = kept.show(id, lines=bounds.get("--lines"), bytes=bounds.get("--bytes"), tenant=tenant)
    if artifact.mime.startswith("text/") or artifact.mime in _TEXTUAL or lines is not None:
        show(visible(page.text))
        _tell_the_rest(page)
    elif bytes_ is not None and not is_terminal(sys.stdout):
        sys.stdout.buffer.write(page.data)
        sys.stdout.flush()
        _tell_the_rest(page)
    else:
        _describe(artifact)
    return 0


def _tell_the_rest(page: Page) -> None:
    """On stderr, so that a pipe gets the page and nothing else."""
    if page.end < page.total:
        tell(f"bytes {page.start} to {page.end} of {page.total}; go on with --bytes {page.end}:\n")


def _describe(artifact: Artifact) -> None:
    show(f"{about(artifact)}\n")
    tell(f"not text: save it with `sandbox artifact save {artifact.id[:12]} PATH`\n")
