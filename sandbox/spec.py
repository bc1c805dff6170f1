"""Specs: the fields of a call, an environment or a reading, as frozen values that any transport can carry."""

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
from sandbox.trusted import build_trusted

Spec = TypeVar("Spec", bound=BaseModel)
OutputName = Literal["value", "stdout", "stderr"]

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_VARIABLE: Final = 128 << 10
_MAX_NAME: Final = 1024
_MAX_PARTS: Final = 17
_MAX_FILES: Final = 1000
_MAX_PROBLEMS, _MAX_PROBLEM = 10, 300
_NEVER_NONE: Final = {
    "tenant": "None would share boxes with all calls without a tenant",
    "policy": "None would mean the default policy instead of the engine's",
}
_NO_SUCH_FIELD: Final = "extra_forbidden"
_MEANT: Final = {"timeout": 'limits={"wall": …}'}
"""Names of the command line's options, and the fields that their users probably want."""
_EXPECTED: Final[Mapping[int | str, str]] = {
    "source": "text or bytes",
    "requirements": 'a list such as ["requests==2.32.3"]',
    "policy": "the name of a policy, the path of a policy file, or a Policy",
    "limits": 'a mapping such as {"wall": "5s"}',
    "env": 'a mapping of names to text, such as {"CITY": "Oslo"}',
    **dict.fromkeys(("filename", "entry", "agent_id", "tenant", "call_id", "trace_id"), "text"),
}
_PYDANTIC_PHRASE: Final = re.compile(r"^\w+ should ")


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is not the name of an environment variable")
    return name


def _variable_text(text: str) -> str:
    if "\0" in text or len(text) > _MAX_VARIABLE:
        raise ValueError("an environment variable must not hold a NUL or more than 128 KiB")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("an environment variable must be text that UTF-8 can encode") from None
    return text


def is_plain_name(name: str) -> bool:
    """Return True if a file may have this name: relative parts joined by slashes, in UTF-8 of a bounded length, without
    control characters."""
    try:
        data = name.encode()
    except UnicodeEncodeError:
        return False
    parts = data.split(b"/")
    is_short = len(data) <= _MAX_NAME and len(parts) <= _MAX_PARTS and all(0 < len(part) <= 255 for part in parts)
    return is_short and not {b".", b".."}.intersection(parts) and not any(map(_is_control, name))


def _is_control(character: str) -> bool:
    return ord(character) < 32 or 127 <= ord(character) < 160 or character in "\u2028\u2029"


def _plain_name(name: str) -> str:
    if not is_plain_name(name):
        raise ValueError(
            f"{name[:80]!r} is not a valid file name: use a relative name without '..' or control characters, "
            f"in UTF-8, of at most {_MAX_NAME} bytes and {_MAX_PARTS} parts"
        )
    return name


def _content(given: object) -> object:
    """Return bytes as they are, and anything that is a path as a `Path`."""
    if isinstance(given, bytearray | memoryview):
        return bytes(given)
    if isinstance(given, bytes):
        return given
    if isinstance(given, str | os.PathLike):
        return Path(os.fsdecode(given))
    raise ValueError("the content of a file must be bytes, or the path of a file of this host")


def _check_folders(files: dict[str, bytes | Path]) -> dict[str, bytes | Path]:
    """Refuse a file whose name is also the folder of another file."""
    folders = {str(parent) for path in files for parent in PurePosixPath(path).parents}
    both = sorted(folders.intersection(files))
    if both:
        raise ValueError(f"{both[0]!r} cannot be a file and a folder")
    return files


def new_call_id() -> str:
    """Return a random id, unique and not guessable."""
    return os.urandom(16).hex()


def _named(policy: object) -> object:
    """Accept any path object in place of a path's text."""
    return resolve_policy_name(policy) if isinstance(policy, os.PathLike) else policy


