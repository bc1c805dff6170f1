"""`sandbox env build`: have an environment in the store before a tool needs it."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sandbox.cli.env_lock import PythonVersions, Requirements, ToolFile, asked, counted
from sandbox.cli.run import AsJson, Backend, Offline, PolicyName, StorePlace
from sandbox.cli.terminal import show_document

if TYPE_CHECKING:
    from sandbox.environments.lock import Lock
    from sandbox.environments.model import Environment
    from sandbox.environments.progress import OnProgress, Progress

_MOST_LOCK: Final = 16 << 20


def build_environment(  # noqa: PLR0913  (each option is a parameter)
    requirements: Requirements = None,
    *,
    file: ToolFile = None,
    lock: Annotated[
        Path | None, typer.Option("--lock", metavar="FILE", help="Build exactly what `env lock -o FILE` came to.")
    ] = None,
    python: PythonVersions = None,
    policy: PolicyName = "default",
    offline: Offline = False,
    backend: Backend = None,
    store: StorePlace = None,
    as_json: AsJson = False,
) -> int:
    """Build an environment, unless it is in the store already."""
    from sandbox.cli.build_progress import build_progress
    from sandbox.client.client import Sandbox

    given = None if lock is None else _read_lock(lock, requirements)
    fields = asked([*given.requirements] if given else requirements, file=file, python=python)
    began, warnings = time.monotonic(), list[str]()
    with (
        build_progress(is_shown=not as_json) as on_progress,
        Sandbox(
            backend=backend,
            policy=policy,
            store=store,
            offline=offline,
            on_progress=partial(_noting, warnings, on_progress),
        ) as box,
    ):
        environment = box.build(file, lock=given, **fields)
    facts = _facts(environment, store, seconds=time.monotonic() - began) | {"warnings": warnings}
    if as_json:
        show_document(json.dumps(facts, indent=2))
    else:
        _show(facts)
    return 0


def _noting(warnings: list[str], tell: OnProgress, event: Progress) -> None:
    """Keep what is worth a warning, and pass everything on."""
    if event.stage == "warn" and event.text not in warnings:
        warnings.append(event.text)
    tell(event)


def _read_lock(path: Path, requirements: list[str] | None) -> Lock:
    from pydantic import ValidationError

    from sandbox.cli.named_files import read_file
    from sandbox.environments.lock import Lock
    from sandbox.errors import SpecError

    if requirements:
        raise SpecError("a lock says already what is installed", remedy="give --lock or requirements, not both")
    try:
        return Lock.model_validate_json(read_file(path, what="the lock", most=_MOST_LOCK))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise SpecError(
            f"{path} is not a lock: {place}: {first['msg'][:300]}", remedy="`sandbox env lock -o FILE` writes one"
        ) from None


def _facts(environment: Environment, store: Path | None, *, seconds: float) -> dict[str, Any]:
    from sandbox.environments.store.store import Store

    facts: dict[str, Any] = {
        "key": environment.key,
        "folder": str(environment.installed) if environment.installed else None,
        "python": environment.version,
        "lock_digest": environment.lock_digest,
        "packages": 0,
        "bytes_total": 0,
        "bytes_own": 0,
        "seconds": round(seconds, 3),
    }
    stored = Store(store).find(environment.key) if environment.installed else None
    if stored is not None:
        manifest = stored.manifest
        sizes = {"bytes_total": manifest.bytes_total, "bytes_own": manifest.bytes_own}
        facts |= {"packages": len(manifest.lock.packages), **sizes}
    return facts


def _show(facts: dict[str, Any]) -> None:
    from sandbox.cli.format import rounded_bytes, rounded_seconds
    from sandbox.cli.tables import Page

    page = Page()
    if facts["folder"] is None:
        page.line(f"nothing to install: Python {facts['python']} alone is enough")
    else:
        size = f"{rounded_bytes(facts['bytes_total'])}, {rounded_bytes(facts['bytes_own'])} of it its own"
        shown = {
            "key": facts["key"],
            "folder": facts["folder"],
            "python": facts["python"],
            "packages": counted(facts["packages"], "package"),
            "size": size,
            "time": rounded_seconds(facts["seconds"]),
        }
        page.facts(shown)
    page.show()
