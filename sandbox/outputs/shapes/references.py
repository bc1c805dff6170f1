"""References: what is told of an output that is no text, in the place of the output."""

from __future__ import annotations

from typing import Final

from sandbox.outcome import Artifact

_LONGEST_NAME: Final = 50


def reference(artifact: Artifact, *, output_type: str) -> str:
    """One line of at most 200 characters: `[image a.png: image/png, 640 × 480, 12345 bytes, sha256 …, artifact …]`."""  # noqa: RUF002
    size = f"{artifact.width} × {artifact.height}, " if artifact.width and artifact.height else ""  # noqa: RUF001
    name = "".join(each if each.isprintable() else "�" for each in artifact.name[:_LONGEST_NAME])
    about = f"{artifact.mime[:40]}, {size}{artifact.bytes} bytes, sha256 {artifact.digest[:12]}…"
    return f"[{output_type} {name}: {about}, artifact {artifact.id}]"