_Requirement = str | dict[str, str | list[str]]
"""A requirement as PEP 508 writes it, or its parts: name, version, extras, marker."""
_Name = Annotated[str, Field(min_length=1, max_length=256)]
_Variables = dict[Annotated[str, AfterValidator(_variable)], Annotated[str, AfterValidator(_variable_text)] | None]
_Policy = Annotated[_Name | Policy, BeforeValidator(_named)]
_Files = dict[Annotated[str, AfterValidator(_plain_name)], Annotated[bytes | Path, BeforeValidator(_content)]]
_Given = Annotated[Any, SkipValidation]
"""Any JSON. Reading the arguments refuses anything else."""


class AskedOutput(BaseModel):
    """The type of an output, and the maximum of it that is shown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")] | None = None
    characters: Annotated[int, Field(ge=0)] | None = None
    tokens: Annotated[int, Field(ge=0)] | None = None


class CallSpec(BaseModel):
    """A call: the source and function, the arguments, the policy, and the tenant."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str | bytes
    filename: _Name = "tool.py"
    entry: _Name | None = None
    args: Annotated[dict[str, Any], SkipValidation] = Field(default_factory=dict)
    requirements: tuple[_Requirement, ...] = ()
    """Requirements in addition to those of the source."""
    policy: _Policy = "default"
    limits: dict[str, Any] = Field(default_factory=dict)
    env: _Variables = Field(default_factory=dict, repr=False)
    """Variables of this call. None removes a variable of `env_layers`."""
    env_layers: tuple[_Variables, ...] = Field(default=(), repr=False)
    """Variables below `env`: of the catalog, of the tenant, of the tool. Later layers win."""
    state: Annotated[dict[str, Any], SkipValidation] | None = None
    """The state that a tool with a parameter `agent_state` gets a copy of. The outcome holds the changed copy."""
    agent_id: Annotated[str, Field(max_length=1024)] | None = None
    """The argument of a tool with a parameter `agent_id`."""
    ctx: _Given = None
    """The argument of a tool with a parameter `ctx`."""
    client: _Given = None
    """The argument of a tool with a parameter `client`."""
    strict_return: bool | None = None
    """True if a value that does not fit the tool's return annotation is an exception. None leaves the choice to the
    tool."""
    permitted: bool = False
    """True if a person has permitted what the tool's `needs_permission` asks for."""
    files: Annotated[_Files, Field(max_length=_MAX_FILES, repr=False), AfterValidator(_check_folders)] = Field(
        default_factory=dict
    )
    """Files in the folder `inputs`: content, or a path of this host, by their names there."""
    return_char_limit: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Maximum number of characters that are shown of the value. Budgets can only shrink."""
    outputs: dict[OutputName, AskedOutput] = Field(default_factory=dict)
    """Types and budgets of the value, of stdout and of stderr."""
    tokens: Annotated[int, Field(ge=0)] | None = None
    """Maximum number of tokens that are shown of each output, as the engine's tokenizer counts. Character budgets still
    apply."""
    tenant: Annotated[str, Field(max_length=256)] = ""
    call_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")] = Field(default_factory=new_call_id)
    trace_id: Annotated[str, Field(max_length=256)] | None = None

    @property
    def counts_tokens(self) -> bool:
        """True if a budget of the call needs a tokenizer."""
        is_asked = bool(self.outputs) and any(asked.tokens is not None for asked in self.outputs.values())
        return is_asked or self.tokens is not None


class EnvironmentSpec(BaseModel):
    """An environment without a call: the requirements of a source, and additional ones."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str | bytes | None = None
    filename: _Name = "tool.py"
    requirements: tuple[_Requirement, ...] = ()
    requires_python: _Name | None = None
    policy: _Policy = "default"
    tenant: Annotated[str, Field(max_length=256)] = ""


