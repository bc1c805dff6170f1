"""What a caller asks for: one call, as a frozen value that any transport can carry."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final, Literal, TypedDict, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SkipValidation, ValidationError
from pydantic_core import ErrorDetails

from sandbox.errors import SpecError
from sandbox.policy import Policy, resolve_policy_name
from sandbox.unchecked import unchecked

Spec = TypeVar("Spec", bound=BaseModel)
OutputName = Literal["value", "stdout", "stderr"]

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_VARIABLE: Final = 128 << 10
_LONGEST_NAME: Final = 1024
_DEEPEST: Final = 17
_MOST_FILES: Final = 1000
_MOST_COMPLAINTS, _LONGEST_COMPLAINT = 10, 300
_NEVER_NONE: Final = {
    "tenant": "would be one with all who name none",
    "policy": "would be the default one, whatever the engine's own is",
}
_NO_SUCH_FIELD: Final = "extra_forbidden"
_MEANT: Final = {"timeout": 'limits={"wall": …}'}
"""What people ask for who think of the command line."""
_EXPECTED: Final[Mapping[int | str, str]] = {
    "source": "text or bytes",
    "requirements": 'a list such as ["requests==2.32.3"]',
    "policy": "the name of a policy, the path of a policy file, or a Policy",
    "limits": 'a mapping such as {"wall": "5s"}',
    "env": 'a mapping of names to text, such as {"CITY": "Oslo"}',
    **dict.fromkeys(("filename", "entry", "agent_id", "tenant", "call_id", "trace_id"), "text"),
}
_PYDANTICS_OWN: Final = re.compile(r"^\w+ should ")


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is not the name of an environment variable")
    return name


def _variable_text(text: str) -> str:
    if "\0" in text or len(text) > _MAX_VARIABLE:
        raise ValueError("an environment variable holds no NUL and at most 128 KiB")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("an environment variable is text that UTF-8 can hold") from None
    return text


def is_plain_name(name: str) -> bool:
    """Whether a file may be called that: names parted by slashes that stay where they are, without control characters,
    in UTF-8 of a bounded length."""
    try:
        data = name.encode()
    except UnicodeEncodeError:
        return False
    parts = data.split(b"/")
    is_short = len(data) <= _LONGEST_NAME and len(parts) <= _DEEPEST and all(0 < len(part) <= 255 for part in parts)
    return is_short and not {b".", b".."}.intersection(parts) and not any(map(_is_control, name))


def _is_control(character: str) -> bool:
    return ord(character) < 32 or 127 <= ord(character) < 160 or character in "\u2028\u2029"


def _plain_name(name: str) -> str:
    if not is_plain_name(name):
        raise ValueError(
            f"{name[:80]!r} is no name for a file: it is relative, without '..' or control characters, in UTF-8, "
            f"and at most {_LONGEST_NAME} bytes and {_DEEPEST} names long"
        )
    return name


def _content(given: object) -> object:
    """Bytes are the content itself, anything that is a path leads to it."""
    if isinstance(given, bytearray | memoryview):
        return bytes(given)
    if isinstance(given, bytes):
        return given
    if isinstance(given, str | os.PathLike):
        return Path(os.fsdecode(given))
    raise ValueError("the content of a file is bytes, or the path of a file of this host")


def _placeable(files: dict[str, bytes | Path]) -> dict[str, bytes | Path]:
    """No file can be where another one needs a folder."""
    folders = {str(parent) for path in files for parent in PurePosixPath(path).parents}
    both = sorted(folders.intersection(files))
    if both:
        raise ValueError(f"{both[0]!r} cannot be a file and a folder")
    return files


def new_call_id() -> str:
    """One that nobody guesses and no other call has."""
    return os.urandom(16).hex()


def _named(policy: object) -> object:
    """A path of any kind is as good as its text."""
    return resolve_policy_name(policy) if isinstance(policy, os.PathLike) else policy


_Requirement = str | dict[str, str | list[str]]
"""As PEP 508 writes it, or its parts: name, version, extras, marker."""
_Name = Annotated[str, Field(min_length=1, max_length=256)]
_Variables = dict[Annotated[str, AfterValidator(_variable)], Annotated[str, AfterValidator(_variable_text)] | None]
_Policy = Annotated[_Name | Policy, BeforeValidator(_named)]
_Files = dict[Annotated[str, AfterValidator(_plain_name)], Annotated[bytes | Path, BeforeValidator(_content)]]
_Given = Annotated[Any, SkipValidation]
"""Any JSON; what is none is refused with the arguments."""


class AskedOutput(BaseModel):
    """What a call asks of one of its outputs: of which type it is, and how much of it is shown at most."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")] | None = None
    characters: Annotated[int, Field(ge=0)] | None = None
    tokens: Annotated[int, Field(ge=0)] | None = None


