"""What a caller gets for one call: the outcome, one document for Python, `--json`, HTTP, MCP and the fleet.

A tool's failure is an outcome, never an exception; `raise_for_status()` turns it into one for callers who prefer that.
The parts are frozen and closed (`extra="forbid"`), and say nothing that was not measured: None means *not measured*.
Before a box is open (`invalid`) there is no receipt and no environment, so both may be None.

Text and values come from untrusted code, and the document must be writable whatever they hold:

* **Text** (messages, outputs, names) is made fit for UTF-8 when it enters: a lone surrogate becomes U+FFFD.
* **JSON** (value, evidence, problems) is kept as it is for Python callers, unchecked: it was parsed from JSON, and a
  second look at each of its nodes would cost more than the rest of the outcome. When the document is written,
  `portable` replaces what not every JSON reader accepts: lone surrogates, NaN and infinities, and nesting deeper than
  200 levels. Anything else is written unchanged.

Control characters stay: JSON escapes them, and whoever prints to a terminal must do so too.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sized
from enum import StrEnum
from typing import Annotated, Final, Literal

import pydantic_core
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    SkipValidation,
    WithJsonSchema,
)

from sandbox.errors import CallFailed, SpecError

Json = JsonValue

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_DEEPEST: Final = 200
_ROOM_AROUND: Final = 53  # levels: with the 200 and what stands in for deeper ones it makes the 254 pydantic writes
_LINE_LENGTH: Final = 300
_REPR_LENGTH: Final = 200


def printable(text: str) -> str:
    """The text with each lone surrogate replaced by U+FFFD, so that it can be encoded."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


def portable(value: Json) -> Json:
    """The value itself if every JSON reader accepts it, otherwise a copy in which what none would take is replaced."""
    return portable_json(value)[0]


def portable_json(value: Json) -> tuple[Json, bytes]:
    """The portable value, and its JSON without spaces."""
    text = _strict_json(value)
    if text is not None:
        return value, text
    fit = _replaced(value, depth=0)
    return fit, _strict_json(fit) or b""


def _strict_json(value: Json) -> bytes | None:
    """The value's JSON, or None when it is not portable."""
    nested = value
    for _ in range(_ROOM_AROUND):  # pydantic counts from the outermost document that will hold the value
        nested = [nested]
    try:
        text = pydantic_core.to_json(nested, inf_nan_mode="constants")
        if (b"NaN" in text or b"Infinity" in text) and text != pydantic_core.to_json(nested, inf_nan_mode="null"):
            return None
    except ValueError:
        return None
    return text[_ROOM_AROUND:-_ROOM_AROUND]


