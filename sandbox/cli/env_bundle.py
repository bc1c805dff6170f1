"""`sandbox env export` and `sandbox env import`: an environment in one file, for machines without a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sandbox.cli.env_list import KeyStart
from sandbox.cli.run import AsJson, StorePlace
from sandbox.cli.terminal import show_document

if TYPE_CHECKING:
    from sandbox.environments.bundles.importing import ImportReport

_MOST_TOOL: Final = 6 << 20
_LONGEST_SECRET: Final = 4096


def export_environment(
    key: KeyStart,
    target: Annotated[Path, typer.Argument(metavar="FILE", help="Where the bundle is written.")],
    tool: Annotated[
        Path | None, typer.Option("--tool", metavar="FILE", help="A tool's file, which goes along.")
    ] = None,
    secret: Annotated[
        Path | None, typer.Option("--key", metavar="FILE", help="A file with a secret, to sign the bundle with.")
    ] = None,
    store: StorePlace = None,
    as_json: AsJson = False,
) -> int:
    """Write an environment, and a tool if you like, into one file.

    It holds the lock and its wheels: everything that the environment is made of again where it is imported.
    """
    from sandbox.cli.named_files import read_file
    from sandbox.environments.bundles.exporting import export_bundle
    from sandbox.environments.store.store import Store

    source = None if tool is None else read_file(tool, what="the tool", most=_MOST_TOOL)
    report = export_bundle(Store(store), key, target, tool=source, secret=_secret(secret))
    facts = {
        "file": str(report.file),
        "digest": report.digest,
        "size": report.size,
        "packages": len(report.lock.packages),
        "has_tool": report.has_tool,
        "is_signed": report.is_signed,
    }
    signed = "with the key" if report.is_signed else "no; compare its digest where you import it, or export with --key"
    _show(facts, {"tool": "goes along" if report.has_tool else "none", "signed": signed}, as_json=as_json)
    return 0


def import_environment(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A bundle, from `sandbox env export`.")],
    tool: Annotated[
        Path | None, typer.Option("--tool", metavar="FILE", help="Where to write the tool that came along.")
    ] = None,
    secret: Annotated[
        Path | None,
        typer.Option("--key", metavar="FILE", help="Take only what was signed with the secret in that file."),
    ] = None,
    store: StorePlace = None,
    as_json: AsJson = False,
) -> int:
    """Take a bundle into the store, for use with --offline.

    What it was exported for, the same requirements on the same kind of interpreter, then works without a network.
    """
    from sandbox.cli.named_files import write_file
    from sandbox.environments.bundles.importing import import_bundle
    from sandbox.environments.store.store import Store
    from sandbox.errors import SpecError

    report = import_bundle(Store(store), file, secret=_secret(secret))
    if tool is not None:
        if report.tool is None:
            raise SpecError("no tool came along in this bundle", remedy="import it without --tool")
        write_file(tool, report.tool, replace=False)
    facts = {
        "file": str(file),
        "digest": report.digest,
        "size": report.size,
        "requirements": list(report.lock.requirements),
        "interpreter": report.lock.interpreter,
        "packages": len(report.lock.packages),
        "has_tool": report.tool is not None,
        "tool": str(tool) if tool else None,
        "is_signed": report.is_signed,
        "is_signature_checked": report.is_signature_checked,
    }
    _show(facts, _told(report, tool), as_json=as_json)
    return 0


def _told(report: ImportReport, tool: Path | None) -> dict[str, str]:
    """What is said in words for people."""
    from sandbox.environments.interpreters.host import own_interpreter

    own = own_interpreter().tag
    kept = f"written to {tool}" if tool else "came along; --tool FILE writes it"
    checked = (
        "with the key" if report.is_signature_checked else "yes, but nothing was given to check it with; see --key"
    )
    fits = "" if report.lock.interpreter == own else f"; the engine's own is {own}"
    return {
        "required": ", ".join(report.lock.requirements),
        "for": report.lock.interpreter + fits,
        "tool": kept if report.tool is not None else "none",
        "signed": checked if report.is_signed else "no; compare the digest with that of the export",
    }


def _secret(path: Path | None) -> bytes | None:
    """The secret in that file; line breaks at its end do not count."""
    from sandbox.cli.named_files import read_file
    from sandbox.environments.bundles.format import SHORTEST_SECRET
    from sandbox.errors import SpecError

    if path is None:
        return None
    secret = read_file(path, what="the key", most=_LONGEST_SECRET).rstrip(b"\r\n")
    if len(secret) < SHORTEST_SECRET:
        raise SpecError(
            f"the key in {path} is too short: {len(secret)} bytes, at least {SHORTEST_SECRET}",
            remedy=f"make one with: head -c 32 /dev/urandom | base64 > {path}",
        )
    return secret


def _show(facts: dict[str, Any], told: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        show_document(json.dumps(facts, ensure_ascii=False, indent=2))
        return
    from sandbox.cli.env_lock import counted
    from sandbox.cli.figures import rounded_bytes
    from sandbox.cli.tables import Page

    shown = {
        "file": facts["file"],
        "size": f"{rounded_bytes(facts['size'])}, {counted(facts['packages'], 'package')}",
        "digest": facts["digest"],
        **told,
    }
    page = Page()
    page.facts(shown)
    page.show()
