"""`sandbox env lock`: what requirements come to, package by package. Nothing is installed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sandbox.cli.run import AsJson, Backend, Offline, PolicyName, StorePlace
from sandbox.cli.terminal import show_document

if TYPE_CHECKING:
    from sandbox.cli.tables import Cell, Page
    from sandbox.environments.lock import Lock, LockedPackage

_STDOUT: Final = Path("-")
Requirements = Annotated[
    list[str] | None, typer.Argument(metavar="REQ", help="What is required, such as requests==2.32.3.")
]
ToolFile = Annotated[
    Path | None, typer.Option("--file", metavar="TOOL.py", help="A tool, whose own requirements are taken too.")
]
PythonVersions = Annotated[
    str | None, typer.Option("--python", metavar="VERSIONS", help='For which Python, such as ">=3.9,<3.13".')
]


def lock_environment(  # noqa: PLR0913  (each option is a parameter)
    requirements: Requirements = None,
    *,
    file: ToolFile = None,
    python: PythonVersions = None,
    policy: PolicyName = "default",
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Ask the indexes again, also for what was resolved before.")
    ] = False,
    offline: Offline = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Write the lock there, for `env build --lock`; - is stdout."
        ),
    ] = None,
    backend: Backend = None,
    store: StorePlace = None,
    as_json: AsJson = False,
) -> int:
    """Resolve requirements to exact wheels, each with its SHA-256."""
    from sandbox.cli.build_progress import Warnings, build_progress
    from sandbox.cli.named_files import write_file
    from sandbox.client.client import Sandbox

    fields = asked(requirements, file=file, python=python)
    with (
        build_progress(is_shown=not as_json) as on_progress,
        Sandbox(
            backend=backend,
            policy=policy,
            store=store,
            offline=offline,
            on_progress=Warnings() if as_json else on_progress,  # a lock has no place for them
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
    """The fields of what the command line asks for, which must be something."""
    from sandbox.errors import SpecError

    if not requirements and file is None:
        raise SpecError("nothing is required", remedy="name a package, or a tool with --file TOOL.py")
    return {"requirements": tuple(requirements or ()), "requires_python": python}


def _page(lock: Lock) -> Page:
    from sandbox.cli.format import rounded_bytes
    from sandbox.cli.tables import Page

    page = Page()
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


def _tell_left_out(page: Page, requirements: tuple[str, ...]) -> None:
    if requirements:
        page.line(f"left out here, as their markers say: {', '.join(requirements)}", style="yellow")


def requirements_left_out(lock: Lock) -> tuple[str, ...]:
    """What of the requirements asks for nothing on the interpreter that the lock is for, and is not in it."""
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
    from sandbox.cli.format import rounded_bytes
    from sandbox.cli.tables import Cell

    size = rounded_bytes(package.size) if package.size is not None else ""
    return [Cell(package.name, "bold"), Cell(package.version), Cell(package.wheel, "dim"), Cell(size)]


def counted(count: int, noun: str) -> str:
    """`1 package`, `2 packages`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
