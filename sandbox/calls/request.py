"""What a box is told about one call: its request, its lowered limits, and what is worth importing ahead of the next."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Final

from sandbox.calls.given_files import GivenFile
from sandbox.calls.rebuilt import needs_rebuilding
from sandbox.calls.variables import merged, passed_through
from sandbox.policy import Policy
from sandbox.spec import CallSpec
from sandbox.tools import ParameterKind, Tool
from sandbox.tools.tool import CallForm

_PROCESS_LIMITS: Final = ("open_files", "file_size")
_THREAD_HINTS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_DEFAULTS: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/work", "TMPDIR": "/tmp", "LANG": "C.UTF-8"}
_TRUTHS: Final = {"NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
_ASYNC: Final = frozenset({"asyncio"})
_TYPING: Final = frozenset({"typing"})
_KIT: Final = frozenset({"sandbox"})
"""There in every box, whatever is installed."""
_NEVER_PRELOADED: Final = frozenset(
    {"antigravity", "idlelib", "lib2to3", "test", "this", "tkinter", "turtle", "turtledemo"}
)


def build_request(
    spec: CallSpec,
    tool: Tool,
    arguments: Mapping[str, object],
    policy: Policy,
    *,
    given: Mapping[str, object] = MappingProxyType({}),
    files: Sequence[GivenFile] = (),
    streams: bool = False,
) -> bytes:
    """What the call's process is told, as JSON. `streams`: what the tool gives is wanted as it comes."""
    request: dict[str, object] = {
        "source": tool.text,
        "filename": tool.filename,
        "entry": tool.entry,
        "arguments": arguments,
        "positional": [each.name for each in tool.parameters if each.kind is ParameterKind.POSITIONAL_ONLY],
        "environment": _variables(spec, tool, policy),
        "value_limit": policy.limits.value,
    }
    if tool.returns is not None:
        strict = tool.settings.strict_return if spec.strict_return is None else spec.strict_return
        request["returns"] = {"schema": tool.returns, "is_strict": bool(strict)}
    if files:
        request["files"] = [{"path": each.path, "bytes": each.size} for each in files]
    if streams:
        request["streams"] = True
    rebuilds = needs_rebuilding(tool)
    if rebuilds or tool.call.kind != "function" or tool.call.injected:
        request.update(form=_form(tool.call), rebuilds=rebuilds, given=dict(given), permitted=spec.permitted)
    return json.dumps(request, separators=(",", ":")).encode("ascii")


def _form(call: CallForm) -> dict[str, object]:
    return {
        "kind": call.kind,
        "names": call.names,
        "injected": call.injected,
        "takes_mapping": call.takes_mapping,
    }


def lowered_limits(policy: Policy, box_policy: Policy) -> dict[str, int]:
    """The limits per process where a call asks for less than its box gives."""
    asked, given = policy.limits, box_policy.limits
    lowered = {name: getattr(asked, name) for name in _PROCESS_LIMITS if getattr(asked, name) < getattr(given, name)}
    if asked.cpu < given.cpu:
        lowered["cpu"] = int(asked.cpu) + 1
    return lowered


def preloadable(tool: Tool, *, installed: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """What the tool imports of the standard library and of its environment, to be imported once for all calls."""
    wanted = tool.imports | _ASYNC if tool.is_async else tool.imports
    return _preloadable(wanted | _TYPING if needs_rebuilding(tool) else wanted, installed)


@lru_cache(maxsize=1024)
def _preloadable(imports: frozenset[str], installed: frozenset[str]) -> tuple[str, ...]:
    known = (imports & sys.stdlib_module_names) - _NEVER_PRELOADED
    return tuple(sorted(name for name in known | (imports & (installed | _KIT)) if not name.startswith("_")))


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


def _variables(spec: CallSpec, tool: Tool, policy: Policy) -> dict[str, str]:
    """What a call's environment has beside its box's: of the host's only what the policy names, and nothing that would
    hide the truth."""
    fixed = box_environment(policy)
    layers = merged(passed_through(policy), *spec.env_layers, spec.env)
    asked = {name: text for name, text in layers.items() if name in _DEFAULTS or name not in fixed}
    return {**asked, "SANDBOX_CALL_ID": spec.call_id, "SANDBOX_TOOL": tool.name}
