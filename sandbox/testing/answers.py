"""The answers of a fake box: steps, one after the other, the last of which ends the call.

Each step is a frozen value, made by a small function whose name reads as what the tool does. A script that ends without
an ending returns None.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from sandbox.protocols import Reading

Excess: TypeAlias = Literal["memory", "cpu", "processes", "disk", "inodes", "open_files", "file_size"]


@dataclass(frozen=True, slots=True)
class Prints:
    """Some output; without end when it is repeated."""

    stdout: bytes
    stderr: bytes
    is_repeated: bool


@dataclass(frozen=True, slots=True)
class Uses:
    """The call's slot reports this usage."""

    reading: Reading


@dataclass(frozen=True, slots=True)
class Leaves:
    """Files below `outputs`, and what of them is refused, by name with the reason."""

    files: Mapping[str, bytes]
    refused: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Gives:
    """The items of a generator. All of them are the value in the end, unless the script returns another."""

    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Returns:
    """The function returns; its process may linger until it is killed."""

    value: Any
    lingers: bool = False


@dataclass(frozen=True, slots=True)
class Raises:
    """The function raises."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Exits:
    """The process ends; with a reply when it was `sys.exit`, without one when it was `os._exit`."""

    code: int
    is_told: bool


@dataclass(frozen=True, slots=True)
class Hangs:
    """The call never ends. A stubborn runner does not even react to a kill."""

    is_stubborn: bool


@dataclass(frozen=True, slots=True)
class Crashes:
    """A signal ends the process."""

    signal: int


@dataclass(frozen=True, slots=True)
class Exceeds:
    """A limit ends the call, or the tool fails at it. Its process may linger after that until it is killed."""

    limit: Excess
    lingers: bool = False


@dataclass(frozen=True, slots=True)
class LosesBox:
    """The box is gone, with everything in it."""


Step: TypeAlias = Prints | Uses | Leaves | Gives | Returns | Raises | Exits | Hangs | Crashes | Exceeds | LosesBox
STEPS: Final = (Prints, Uses, Leaves, Gives, Returns, Raises, Exits, Hangs, Crashes, Exceeds, LosesBox)


@dataclass(frozen=True, slots=True)
class Script:
    """Steps in their order."""

    steps: tuple[Step, ...]


Answer: TypeAlias = Any | Step | Script | Callable[..., Any]
"""A JSON value to return, a step, a script, or a function of the call's arguments that gives one of these or raises."""


def script(*steps: Step) -> Script:
    """Do one after the other."""
    return Script(steps)


def prints(stdout: str | bytes = b"", *, stderr: str | bytes = b"", without_end: bool = False) -> Step:
    """Print this, once or again and again."""
    return Prints(_bytes(stdout), _bytes(stderr), without_end)


def leaves(files: Mapping[str, str | bytes], *, refused: Mapping[str, str] | None = None) -> Step:
    """Leave files for the caller, by their names below `outputs`. `refused` gives reasons for refusing files."""
    return Leaves({name: _bytes(content) for name, content in files.items()}, dict(refused or {}))


def gives(*items: Any) -> Step:
    """Give these, one after the other, as a generator does."""
    return Gives(items)


def returns(value: Any, *, lingers: bool = False) -> Step:
    """Return this value; a process that lingers after that is killed, and its caller does not wait for it."""
    return Returns(value, lingers)


def raises(error: BaseException) -> Step:
    """Raise this exception; `SystemExit` and `MemoryError` lead to what they lead to in a real box."""
    return Raises(error)


def exits(code: int = 0, *, silently: bool = False) -> Step:
    """Exit as `sys.exit` does, or silently as `os._exit` does."""
    return Exits(code, not silently)


def hangs(*, stubbornly: bool = False) -> Step:
    """Never end; stubbornly: not even when the engine asks the runner to kill the call."""
    return Hangs(stubbornly)


def crashes(number: int = signal.SIGSEGV) -> Step:
    """Die of a signal."""
    return Crashes(int(number))


def exceeds(limit: Excess, *, lingers: bool = False) -> Step:
    """Meet this limit in the way of its kind. A process that lingers after its failure does not exit by itself."""
    return Exceeds(limit, lingers)


def loses_box() -> Step:
    """Take the whole box down."""
    return LosesBox()


def uses(*, cpu_s: float = 0.0, memory_peak_bytes: int = 0, processes_peak: int = 1, refused_forks: int = 0) -> Step:
    """Have used this, as measured from outside."""
    return Uses(
        Reading(
            cpu_s=cpu_s,
            memory_peak_bytes=memory_peak_bytes,
            processes_peak=processes_peak,
            refused_forks=refused_forks,
        )
    )


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text
