"""`sandbox env list`, `show`, `verify` and `prune`: the environments in the store."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from sandbox.cli.options import AsJson, StorePlace
from sandbox.cli.terminal import show_document

if TYPE_CHECKING:
    from sandbox.cli.tables import ConsolePage
    from sandbox.environments.store.store import PruneReport, StoredEnvironment, VerifyReport

KeyStart = Annotated[str, typer.Argument(metavar="KEY", help="Environment key or key prefix.")]
SHOWN_OF_A_KEY: Final = 12
_LONGEST_LIST: Final = 60


def list_environments(store: StorePlace = None, as_json: AsJson = False) -> int:
    """List the environments in the store, last used first."""
    from sandbox.environments.store.store import Store

    there = Store(store)
    found = there.list()
    if as_json:
        show_document(json.dumps([_summary(each) for each in found], indent=2))
    else:
        _list_page(found, str(there.root)).show()
    return 0


def show_environment(key: KeyStart, store: StorePlace = None, as_json: AsJson = False) -> int:
    """Show the lock, packages and origin of an environment."""
    from sandbox.environments.store.store import Store

    environment = Store(store).show(key)
    if as_json:
        made = environment.manifest.model_dump(mode="json")
        lock = {**made.pop("lock"), "digest": environment.manifest.lock.digest}
        place = {"folder": str(environment.folder), "last_used": _moment(environment.last_used)}
        show_document(json.dumps({**made, **place, "lock": lock}, ensure_ascii=False, indent=2))
    else:
        _environment_page(environment).show()
    return 0


def _summary(environment: StoredEnvironment) -> dict[str, Any]:
    manifest = environment.manifest
    return {
        "key": environment.key,
        "folder": str(environment.folder),
        "requirements": list(manifest.lock.requirements),
        "packages": {package.name: package.version for package in manifest.lock.packages},
        "interpreter": manifest.lock.interpreter,
        "created": manifest.created.isoformat(),
        "last_used": _moment(environment.last_used),
        "bytes_total": manifest.bytes_total,
        "bytes_own": manifest.bytes_own,
    }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _list_page(found: Sequence[StoredEnvironment], root: str) -> ConsolePage:
    from sandbox.cli.tables import Cell, ConsolePage
    from sandbox.cli.terminal import one_line, rounded_age, rounded_bytes

    page, now = ConsolePage(), time.time()
    if not found:
        page.line(f"no environment in {root}", in_one_piece=True)
        return page
    rows = [
        [
            Cell(each.key[:SHOWN_OF_A_KEY], "bold"),
            Cell(one_line(", ".join(each.manifest.lock.requirements), most=_LONGEST_LIST)),
            Cell(str(len(each.manifest.lock.packages))),
            Cell(each.manifest.lock.interpreter.partition("-")[0]),
            Cell(rounded_bytes(each.manifest.bytes_total)),
            Cell(rounded_age(now - each.last_used), "dim"),
        ]
        for each in found
    ]
    page.table(["key", "required", "packages", "for", "size", "used"], rows)
    page.line("")
    page.line(f"in {root}; what environments have in common is there once", style="dim", in_one_piece=True)
    return page


def _environment_page(environment: StoredEnvironment) -> ConsolePage:
    from sandbox.cli.tables import Cell, ConsolePage
    from sandbox.cli.terminal import rounded_age, rounded_bytes

    manifest, page = environment.manifest, ConsolePage()
    page.title(environment.key)
    facts = {
        "folder": str(environment.folder),
        "required": ", ".join(manifest.lock.requirements) or "nothing",
        "size": f"{rounded_bytes(manifest.bytes_total)}, {rounded_bytes(manifest.bytes_own)} of it its own",
        "created": manifest.created.isoformat(sep=" ", timespec="seconds"),
        "used": rounded_age(time.time() - environment.last_used),
        "runs code at start": "yes, by .pth files" if manifest.pth else "no",
        "modules": ", ".join(manifest.modules) or "none",
    }
    page.facts(facts)
    page.title("Key", note="all of this is in it: whatever differs makes another environment")
    made_by = {"lock": manifest.lock.digest, "builder": manifest.builder, "format": str(manifest.format)}
    page.facts({**made_by, **_of_interpreter(manifest.interpreter)})
    page.title("Packages", note="each with the SHA-256 of its wheel")
    rows = [
        [Cell(package.name, "bold"), Cell(package.version), Cell(package.wheel, note=package.sha256)]
        for package in manifest.lock.packages
    ]
    page.table(["package", "version", "wheel"], rows, whole=2)
    return page


def _of_interpreter(facts: dict[str, str]) -> dict[str, str]:
    return {name if name == "python" else f"python {name}": fact for name, fact in facts.items()}


_TAMPERED: Final = 4
_MOST_NAMED: Final = 50


def verify_environments(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="KEY", help="Environments by key or key prefix; default: all.")
    ] = None,
    store: StorePlace = None,
    as_json: AsJson = False,
) -> int:
    """Read every file of environments again and check modes and folders.

    Exits with 4 if anything differs from the build, or if the store is incomplete.
    """
    from sandbox.environments.store.store import Store

    there = Store(store)
    reports = [there.verify(key) for key in keys] if keys else there.verify_all()
    if as_json:
        document = [{**asdict(report), "is_intact": report.is_intact} for report in reports]
        show_document(json.dumps(document, ensure_ascii=False, indent=2))
    else:
        _page(reports).show()
    return 0 if all(report.is_intact for report in reports) else _TAMPERED


def _page(reports: Sequence[VerifyReport]) -> ConsolePage:
    from sandbox.cli.env_build import counted
    from sandbox.cli.tables import Cell, ConsolePage, mark

    page = ConsolePage()
    if not reports:
        page.line("no environment to verify")
        return page
    rows = [
        [
            mark(report.is_intact),
            Cell(report.key[:SHOWN_OF_A_KEY], "bold"),
            Cell(f"{counted(report.files, 'file')} as built" if report.is_intact else "", note=_differences(report)),
        ]
        for report in reports
    ]
    page.table(["", "key", "found"], rows, whole=2)
    if not all(report.is_intact for report in reports):
        page.line("")
        page.line("Find out who could write to the store. `sandbox env prune KEY` removes an environment.")
    if not all(report.is_whole for report in reports):
        page.line("Incomplete environments are never used; the next build replaces them.")
    return page


def _differences(report: VerifyReport) -> str:
    if not report.is_whole:
        return "not whole: its folder, its manifest or its marker is gone, or is another"
    kinds = {
        "changed": report.changed,
        "missing": report.missing,
        "not of it": report.extra,
        "another mode": report.modes,
    }
    lines = [f"{kind}: {name}" for kind, names in kinds.items() for name in names]
    more = [f"… and {len(lines) - _MOST_NAMED} more"] if len(lines) > _MOST_NAMED else []
    return "\n".join([*lines[:_MOST_NAMED], *more])


Quantity = TypeVar("Quantity")


def prune_environments(
    keys: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY", help="Environments by key or key prefix, regardless of age."),
    ] = None,
    *,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="TIME", help="Environments unused for this long: 30d, 12h; 0s is all."),
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option("--max-size", metavar="SIZE", help="Least recently used ones until the rest fits: 5GiB."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed.")] = False,
    store: StorePlace = None,
    as_json: AsJson = False,
) -> int:
    """Remove environments by key, by age, or until the store fits a size.

    Packages that no environment needs any more are removed too. Imported bundles go by age and size like environments.
    Environments in use stay.
    """
    from sandbox.environments.store.store import Store
    from sandbox.errors import SpecError
    from sandbox.policy.quantities import parse_bytes, parse_seconds_or_zero

    if keys and (older_than is not None or max_size is not None):
        raise SpecError(
            "environments are named, and --older-than or --max-size is to choose them", remedy="give one of the two"
        )
    there = Store(store)
    report = there.prune(
        [there.show(key).key for key in keys or ()],
        older_than_s=_read("--older-than", older_than, parse_seconds_or_zero),
        max_bytes=_read("--max-size", max_size, parse_bytes),
        dry_run=dry_run,
    )
    if as_json:
        show_document(json.dumps(asdict(report), indent=2))
    else:
        _prune_page(report).show()
    return 0


def _read(option: str, text: str | None, parse: Callable[[object], Quantity]) -> Quantity | None:
    from sandbox.errors import SpecError

    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise SpecError(f"{option} {text[:80] if text else ''!r} {error}") from None


def _prune_page(report: PruneReport) -> ConsolePage:
    from sandbox.cli.env_build import counted
    from sandbox.cli.tables import Cell, ConsolePage
    from sandbox.cli.terminal import rounded_bytes

    page = ConsolePage()
    fates = dict.fromkeys(report.environments, "would be removed" if report.dry_run else "removed")
    fates |= dict.fromkeys(report.in_use, "in use, and stays")
    if fates:
        page.table(["key", ""], [[Cell(key[:SHOWN_OF_A_KEY], "bold"), Cell(fate)] for key, fate in fates.items()])
        page.line("")
    counts = {"environment": len(report.environments), "imported bundle": report.imports}
    counts |= {"package tree": report.trees, "wheel": report.wheels}
    counts |= {"unfinished build": report.building, "leftover": report.leftovers}
    gone = [counted(count, noun) for noun, count in counts.items() if count]
    verb = "would remove" if report.dry_run else "removed"
    page.line(f"{verb} {', '.join(gone)}: {rounded_bytes(report.bytes_freed)}" if gone else "nothing to remove")
    page.line(f"{rounded_bytes(report.bytes_left)} are left", style="dim")
    if report.is_somebody_building:
        page.line("A build is running: package trees and wheels stay until it ends.", style="yellow")
    return page
