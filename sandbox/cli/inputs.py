"""Read arguments, limits, variables and files of a call from the command line. A wrong input raises `SpecError`.

The module never guesses: a key that is given twice is refused. The text of `-a` stays text until the tool's types
decide about it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NoReturn

from sandbox.errors import SpecError

if TYPE_CHECKING:
    from sandbox.outputs.tokens import Tokenizer

LARGEST_ARGUMENTS: Final = 128 << 20
"""Larger than any shipped policy grants, so that the policy refuses first."""
_MOST_DIGITS: Final = 640
"""The maximum number of digits of an integer that every Python reads. Valid arguments have fewer than 21."""
_FORMS: Final = {"--file": "NAME=PATH", "--output": "NAME.WHAT=VALUE"}
_EXAMPLES: Final = {
    "--env": "LANG=C.UTF-8",
    "--file": "data/cities.csv=./cities.csv",
    "--limit": "memory=64MiB",
    "--output": "stdout.characters=500",
}


def refuse_second_reader(documents: Mapping[str, str | None]) -> None:
    """Refuse two readers of standard input. `documents` are the values of the options."""
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
    """Return the `NAME=VALUE` pairs of a repeatable option."""
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


def read_store(text: str) -> Path:
    """Return the folder of `--store`."""
    from sandbox.environments.disk.paths import named_place

    return named_place(text)


def read_limits(timeout: str | None, pairs: Sequence[str]) -> dict[str, str]:
    """Return the call's limits. The policy checks the values."""
    limits = read_pairs(pairs, option="--limit")
    if timeout is None:
        return limits
    if "wall" in limits:
        raise SpecError("--timeout and --limit wall=… are the same limit", remedy="give it once")
    return {**limits, "wall": timeout}


def read_outputs(pairs: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the fields of `--output` by output. The call's spec checks the values."""
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
    """Return the integer. Python reads no number of thousands of digits; the tool's types check shorter ones."""
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
    """Return the JSON text, and its name for messages."""
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
    """Write the file, and replace an existing one if that is allowed."""
    try:
        with path.open("wb" if replace else "xb") as file:
            file.write(content)
    except FileExistsError:
        raise SpecError(f"{path} is there already", remedy="name another file, or remove that one") from None
    except (OSError, ValueError) as error:
        raise SpecError(f"{path} cannot be written: {getattr(error, 'strerror', None) or error}") from None


def read_file(path: Path, *, what: str, most: int) -> bytes:
    """Read a named file; `what` describes it in messages."""
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
    """Return the named tokenizer, if any. Raise `SpecError` if it cannot be called."""
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
    except Exception as error:  # importing a module may raise anything
        raise SpecError(f"--tokenizer {named[:80]}: {type(error).__name__}: {str(error)[:200]}") from None
    if not callable(found):
        raise SpecError(f"--tokenizer {named[:80]}: that cannot be called")
    tokenizer: Tokenizer = found
    return tokenizer
