"""The outcome of a call: a single document for Python, `--json`, HTTP, MCP and the fleet.

A tool's failure is an outcome, never an exception; `raise_for_status()` raises for callers who prefer exceptions. The
parts are frozen and closed (`extra="forbid"`), and state nothing that was not measured: None means *not measured*.
Before a box is open (`invalid`) there is no receipt and no environment, so both may be None.

Text and values come from untrusted code, and the document must be writable whatever they hold:

* **Text** (messages, outputs, names) is made fit for UTF-8 when it enters: a lone surrogate becomes U+FFFD.
* **JSON** (value, evidence, problems) stays as it is for Python callers, unchecked: the engine parsed it from JSON, and
  a second look at each of its nodes would cost more than the rest of the outcome. When the document is written,
  `portable` replaces everything that some JSON readers refuse: lone surrogates, NaN and infinities, and nesting deeper
  than 200 levels. Anything else is written unchanged.

Control characters stay: JSON escapes them, and a program that prints to a terminal must do so too.
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
    """Replace each lone surrogate by U+FFFD, so that the text can be encoded."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


def portable(value: Json) -> Json:
    """Return the value itself if every JSON reader accepts it, otherwise a copy with the rest replaced."""
    return portable_json(value)[0]


def portable_json(value: Json) -> tuple[Json, bytes]:
    """Return the portable value, and its JSON without spaces."""
    text = _strict_json(value)
    if text is not None:
        return value, text
    fit = _replaced(value, depth=0)
    return fit, _strict_json(fit) or b""


def _strict_json(value: Json) -> bytes | None:
    """Return the value's JSON, or None if it is not portable."""
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

    OK = "ok"  # the tool returned a value
    FAILED = "failed"  # the tool returned a failure
    DENIED = "denied"  # the tool returned a refusal, such as "permission denied", or a person must permit the call
    EXCEPTION = "exception"  # the tool raised an exception
    EXITED = "exited"  # sys.exit or os._exit; a code of more than 32 bits becomes the nearest that fits
    TIMEOUT = "timeout"  # the call ran longer than `limits.wall`
    MEMORY = "memory"  # the call needed more than `limits.memory`
    LIMIT = "limit"  # another limit: `limit_name` says which
    CRASHED = "crashed"  # a signal ended the tool
    CANCELLED = "cancelled"  # the caller gave up
    INVALID = "invalid"  # the arguments do not fit; nothing ran


class Isolation(StrEnum):
    """The kind of boundary between the tool and the host, weakest first."""

    PLAIN = "plain"  # limits only
    PROCESS = "process"  # a process that this host's kernel isolates
    CONTAINER = "container"
    MACHINE = "machine"  # a kernel of its own, such as gVisor's


class MeasuredBy(StrEnum):
    """How trusted code knows the state of a layer."""

    READ_OUTSIDE = "read_outside"  # the engine or the guard read the state from the kernel
    SET_BY_ENGINE = "set_by_engine"  # trusted code set the layer up; nothing reads it back
    DAEMON_CONFIG = "daemon_config"  # the container daemon's configuration shows the layer
    NONE = "none"  # nothing is known


class EnforcedBy(StrEnum):
    """The mechanism that keeps a call within a limit."""

    CGROUP = "cgroup"  # the call's control group; the kernel counts
    RLIMIT = "rlimit"  # a resource limit of each process
    WATCHER = "watcher"  # the engine's own clocks, counters and checks
    FILESYSTEM = "filesystem"  # the size of the private files, or what the box shows of the host
    NETWORK = "network"  # the network namespace, or the engine's proxy
    RUNTIME = "runtime"  # the container runtime's own kernel
    ADVISORY = "advisory"  # a hint that a tool can ignore
    NONE = "none"  # nothing; the note says why


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


class _OutcomePart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Failure(_OutcomePart):
    """The reason why a call is not ok."""

    type: Text  # the name of the exception's class, or of the engine's finding
    message: Text
    traceback: Text | None = None  # the tool's own frames, without those of the runner


class Problem(_OutcomePart):
    """An argument that does not fit, described so that a model can correct it."""

    path: Text  # the argument, and the place inside its value, such as `rows[2].name`
    message: Text
    expected: _Value = None
    got: _Value = None


class Shaped(_OutcomePart):
    """An output, fitted into its budget."""

    text: Text  # the text to show, with a notice wherever something is missing
    type: str  # the output type, which decides how a long output is cut
    characters: int  # how many characters the whole output has
    shown: int  # how many of these characters are in `text`; notices do not count
    truncated: bool = False
    reason: Text | None = None  # why the text differs from the output
    artifact: str | None = None  # the id of the artifact with the whole output, if `text` is not all of it


class Usage(_OutcomePart):
    """The cost of the call, measured from outside; None means not measured."""

    wall_s: float  # seconds on the clock
    cpu_s: float | None = None  # seconds of processor time, of all processes together
    memory_peak_bytes: int | None = None
    processes_peak: int | None = None
    preload_cpu_s: float | None = None  # processor time of importing packages ahead, in a box's first outcome
    preload_memory_bytes: int | None = None  # memory of importing packages ahead, in a box's first outcome


class Artifact(_OutcomePart):
    """Bytes that are kept for the caller."""

    id: str  # the id that finds the artifact in the store
    name: Text
    mime: Text
    bytes: int
    digest: str  # the SHA-256 of the bytes
    width: int | None = None  # the width of an image, if its file says so
    height: int | None = None