class CallSpec(BaseModel):
    """One call: which source, which function, with what, under which policy, for whom."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str | bytes
    filename: _Name = "tool.py"
    entry: _Name | None = None
    args: Annotated[dict[str, Any], SkipValidation] = Field(default_factory=dict)
    requirements: tuple[_Requirement, ...] = ()
    """What is installed for the tool, beside what its source asks for itself."""
    policy: _Policy = "default"
    limits: dict[str, Any] = Field(default_factory=dict)
    env: _Variables = Field(default_factory=dict, repr=False)
    """Variables of this call. None takes away what stands below."""
    env_layers: tuple[_Variables, ...] = Field(default=(), repr=False)
    """What stands below `env`: the variables of the catalog, of the tenant, of the tool. Later ones win."""
    state: Annotated[dict[str, Any], SkipValidation] | None = None
    """What a tool that declares `agent_state` gets a copy of; what it makes of it comes back in the outcome."""
    agent_id: Annotated[str, Field(max_length=1024)] | None = None
    """What a tool that declares `agent_id` gets."""
    ctx: _Given = None
    """What a tool that declares `ctx` gets."""
    client: _Given = None
    """What a tool that declares `client` gets."""
    strict_return: bool | None = None
    """Whether a value that is not what its tool says it returns is an exception; otherwise as the tool says, or no."""
    permitted: bool = False
    """Whether somebody has permitted what a tool's `needs_permission` asks for."""
    files: Annotated[_Files, Field(max_length=_MOST_FILES, repr=False), AfterValidator(_placeable)] = Field(
        default_factory=dict
    )
    """What the tool finds in the folder `inputs`: content, or a path of this host, by its name there."""
    return_char_limit: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Characters of the value that are shown; less than otherwise, never more."""
    outputs: dict[OutputName, AskedOutput] = Field(default_factory=dict)
    """What is asked of the value, of stdout and of stderr."""
    tokens: Annotated[int, Field(ge=0)] | None = None
    """As many are shown of each output, counted by the engine's tokenizer; characters are limited all the same."""
    tenant: Annotated[str, Field(max_length=256)] = ""
    call_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")] = Field(default_factory=new_call_id)
    trace_id: Annotated[str, Field(max_length=256)] | None = None

    @property
    def counts_tokens(self) -> bool:
        """Whether it asks for anything that only a tokenizer can tell."""
        is_asked = bool(self.outputs) and any(asked.tokens is not None for asked in self.outputs.values())
        return is_asked or self.tokens is not None


class EnvironmentSpec(BaseModel):
    """An environment without a call: what a tool's source asks for, and what is asked for beside it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str | bytes | None = None
    filename: _Name = "tool.py"
    requirements: tuple[_Requirement, ...] = ()
    requires_python: _Name | None = None
    policy: _Policy = "default"
    tenant: Annotated[str, Field(max_length=256)] = ""


class ReadingSpec(BaseModel):
    """A source to be read without being run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str | bytes
    filename: _Name = "tool.py"
    entry: _Name | None = None


class ReadingFields(TypedDict, total=False):
    """What can be said of a source that is read."""

    filename: str
    entry: str | None


class EnvironmentFields(TypedDict, total=False):
    """What can be said of an environment beside the source that it is for; see `EnvironmentSpec`."""

    filename: str
    requirements: Sequence[str | Mapping[str, Any]]
    requires_python: str | None
    policy: str | os.PathLike[str] | Policy
    tenant: str


