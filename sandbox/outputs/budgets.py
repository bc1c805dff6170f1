"""Budgets: of which type each output of a call is, and how many characters of it are shown.

Who says what, from the weakest on: the type has a budget; the operator's policy may give the type another; a tool's
`return_char_limit` is the budget of its value instead. Then it only goes down: no more than what the policy gives the
type, where it says so, no more than the call asks for, and no more than the policy shows of any output.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from sandbox.outcome import Json
from sandbox.outputs.shaping import STDERR_TYPE, STDOUT_TYPE, form_of, value_type
from sandbox.policy import Output

MOST_RETURNED: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What a tool says of its outputs; None where it says nothing."""

    value: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    return_char_limit: int | None = None


@dataclass(frozen=True, slots=True)
class Room:
    """The type of one output, and how many characters of it are shown."""

    type: str
    budget: int


@dataclass(frozen=True)
class Budgets:
    """The rooms of a call's outputs; that of the value is known when there is one. Without slots, because what is asked
    for is worked out once."""

    declared: Declared
    policy: Output
    asked: int | None = None
    """The call's own `return_char_limit`."""

    @cached_property
    def stdout(self) -> Room:
        return self._room(self.declared.stdout or STDOUT_TYPE)

    @cached_property
    def stderr(self) -> Room:
        return self._room(self.declared.stderr or STDERR_TYPE)

    def value(self, value: Json) -> Room:
        """The value's type is what the tool says, or what the value is."""
        room = self._room(self.declared.value or value_type(value), self.declared.return_char_limit)
        return room if self.asked is None else Room(room.type, min(room.budget, self.asked))

    def _room(self, output_type: str, limit: int | None = None) -> Room:
        granted = dict(self.policy.budgets).get(output_type)
        budget = form_of(output_type).budget if granted is None else granted
        if limit is not None and form_of(output_type).budget:
            budget = min(limit, MOST_RETURNED) if granted is None else min(limit, granted)
        return Room(output_type, min(budget, self.policy.shown))


DEFAULT_BUDGETS: Final = Budgets(Declared(), Output())
"""For a tool that says nothing, under a policy that says nothing."""
