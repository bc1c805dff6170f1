"""The names that annotations may use and what each stands for: one table for each form."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Final
from uuid import UUID

from sandbox.tools.types.pydantic_types import ValueType
from sandbox.tools.types.value_types import ANYTHING, BOOLEAN, INTEGER, NULL, NUMBER, TEXT, constrain, text_for

PLAIN: Final = {
    "str": TEXT,
    "Text": TEXT,
    "AnyStr": TEXT,
    "LiteralString": TEXT,
    "int": INTEGER,
    "float": NUMBER,
    "bool": BOOLEAN,
    "None": NULL,
    "NoneType": NULL,
    "Any": ANYTHING,
    "object": ANYTHING,
}
SETS: Final = frozenset({"set", "Set", "frozenset", "FrozenSet", "AbstractSet", "MutableSet"})
ARRAYS: Final = SETS | {"list", "List", "Sequence", "MutableSequence", "Iterable", "Collection"}
TUPLES: Final = frozenset({"tuple", "Tuple"})
MAPPINGS: Final = frozenset({"dict", "Dict", "Mapping", "MutableMapping"})
ITERATORS: Final = frozenset({"Iterator", "Generator", "AsyncIterable", "AsyncIterator", "AsyncGenerator"})
"""The types that a tool may return and not take; the box makes a list of the items."""
FORMS: Final = frozenset(
    {"Optional", "Union", "Literal", "Annotated", "Required", "NotRequired", "ReadOnly", "Final", "ClassVar", "InitVar"}
)
_KNOWN: Final = frozenset(PLAIN) | ARRAYS | TUPLES | MAPPINGS | ITERATORS | FORMS
_MODULES: Final = frozenset(
    {"typing", "typing_extensions", "collections.abc", "builtins", "types", "typing.re", "dataclasses"}
)
_USUAL_NAMES: Final = _MODULES | {"t", "abc"}
"""The modules, and their usual abbreviations for a source without the import."""

CALLED_ARRAYS: Final = {"conlist": False, "conset": True, "confrozenset": True}
"""The calls of pydantic that make arrays, and whether their items are unique."""


def _moment() -> ValueType:
    return text_for(datetime, "a date and time, such as 2026-05-31T14:30:00Z")


def _day() -> ValueType:
    return text_for(date, "a date, such as 2026-05-31")


def _decimal() -> ValueType:
    return text_for(Decimal, "a decimal number, as a string", numbers_too=True)


def _uuid() -> ValueType:
    return text_for(UUID, "a UUID")


def _path() -> ValueType:
    """Return whether a file is there is for the box to say."""
    return text_for(Path, "a path")


def _text_of(form: str) -> Callable[[], ValueType]:
    return lambda: constrain(TEXT, {"json_schema_extra": {"format": form}})


_SPECIAL: Final[dict[str, Callable[[], ValueType]]] = {
    "datetime.datetime": _moment,
    "datetime.date": _day,
    "datetime.time": lambda: text_for(time, "a time of day, such as 14:30:00"),
    "datetime.timedelta": lambda: text_for(timedelta, "a duration, such as PT90S"),
    "uuid.UUID": _uuid,
    "decimal.Decimal": _decimal,
    **dict.fromkeys(("pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath"), _path),
    "ipaddress.IPv4Address": lambda: text_for(IPv4Address, "an IPv4 address, such as 192.0.2.1"),
    "ipaddress.IPv6Address": lambda: text_for(IPv6Address, "an IPv6 address, such as 2001:db8::1"),
    "bytes": lambda: text_for(bytes, "a string"),
    "pydantic.StrictStr": lambda: TEXT,
    "pydantic.StrictInt": lambda: INTEGER,
    **dict.fromkeys(("pydantic.StrictFloat", "pydantic.FiniteFloat"), lambda: NUMBER),
    "pydantic.StrictBool": lambda: BOOLEAN,
    "pydantic.constr": lambda: TEXT,
    "pydantic.conint": lambda: INTEGER,
    "pydantic.confloat": lambda: NUMBER,
    "pydantic.condecimal": _decimal,
    "pydantic.PositiveInt": lambda: constrain(INTEGER, {"gt": 0}),
    "pydantic.NonNegativeInt": lambda: constrain(INTEGER, {"ge": 0}),
    "pydantic.NegativeInt": lambda: constrain(INTEGER, {"lt": 0}),
    "pydantic.NonPositiveInt": lambda: constrain(INTEGER, {"le": 0}),
    "pydantic.PositiveFloat": lambda: constrain(NUMBER, {"gt": 0}),
    "pydantic.NonNegativeFloat": lambda: constrain(NUMBER, {"ge": 0}),
    "pydantic.NegativeFloat": lambda: constrain(NUMBER, {"lt": 0}),
    "pydantic.NonPositiveFloat": lambda: constrain(NUMBER, {"le": 0}),
    "pydantic.EmailStr": _text_of("email"),
    **dict.fromkeys(("pydantic.AnyUrl", "pydantic.HttpUrl", "pydantic.AnyHttpUrl"), _text_of("uri")),
    "pydantic.SecretStr": _text_of("password"),
    **dict.fromkeys((f"pydantic.UUID{version}" for version in (1, 3, 4, 5)), _uuid),
    **dict.fromkeys(("pydantic.FilePath", "pydantic.DirectoryPath", "pydantic.NewPath"), _path),
    **dict.fromkeys((f"pydantic.{which}Datetime" for which in ("Aware", "Naive", "Past", "Future")), _moment),
    **dict.fromkeys(("pydantic.PastDate", "pydantic.FutureDate"), _day),
}


def known_name(full: str, *, is_imported: bool) -> str | None:
    """Return `List` for `typing.List`; names of other modules are unknown."""
    module, _, name = full.rpartition(".")
    if name not in _KNOWN:
        return None
    if not module:
        return None if is_imported else name
    return name if module in (_MODULES if is_imported else _USUAL_NAMES) else None


def special_type(full: str | None) -> ValueType | None:
    """Return the type of a name that JSON has only text for, or that pydantic gives a meaning."""
    return None if full not in _SPECIAL else _special(full)


@cache
def _special(full: str) -> ValueType:
    return _SPECIAL[full]()
