"""`sandbox env list` and `sandbox env show`: what is in the store, and all that went into one environment."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sandbox.cli.run import AsJson, StorePlace
from sandbox.cli.terminal import show_document

if TYPE_CHECKING:
    from sandbox.cli.tables import Page
    from sandbox.environments.store.store import StoredEnvironment

KeyStart = Annotated[str, typer.Argument(metavar="KEY", help="An environment's key, or the beginning of one.")]
SHOWN_OF_A_KEY: Final = 12
_LONGEST_LIST: Final = 60


def list_environments(store: StorePlace = None, as_json: AsJson = False) -> int:
    """List the environments in the store, the last used first."""
    from sandbox.environments.store.store import Store

    there = Store(store)
    found = there.list()
    if as_json:
        show_document(json.dumps([_summary(each) for each in found], indent=2))
    else:
        _list_page(found, str(there.root)).show()
    return 0


def show_environment(key: KeyStart, store: StorePlace = None, as_json: AsJson = False) -> int:
    """Show what an environment was made from, and by what."""
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


def _list_page(found: Sequence[StoredEnvironment], root: str) -> Page:
    from sandbox.cli.escape import one_line
    from sandbox.cli.format import rounded_age, rounded_bytes
    from sandbox.cli.tables import Cell, Page

    page, now = Page(), time.time()
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


def _environment_page(environment: StoredEnvironment) -> Page:
    from sandbox.cli.format import rounded_age, rounded_bytes
    from sandbox.cli.tables import Cell, Page

    manifest, page = environment.manifest, Page()
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
