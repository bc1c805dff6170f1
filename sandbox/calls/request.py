"""What a box is told about one call: its request, its lowered limits, and what is worth importing ahead of the next."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Final

from sandbox.policy import Policy
from sandbox.spec import CallSpec
from sandbox.tools import ParameterKind, Tool

_PROCESS_LIMITS: Final = ("open_files", "file_size")
_THREAD_HINTS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_DEFAULTS: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/work", "TMPDIR": "/tmp", "LANG": "C.UTF-8"}
_TRUTHS: Final = {"NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
_OURS: Final = frozenset({*_TRUTHS, "PYTHON_CPU_COUNT", *_THREAD_HINTS, "SANDBOX_CALL_ID", "SANDBOX_TOOL"})
_JSON: Final = json.JSONEncoder(separators=(",", ":"))
_ASYNC: Final = frozenset({"asyncio"})
_NEVER_PRELOADED: Final = frozenset(
    {"antigravity", "idlelib", "lib2to3", "test", "this", "tkinter", "turtle", "turtledemo"}
)


def build_request(spec: CallSpec, tool: Tool, arguments: Mapping[str, object], policy: Policy) -> bytes:
    """What the call's process is told, as JSON."""
    return complete_request(request_head(tool, policy), spec, as_json(arguments))


def as_json(content: Mapping[str, object]) -> str:
    """Its JSON in ASCII, without spaces."""
    return _JSON.encode(content)


def request_head(tool: Tool, policy: Policy) -> str:
    """The beginning of a request, which is the same for all calls of a tool under a policy. Its last field is open."""
    same = {
        "source": tool.text,
        "filename": tool.filename,
        "entry": tool.entry,
        "positional": [each.name for each in tool.parameters if each.kind is ParameterKind.POSITIONAL_ONLY],
        "value_limit": policy.limits.value,
        "environment": {"SANDBOX_TOOL": tool.name},
    }
    return as_json(same)[:-2]


def complete_request(head: str, spec: CallSpec, arguments: str) -> bytes:
    """A whole request, from its head and the JSON of its arguments. No call's id has anything to escape."""
    asked = _asked_variables(spec)
    return f'{head}{asked},"SANDBOX_CALL_ID":"{spec.call_id}"}},"arguments":{arguments}}}'.encode("ascii")


def lowered_limits(policy: Policy, box_policy: Policy) -> dict[str, int]:
    """The limits per process where a call asks for less than its box gives."""
    asked, given = policy.limits, box_policy.limits
    lowered = {name: getattr(asked, name) for name in _PROCESS_LIMITS if getattr(asked, name) < getattr(given, name)}
    if asked.cpu < given.cpu:
        lowered["cpu"] = int(asked.cpu) + 1
    return lowered


def preloadable(tool: Tool, *, installed: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """What the tool imports of the standard library and of its environment, to be imported once for all calls."""
    return _preloadable(tool.imports | _ASYNC if tool.is_async else tool.imports, installed)


@lru_cache(maxsize=1024)
def _preloadable(imports: frozenset[str], installed: frozenset[str]) -> tuple[str, ...]:
    known = (imports & sys.stdlib_module_names) - _NEVER_PRELOADED
    return tuple(sorted(name for name in known | (imports & installed) if not name.startswith("_")))


def box_environment(policy: Policy, *, prefix: str | None = None) -> Mapping[str, str]:
    """The variables that all calls of a box have: what is always so, and the truth about the box's size; with the
    programs of the environment whose `prefix` this is, if there is one."""
    return _environment(min(policy.limits.cpus, _machine_cpus()), prefix)


@lru_cache(maxsize=64)
def _environment(cpus: int, prefix: str | None) -> Mapping[str, str]:
    hints = dict.fromkeys(("PYTHON_CPU_COUNT", *_THREAD_HINTS), str(cpus))
    own = {"VIRTUAL_ENV": prefix, "PATH": f"{prefix}/bin:{_DEFAULTS['PATH']}"} if prefix else {}
    return MappingProxyType({**_DEFAULTS, **_TRUTHS, **hints, **own})


@cache
def _machine_cpus() -> int:
    return os.cpu_count() or 1


def _asked_variables(spec: CallSpec) -> str:
    """What a call asks for beside its box's variables, as members of an object that has others: nothing that would hide
    the truth, and none of ours."""
    asked = {name: text for name, text in spec.env.items() if name not in _OURS}
    return "," + as_json(asked)[1:-1] if asked else ""
