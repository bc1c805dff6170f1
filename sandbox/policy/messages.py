"""What is wrong with a policy, line by line: `limits.wall: must be a duration such as "30s"`.

pydantic's own wording speaks of inputs, types and URLs to a reader who knows pydantic. An operator who wrote a TOML
file knows sections and keys, so each error is said again in those words. Keys and values come from files and callers:
whatever is quoted is cut short, and so is the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from sandbox.errors import PolicyError
from sandbox.policy.quantities import WrongEntry

_MOST_LINES: Final = 20
_LONGEST_QUOTE: Final = 80
_WORDS: Final = {
    "missing": "is missing",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "model_type": "must be a section with keys of its own",
}


def refusal(headline: str, *, lines: Sequence[str], remedy: str | None = None) -> PolicyError:
    """One error that lists all that is wrong, up to a readable number of lines."""
    shown = [f"\n  {line}" for line in lines[:_MOST_LINES]]
    if len(lines) > _MOST_LINES:
        shown.append(f"\n  … and {len(lines) - _MOST_LINES} more")
    return PolicyError(f"{headline}:{''.join(shown)}", remedy=remedy)


def quoted(text: object) -> str:
    """Foreign text as a literal, cut so that it cannot flood a message."""
    literal = ascii(text) if not isinstance(text, str) else repr(text[: _LONGEST_QUOTE + 1])
    return literal if len(literal) <= _LONGEST_QUOTE + 2 else f"{literal[:_LONGEST_QUOTE]}…"


def complaints(error: ValidationError, *, model: type[BaseModel], section: str | None = None) -> list[str]:
    """Every error of a validation of `model`, as `section.key: what is wrong`."""
    prefix = () if section is None else (section,)
    return [
        f"{_key((*prefix, *details['loc'], *_entry(details)))}: {_reason(details, model=model)}"
        for details in error.errors(include_url=False)
    ]


def _entry(details: ErrorDetails) -> tuple[str, ...]:
    """Which entry of the table at that place is wrong, where that is known."""
    error = details.get("ctx", {}).get("error")
    return (error.name,) if isinstance(error, WrongEntry) else ()


def _key(location: Sequence[str | int]) -> str:
    key = ""
    for part in location:
        if isinstance(part, int):
            key += f"[{part}]"
        else:
            key += f".{_bare(part)}" if key else _bare(part)
    return key


def _bare(part: str) -> str:
    is_plain = part.replace("_", "a").replace("-", "a").isalnum() and len(part) <= _LONGEST_QUOTE
    return part if is_plain else quoted(part)


def _reason(details: ErrorDetails, *, model: type[BaseModel]) -> str:
    kind, facts = details["type"], details.get("ctx", {})
    if kind == "value_error":
        return str(facts["error"])
    if kind == "extra_forbidden":
        return f"there is no such key; there are: {', '.join(_known(model, location=details['loc']))}"
    if kind in ("enum", "literal_error"):
        return f"must be {facts['expected']}".replace("'", '"')
    if kind == "less_than_equal":
        return f"must be at most {facts['le']}"
    if kind == "greater_than_equal":
        return f"must be at least {facts['ge']}"
    if kind in ("too_long", "string_too_long"):
        return f"must not be longer than {facts['max_length']}"
    return _WORDS.get(kind, "is not allowed here")


def _known(model: type[BaseModel], *, location: Sequence[str | int]) -> list[str]:
    """The keys there are in the section that an unknown key was found in."""
    for part in location[:-1]:
        inner = model.model_fields[str(part)].annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            model = inner
    return sorted(model.model_fields)
