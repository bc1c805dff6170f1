"""Options that several commands have, the options of `sandbox run` as two dataclasses, and the parsing of their text.

Nothing is guessed: a key that is given twice is refused. The text of `-a` stays text; the types that the tool declares
decide its meaning. Invalid input is a `SpecError`.

A typer command takes each option as a parameter of its own. `takes_options` lets a command take a few dataclasses
instead: typer sees one keyword parameter for each field, and the command receives the filled dataclasses.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, NoReturn, get_type_hints

import typer

from sandbox.errors import SpecError

if TYPE_CHECKING:
    from sandbox.outputs.tokens import Tokenizer


def read_store(text: str) -> Path:
    """Return the folder that `--store` names."""
    from sandbox.environments.disk.paths import named_place

    return named_place(text)


Backend = Annotated[
    str | None,
    typer.Option("--backend", metavar="NAME", envvar="SANDBOX_BACKEND", help="Backend: subprocess or container."),
]
PolicyName = Annotated[
    str,
    typer.Option("--policy", metavar="NAME|FILE", envvar="SANDBOX_POLICY", help="Policy of the call."),
]
StorePlace = Annotated[
    Path | None,
    typer.Option(
        "--store",
        metavar="DIR",
        envvar="SANDBOX_STORE",
        parser=read_store,
        help="Folder of environments (default: your cache).",
    ),
]
ArtifactPlace = Annotated[
    Path | None,
    typer.Option(
        "--artifacts", metavar="DIR", envvar="SANDBOX_ARTIFACTS", help="Folder of artifacts (default: your cache)."
    ),
]
Offline = Annotated[bool, typer.Option("--offline", help="Use only the store and wheelhouses, no index.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, nothing else.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """The call that `run` makes: its arguments, requirements, policy and limits."""

    entry: Annotated[
        str | None, typer.Option("--entry", metavar="NAME", help="Function to call if the file has several.")
    ] = None
    args: Annotated[
        str | None,
        typer.Option("--args", metavar="JSON|@FILE|-", help="Arguments as a JSON object; - reads standard input."),
    ] = None
    pairs: Annotated[
        list[str] | None,
        typer.Option("-a", metavar="NAME=VALUE", help="One argument; the tool's types give it a meaning."),
    ] = None
    requirements: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="REQ", help="Package to install, such as requests==2.32.3."),
    ] = None
    policy: PolicyName = "default"
    timeout: Annotated[str | None, typer.Option("--timeout", metavar="TIME", help="Time limit: 5, 5s, 500ms, 2m.")] = (
        None
    )
    limits: Annotated[
        list[str] | None,
        typer.Option("--limit", metavar="NAME=VALUE", help="Tighter limit, such as memory=64MiB."),
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME=VALUE", help="Environment variable of the tool."),
    ] = None
    state: Annotated[
        str | None,
        typer.Option("--state", metavar="JSON|@FILE|-", help="Value of the parameter agent_state (a copy)."),
    ] = None
    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="Value of the parameter agent_id.")] = None
    ctx: Annotated[str | None, typer.Option("--ctx", metavar="JSON|@FILE|-", help="Value of the parameter ctx.")] = None
    files: Annotated[
        list[str] | None,
        typer.Option("--file", metavar="NAME=PATH", help="File of this host to show at inputs/NAME."),
    ] = None
    permit: Annotated[bool, typer.Option("--permit", help="Permit what the tool asks permission for.")] = False
    tenant: Annotated[
        str, typer.Option("--tenant", metavar="NAME", help="Tenant; boxes are never shared between tenants.")
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultOptions:
    """The backend and folders of `run`, and the presentation of its outcome."""

    outputs: Annotated[
        list[str] | None,
        typer.Option("--output", metavar="NAME.WHAT=VALUE", help="Shape of an output, such as stdout.type=json_data."),
    ] = None
    tokens: Annotated[
        int | None, typer.Option("--tokens", metavar="N", min=0, help="Show at most N tokens of each output.")
    ] = None
    tokenizer: Annotated[
        str | None,
        typer.Option("--tokenizer", metavar="MODULE:NAME", help="Function that counts the tokens of a text."),
    ] = None
    backend: Backend = None
    store: StorePlace = None
    artifacts: ArtifactPlace = None
    save_artifacts: Annotated[
        Path | None,
        typer.Option("--save-artifacts", metavar="DIR", help="Save the files of outputs/ in this folder."),
    ] = None
    replace: Annotated[bool, typer.Option("--replace", help="With --save-artifacts: replace existing files.")] = False
    offline: Offline = False
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the outcome as JSON; with --stream, one line per event."),
    ] = False
    stream: Annotated[bool, typer.Option("--stream", help="Show what the tool prints as it comes.")] = False


def takes_options(function: Callable[..., int]) -> Callable[..., int]:
    """Replace each dataclass parameter of a command by one keyword parameter per field."""
    hints = get_type_hints(function, include_extras=True)
    kinds = {name: kind for name, kind in hints.items() if hasattr(kind, "__dataclass_fields__")}
    plain = [
        parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in kinds
    ]
    options = {field.name: _parameter(kind, field) for kind in kinds.values() for field in fields(kind)}

    @functools.wraps(function)
    def command(**values: Any) -> int:
        filled = {
            name: kind(**{field.name: values.pop(field.name) for field in fields(kind)}) for name, kind in kinds.items()
        }
        return function(**values, **filled)

    # typer reads the signature for the parameters and __annotations__ for their types.
    parameters = [*plain, *options.values()]
    vars(command)["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _parameter(kind: type[Any], field: Any) -> inspect.Parameter:
    annotation = get_type_hints(kind, include_extras=True)[field.name]
    default = inspect.Parameter.empty if field.default is MISSING else field.default
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


LARGEST_ARGUMENTS: Final = 128 << 20
"""More than any shipped policy permits, so that the policy refuses large arguments."""
_MOST_DIGITS: Final = 640
"""Digits of an integer that every Python can parse. Integers of arguments have at most 20 digits."""
_FORMS: Final = {"--file": "NAME=PATH", "--output": "NAME.WHAT=VALUE"}
_EXAMPLES: Final = {
    "--env": "LANG=C.UTF-8",
    "--file": "data/cities.csv=./cities.csv",
    "--limit": "memory=64MiB",
    "--output": "stdout.characters=500",
}


def refuse_second_reader(documents: Mapping[str, str | None]) -> None:
    """Raise `SpecError` if two options read standard input."""
    readers = [option for option, document in documents.items() if document == "-"]
    if len(readers) > 1:
        raise SpecError(f"standard input is to be read for {' and '.join(readers)}", remedy="give one of them a file")


def read_arguments(document: str | None, pairs: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of `--args` and `-a` together."""
    arguments = read_object(document, option="--args") or {}
    for name, value in read_pairs(pairs, option="-a").items():
        if name in arguments:
            raise SpecError(f"argument {name[:80]!r} is given by -a and by --args", remedy="give it once")
        arguments[name] = value
    return arguments


