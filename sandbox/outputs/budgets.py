"""Budgets: the type of each output of a call, and how many characters of it are shown.

The order, from the weakest on: the type has a budget; the operator's policy may give the type another; a tool's
`return_char_limit` is the budget of its value instead. From there budgets only go down: to the policy's budget for the
type, to the call's request, and to the policy's limit for any output.

A budget may also be in tokens, for engines with a tokenizer: a policy's for a type, a tool's for its value, a call's
for each output. A budget in tokens of a policy or a tool replaces the budget in characters of the type only. The least
of several budgets counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from sandbox.outcome import Json, Shaped
from sandbox.outputs.shapes import STDERR_TYPE, STDOUT_TYPE, shape_for
from sandbox.outputs.shaping import nothing, value_type
from sandbox.outputs.tokens import MAX_TOKEN_CHARACTERS, Tokenizer, shape_within
from sandbox.policy import Output
from sandbox.spec import AskedOutput, CallSpec

MAX_RETURNED: Final = 1_000_000
_ASKED_NOTHING: Final = AskedOutput()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredOutputs:
    """The output settings that a tool declares; None for those that it leaves out."""

    value: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    return_char_limit: int | None = None
    return_token_limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedOutputs:
    """The output settings that a call requests: of each output by name, and the tokens of all."""

    outputs: Mapping[Any, AskedOutput] = field(default_factory=dict)
    return_char_limit: int | None = None
    tokens: int | None = None

    def of(self, output: str) -> AskedOutput:
        """Return all that is requested of one output."""
        said = self.outputs.get(output, _ASKED_NOTHING)
        if self.return_char_limit is None and self.tokens is None:
            return said
        limit = self.return_char_limit if output == "value" else None
        least = {"characters": _least(said.characters, limit), "tokens": _least(said.tokens, self.tokens)}
        return said.model_copy(update=least)


@dataclass(frozen=True, slots=True)
class OutputBudget:
    """The type of one output, and how much of it is shown, in characters and in tokens."""

    type: str
    budget: int
    tokens: int | None = None


@dataclass(frozen=True)
class Budgets:
    """The rooms of a call's outputs; that of the value is known when there is one. Without slots, because what is asked
    for is worked out once."""

    declared: DeclaredOutputs
    policy: Output
    asked: RequestedOutputs = field(default_factory=RequestedOutputs)
    tokenizer: Tokenizer | None = None

    @cached_property
    def stdout(self) -> OutputBudget:
        return self._room("stdout", self.declared.stdout or STDOUT_TYPE)

    @cached_property
    def stderr(self) -> OutputBudget:
        return self._room("stderr", self.declared.stderr or STDERR_TYPE)

    @cached_property
    def meta(self) -> OutputBudget:
        """The budget of the values that a result keeps apart from its texts."""
        return self._room("meta", "json_data")

    @cached_property
    def silence(self) -> tuple[Shaped, Shaped]:
        """The shaped forms of stdout and stderr without output."""
        return nothing(self.stdout.type), nothing(self.stderr.type)

    def value(self, value: Json) -> OutputBudget:
        """Return the value's type is what the tool says, or what the value is."""
        output_type = self.declared.value or value_type(value)
        room = self._rooms.get(output_type)
        if room is None:
            room = self._rooms[output_type] = self._room("value", output_type)
        return room

    @cached_property
    def _rooms(self) -> dict[str, OutputBudget]:
        """The budgets of values so far, by type."""
        return {}

    @property
    def limits_value(self) -> bool:
        """Whether the tool or the call says how much of the value is shown, whatever it is."""
        asked = self.asked.of("value")
        said = (self.declared.return_char_limit, self.declared.return_token_limit, asked.characters, asked.tokens)
        return any(each is not None for each in said)

    def fitted(self, room: OutputBudget, shape: Callable[[int], Shaped]) -> Shaped:
        """Return the result of `shape` for the budget of characters that the budget allows."""
        return shape_within(shape, characters=room.budget, tokens=room.tokens, tokenizer=self.tokenizer)

    def _room(self, output: str, declared: str) -> OutputBudget:
        asked = self.asked.of(output)
        output_type = asked.type or declared
        granted, tokens = dict(self.policy.budgets).get(output_type), self._tokens(output, output_type)
        budget = shape_for(output_type).budget if granted is None else granted
        if granted is None and tokens is not None:
            budget = min(MAX_TOKEN_CHARACTERS * tokens, MAX_RETURNED) if budget else 0
        limit = self.declared.return_char_limit if output == "value" else None
        if limit is not None and shape_for(output_type).budget:
            budget = min(limit, MAX_RETURNED) if granted is None else min(limit, granted)
        shown = _least(budget, self.policy.shown, asked.characters)
        return OutputBudget(output_type, shown or 0, _least(tokens, asked.tokens) if self.tokenizer else None)

    def _tokens(self, output: str, output_type: str) -> int | None:
        """Return the tokens that policy and tool allow; None without a tokenizer."""
        if self.tokenizer is None:
            return None
        limit = self.declared.return_token_limit if output == "value" else None
        return _least(dict(self.policy.tokens).get(output_type), limit)


def requested_outputs(spec: CallSpec) -> RequestedOutputs | None:
    """Return the requested output settings of a call; None for most calls."""
    if spec.return_char_limit is None and spec.tokens is None and not spec.outputs:
        return None
    return RequestedOutputs(outputs=spec.outputs, return_char_limit=spec.return_char_limit, tokens=spec.tokens)


def _least(*numbers: int | None) -> int | None:
    return min((number for number in numbers if number is not None), default=None)


DEFAULT_BUDGETS: Final = Budgets(DeclaredOutputs(), Output())
"""For a tool that says nothing, under a policy that says nothing."""
