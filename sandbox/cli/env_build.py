"""`sandbox env lock` and `sandbox env build`."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sandbox.cli.options import AsJson, Backend, Offline, PolicyName, StorePlace
from sandbox.cli.terminal import show_document

if TYPE_CHECKING:
    from sandbox.cli.tables import Cell, ConsolePage
    from sandbox.environments.lock import Lock, LockedPackage
    from sandbox.environments.model import Environment
    from sandbox.environments.progress import OnProgress, Progress

_MOST_LOCK: Final = 16 << 20


def build_environment(  # noqa: PLR0913  (each option is a parameter)
    requirements: Requirements = None,
    *,
    file: ToolFile = None,
    lock: Annotated[
        Path | None, typer.Option("--lock", metavar="FILE", help="Lock file to build exactly, from `env lock -o FILE`.")
    ] = None,
    python: PythonVersions = None,
    policy: PolicyName = "default",
    offline: Offline = False,
    backend: Backend = None,
    store: StorePlace = None,
    as_json: AsJson = False,
) -> int:
    """Build an environment unless the store has it."""
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
    """Collect warnings and pass every event on."""
    if event.stage == "warn" and event.text not in warnings:
        warnings.append(event.text)
    tell(event)


def _read_lock(path: Path, requirements: list[str] | None) -> Lock:
    from pydantic import ValidationError

    from sandbox.cli.options import read_file
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
    from sandbox.cli.tables import ConsolePage
    from sandbox.cli.terminal import rounded_bytes, rounded_seconds

    page = ConsolePage()
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


_STDOUT: Final = Path("-")
Requirements = Annotated[list[str] | None, typer.Argument(metavar="REQ", help="Requirement, such as requests==2.32.3.")]
ToolFile = Annotated[
    Path | None, typer.Option("--file", metavar="TOOL.py", help="Tool whose requirements are included.")
]
PythonVersions = Annotated[
    str | None, typer.Option("--python", metavar="VERSIONS", help='Python versions, such as ">=3.9,<3.13".')
]


def lock_environment(  # noqa: PLR0913  (each option is a parameter)
    requirements: Requirements = None,
    *,
    file: ToolFile = None,
    python: PythonVersions = None,
    policy: PolicyName = "default",
    refresh: Annotated[bool, typer.Option("--refresh", help="Resolve again even if the answer is cached.")] = False,
    offline: Offline = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="File for the lock (see `env build --lock`); - is stdout."),
    ] = None,
    backend: Backend = None,
    store: StorePlace = None,
    as_json: AsJson = False,
) -> int:
    """Resolve requirements to exact wheels, each with its SHA-256. Installs nothing."""
    from sandbox.cli.build_progress import Warnings, build_progress
    from sandbox.cli.options import write_file
    from sandbox.client.client import Sandbox

    fields = asked(requirements, file=file, python=python)
    with (
        build_progress(is_shown=not as_json) as on_progress,
        Sandbox(
            backend=backend,
            policy=policy,
            store=store,
            offline=offline,
            on_progress=Warnings() if as_json else on_progress,  # the lock format has no field for them
        ) as box,
    ):
        lock = box.lock(file, refresh=refresh, **fields)
    document = lock.model_dump_json(indent=2)
    is_for_stdout = output == _STDOUT
    if output is not None and not is_for_stdout:
        write_file(output, f"{document}\n".encode())
    if as_json or is_for_stdout:
        show_document(document)
    else:
        _page(lock).show()
    return 0


def asked(requirements: list[str] | None, *, file: Path | None, python: str | None) -> dict[str, Any]:
    """Return the fields that the command line gives; raise `SpecError` if it names nothing to install."""
    from sandbox.errors import SpecError

    if not requirements and file is None:
        raise SpecError("nothing is required", remedy="name a package, or a tool with --file TOOL.py")
    return {"requirements": tuple(requirements or ()), "requires_python": python}


def _page(lock: Lock) -> ConsolePage:
    from sandbox.cli.tables import ConsolePage
    from sandbox.cli.terminal import rounded_bytes

    page = ConsolePage()
    left_out = requirements_left_out(lock)
    if not lock.packages:
        page.line(f"nothing to install for {lock.interpreter}")
        _tell_left_out(page, left_out)
        return page
    page.table(["package", "version", "wheel", "size"], map(_row, lock.packages))
    sizes = [package.size for package in lock.packages]
    known = sum(size or 0 for size in sizes)
    total = f", {rounded_bytes(known)}" if known and None not in sizes else ""
    page.line("")
    page.line(
        f"{counted(len(lock.packages), 'package')}{total} for {lock.interpreter}, digest {lock.digest[:12]}",
        style="dim",
    )
    _tell_left_out(page, left_out)
    return page


def _tell_left_out(page: ConsolePage, requirements: tuple[str, ...]) -> None:
    if requirements:
        page.line(f"left out here, as their markers say: {', '.join(requirements)}", style="yellow")


def requirements_left_out(lock: Lock) -> tuple[str, ...]:
    """Return the requirements whose markers exclude the lock's interpreter."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    from sandbox.environments.interpreters.host import interpreter_tagged
    from sandbox.environments.resolution.requirements import excluded_by_marker

    if not any(";" in requirement for requirement in lock.requirements):
        return ()
    interpreter = interpreter_tagged(lock.interpreter, release=lock.python)
    if interpreter is None:
        return ()
    there = {package.name for package in lock.packages}
    excluded = excluded_by_marker(lock.requirements, markers=interpreter.markers)
    return tuple(line for line in excluded if canonicalize_name(Requirement(line).name) not in there)


def _row(package: LockedPackage) -> list[Cell]:
    from sandbox.cli.tables import Cell
    from sandbox.cli.terminal import rounded_bytes

    size = rounded_bytes(package.size) if package.size is not None else ""
    return [Cell(package.name, "bold"), Cell(package.version), Cell(package.wheel, "dim"), Cell(size)]


def counted(count: int, noun: str) -> str:
    """Return `1 package` or `2 packages`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
