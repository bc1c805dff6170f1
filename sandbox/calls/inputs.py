"""What a call is handed: its arguments, its files, what it is given beside them; or everything that is wrong with it.

What a tool declares to be injected (`agent_state`, `agent_id`, `ctx`, `client`) comes with the call, never from a
model. It is copied as arguments are: the caller's own state is never touched, and what is no plain JSON is a problem
with a path. What the tool does not declare is not sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from sandbox.calls.given_files import GivenFile, read_files
from sandbox.outcome import Problem
from sandbox.policy import Limits
from sandbox.spec import CallSpec
from sandbox.tools import Problem as Misfit
from sandbox.tools import Tool, bind
from sandbox.tools.arguments import plain_arguments
from sandbox.tools.plain_json import JSON

_FIELDS: Final = {"agent_state": "state", "agent_id": "agent_id", "ctx": "ctx", "client": "client"}
"""The field of a call that says what each injected parameter is."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What goes into the box; nothing does when there is a problem."""

    arguments: Mapping[str, JSON]
    given: Mapping[str, JSON] = field(default_factory=dict)
    files: tuple[GivenFile, ...] = ()
    problems: tuple[Problem, ...] = ()


def read_inputs(tool: Tool, spec: CallSpec, limits: Limits) -> Inputs:
    """The inputs of a call, checked."""
    binding = bind(tool, spec.args)
    given, faulty = _given(tool, spec)
    found = [
        Problem(path=each.path, message=each.message, expected=each.expected, got=each.got)
        for each in (*binding.problems, *faulty)
    ]
    files = read_files(spec.files)
    if not found:
        found += _too_many_bytes(files, limits)
        found += _too_large(binding.arguments, "the arguments are", limits)
        found += _too_large(given, "what the call is given beside its arguments is", limits)
    return Inputs(binding.arguments, given, files, tuple(found))


def _given(tool: Tool, spec: CallSpec) -> tuple[Mapping[str, JSON], Iterable[Misfit]]:
    said = {name: getattr(spec, _FIELDS[name]) for name in tool.call.injected}
    plain, faulty = plain_arguments({name: value for name, value in said.items() if value is not None})
    return plain, faulty.values()


def _too_many_bytes(files: tuple[GivenFile, ...], limits: Limits) -> list[Problem]:
    size = sum(each.size for each in files)
    if size <= limits.inputs:
        return []
    return [Problem(path="", message=f"its files are {size} bytes; the policy allows {limits.inputs}")]


def _too_large(values: Mapping[str, JSON], what: str, limits: Limits) -> list[Problem]:
    size = len(json.dumps(values, separators=(",", ":"))) if values else 0
    if size <= limits.arguments:
        return []
    return [Problem(path="", message=f"{what} {size} bytes as JSON; the policy allows {limits.arguments}")]
