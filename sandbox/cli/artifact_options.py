"""What the commands for artifacts have in common: which one, whose, and where they are kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from sandbox.outcome import Artifact
    from sandbox.outputs.artifacts.reading import Artifacts

SHOWN_OF_AN_ID: Final = 12
"""Characters; enough to name it, and as many are shown to people."""
ArtifactId = Annotated[str, typer.Argument(metavar="ID", help="The artifact's id, or the beginning of it.")]
ArtifactPlace = Annotated[
    Path | None,
    typer.Option(
        "--artifacts",
        metavar="DIR",
        envvar="SANDBOX_ARTIFACTS",
        help="Where artifacts are kept; by default, your cache.",
    ),
]
Tenant = Annotated[str, typer.Option("--tenant", metavar="NAME", help="Whose; tenants see only their own.")]


def kept_in(place: Path | None) -> Artifacts:
    """What is kept there."""
    from sandbox.outputs.artifacts.reading import Artifacts
    from sandbox.outputs.artifacts.store import ArtifactStore

    return Artifacts(ArtifactStore(place))


def about(artifact: Artifact) -> str:
    """`plot.png · image/png · 12.3 KiB · 640 × 480`, on one line."""  # noqa: RUF002
    import sys

    from sandbox.cli.escape import one_line
    from sandbox.cli.format import rounded_bytes
    from sandbox.cli.terminal import glyph

    times = glyph("×", plain="x", on=sys.stderr)  # noqa: RUF001
    size = f"{artifact.width} {times} {artifact.height}" if artifact.width and artifact.height else ""
    parts = (one_line(artifact.name), artifact.mime, rounded_bytes(artifact.bytes), size)
    return f" {glyph('·', plain='-', on=sys.stderr)} ".join(part for part in parts if part)
