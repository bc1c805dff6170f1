"""`sandbox artifact …`, and `--save-artifacts` of `sandbox run`.

Artifact names come from a tool. The engine has checked that they are relative and stay below the folder; this module
follows no link on the way and leaves existing files alone unless `--replace` is given. A user who asks for files relies
on them: a folder that takes no file is refused before the call, and a file that cannot be saved after it becomes a
warning of the outcome and an exit code other than 0.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sandbox.cli.options import ArtifactPlace, AsJson
from sandbox.cli.terminal import is_terminal, one_line, show, show_bytes, show_document, tell, visible
from sandbox.errors import ArtifactsUnavailable, SandboxError, SpecError

if TYPE_CHECKING:
    from sandbox.cli.tables import ConsolePage
    from sandbox.outcome import Artifact, Outcome
    from sandbox.outputs.artifacts.reading import ArtifactPage, Artifacts
    from sandbox.outputs.artifacts.store import StoredArtifact

SHOWN_ID_LENGTH: Final = 12
"""Characters of an id that lists show; enough to name an artifact."""
ArtifactId = Annotated[str, typer.Argument(metavar="ID", help="Artifact id or id prefix.")]
Tenant = Annotated[str, typer.Option("--tenant", metavar="NAME", help="Tenant; a tenant sees only its own artifacts.")]


def kept_in(place: Path | None) -> Artifacts:
    """Return the artifacts kept in `place`, by default in the user's cache."""
    from sandbox.outputs.artifacts.reading import Artifacts
    from sandbox.outputs.artifacts.store import ArtifactStore

    return Artifacts(ArtifactStore(place))


def about(artifact: Artifact) -> str:
    """Describe an artifact on one line: `plot.png · image/png · 12.3 KiB · 640 × 480`."""  # noqa: RUF002
    import sys

    from sandbox.cli.terminal import glyph, one_line, rounded_bytes

    times = glyph("×", plain="x", on=sys.stderr)  # noqa: RUF001
    size = f"{artifact.width} {times} {artifact.height}" if artifact.width and artifact.height else ""
    parts = (one_line(artifact.name), artifact.mime, rounded_bytes(artifact.bytes), size)
    return f" {glyph('·', plain='-', on=sys.stderr)} ".join(part for part in parts if part)


def list_artifacts(artifacts: ArtifactPlace = None, tenant: Tenant = "", as_json: AsJson = False) -> int:
    """List the artifacts, newest first."""
    found = kept_in(artifacts).list(tenant=tenant)
    if as_json:
        documents = [{**each.artifact.model_dump(), "since": _moment(each.since)} for each in found]
        show_document(json.dumps(documents, ensure_ascii=False, indent=2))
    else:
        _page(found).show()
    return 0


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _page(found: Sequence[StoredArtifact]) -> ConsolePage:
    from sandbox.cli.tables import Cell, ConsolePage
    from sandbox.cli.terminal import one_line, rounded_age, rounded_bytes

    page, now = ConsolePage(), time.time()
    if not found:
        page.line("no artifact is kept")
        return page
    rows = [
        [
            Cell(each.artifact.id[:SHOWN_ID_LENGTH], "bold"),
            Cell(one_line(each.artifact.name, most=60)),
            Cell(each.artifact.mime),
            Cell(rounded_bytes(each.artifact.bytes)),
            Cell(rounded_age(now - each.since), "dim"),
        ]
        for each in found
    ]
    page.table(["id", "name", "kind", "size", "kept"], rows)
    return page


_TEXTUAL = ("application/json", "application/xml", "image/svg+xml")


def show_artifact(
    id: ArtifactId,
    lines: Annotated[
        str | None, typer.Option("--lines", metavar="A:B", help="Lines A to B, counted from 1; A or B may be omitted.")
    ] = None,
    bytes_: Annotated[str | None, typer.Option("--bytes", metavar="A:B", help="Bytes A to B, counted from 0.")] = None,
    artifacts: ArtifactPlace = None,
    tenant: Tenant = "",
    as_json: AsJson = False,
) -> int:
    """Show an artifact or a part of it, at most 1 MiB at once.

    Text is printed with its control characters escaped. Other content is described, unless --bytes is given and stdout
    is not a terminal: then the raw bytes are printed. With --json, a part that is UTF-8 is `text`, any other is
    `base64`.
    """
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