def _replaced(value: object, *, depth: int) -> Json:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    if depth == _DEEPEST:
        return {"repr": f"nested deeper than {_DEEPEST} levels", "type": type(value).__name__}
    if isinstance(value, dict):
        return {printable(str(key)): _replaced(each, depth=depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(each, depth=depth + 1) for each in value]
    return {"repr": printable(repr(value)[:_REPR_LENGTH]), "type": type(value).__name__}


Text = Annotated[str, AfterValidator(printable)]
_written = PlainSerializer(portable, return_type=object, when_used="json")
_Value = Annotated[Json, SkipValidation, _written, WithJsonSchema({"description": "any JSON value"})]
_Facts = Annotated[dict[str, Json], SkipValidation, _written, WithJsonSchema({"type": "object"})]


class Status(StrEnum):
    """How a call ended."""

    OK = "ok"
    FAILED = "failed"  # ran and said no
    DENIED = "denied"  # refused for lack of privilege
    EXCEPTION = "exception"
    EXITED = "exited"  # sys.exit or os._exit, whatever the code
    TIMEOUT = "timeout"
    MEMORY = "memory"
    LIMIT = "limit"  # another limit: `limit_name` says which
    CRASHED = "crashed"  # a signal
    CANCELLED = "cancelled"
    INVALID = "invalid"  # the arguments; nothing ran


class Isolation(StrEnum):
    """What stood between the tool and the host, weakest first."""

    PLAIN = "plain"
    PROCESS = "process"
    CONTAINER = "container"
    MACHINE = "machine"


class MeasuredBy(StrEnum):
    """How trusted code knows the state of a layer."""

    READ_OUTSIDE = "read_outside"  # the engine or the guard read it from the kernel
    SET_BY_ENGINE = "set_by_engine"  # trusted code put it up; nothing reads it back
    DAEMON_CONFIG = "daemon_config"  # the container daemon's configuration shows it
    NONE = "none"  # nothing is known


class EnforcedBy(StrEnum):
    """The mechanism that keeps a call within a limit."""

    CGROUP = "cgroup"
    RLIMIT = "rlimit"
    WATCHER = "watcher"  # the engine's own clocks, counters and checks
    FILESYSTEM = "filesystem"
    NETWORK = "network"  # the network namespace, or the engine's proxy
    RUNTIME = "runtime"  # the container runtime's own kernel
    ADVISORY = "advisory"  # a tool can ignore it
    NONE = "none"


_EXIT_CODES: Final = {
    Status.OK: 0,
    Status.FAILED: 1,
    Status.DENIED: 1,
    Status.EXCEPTION: 1,
    Status.EXITED: 1,
    Status.CRASHED: 1,
    Status.INVALID: 2,
    Status.TIMEOUT: 3,
    Status.MEMORY: 3,
    Status.LIMIT: 3,
    Status.CANCELLED: 130,
}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Failure(_Part):
    """Why the call is not ok; the field `error` of an outcome."""

    type: Text
    message: Text
    traceback: Text | None = None


class Problem(_Part):
    """One argument that does not fit, told so that a model can correct it."""

    path: Text
    message: Text
    expected: _Value = None
    got: _Value = None


class Shaped(_Part):
    """An output as fitted into its budget: `shown` of its `characters` are in `text`, the notices not counted."""

    text: Text
    type: str
    characters: int
    shown: int
    truncated: bool = False
    reason: Text | None = None
    artifact: str | None = None


class Usage(_Part):
    """What the call cost, as measured from outside; None is not measured."""

    wall_s: float
    cpu_s: float | None = None
    memory_peak_bytes: int | None = None
    processes_peak: int | None = None
    preload_cpu_s: float | None = None  # of importing packages ahead, in the first outcome of a box that did
    preload_memory_bytes: int | None = None


class Artifact(_Part):
    """Bytes that are kept for the caller, found by `id`; an image with its size, where it says that."""

    id: str
    name: Text
    mime: Text
    bytes: int
    digest: str
    width: int | None = None
    height: int | None = None


class RefusedFile(_Part):
    """Something the tool left that is not taken, by its name below `outputs`; the name is empty for the folder."""

    name: Text
    reason: Text
    is_lost: bool = False
    """Whether it was to be taken, and the store could not keep it."""


class ToolName(_Part):
    """The tool that was called; the version is None when the source came with the call."""

    name: Text
    version: Text | None = None


class EnvironmentUsed(_Part):
    """The environment that the call ran in."""

    key: str
    lock_digest: str


class Timing(_Part):
    """Where the time went, and which way the call took through the engine."""

    queue_ms: float
    environment_ms: float
    box_ms: float
    run_ms: float
    total_ms: float
    path: Literal["cold", "pooled", "warm"]
    ahead: bool = False  # the child was forked before the call came
    preloaded: bool = True  # False: packages could not be imported ahead for all calls, so each call imports them
    preload_ms: float = 0.0  # what importing them took when the box was opened, in the first outcome of the box


class LayerState(_Part):
    """One layer of isolation, and how trusted code knows its state."""

    in_force: bool
    detail: Text
    measured_by: MeasuredBy

    @property
    def counts(self) -> bool:
        """Whether the layer satisfies `isolation.require`."""
        return self.in_force and self.measured_by is not MeasuredBy.NONE


class LimitState(_Part):
    """One limit, and what enforces it."""

    value: int | float
    enforced_by: EnforcedBy
    note: Text = ""


class PolicyUsed(_Part):
    """The policy the call ran under."""

    name: Text
    digest: str


class Receipt(_Part):
    """The controls that were really in force, measured, not copied from the request."""

    backend: str
    isolation: Isolation
    layers: dict[str, LayerState]
    network: Text
    user: Text
    limits: dict[str, LimitState]
    runtime: Text | None = None
    environment_digest: str
    policy: PolicyUsed
    notes: tuple[Text, ...] = ()


class Outcome(_Part):
    """All there is to know about one call."""

    status: Status
    value: _Value = None
    error: Failure | None = None
    stdout: Shaped
    stderr: Shaped
    shaped_value: Shaped
    usage: Usage
    limit_name: str | None = None
    evidence: _Facts = Field(default_factory=dict)
    retryable: bool = False
    warnings: tuple[Text, ...] = ()
    problems: tuple[Problem, ...] = ()
    detail: Text | None = None
    """The beginning of what went wrong, where the tool returned and said that something did."""
    state: _Value = None
    """The agent's state, where the tool was given it and changed it."""
    artifacts: tuple[Artifact, ...] = ()
    """What is kept of this call: the files it left under `outputs`, and what is too long to show."""
    refused: tuple[RefusedFile, ...] = ()
    """What it left there that is not taken; the first of them."""
    receipt: Receipt | None = None
    environment: EnvironmentUsed | None = None
    tool: ToolName
    timing: Timing
    call_id: str
    trace_id: Text | None = None

    @classmethod
    def from_json(cls, text: str | bytes) -> Outcome:
        """Read what `to_json` wrote; unlike `model_validate_json` at any depth that it writes."""
        return cls.model_validate(json.loads(text))

    @property
    def ok(self) -> bool:
        return self.status is Status.OK

    @property
    def exit_code(self) -> int:
        """What the command line exits with for this outcome."""
        return _EXIT_CODES[self.status]

    def raise_for_status(self) -> Outcome:
        """This outcome if it is ok, otherwise raises `CallFailed` with one bounded line."""
        if self.ok:
            return self
        raise CallFailed(self._line(), outcome=self)

    @property
    def error_line(self) -> str | None:
        """What went wrong, on one bounded line for a model to read; None when nothing did."""
        return None if self.ok else self._line()

    def for_memory(
        self, *, tokens: int | None = None, tokenizer: Callable[[str], int | Sized] | None = None
    ) -> Outcome:
        """The outcome for the history of a conversation: shorter outputs, and neither value nor state in full.

        Made from what is shown here, so it can be asked of an outcome that was read from its JSON too. With `tokens`,
        no output is longer than that, as the tokenizer counts.
        """
        from sandbox.outputs.history import for_memory

        if (tokens is None) != (tokenizer is None):
            raise SpecError("for_memory: tokens are counted by a tokenizer", remedy="give both, or neither")
        names = ("shaped_value", "stdout", "stderr")
        shorter = {name: for_memory(getattr(self, name), tokens=tokens, tokenizer=tokenizer) for name in names}
        return self.model_copy(update={**shorter, "value": None, "state": None})

    def to_json(self, *, indent: int | None = None) -> str:
        """The document; succeeds whatever the tool returned or printed."""
        return self.model_dump_json(indent=indent)

    def _line(self) -> str:
        parts = (self.error.type, self.error.message) if self.error else (self.status.value, self.limit_name or "")
        said = ": ".join(part for part in parts if part)
        return _one_line(f"Error executing function {self.tool.name}: {said}")


def _one_line(text: str) -> str:
    start = text[: 4 * _LINE_LENGTH]
    line = " ".join("".join(each if each.isprintable() else " " for each in start).split())
    is_complete = len(start) == len(text) and len(line) <= _LINE_LENGTH
    return line if is_complete else line[: _LINE_LENGTH - 1] + "…"
