"""A value as far as an analysis knows it, and how values are put together within bounds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from sandbox.tools.risk import flow_names, rule_names
from sandbox.tools.risk.folding import UNKNOWN, Constant, is_whole

Mark = Literal["decoded", "remote", "argument", "pieces", "encoded", "listed"]
"""Where data comes from: decoding, the network, an argument of a function, parts of a name, a long encoded literal, the
names in a folder.
"""
MAX_NAMES: Final = 24
MAX_TEXTS: Final = 4
PATH: Final = "pathlib.Path()"
LIBRARY: Final = "ctypes.CDLL()"
_LIBRARIES: Final = frozenset({"ctypes.cdll", "ctypes.windll"})
NO_MARKS: Final[frozenset[Mark]] = frozenset()
DECODED: Final[frozenset[Mark]] = frozenset({"decoded", "pieces"})
PIECES: Final[frozenset[Mark]] = frozenset({"pieces"})
ENCODED: Final[frozenset[Mark]] = frozenset({"encoded"})
ARGUMENT: Final[frozenset[Mark]] = frozenset({"argument"})


@dataclass(frozen=True, slots=True)
class Value:
    """All that is known about the value of an expression."""

    names: frozenset[str] = frozenset()
    """The known callables, modules and objects that it may be."""
    texts: tuple[Constant, ...] = ()
    """The constants that it may be."""
    marks: frozenset[Mark] = NO_MARKS

    def whole_texts(self) -> list[str]:
        """Return the texts of which every part is known."""
        return [each for each in self.texts if isinstance(each, str) and is_whole(each)]

    def first_text(self) -> str:
        """Return its text, or `UNKNOWN`."""
        first = self.texts[0] if self.texts else UNKNOWN
        if isinstance(first, tuple):
            first = first[0] if first else UNKNOWN
        if isinstance(first, int):
            return str(first)
        return first if isinstance(first, str) else UNKNOWN


NOTHING: Final = Value()


def union(values: Iterable[Value]) -> Value:
    """Return a value that may be any of these."""
    listed = [each for each in values if each is not NOTHING]
    if len(listed) < 2:
        return listed[0] if listed else NOTHING
    found = frozenset[str]().union(*(each.names for each in listed))
    if len(found) > MAX_NAMES:
        found = frozenset(sorted(found, key=lambda each: (each not in rule_names.RULES, each))[:MAX_NAMES])
    texts = dict.fromkeys(text for each in listed for text in each.texts)
    return Value(found, tuple(texts)[:MAX_TEXTS], NO_MARKS.union(*(each.marks for each in listed)))


def named(listed: Iterable[str]) -> Value:
    """Return the value of these names, as far as they are known."""
    aliases = (flow_names.MODULE_ALIASES.get(each, each) for each in listed)
    found = frozenset(each for each in aliases if each in flow_names.KNOWN)
    return Value(found) if found else NOTHING


def called(listed: Iterable[str]) -> frozenset[str]:
    """Return the names of what calls of these give."""
    return frozenset(name for each in listed if (name := f"{each}()") in flow_names.KNOWN)


def constants(listed: Iterable[Constant | None]) -> tuple[Constant, ...]:
    """Return those that could be computed."""
    return tuple(each for each in listed if each is not None)[:MAX_TEXTS]


def texts_of(*texts: Constant | None, marks: frozenset[Mark] = NO_MARKS) -> Value:
    """Return the value of constants, as far as they could be computed."""
    return Value(texts=constants(texts), marks=marks)


def member_of(base: Value, name: str) -> Value:
    """Return what `base.name` may be."""
    if base is NOTHING and name != "__builtins__":
        return NOTHING
    if name == "__dict__" or (name in ("parent", "parents") and PATH in base.names):
        return base
    if name == "__builtins__" or (name == "__self__" and any(each.startswith("builtins.") for each in base.names)):
        return named(["builtins"])
    if not base.names.isdisjoint(_LIBRARIES) and f"ctypes.cdll.{name}" not in flow_names.KNOWN:
        return Value(frozenset({LIBRARY}))
    return Value(named(f"{each}.{name}" for each in base.names).names, (), base.marks)