class ReadingSpec(BaseModel):
    """A source to read without running it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str | bytes
    filename: _Name = "tool.py"
    entry: _Name | None = None


class ReadingFields(TypedDict, total=False):
    """Optional fields of reading a source."""

    filename: str
    entry: str | None


class EnvironmentFields(TypedDict, total=False):
    """Optional fields of an environment; see `EnvironmentSpec`."""

    filename: str
    requirements: Sequence[str | Mapping[str, Any]]
    requires_python: str | None
    policy: str | os.PathLike[str] | Policy
    tenant: str


class CallFields(TypedDict, total=False):
    """Optional fields of a call, besides its source and arguments; see `CallSpec`."""

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
    """Return the spec of these fields. Raise `SpecError` with the wrong fields."""
    return _spec(ReadingSpec, fields, names=ReadingFields.__annotations__)


def environment_spec(fields: Mapping[str, Any]) -> EnvironmentSpec:
    """Return the spec of these fields. Raise `SpecError` with the wrong fields."""
    return _spec(EnvironmentSpec, fields, names=EnvironmentFields.__annotations__)


_UNNAMED: Final = vars(CallSpec(source=""))
"""The fields of a call that names none. The engine never changes a spec, so calls may share the empty mappings."""


def plain_spec(source: str, args: Mapping[str, Any], policy: str | Policy) -> CallSpec:
    """Return the spec of a call that names nothing else, under a policy that an earlier spec was validated with."""
    own = {"source": source, "args": dict(args), "policy": policy, "call_id": new_call_id()}
    return build_trusted(CallSpec, **(_UNNAMED | own))


def call_spec(fields: Mapping[str, Any]) -> CallSpec:
    """Return the spec of these fields. Raise `SpecError` with the wrong fields."""
    for name in ("args", "state"):
        given = fields.get(name)
        if given is not None and not isinstance(given, Mapping):
            raise SpecError(f"{name} must be a mapping of names to values, not {type(given).__name__}")
    return _spec(CallSpec, {**fields, "args": dict(fields.get("args") or {})}, names=CallFields.__annotations__)


def _spec(kind: type[Spec], fields: Mapping[str, Any], *, names: Mapping[str, object]) -> Spec:
    """Build a spec. None means the default, except for tenant and policy, where a None by mistake would do harm.
    `names` are the fields that a caller can give by name."""
    for name, meaning in _NEVER_NONE.items():
        if fields.get(name, "") is None:
            raise SpecError(f"{name}: must not be None: {meaning}", remedy=f"name the {name}, or omit it")
    try:
        return kind.model_validate({name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
    is_unknown = any(problem["type"] == _NO_SUCH_FIELD and len(problem["loc"]) == 1 for problem in problems)
    raise SpecError(
        "; ".join(_describe_problems(problems, names=names)),
        remedy=f"there are: {', '.join(names)}" if is_unknown else None,
    )


def _describe_problems(problems: Sequence[ErrorDetails], *, names: Mapping[str, object]) -> list[str]:
    """Describe each wrong field once, in words without pydantic."""
    described = dict.fromkeys(_describe_problem(each, names=names)[:_MAX_PROBLEM] for each in problems)
    return list(described)[:_MAX_PROBLEMS]


def _describe_problem(problem: ErrorDetails, *, names: Mapping[str, object]) -> str:
    kind, place = problem["type"], problem["loc"]
    path = str(place[0]) if "[key]" in place else ".".join(map(str, place))
    if kind == "value_error":
        return f"{path}: {problem['ctx']['error']}"
    if kind == "missing":
        return f"{path}: is missing"
    if kind == _NO_SUCH_FIELD:
        return f"{path}: there is no such field{_suggest(path, names) if len(place) == 1 else ''}"
    if place[0] in _EXPECTED and (kind.endswith("_type") or len(place) > 1):
        return f"{place[0]}: must be {_EXPECTED[place[0]]}"
    return f"{path}: {_PYDANTIC_PHRASE.sub('must ', problem['msg'])}"


def _suggest(name: str, names: Mapping[str, object]) -> str:
    meant = [_MEANT[name]] if name in _MEANT else [repr(near) for near in get_close_matches(name, names, n=1)]
    return f", did you mean {meant[0]}?" if meant else ""
