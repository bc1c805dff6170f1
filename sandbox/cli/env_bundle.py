"""`sandbox env export` and `sandbox env import`: one file per environment, for machines without a network."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from sandbox.cli.env import KeyStart
from sandbox.cli.options import AsJson, StorePlace
from sandbox.cli.terminal import show_document

if TYPE_CHECKING:
    from sandbox.environments.bundles.importing import ImportReport
    from sandbox.environments.bundles.signing import Key

AnyKey = TypeVar("AnyKey", bound="Key")

_MOST_TOOL: Final = 6 << 20
_LONGEST_KEY: Final = 4096
_WITH: Final = {"ed25519": "with the private key of the pair", "hmac": "with the secret"}


def export_environment(
    key: KeyStart,
    target: Annotated[Path, typer.Argument(metavar="FILE", help="Bundle to write; replaces an existing file.")],
    tool: Annotated[
        Path | None, typer.Option("--tool", metavar="FILE", help="Tool file to include in the bundle.")
    ] = None,
    signing_key: Annotated[
        Path | None,
        typer.Option("--key", metavar="FILE", help="Signing key: a private Ed25519 key or a shared secret."),
    ] = None,
    store: StorePlace = None,
    as_json: AsJson = False,
) -> int:
    """Write an environment, and optionally a tool, into one file.

    The bundle holds the lock and its wheels. The import builds the environment from them again.
    """
    from sandbox.cli.options import read_file
    from sandbox.environments.bundles.exporting import export_bundle
    from sandbox.environments.bundles.signing import read_signing_key
    from sandbox.environments.store.store import Store
    from sandbox.tools import read_requirements_of

    source = None if tool is None else read_file(tool, what="the tool", most=_MOST_TOOL)
    key_to_sign_with = _key(signing_key, read_signing_key)
    required = () if source is None else read_requirements_of(source)
    place = Store(store)
    report = export_bundle(place, key, target, tool=source, required=required, signed_with=key_to_sign_with)
    facts = {
        "file": str(report.file),
        "digest": report.digest,
        "size": report.size,
        "packages": len(report.lock.packages),
        "has_tool": report.has_tool,
        "signature": report.signature,
    }
    unsigned = "no; compare its digest where you import it, or export with --key"
    signed = unsigned if report.signature is None else _WITH[report.signature]
    _show(facts, {"tool": "included" if report.has_tool else "none", "signed": signed}, as_json=as_json)
    return 0


def import_environment(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Bundle from `sandbox env export`.")],
    tool: Annotated[
        Path | None, typer.Option("--tool", metavar="FILE", help="File to write the included tool to.")
    ] = None,
    signing_key: Annotated[
        Path | None,
        typer.Option("--key", metavar="FILE", help="Require a signature by this public key or secret."),
    ] = None,
    store: StorePlace = None,
    as_json: AsJson = False,
) -> int:
    """Import a bundle into the store, for use with --offline.

    Afterwards the same requirements on the same kind of interpreter work without a network.
    """
    from sandbox.cli.options import write_file
    from sandbox.environments.bundles.importing import import_bundle
    from sandbox.environments.bundles.signing import read_key
    from sandbox.environments.store.store import Store
    from sandbox.errors import SpecError

    report = import_bundle(Store(store), file, signed_with=_key(signing_key, read_key))
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
        "signature": report.signature,
        "is_signature_checked": report.is_signature_checked,
    }
    _show(facts, _import_facts(report, tool), as_json=as_json)
    return 0


def _import_facts(report: ImportReport, tool: Path | None) -> dict[str, str]:
    """Return the facts that people read."""
    from sandbox.environments.interpreters.host import own_interpreter

    own = own_interpreter().tag
    kept = f"written to {tool}" if tool else "included; --tool FILE writes it"
    fits = "" if report.lock.interpreter == own else f"; the engine's own is {own}"
    return {
        "required": ", ".join(report.lock.requirements),
        "for": report.lock.interpreter + fits,
        "tool": kept if report.tool is not None else "none",
        "signed": _signature_text(report),
    }


def _signature_text(report: ImportReport) -> str:
    if report.signature is None:
        return "no; compare the digest with that of the export"
    if not report.is_signature_checked:
        return "yes, but not checked; see --key"
    return _WITH[report.signature]


def _key(path: Path | None, read: Callable[..., AnyKey]) -> AnyKey | None:
    """Read the key file, if there is one."""
    from sandbox.cli.options import read_file

    return None if path is None else read(read_file(path, what="the key", most=_LONGEST_KEY), name=str(path))


def _show(facts: dict[str, Any], told: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        show_document(json.dumps(facts, ensure_ascii=False, indent=2))
        return
    from sandbox.cli.env_build import counted
    from sandbox.cli.tables import ConsolePage
    from sandbox.cli.terminal import rounded_bytes

    shown = {
        "file": facts["file"],
        "size": f"{rounded_bytes(facts['size'])}, {counted(facts['packages'], 'package')}",
        "digest": facts["digest"],
        **told,
    }
    page = ConsolePage()
    page.facts(shown)
    page.show()
