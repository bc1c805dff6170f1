"""What a call is handed: its arguments, its files, what it is given beside them; or everything that is wrong with it.

What a tool declares to be injected (`agent_state`, `agent_id`, `ctx`, `client`) comes with the call, never from a
model. It is copied as arguments are: the caller's own state is never touched, and what is no plain JSON is a problem
with a path. What the tool does not declare is not sent.

Both are written as JSON here, once: that is how large they are, and how they go into the box.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from sandbox.engine.input_files import GivenFile, read_files
from sandbox.outcome import Problem
from sandbox.policy import Limits
from sandbox.spec import CallSpec
from sandbox.tools import ArgumentProblem, ToolDefinition, bind
from sandbox.tools.arguments import plain_arguments
from sandbox.tools.plain_json import JSON

_FIELDS: Final = {"agent_state": "state", "agent_id": "agent_id", "ctx": "ctx", "client": "client"}
"""The field of a call that says what each injected parameter is."""
_JSON: Final = json.JSONEncoder(separators=(",", ":"))
_NONE: Final = "{}"


@dataclass(frozen=True, slots=True)
class Inputs:
    """What goes into the box, as JSON; nothing does when there is a problem."""

    arguments: str = _NONE
    given: str = _NONE
    files: tuple[GivenFile, ...] = ()
    problems: tuple[Problem, ...] = ()


def as_json(content: Mapping[str, object]) -> str:
    """Its JSON in ASCII, without spaces."""
    return _JSON.encode(content)


def read_inputs(tool: ToolDefinition, spec: CallSpec, limits: Limits) -> Inputs:
    """The inputs of a call, checked."""
    binding = bind(tool, spec.args)
    given, faulty = _given(tool, spec)
    if binding.problems or faulty:
        return Inputs(problems=tuple(map(_told, (*binding.problems, *faulty))))
    files = read_files(spec.files) if spec.files else ()
    inputs = Inputs(as_json(binding.arguments), as_json(given) if given else _NONE, files)
    is_little = max(len(inputs.arguments), len(inputs.given)) <= limits.arguments
    return inputs if is_little and not files else _refused_if_too_large(inputs, limits)


def _refused_if_too_large(inputs: Inputs, limits: Limits) -> Inputs:
    too_large = (
        *_too_many_bytes(inputs.files, limits),
        *_too_large(inputs.arguments, "the arguments are", limits),
        *_too_large(inputs.given, "what the call is given beside its arguments is", limits),
    )
    return Inputs(problems=too_large) if too_large else inputs


def _given(tool: ToolDefinition, spec: CallSpec) -> tuple[Mapping[str, JSON], Collection[ArgumentProblem]]:
    if not tool.call.injected:
        return {}, ()
    said = {name: getattr(spec, _FIELDS[name]) for name in tool.call.injected}
    plain, faulty = plain_arguments({name: value for name, value in said.items() if value is not None})
    return plain, faulty.values()


def _told(misfit: ArgumentProblem) -> Problem:
    return Problem(path=misfit.path, message=misfit.message, expected=misfit.expected, got=misfit.got)


def _too_many_bytes(files: tuple[GivenFile, ...], limits: Limits) -> list[Problem]:
    size = sum(each.size for each in files)
    if size <= limits.inputs:
        return []
    return [Problem(path="", message=f"its files are {size} bytes; the policy allows {limits.inputs}")]


def _too_large(written: str, what: str, limits: Limits) -> list[Problem]:
    if len(written) <= limits.arguments:
        return []
    return [Problem(path="", message=f"{what} {len(written)} bytes as JSON; the policy allows {limits.arguments}")]