def _document(artifact: Artifact, page: ArtifactPage) -> dict[str, Any]:
    place = {"start": page.start, "end": page.end, "total": page.total, "first_line": page.first_line}
    try:
        content = {"text": page.data.decode()}
    except UnicodeDecodeError:
        content = {"base64": base64.b64encode(page.data).decode("ascii")}
    return {**artifact.model_dump(), **place, "is_cut": page.is_cut, **content}


def _tell_the_rest(page: ArtifactPage) -> None:
    """Say on stderr which bytes are missing, so that a pipe gets only the content."""
    if page.end < page.total:
        begin = "\n" if is_terminal(sys.stdout) and page.data[-1:] != b"\n" else ""
        tell(f"{begin}bytes {page.start} to {page.end} of {page.total}; go on with --bytes {page.end}:\n")


def _describe(artifact: Artifact) -> None:
    show(f"{about(artifact)}\n")
    tell(f"not text: save it with `sandbox artifact save {artifact.id[:SHOWN_ID_LENGTH]} PATH`\n")


_LONGEST = 500


def grep_artifact(
    id: ArtifactId,
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="Python regular expression.")],
    ignore_case: Annotated[bool, typer.Option("-i", "--ignore-case", help="Ignore case.")] = False,
    max_count: Annotated[int, typer.Option("--max-count", metavar="N", help="Maximum number of matches.")] = 100,
    artifacts: ArtifactPlace = None,
    tenant: Tenant = "",
    as_json: AsJson = False,
) -> int:
    """Show the lines of an artifact that match a pattern. Exits with 1 if no line does."""
    matches = kept_in(artifacts).grep(id, pattern, most=max_count, ignore_case=ignore_case, tenant=tenant)
    if as_json:
        show_document(json.dumps(asdict(matches), ensure_ascii=False))
    else:
        show("".join(f"{match.line}: {one_line(match.text, most=_LONGEST)}\n" for match in matches.found))
        if not matches.is_whole:
            tell("not all of it was searched: there are more matches, or the time was over\n")
    return 0 if matches.found else 1


def save_artifact(
    id: ArtifactId,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="File to create, or folder to put it into.")],
    replace: Annotated[bool, typer.Option("--replace", help="Replace an existing file.")] = False,
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


def refuse_unusable(folder: Path) -> None:
    """Create the folder; raise `SpecError` if no file can be created in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = "it is a file" if folder.is_file() else error.strerror
        raise SpecError(
            f"--save-artifacts {str(folder)!r}: nothing can be saved there: {reason}",
            remedy="name a folder that you may write to",
        ) from None


def save_all(outcome: Outcome, kept: Artifacts, folder: Path, *, tenant: str, replace: bool) -> tuple[Outcome, int]:
    """Save every artifact of the call; return the outcome with a warning for each failure, and the exit code."""
    names: set[str] = set()
    errors: dict[str, SandboxError] = {}
    for artifact in outcome.artifacts:
        path = _own_name(artifact, names)
        try:
            kept.save(artifact.id, _place(path, folder), replace=replace, tenant=tenant)
        except SandboxError as error:
            errors[path] = error
    warnings = (*outcome.warnings, *(f"not saved: {one_line(path)}: {error}" for path, error in errors.items()))
    codes = [outcome.exit_code, *(error.exit_code for error in errors.values())]
    if _was_not_kept(outcome):
        codes.append(ArtifactsUnavailable.exit_code)
    return outcome.model_copy(update={"warnings": warnings}), next(filter(None, codes), 0)


def _was_not_kept(outcome: Outcome) -> bool:
    """Return whether the store lacks a file of the call, or the full text of an output that was cut."""
    outputs = (outcome.stdout, outcome.stderr, outcome.shaped_value)
    return any(file.is_lost for file in outcome.refused) or any(
        output.truncated and output.artifact is None for output in outputs
    )


def _own_name(artifact: Artifact, taken: set[str]) -> str:
    """Return a unique name: a tool's own file may have the name of a kept output."""
    name = artifact.name
    if name in taken:
        stem, dot, suffix = name.rpartition(".")
        name = f"{stem or suffix}-{artifact.id[:8]}{dot if stem else ''}{suffix if stem else ''}"
    taken.add(name)
    return name


def _place(path: str, folder: Path) -> Path:
    """Create the parent folders, none of which may be a link, and return the file's path."""
    *parents, name = path.split("/")
    try:
        for parent in parents:
            folder /= parent
            if folder.is_symlink():
                raise SpecError(f"{folder} is a link, and leads elsewhere")
            folder.mkdir(exist_ok=True)
    except OSError as error:
        raise SpecError(f"{folder} cannot be made: {error.strerror}") from None
    return folder / name