def read_pairs(pairs: Sequence[str], *, option: str) -> dict[str, str]:
    """Parse the `NAME=VALUE` pairs of a repeatable option."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            form = _FORMS.get(option, "NAME=VALUE")
            raise SpecError(f"{option} {pair[:80]!r} is not {form}", remedy=_like(option))
        if name in found:
            raise SpecError(f"{option} gives {name[:80]!r} twice", remedy="give it once")
        found[name] = value
    return found


def _like(option: str) -> str:
    return f"write it like {option} {_EXAMPLES.get(option, 'city=Oslo')}"


def read_limits(timeout: str | None, pairs: Sequence[str]) -> dict[str, str]:
    """Return the limits of the command line; the policy decides which values are permitted."""
    limits = read_pairs(pairs, option="--limit")
    if timeout is None:
        return limits
    if "wall" in limits:
        raise SpecError("--timeout and --limit wall=… are the same limit", remedy="give it once")
    return {**limits, "wall": timeout}


def read_outputs(pairs: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the settings of `--output` by output name; the call's spec checks them."""
    found: dict[str, dict[str, str]] = {}
    for place, value in read_pairs(pairs, option="--output").items():
        name, dot, what = place.partition(".")
        if not dot:
            raise SpecError(f"--output {place[:80]!r} does not say what of it", remedy=_like("--output"))
        found.setdefault(name, {})[what] = value
    return found


def read_object(document: str | None, *, option: str) -> dict[str, Any] | None:
    """Return the JSON object of an option, if it is given."""
    return None if document is None else _object(document, option=option)