class RefusedFile(_OutcomePart):
    """A file that the tool left and the engine did not take."""

    name: Text  # the name below `outputs`; empty for the folder itself
    reason: Text
    is_lost: bool = False  # True if the file was accepted but could not be stored


class ToolName(_OutcomePart):
    """The tool that was called."""

    name: Text
    version: Text | None = None  # None if the source came with the call


class EnvironmentUsed(_OutcomePart):
    """The environment that the call ran in."""

    key: str  # the key that `sandbox env show` takes
    lock_digest: str


class Timing(_OutcomePart):
    """Milliseconds by stage, and the way that the call took through the engine."""

    queue_ms: float  # waiting for the engine's `concurrency`
    environment_ms: float  # finding or building the environment
    box_ms: float  # finding or opening a box
    run_ms: float  # running the call in the box
    total_ms: float
    path: Literal["cold", "pooled", "warm"]
    """`cold`: a box was opened for the call; `pooled`: a box was opened ahead; `warm`: the box had run calls before."""
    ahead: bool = False  # whether the call's process was forked before the call came
    preloaded: bool = True  # False if packages could not be imported ahead, so that each call imports them
    preload_ms: float = 0.0  # importing packages ahead, in the first outcome of a box


class LayerState(_OutcomePart):
    """The state of a layer of isolation."""

    in_force: bool
    detail: Text
    measured_by: MeasuredBy

    @property
    def counts(self) -> bool:
        """Whether the layer satisfies `isolation.require`."""
        return self.in_force and self.measured_by is not MeasuredBy.NONE


class LimitState(_OutcomePart):
    """A limit, and what enforces it."""

    value: int | float
    enforced_by: EnforcedBy
    note: Text = ""


class PolicyUsed(_OutcomePart):
    """The policy that the call ran under."""

    name: Text
    digest: str  # the SHA-256 of everything that the policy grants and demands


class Receipt(_OutcomePart):
    """The controls that were really in force: measured, not copied from the request."""

    backend: str
    isolation: Isolation
    layers: dict[str, LayerState]  # the state of each layer, by its name
    network: Text  # how far the call could reach
    user: Text  # the numeric user that the tool ran as
    limits: dict[str, LimitState]  # the state of each limit, by its name in the policy
    runtime: Text | None = None  # the container runtime
    environment_digest: str
    policy: PolicyUsed
    notes: tuple[Text, ...] = ()


class Outcome(_OutcomePart):
    """The full account of a call."""

    status: Status
    value: _Value = None  # the returned value, as JSON
    error: Failure | None = None
    stdout: Shaped
    stderr: Shaped
    shaped_value: Shaped  # the value as text within its budget
    usage: Usage
    limit_name: str | None = None  # the limit that ended the call
    evidence: _Facts = Field(default_factory=dict)
    """Facts behind the status, such as exit codes, signals, counters and refused connections."""
    retryable: bool = False  # whether the same call may succeed a little later
    warnings: tuple[Text, ...] = ()
    problems: tuple[Problem, ...] = ()  # every argument that does not fit
    detail: Text | None = None
    """The beginning of the tool's own explanation, if the tool returned and reported a failure."""
    state: _Value = None  # the agent's state, if the tool got and changed it
    artifacts: tuple[Artifact, ...] = ()
    """Kept files: what the tool left in `outputs`, and outputs that are too long to show."""
    refused: tuple[RefusedFile, ...] = ()  # the first of the files in `outputs` that were not taken
    receipt: Receipt | None = None  # None if the call ended before a box was open
    environment: EnvironmentUsed | None = None  # None if the call ended before a box was open
    tool: ToolName
    timing: Timing
    call_id: str
    trace_id: Text | None = None  # the id that the caller gave

    @classmethod
    def from_json(cls, text: str | bytes) -> Outcome:
        """Read the document that `to_json` wrote, at any depth; `model_validate_json` reads less deep ones only."""
        return cls.model_validate(json.loads(text))

    @property
    def ok(self) -> bool:
        """Whether the status is `ok`."""
        return self.status is Status.OK

    @property
    def exit_code(self) -> int:
        """The code that the command line exits with for this outcome."""
        return _EXIT_CODES[self.status]

    def raise_for_status(self) -> Outcome:
        """Return this outcome if it is ok; otherwise raise `CallFailed` with a message of one bounded line."""
        if self.ok:
            return self
        raise CallFailed(self._line(), outcome=self)

    @property
    def error_line(self) -> str | None:
        """A description of the failure in one bounded line, for a model to read; None if the call is ok."""
        return None if self.ok else self._line()

    def for_memory(
        self, *, tokens: int | None = None, tokenizer: Callable[[str], int | Sized] | None = None
    ) -> Outcome:
        """Return the outcome for the history of a conversation: shorter outputs, and neither value nor state.

        The shorter outputs come from the shown texts, so an outcome that was read from JSON will do. With `tokens`, no
        output is longer than that, as the tokenizer counts.
        """
        from sandbox.outputs.history import for_history

        if (tokens is None) != (tokenizer is None):
            raise SpecError("for_memory: tokens are counted by a tokenizer", remedy="give both, or neither")
        names = ("shaped_value", "stdout", "stderr")
        shorter = {name: for_history(getattr(self, name), tokens=tokens, tokenizer=tokenizer) for name in names}
        return self.model_copy(update={**shorter, "value": None, "state": None})

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the document; this succeeds whatever the tool returned or printed."""
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
