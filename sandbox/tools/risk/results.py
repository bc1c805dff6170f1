"""Results of calls: of known functions, and of methods of text and paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sandbox.tools.risk import flow_names, rule_names
from sandbox.tools.risk.folding import UNKNOWN, called_method, characters, decoded, formatted, joined, path_joined
from sandbox.tools.risk.value import (
    DECODED,
    NO_MARKS,
    NOTHING,
    PATH,
    PIECES,
    Mark,
    Value,
    called,
    constants,
    member_of,
    named,
    texts_of,
    union,
)

_CHARACTER: Final = "builtins.chr()"
_STAYS_PATH: Final = flow_names.INSIDE_PATH | flow_names.SAME_PATH


def result_of(name: str, args: list[Value]) -> Value:
    """Return what a call of a known function with these arguments gives."""
    first = args[0] if args else NOTHING
    special = _RESULTS.get(name)
    if special is not None:
        return special(args) if args else NOTHING
    fixed = _FIXED.get(name)
    if fixed is not None:
        return fixed
    if name in rule_names.IMPORTS:
        texts = first.whole_texts()
        return named(each.partition(".")[0] for each in texts) if name == "builtins.__import__" else named(texts)
    if name in flow_names.DECODERS:
        rest = [text for each in args[1:] for text in each.texts]
        return texts_of(*(decoded(name, each, rest) for each in first.texts), marks=DECODED)
    if name in flow_names.PATH_JOINS:
        path = path_joined([each.first_text() for each in args])
        names = frozenset({PATH}) if name.startswith("pathlib.") else frozenset[str]()
        return Value(names, (path,) if path.strip(UNKNOWN) else ())
    if name in flow_names.SAME_PATH:
        return Value(first.names & {PATH}, first.texts)
    return Value(called([name]), first.texts if name in flow_names.LISTINGS else (), _marks_of(name))


def _marks_of(name: str) -> frozenset[Mark]:
    if name in flow_names.DOWNLOADS:
        return frozenset({"remote"})
    return frozenset({"listed"}) if name in flow_names.LISTINGS else NO_MARKS


def result_of_method(name: str, subject: Value, args: list[Value]) -> Value:
    """Return what a method of text or of a path gives."""
    if name == "__getattribute__":
        return _getattr([subject, *args])
    if PATH in subject.names:
        if name == "joinpath":
            return Value(frozenset({PATH}), (path_joined([each.first_text() for each in (subject, *args)]),))
        return Value(frozenset({PATH}), subject.texts) if f"{PATH}.{name}" in _STAYS_PATH else NOTHING
    if not subject.texts:
        return NOTHING
    if name == "join":
        parts = args[0].texts if args else ()
        marks = DECODED if args and _CHARACTER in args[0].names else PIECES
        return texts_of(*(joined(each, part) for each in subject.texts for part in parts), marks=marks)
    if name == "format":
        values = [each.first_text() for each in args]
        return texts_of(*(formatted(each, values) for each in subject.texts))
    firsts = [each.texts[0] if each.texts else UNKNOWN for each in args]
    texts = [called_method(name, each, firsts) for each in subject.texts]
    return texts_of(*texts, marks=PIECES if name == "replace" else NO_MARKS)


def result_of_comprehension(item: Value, source: Value, *, is_plain: bool) -> Value:
    """Return what `item for x in source` gives; `is_plain` means that the item is `f(x)`."""
    if _CHARACTER in item.names:
        texts = [characters(each) for each in source.texts] if is_plain else []
        return texts_of(*texts, marks=DECODED | item.marks | (source.marks - {"encoded"}))
    return Value(item.names, (), item.marks | (source.marks - {"encoded"}))


def reverse(value: Value) -> Value:
    """Return the value backwards; text that is written backwards counts as decoded."""
    texts = [each[::-1] for each in value.texts if isinstance(each, str | bytes | tuple)]
    is_text = any(isinstance(each, str | bytes) for each in texts)
    return Value(value.names, tuple(texts), value.marks | (DECODED if is_text else NO_MARKS))


def _getattr(args: list[Value]) -> Value:
    if len(args) < 2:
        return NOTHING
    members = union([member_of(args[0], each) for each in args[1].whole_texts()])
    return Value(members.names, (), members.marks | args[1].marks)


def _first_argument(args: list[Value]) -> Value:
    return args[0]


def _chr(args: list[Value]) -> Value:
    codes = [characters(each) for each in args[0].texts if isinstance(each, int)]
    return Value(frozenset({_CHARACTER}), constants(codes), PIECES)


def _map(args: list[Value]) -> Value:
    if len(args) == 2 and "builtins.chr" in args[0].names:
        return texts_of(*(characters(each) for each in args[1].texts), marks=DECODED)
    return union(result_of(each, args[1:]) for each in sorted(args[0].names - {"builtins.map"}))


def _reversed(args: list[Value]) -> Value:
    return reverse(args[0])


def _bytes(args: list[Value]) -> Value:
    numbers = [each for each in args[0].texts if isinstance(each, tuple)]
    if not numbers:
        return Value(texts=args[0].texts)
    return texts_of(*(_as_bytes(each) for each in numbers), marks=DECODED)


def _as_bytes(codes: tuple[int | str | bytes, ...]) -> bytes | None:
    numbers = [each for each in codes if isinstance(each, int) and 0 <= each < 256]
    return bytes(numbers) if len(numbers) == len(codes) else None


_RESULTS: Final[dict[str, Callable[[list[Value]], Value]]] = {
    "builtins.getattr": _getattr,
    "builtins.chr": _chr,
    "builtins.map": _map,
    "builtins.reversed": _reversed,
    "builtins.bytes": _bytes,
    "builtins.bytearray": _bytes,
    "builtins.vars": _first_argument,
    "builtins.list": _first_argument,
    "builtins.tuple": _first_argument,
    "builtins.compile": _first_argument,
    "functools.partial": _first_argument,
    "io.BytesIO": _first_argument,
    "io.StringIO": _first_argument,
    "builtins.filter": union,
}
_SITE: Final = Value(texts=(("/usr/lib/python3/site-packages",),))
_FIXED: Final = {
    "pathlib.Path.home": Value(frozenset({PATH}), ("~",)),
    "site.getsitepackages": _SITE,
    "site.getusersitepackages": _SITE,
    "sysconfig.get_path": _SITE,
}