def _object(document: str, *, option: str) -> dict[str, Any]:
    text, origin = _text(document, option=option)
    try:
        value = json.loads(text, object_pairs_hook=_without_repetition, parse_int=_integer)
    except RecursionError:
        raise SpecError(f"{origin} is nested too deeply") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise SpecError(f"{origin} is not JSON: {error.msg}, {place}", remedy=_example(option)) from None
    except ValueError as error:
        raise SpecError(f"{origin} cannot be read: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        raise SpecError(f"{origin} must be a JSON object, one member for each name", remedy=_example(option))
    return value


def _example(option: str) -> str:
    return f"""write it like {option} '{{"city": "Oslo"}}', @FILE, or - for standard input"""


def _integer(digits: str) -> int:
    """Parse an integer; refuse one with more digits than Python parses."""
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"the integer {digits[:20]}… is beyond 64 bits; hand it over as a string")
    return int(digits)


def _without_repetition(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) != len(members):
        names = [name for name, _ in members]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{repeated[:80]!r} is given twice")
    return found


def _text(document: str, *, option: str) -> tuple[str, str]:
    """Return the JSON text and a name for its origin."""
    if document == "-":
        return _standard_input(option), f"standard input ({option} -)"
    if document.startswith("@"):
        return _file(document[1:], option=option), f"{document[1:] or f'the file of {option}'}"
    return document, option


def _standard_input(option: str) -> str:
    if sys.stdin is None:
        raise SpecError(f"{option} - reads standard input, which is closed")
    try:
        return _decoded(sys.stdin.buffer, origin="standard input")
    except OSError as error:
        raise SpecError(f"standard input cannot be read: {error.strerror}") from None


def _file(path: str, *, option: str) -> str:
    try:
        with open(path, "rb") as file:
            return _decoded(file, origin=path)
    except OSError as error:
        raise SpecError(f"the file of {option}, {path!r}, cannot be read: {error.strerror}") from None
    except ValueError:
        _no_path(path, option=option)


def _no_path(path: str, *, option: str) -> NoReturn:
    raise SpecError(f"the file of {option}, {path!r}, is not a path") from None


def _decoded(file: BinaryIO, *, origin: str) -> str:
    content = file.read(LARGEST_ARGUMENTS + 1)
    if len(content) > LARGEST_ARGUMENTS:
        raise SpecError(f"{origin} holds more than {LARGEST_ARGUMENTS >> 20} MiB, too much for arguments")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecError(f"{origin} is not UTF-8 text, from byte {error.start} on") from None


def write_file(path: Path, content: bytes, *, replace: bool = True) -> None:
    """Write the file; refuse an existing one unless `replace`."""
    try:
        with path.open("wb" if replace else "xb") as file:
            file.write(content)
    except FileExistsError:
        raise SpecError(f"{path} is there already", remedy="name another file, or remove that one") from None
    except (OSError, ValueError) as error:
        raise SpecError(f"{path} cannot be written: {getattr(error, 'strerror', None) or error}") from None


def read_file(path: Path, *, what: str, most: int) -> bytes:
    """Read a file that the command line named; `what` names it in errors."""
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SpecError(f"{what}, {path}, cannot be read: {reason}") from None
    if len(content) > most:
        raise SpecError(f"{what}, {path}, holds more than {most} bytes")
    return content


def load_tokenizer(named: str | None) -> Tokenizer | None:
    """Import the `MODULE:NAME` that `--tokenizer` names; raise `SpecError` if it cannot be called.

    The module runs in this process with the user's rights. No tool can choose it.
    """
    if named is None:
        return None
    module, colon, path = named.partition(":")
    if not (module and colon and path):
        raise SpecError(
            f"--tokenizer {named[:80]!r} is not MODULE:NAME", remedy="write it like --tokenizer mytokens:count"
        )
    found: object
    try:
        found = import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except Exception as error:  # importing a user's module may raise anything
        raise SpecError(f"--tokenizer {named[:80]}: {type(error).__name__}: {str(error)[:200]}") from None
    if not callable(found):
        raise SpecError(f"--tokenizer {named[:80]}: that cannot be called")
    tokenizer: Tokenizer = found
    return tokenizer
