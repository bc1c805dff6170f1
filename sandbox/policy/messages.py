"""Error messages of policies, one line per problem: `limits.wall: must be a duration such as "30s"`.

pydantic's own messages speak of inputs, types and URLs. An operator who wrote a TOML file knows sections and keys, so
this module rewords each error. Keys and values come from files and callers: the module shortens each quotation and the
list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from sandbox.errors import PolicyError
from sandbox.policy.quantities import EntryError

_MAX_LINES: Final = 20
_MAX_QUOTE: Final = 80
_WORDS: Final = {
    "missing": "is missing",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "model_type": "must be a section with keys of its own",
}


def build_error(headline: str, *, lines: Sequence[str], remedy: str | None = None) -> PolicyError:
    """Return an error that lists the first `_MAX_LINES` problems and counts the rest."""
    shown = [f"\n  {line}" for line in lines[:_MAX_LINES]]
    if len(lines) > _MAX_LINES:
        shown.append(f"\n  … and {len(lines) - _MAX_LINES} more")
    return PolicyError(f"{headline}:{''.join(shown)}", remedy=remedy)


def quote(text: object) -> str:
    """Return foreign text as a literal of bounded length."""
    literal = ascii(text) if not isinstance(text, str) else repr(text[: _MAX_QUOTE + 1])
    return literal if len(literal) <= _MAX_QUOTE + 2 else f"{literal[:_MAX_QUOTE]}…"


def describe_errors(error: ValidationError, *, model: type[BaseModel], section: str | None = None) -> list[str]:
    """Return every error of a validation of `model` as `section.key: problem`."""
    prefix = () if section is None else (section,)
    return [
        f"{_format_key((*prefix, *details['loc'], *_find_entry(details)))}: {_explain(details, model=model)}"
        for details in error.errors(include_url=False)
    ]


def _find_entry(details: ErrorDetails) -> tuple[str, ...]:
    """Return the name of the wrong entry of a table, if the error names one."""
    error = details.get("ctx", {}).get("error")
    return (error.name,) if isinstance(error, EntryError) else ()


def _format_key(location: Sequence[str | int]) -> str:
    key = ""
    for part in location:
        if isinstance(part, int):
            key += f"[{part}]"
        else:
            key += f".{_format_part(part)}" if key else _format_part(part)
    return key


def _format_part(part: str) -> str:
    is_plain = part.replace("_", "a").replace("-", "a").isalnum() and len(part) <= _MAX_QUOTE
    return part if is_plain else quote(part)


def _explain(details: ErrorDetails, *, model: type[BaseModel]) -> str:
    kind, facts = details["type"], details.get("ctx", {})
    if kind == "value_error":
        return str(facts["error"])
    if kind == "extra_forbidden":
        return f"there is no such key; there are: {', '.join(_list_keys(model, location=details['loc']))}"
    if kind in ("enum", "literal_error"):
        return f"must be {facts['expected']}".replace("'", '"')
    if kind == "less_than_equal":
        return f"must be at most {facts['le']}"
    if kind == "greater_than_equal":
        return f"must be at least {facts['ge']}"
    if kind in ("too_long", "string_too_long"):
        return f"must not be longer than {facts['max_length']}"
    return _WORDS.get(kind, "is not allowed here")


def _list_keys(model: type[BaseModel], *, location: Sequence[str | int]) -> list[str]:
    """Return the keys of the section that has the unknown key."""
    for part in location[:-1]:
        inner = model.model_fields[str(part)].annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            model = inner
    return sorted(model.model_fields)
