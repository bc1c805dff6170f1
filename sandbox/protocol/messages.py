"""Messages: what may be said on a channel, as closed models.

Each direction is a closed set told apart by `type`; an unknown type, a missing, extra or ill-typed field is a
`ProtocolError`. What the engine says is built here too, so that both sides of every message stand side by side.
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


class _Said(BaseModel):
    """Messages are read by the two adapters below, and the engine makes none but unchecked: what pydantic would build
    to look at one of them alone is left out. It is not to be asked for: that is safe in threads only since 2.14."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class ImportUse(_Said):
    """What a process used that imported packages ahead of calls, measured from outside it."""

    wall_s: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    cpu_s: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    memory: _Count | None


class Hello(_Said):
    """The box is up."""

    type: Literal["hello"]
    protocol: int
    python: _Text
    implementation: _Text
    failed: dict[str, _Text]
    refused: dict[str, _Text]
    unfit: _Text = ""
    """Why packages could not be imported ahead of calls; the text is partly the packages' own."""
    preload: ImportUse | None = None
    """What importing packages ahead of calls used."""


class BoxFault(_Said):
    """The box could not be built; the channel closes after this."""

    type: Literal["fault"]
    layer: _Text
    reason: _Text


class LayerFailure(Exception):
    """The runner could not put up a wall; what that means is for the backend's caller to say."""

    def __init__(self, layer: str, reason: str) -> None:
        super().__init__(f"{layer}: {reason}")
        self.layer = layer
        self.reason = reason


class Started(_Said):
    """A child has the call."""

    type: Literal["started"]
    id: _Id
    slot: _Id | None
    ahead: bool


class Returned(_Said):
    """The reply is whole, and what was printed before it has been sent. `cpu_before` is what the call's process had
    used when it got the call."""

    type: Literal["returned"]
    id: _Id
    cpu_before: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _End(_Said):
    exit_code: _Code | None
    signal: _Signal | None
    cpu_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    max_rss: _Count | None
    bytes_free: _Count | None
    inodes_free: _Count | None
    killed_by: Literal["engine", "memory", "cpu", "processes"] | None


class Ended(_End):
    """The call's process is gone, and so is everything it left running."""

    type: Literal["ended"]
    id: _Id
    seen: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """What it used of the limit for which the runner killed it."""


class Ready(_Said):
    """A child is there on a line, forked ahead, behind these walls, and can be called. It has used `cpu_before`."""

    type: Literal["ready"]
    line: _Id
    slot: _Id | None
    cpu_before: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    walls: Annotated[str, Field(max_length=1 << 16)]


class Surplus(_Said):
    """The child on that line need not be kept: hang up, unless it has been called. `wanted` children are worth having
    now."""

    type: Literal["surplus"]
    line: _Id
    wanted: _Count


class Unfit(_Said):
    """The process that imported packages ahead is gone, so calls import for themselves. The reason, which is partly the
    packages' own text, says what they did; it is empty if they did nothing."""

    type: Literal["unfit"]
    reason: _Text


class Gone(_End):
    """The child on that line is gone likewise, or there never was one, and the runner has not heard of a call. If it
    was called, this is how the call ended."""

    type: Literal["gone"]
    line: _Id

    def of_call(self, id: int) -> Ended:
        """The same, said of the call that the child had."""
        fields = {name: getattr(self, name) for name in _End.model_fields}
        return build_trusted(Ended, type="ended", id=id, **fields, seen=None)


NO_END: Final = build_trusted(Ended, type="ended", id=0, **dict.fromkeys(_End.model_fields), seen=None)
"""Nothing is known of a call's end: it was lost, or is not over yet."""

RunnerMessage: TypeAlias = Hello | BoxFault | Started | Returned | Ended | Ready | Surplus | Unfit | Gone
_FROM_BOX: TypeAdapter[RunnerMessage] = TypeAdapter(Annotated[RunnerMessage, Field(discriminator="type")])


class Failure(_Said):
    """An exception as the child described it."""

    type: str
    message: str
    traceback: str


class Replied(_Said):
    """What every reply can say beside."""

    files: bool = False
    """Whether the tool left any, as far as its own process knows; its guard sends them when everything is dead."""


class ValueReply(Replied):
    """The function returned. The parser made the value, so it is JSON: a second look would cost more than the first.
    `ok` is what the value says of itself, if it does; `state` the agent's, if the tool changed it."""

    kind: Literal["value"]
    value: Annotated[JsonValue, SkipValidation]
    warnings: list[str]
    ok: bool | None = None
    state: Annotated[JsonValue, SkipValidation] = None


class ExceptionReply(Replied):
    """The function, or its module, raised."""

    kind: Literal["exception"]
    error: Failure
    memory: bool
    errno: int | None
    warnings: list[str] = []


class Misfit(_Said):
    """One argument that does not fit, and why."""

    path: list[str | int]
    message: str


class InvalidReply(Replied):
    """The arguments do not fit what the tool's own types or checks say; its function was not called."""

    kind: Literal["invalid"]
    problems: list[Misfit]


class DeniedReply(Replied):
    """The tool asks for a permission that the call has not; its function was not called."""

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
    """A message from a box, or `ProtocolError`."""
    try:
        return _FROM_BOX.validate_json(text)
    except ValidationError as error:
        raise ProtocolError(f"a box sent a message that is none: {_first(error)}") from None


def parse_reply(text: bytes) -> Reply:
    """What the tool's process sent as its reply, or `ProtocolError`: the tool can write anything there."""
    try:
        said = from_json(text, allow_inf_nan=False)
        if type(said) is dict and said.keys() == _VALUE_ALONE and (said["kind"], said["warnings"]) == ("value", []):
            return build_trusted(ValueReply, **said, ok=None, state=None, files=False)
        return _any_reply().validate_python(said)
    except ValidationError as error:
        raise ProtocolError(f"the reply is not one: {_first(error)}") from None
    except ValueError as error:
        raise ProtocolError(f"the reply is not JSON: {str(error)[:200]}") from None


@cache
def _any_reply() -> TypeAdapter[Reply]:
    """What reads them all; a program whose calls only ever return their values has no use for it."""
    return TypeAdapter(Annotated[Reply, Field(discriminator="kind")])


def _first(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in problem["loc"])
    return f"{place or 'text'}: {problem['msg']}"[:200]
