"""The base class of the sections of a policy."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from sandbox.policy.quantities import Unit, format_bytes, format_seconds


@dataclass(frozen=True, slots=True)
class EmptyMeaning:
    """Annotate a field with the meaning of its empty list, if that meaning is not "nothing"."""

    words: str


class Section(BaseModel):
    """A section of a policy: frozen, without unknown keys, and without the refused values in its errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    def format_field(self, key: str) -> str:
        """Return a field's value as people write it: `30 s`, `512 MiB`, `seccomp, rlimits`."""
        value = getattr(self, key)
        metadata = type(self).model_fields[key].metadata
        if Unit.BYTES in metadata:
            return format_bytes(value)
        if Unit.SECONDS in metadata:
            return format_seconds(value)
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, tuple):
            empty = next((mark.words for mark in metadata if isinstance(mark, EmptyMeaning)), "nothing")
            return ", ".join(each if isinstance(each, str) else " ".join(map(str, each)) for each in value) or empty
        return str(value)
