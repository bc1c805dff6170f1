"""Messages: the closed models of everything that a box may send.

The field `type` distinguishes the messages. An unknown type, and a missing, extra or ill-typed field, is a
`ProtocolError`.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SkipValidation, TypeAdapter, ValidationError
from pydantic_core import from_json

from sandbox.errors import ProtocolError
from sandbox.trusted import build_trusted

_Text = Annotated[str, Field(max_length=4096)]
_Id = Annotated[int, Field(ge=0, lt=1 << 32)]
_Count = Annotated[int, Field(ge=0, lt=1 << 53)]
_Code = Annotated[int, Field(ge=-(1 << 31), lt=1 << 32)]
_Signal = Annotated[int, Field(ge=1, le=128)]


class _Message(BaseModel):
    """The base of all messages."""

    # Only the two adapters below validate messages, so pydantic builds no validator for a single model. Asking for one
    # later is safe in threads only since pydantic 2.14.

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class ImportUse(_Message):
    """The cost of importing packages ahead of calls, measured from outside the process."""

    wall_s: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    cpu_s: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    memory: _Count | None


class Hello(_Message):
    """The box is up."""

    type: Literal["hello"]
    protocol: int
    python: _Text
    implementation: _Text
    failed: dict[str, _Text]
    refused: dict[str, _Text]
    unfit: _Text = ""
    """Why packages could not be imported ahead of calls. Part of the text is the packages' own."""
    preload: ImportUse | None = None
    """The cost of importing packages ahead of calls."""


class BoxFault(_Message):
    """The box could not be built; the channel closes after this."""

    type: Literal["fault"]
    layer: _Text
    reason: _Text


class LayerFailure(Exception):
    """The runner could not set up a layer. The backend's caller decides about that."""

    def __init__(self, layer: str, reason: str) -> None:
        super().__init__(f"{layer}: {reason}")
        self.layer = layer
        self.reason = reason


class Started(_Message):
    """A child has the call."""

    type: Literal["started"]
    id: _Id
    slot: _Id | None
    ahead: bool


class Returned(_Message):
    """The reply is whole, and all output before it has been sent.

    `cpu_before` is the processor time that the call's process had used when it got the call.
    """

    type: Literal["returned"]
    id: _Id
    cpu_before: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _End(_Message):
    exit_code: _Code | None
    signal: _Signal | None
    cpu_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    max_rss: _Count | None
    bytes_free: _Count | None
    inodes_free: _Count | None
    killed_by: Literal["engine", "memory", "cpu", "processes"] | None


class Ended(_End):
    """The call's process is gone, with everything that it left running."""

    type: Literal["ended"]
    id: _Id
    seen: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """The usage for which the runner killed the call."""


class Ready(_Message):
    """A child was forked ahead and waits at direct pipes, with these layers. The child has used `cpu_before`."""

    type: Literal["ready"]
    line: _Id
    slot: _Id | None
    cpu_before: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    walls: Annotated[str, Field(max_length=1 << 16)]


class Surplus(_Message):
    """The child at these pipes is not needed: the engine closes them, unless it has called the child.

    `wanted` children are worth having now.
    """

    type: Literal["surplus"]
    line: _Id
    wanted: _Count


class Unfit(_Message):
    """The process that imported packages ahead is gone, so calls import for themselves.

    Part of the reason is the packages' own text. The reason is empty if the packages are not the cause.
    """

    type: Literal["unfit"]
    reason: _Text


class Gone(_End):
    """The child at these pipes is gone, or there never was one, and the runner knows of no call.

    If the engine called the child, this is how the call ended.
    """

    type: Literal["gone"]
    line: _Id

    def of_call(self, id: int) -> Ended:
        """Return the end of the call that the child had."""
        fields = {name: getattr(self, name) for name in _End.model_fields}
        return build_trusted(Ended, type="ended", id=id, **fields, seen=None)


NO_END: Final = build_trusted(Ended, type="ended", id=0, **dict.fromkeys(_End.model_fields), seen=None)
"""The end of a call that was lost, or is not over yet."""

RunnerMessage: TypeAlias = Hello | BoxFault | Started | Returned | Ended | Ready | Surplus | Unfit | Gone
_FROM_BOX: TypeAdapter[RunnerMessage] = TypeAdapter(Annotated[RunnerMessage, Field(discriminator="type")])


class RaisedError(_Message):
    """An exception as the child described it."""

    type: str
    message: str
    traceback: str


class Replied(_Message):
    """The base of all replies."""

    files: bool = False
    """Whether the tool left files, as far as its own process knows. The guard sends them at the end."""


class ValueReply(Replied):
    """The function returned.

    `ok` is the flag of a `ToolResult`; `state` is the agent's state, if the tool changed it.
    """

    # The values are not validated: the parser made them, so they are JSON, and a second pass would cost more.

    kind: Literal["value"]
    value: Annotated[JsonValue, SkipValidation]
    warnings: list[str]
    ok: bool | None = None
    state: Annotated[JsonValue, SkipValidation] = None


class ExceptionReply(Replied):
    """The function, or its module, raised."""

    kind: Literal["exception"]
    error: RaisedError
    memory: bool
    errno: int | None
    warnings: list[str] = []


class Misfit(_Message):
    """An argument that does not fit, and why."""

    path: list[str | int]
    message: str


class InvalidReply(Replied):
    """The arguments do not fit the tool's own types or checks; its function was not called."""

    kind: Literal["invalid"]
    problems: list[Misfit]


class DeniedReply(Replied):
    """The tool asks for a permission that the call lacks; its function was not called."""

    kind: Literal["denied"]
    message: str


class ExitedReply(Replied):
    """The tool asked its interpreter to exit."""

    kind: Literal["exited"]
    code: _Code


class TooLargeReply(Replied):
    """The value is larger than the call allows."""

    kind: Literal["too_large"]
    bytes: _Count


Reply: TypeAlias = ValueReply | ExceptionReply | InvalidReply | DeniedReply | ExitedReply | TooLargeReply
_VALUE_ALONE: Final = frozenset({"kind", "value", "warnings"})


def parse_message(text: bytes) -> RunnerMessage:
    """Return a message from a box, or raise `ProtocolError`."""
    try:
        return _FROM_BOX.validate_json(text)
    except ValidationError as error:
        raise ProtocolError(f"a box sent an invalid message: {_first(error)}") from None


def parse_reply(text: bytes) -> Reply:
    """Return the reply of a tool's process, or raise `ProtocolError`. The tool can write anything there."""
    try:
        fields = from_json(text, allow_inf_nan=False)
        if (
            type(fields) is dict
            and fields.keys() == _VALUE_ALONE
            and (fields["kind"], fields["warnings"]) == ("value", [])
        ):
            return build_trusted(ValueReply, **fields, ok=None, state=None, files=False)
        return _any_reply().validate_python(fields)
    except ValidationError as error:
        raise ProtocolError(f"the reply is invalid: {_first(error)}") from None
    except ValueError as error:
        raise ProtocolError(f"the reply is not JSON: {str(error)[:200]}") from None


@cache
def _any_reply() -> TypeAdapter[Reply]:
    # Built on first use: many programs only get replies with a value alone.
    return TypeAdapter(Annotated[Reply, Field(discriminator="kind")])


def _first(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in problem["loc"])
    return f"{place or 'text'}: {problem['msg']}"[:200]
