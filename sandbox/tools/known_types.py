"""The names that annotations may use and what each stands for: one table for each form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Final
from uuid import UUID

from sandbox.tools.value_types import (
    ANYTHING,
    BOOLEAN,
    INTEGER,
    NULL,
    NUMBER,
    TEXT,
    ValueType,
    constrained,
    text_for,
)

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
FORMS: Final = frozenset(
    {"Optional", "Union", "Literal", "Annotated", "Required", "NotRequired", "ReadOnly", "Final", "ClassVar", "InitVar"}
)
_KNOWN: Final = frozenset(PLAIN) | ARRAYS | TUPLES | MAPPINGS | FORMS
_MODULES: Final = frozenset(
    {"typing", "typing_extensions", "collections.abc", "builtins", "types", "typing.re", "dataclasses"}
)
_USUAL_NAMES: Final = _MODULES | {"t", "abc"}
"""What these modules are called where nobody shows the import."""

_SPECIAL: Final[dict[str, Callable[[], ValueType]]] = {
    "datetime.datetime": lambda: text_for(datetime, "a date and time, such as 2026-05-31T14:30:00Z"),
    "datetime.date": lambda: text_for(date, "a date, such as 2026-05-31"),
    "datetime.time": lambda: text_for(time, "a time of day, such as 14:30:00"),
    "datetime.timedelta": lambda: text_for(timedelta, "a duration, such as PT90S"),
    "uuid.UUID": lambda: text_for(UUID, "a UUID"),
    "decimal.Decimal": lambda: text_for(Decimal, "a decimal number, as a string", numbers_too=True),
    "pathlib.Path": lambda: text_for(Path, "a path"),
    "pathlib.PurePath": lambda: text_for(Path, "a path"),
    "pathlib.PosixPath": lambda: text_for(Path, "a path"),
    "bytes": lambda: text_for(bytes, "a string"),
    "pydantic.StrictStr": lambda: TEXT,
    "pydantic.StrictInt": lambda: INTEGER,
    "pydantic.StrictFloat": lambda: NUMBER,
    "pydantic.StrictBool": lambda: BOOLEAN,
    "pydantic.constr": lambda: TEXT,
    "pydantic.conint": lambda: INTEGER,
    "pydantic.confloat": lambda: NUMBER,
    "pydantic.PositiveInt": lambda: constrained(INTEGER, {"gt": 0}),
    "pydantic.NonNegativeInt": lambda: constrained(INTEGER, {"ge": 0}),
    "pydantic.PositiveFloat": lambda: constrained(NUMBER, {"gt": 0}),
    "pydantic.NonNegativeFloat": lambda: constrained(NUMBER, {"ge": 0}),
    "pydantic.EmailStr": lambda: constrained(TEXT, {"json_schema_extra": {"format": "email"}}),
    "pydantic.AnyUrl": lambda: constrained(TEXT, {"json_schema_extra": {"format": "uri"}}),
    "pydantic.HttpUrl": lambda: constrained(TEXT, {"json_schema_extra": {"format": "uri"}}),
}


def known_name(full: str, *, is_imported: bool) -> str | None:
    """`List` of `typing.List`; names of other modules are not known."""
    module, _, name = full.rpartition(".")
    if name not in _KNOWN:
        return None
    if not module:
        return None if is_imported else name
    return name if module in (_MODULES if is_imported else _USUAL_NAMES) else None


def special_type(full: str | None) -> ValueType | None:
    """The type of a name that JSON has only text for, or that pydantic gives a meaning."""
    return _special(full) if full in _SPECIAL else None


@cache
def _special(full: str) -> ValueType:
    made = _SPECIAL[full]()
    return made if made.is_common else replace(made, is_common=True)
