"""Models built without validation, from values that the engine worked out itself or checked before.

Validating every field is most of what an outcome costs: it has forty, and each warm call pays for all of them. Values
that come from a caller or from a box must never be passed here as they came.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel

Model = TypeVar("Model", bound=BaseModel)
_new = object.__new__
_set = object.__setattr__
_names: dict[type[BaseModel], set[str]] = {}
"""The field names of each model. All instances of a frozen model share one set."""


def build_trusted(model: type[Model], /, **fields: Any) -> Model:
    """Return the model with exactly these fields, which must be all of its fields."""
    # The same as pydantic's `model_construct`, without its search for defaults, aliases, extra and private fields.
    built = _new(model)
    _set(built, "__dict__", fields)
    _set(built, "__pydantic_fields_set__", _names.get(model) or _names.setdefault(model, set(fields)))
    _set(built, "__pydantic_extra__", None)
    _set(built, "__pydantic_private__", None)
    return built
