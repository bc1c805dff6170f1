"""Models made of values that are known to fit, because the engine worked them out itself or looked at them before.

Looking at each field of a document that nobody else has touched is most of what such a document costs: an outcome has
forty, and a call in a warm box pays for each with a processor that has done other things since the last call. Nothing
that comes from a caller or from a box may be made here as it came.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel

Model = TypeVar("Model", bound=BaseModel)
_new = object.__new__
_set = object.__setattr__
_names: dict[type[BaseModel], set[str]] = {}
"""Of each kind of model those of its fields; one set for all models of a kind, which are frozen."""


def unchecked(kind: type[Model], fields: dict[str, Any]) -> Model:
    """The model with these fields, which are all it has; the dictionary is its own from now on.

    What pydantic's `model_construct` does, without looking for defaults, aliases, extra and private fields."""
    made = _new(kind)
    _set(made, "__dict__", fields)
    _set(made, "__pydantic_fields_set__", _names.get(kind) or _names.setdefault(kind, set(fields)))
    _set(made, "__pydantic_extra__", None)
    _set(made, "__pydantic_private__", None)
    return made