class CallFields(TypedDict, total=False):
    """What can be said of a call beside its source and its arguments; see `CallSpec`."""

    filename: str
    entry: str | None
    requirements: Sequence[str | Mapping[str, Any]]
    policy: str | os.PathLike[str] | Policy
    limits: Mapping[str, Any]
    env: Mapping[str, str | None]
    env_layers: Sequence[Mapping[str, str | None]]
    state: Mapping[str, Any] | None
    agent_id: str | None
    ctx: Any
    client: Any
    strict_return: bool | None
    permitted: bool
    files: Mapping[str, bytes | str | os.PathLike[str]]
    return_char_limit: int | None
    outputs: Mapping[str, AskedOutput | Mapping[str, Any]]
    tokens: int | None
    tenant: str
    call_id: str
    trace_id: str | None


def reading_spec(fields: Mapping[str, Any]) -> ReadingSpec:
    """The spec of these fields; raises `SpecError` that says which of them is wrong."""
    return _spec(ReadingSpec, fields, names=ReadingFields.__annotations__)


def environment_spec(fields: Mapping[str, Any]) -> EnvironmentSpec:
    """The spec of these fields; raises `SpecError` that says which of them is wrong."""
    return _spec(EnvironmentSpec, fields, names=EnvironmentFields.__annotations__)


def plain_spec(source: str, args: Mapping[str, Any], policy: str | Policy) -> CallSpec:
    """The spec of a call for which nothing else was said, under a policy that a spec may have."""
    fields = {
        "source": source,
        "filename": "tool.py",
        "entry": None,
        "args": dict(args),
        "requirements": (),
        "policy": policy,
        "limits": {},
        "env": {},
        "env_layers": (),
        "state": None,
        "agent_id": None,
        "ctx": None,
        "client": None,
        "strict_return": None,
        "permitted": False,
        "files": {},
        "return_char_limit": None,
        "outputs": {},
        "tokens": None,
        "tenant": "",
        "call_id": new_call_id(),
        "trace_id": None,
    }
    return unchecked(CallSpec, fields)


def call_spec(fields: Mapping[str, Any]) -> CallSpec:
    """The spec of these fields; raises `SpecError` that says which of them is wrong."""
    for name in ("args", "state"):
        given = fields.get(name)
        if given is not None and not isinstance(given, Mapping):
            raise SpecError(f"{name} must be a mapping of names to values, not {type(given).__name__}")
    return _spec(CallSpec, {**fields, "args": dict(fields.get("args") or {})}, names=CallFields.__annotations__)


def _spec(kind: type[Spec], fields: Mapping[str, Any], *, names: Mapping[str, object]) -> Spec:
    """One of that kind; None says nothing, but of whose it is and under what, which must not go unsaid by mistake.
    `names` are the fields that a caller can give by name."""
    for name, meaning in _NEVER_NONE.items():
        if fields.get(name, "") is None:
            raise SpecError(f"{name}: is None, and {meaning}", remedy=f"name the {name}, or leave it out")
    try:
        return kind.model_validate({name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
    is_unknown = any(problem["type"] == _NO_SUCH_FIELD and len(problem["loc"]) == 1 for problem in problems)
    raise SpecError(
        "; ".join(_complaints(problems, names=names)), remedy=f"there are: {', '.join(names)}" if is_unknown else None
    )


def _complaints(problems: Sequence[ErrorDetails], *, names: Mapping[str, object]) -> list[str]:
    """Each field that is wrong, once, in words for somebody who has not heard of pydantic."""
    told = dict.fromkeys(_complaint(each, names=names)[:_LONGEST_COMPLAINT] for each in problems)
    return list(told)[:_MOST_COMPLAINTS]


def _complaint(problem: ErrorDetails, *, names: Mapping[str, object]) -> str:
    kind, place = problem["type"], problem["loc"]
    path = str(place[0]) if "[key]" in place else ".".join(map(str, place))
    if kind == "value_error":
        return f"{path}: {problem['ctx']['error']}"
    if kind == "missing":
        return f"{path}: is missing"
    if kind == _NO_SUCH_FIELD:
        return f"{path}: there is no such field{_likely_meant(path, names) if len(place) == 1 else ''}"
    if place[0] in _EXPECTED and (kind.endswith("_type") or len(place) > 1):
        return f"{place[0]}: must be {_EXPECTED[place[0]]}"
    return f"{path}: {_PYDANTICS_OWN.sub('must ', problem['msg'])}"


def _likely_meant(name: str, names: Mapping[str, object]) -> str:
    meant = [_MEANT[name]] if name in _MEANT else [repr(near) for near in get_close_matches(name, names, n=1)]
    return f", did you mean {meant[0]}?" if meant else ""
