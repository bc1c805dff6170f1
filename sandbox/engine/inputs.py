"""The inputs of a call: its arguments, its injected values and its files, or everything that is wrong with them.

Injected values (`agent_state`, `agent_id`, `ctx`, `client`) come with the call, never from a model. The engine copies
them like arguments, so the caller's own state is never touched, and reports a value that is not plain JSON as a problem
with a path. Values that the tool does not declare are not sent. Both are written as JSON here, once: that text is what
the limits measure, and what goes into the box.

Files are measured before the call starts, and read in pieces while they are sent. A path of the host is the caller's
own word, and the engine opens it as its own user. The path must lead to a regular file, and only the file's content
goes into a box. A file that changes in between ends the call, because neither the tool nor the caller would know what
the tool has seen.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from sandbox.errors import SpecError
from sandbox.outcome import Problem
from sandbox.policy import Limits
from sandbox.spec import CallSpec
from sandbox.threads import Threads
from sandbox.tools import ArgumentProblem, ToolDefinition, bind
from sandbox.tools.arguments import plain_arguments
from sandbox.tools.plain_json import JSON

_INJECTED_FIELDS: Final = {"agent_state": "state", "agent_id": "agent_id", "ctx": "ctx", "client": "client"}
"""The field of a call for each injected parameter."""
_JSON: Final = json.JSONEncoder(separators=(",", ":"))
_NONE: Final = "{}"
_PIECE: Final = 1 << 20
_OPEN_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of a call: its path for the tool, and its content."""

    path: str
    size: int
    content: bytes | Path
    identity: tuple[int, ...] = ()
    """The inode, size and time of a file of the host, which show whether the file changed."""

    async def pieces(self, threads: Threads) -> AsyncIterator[bytes]:
        """Yield the whole content. Raise `SpecError` if the file is no longer the one that was measured."""
        if isinstance(self.content, bytes):
            for start in range(0, self.size, _PIECE):
                yield self.content[start : start + _PIECE]
            return
        descriptor = await threads.do(partial(_open, self.content))
        try:
            left = self.size
            while left:
                data = await threads.do(partial(_read, self.content, descriptor, min(left, _PIECE)))
                left -= len(data)
                # Before the last piece is sent: the tool does not start without it.
                if not (left and data):
                    await threads.do(partial(_refuse_changed, self.content, descriptor, self.identity, left))
                yield data
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Inputs:
    """The JSON and the files that go into the box. With any problem, nothing does."""

    arguments: str = _NONE
    given: str = _NONE
    files: tuple[InputFile, ...] = ()
    problems: tuple[Problem, ...] = ()


def as_json(content: Mapping[str, object]) -> str:
    """Return its JSON in ASCII, without spaces."""
    return _JSON.encode(content)


def read_inputs(tool: ToolDefinition, spec: CallSpec, limits: Limits) -> Inputs:
    """Return the inputs of a call, checked against the tool's signature and the limits."""
    binding = bind(tool, spec.args)
    given, faulty = _injected(tool, spec) if tool.call.injected else ({}, ())
    if binding.problems or faulty:
        return Inputs(problems=tuple(map(_problem, (*binding.problems, *faulty))))
    files = _measure_files(spec.files) if spec.files else ()
    inputs = Inputs(as_json(binding.arguments), as_json(given) if given else _NONE, files)
    is_small = len(inputs.arguments) <= limits.arguments and len(inputs.given) <= limits.arguments
    return inputs if is_small and not files else _refuse_too_large(inputs, limits)


def _refuse_too_large(inputs: Inputs, limits: Limits) -> Inputs:
    problems = (
        *_too_many_bytes(inputs.files, limits),
        *_too_large(inputs.arguments, "the arguments are", limits),
        *_too_large(inputs.given, "the injected values are", limits),
    )
    return Inputs(problems=problems) if problems else inputs


def _injected(tool: ToolDefinition, spec: CallSpec) -> tuple[Mapping[str, JSON], Collection[ArgumentProblem]]:
    values = {name: getattr(spec, _INJECTED_FIELDS[name]) for name in tool.call.injected}
    plain, faulty = plain_arguments({name: value for name, value in values.items() if value is not None})
    return plain, faulty.values()


def _problem(found: ArgumentProblem) -> Problem:
    return Problem(path=found.path, message=found.message, expected=found.expected, got=found.got)


def _too_many_bytes(files: tuple[InputFile, ...], limits: Limits) -> list[Problem]:
    size = sum(each.size for each in files)
    if size <= limits.inputs:
        return []
    return [Problem(path="", message=f"its files are {size} bytes; the policy allows {limits.inputs}")]


def _too_large(text: str, subject: str, limits: Limits) -> list[Problem]:
    if len(text) <= limits.arguments:
        return []
    return [Problem(path="", message=f"{subject} {len(text)} bytes as JSON; the policy allows {limits.arguments}")]


def _measure_files(files: Mapping[str, bytes | Path]) -> tuple[InputFile, ...]:
    return tuple(_measure(path, content) for path, content in files.items())


def _measure(path: str, content: bytes | Path) -> InputFile:
    if isinstance(content, bytes):
        return InputFile(path, len(content), content)
    descriptor = _open(content)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise SpecError(f"files: {content} is not a regular file")
        if not found.st_size and _read(content, descriptor, 1):
            raise _wrong_size(content, "more")
    finally:
        os.close(descriptor)
    return InputFile(path, found.st_size, content, _identity(found))


def _open(path: Path) -> int:
    try:
        return os.open(path, _OPEN_FLAGS)
    except OSError as error:
        raise _unreadable(path, error) from None


def _read(path: Path, descriptor: int, size: int) -> bytes:
    try:
        return os.read(descriptor, size)
    except OSError as error:
        raise _unreadable(path, error) from None


def _refuse_changed(path: Path, descriptor: int, identity: tuple[int, ...], left: int) -> None:
    more = not left and _read(path, descriptor, 1)
    if _identity(os.fstat(descriptor)) != identity:
        raise SpecError(f"files: {path} changed while it was sent to the call")
    if left or more:
        raise _wrong_size(path, "more" if more else "less")


def _unreadable(path: Path, error: OSError) -> SpecError:
    return SpecError(f"files: {path} cannot be read: {error.strerror}")


def _wrong_size(path: Path, holds: str) -> SpecError:
    return SpecError(
        f"files: {path} reports a wrong size and holds {holds} (files under /proc and /sys do that)",
        remedy="pass a copy of the file, or its content",
    )


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
