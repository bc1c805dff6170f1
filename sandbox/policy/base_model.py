"""What the parts of a policy have in common: frozen, known keys only, and values that can be written for people."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from sandbox.policy.quantities import Unit, format_bytes, format_seconds


@dataclass(frozen=True, slots=True)
class WhenEmpty:
    """Marks a field's annotation: what an empty list stands for, where that is not simply nothing."""

    words: str


class Section(BaseModel):
    """One part of a policy: frozen, and an unknown key is an error. Refused values are not repeated in errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    def spelled(self, key: str) -> str:
        """The value of a field as people write it: `30 s`, `512 MiB`, `seccomp, rlimits`."""
        value = getattr(self, key)
        metadata = type(self).model_fields[key].metadata
        if Unit.BYTES in metadata:
            return format_bytes(value)
        if Unit.SECONDS in metadata:
            return format_seconds(value)
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, tuple):
            empty = next((mark.words for mark in metadata if isinstance(mark, WhenEmpty)), "nothing")
            return ", ".join(each if isinstance(each, str) else " ".join(map(str, each)) for each in value) or empty
        return str(value)
