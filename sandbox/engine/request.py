"""What a box is told about one call: its request and its lowered limits, and the variables of all of its calls."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Final

from sandbox.egress import PORT
from sandbox.engine.inputs import Inputs, as_json
from sandbox.engine.rebuilt import needs_rebuilding
from sandbox.engine.variables import merged, passed_through
from sandbox.policy import NetworkMode, Policy
from sandbox.spec import CallSpec
from sandbox.tools import ParameterKind, ToolDefinition
from sandbox.tools.tool import CallForm

_PROCESS_LIMITS: Final = ("open_files", "file_size")
_THREAD_HINTS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_DEFAULTS: Final = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/work",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "USER": "tool",
    "LOGNAME": "tool",
}
"""The user of a call may have a number that has no name; programs that ask for theirs look here first."""
_TRUTHS: Final = {"NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
_PROXY: Final = f"http://127.0.0.1:{PORT}"
_PROXIED: Final = {"HTTP_PROXY": _PROXY, "HTTPS_PROXY": _PROXY, "ALL_PROXY": _PROXY, "NO_PROXY": "localhost,127.0.0.1"}
_PROXIES: Final = {spelled: text for name, text in _PROXIED.items() for spelled in (name, name.lower())}
"""What all programs know: in capitals, and not. A call's own loopback is reached directly."""
_OURS: Final = frozenset({*_TRUTHS, "PYTHON_CPU_COUNT", *_THREAD_HINTS, "SANDBOX_CALL_ID", "SANDBOX_TOOL"})
_TRUTH: Final = {True: "true", False: "false"}


@dataclass(frozen=True, slots=True)
class RequestHead:
    """How the requests of all calls of a tool under a policy begin."""

    text: str
    """JSON, whose last field, the environment, is still open."""
    policy: Policy
    is_plain: bool
    """Whether it is a plain function that gets plain values."""
    returns: str | None
    """The schema of what it returns, where it says that."""
    is_strict: bool
    """Whether anything else is an exception, where the call does not say."""


def build_request(spec: CallSpec, tool: ToolDefinition, arguments: Mapping[str, object], policy: Policy) -> bytes:
    """What the call's process is told, as JSON."""
    return complete_request(request_head(tool, policy), spec, Inputs(as_json(arguments)))


def request_head(tool: ToolDefinition, policy: Policy) -> RequestHead:
    """What all calls of a tool under a policy are told."""
    same: dict[str, object] = {
        "source": tool.text,
        "filename": tool.filename,
        "entry": tool.entry,
        "positional": [each.name for each in tool.parameters if each.kind is ParameterKind.POSITIONAL_ONLY],
        "value_limit": policy.limits.value,
    }
    rebuilds = needs_rebuilding(tool)
    is_plain = tool.call.kind == "function" and not (rebuilds or tool.call.injected)
    if not is_plain:
        same.update(form=_form(tool.call), rebuilds=rebuilds)
    same["environment"] = {"SANDBOX_TOOL": tool.name}
    returns = None if tool.returns is None else as_json(tool.returns)
    return RequestHead(as_json(same)[:-2], policy, is_plain, returns, bool(tool.settings.strict_return))


def complete_request(head: RequestHead, spec: CallSpec, inputs: Inputs, *, streams: bool = False) -> bytes:
    """A whole request. No call's id has anything to escape. `streams`: what the tool gives is wanted as it comes."""
    asked = _asked_variables(spec, head.policy)
    told = f'{head.text}{asked},"SANDBOX_CALL_ID":"{spec.call_id}"}},"arguments":{inputs.arguments}'
    if not head.is_plain:
        told += f',"given":{inputs.given},"permitted":{_TRUTH[spec.permitted]}'
    if head.returns is not None:
        is_strict = head.is_strict if spec.strict_return is None else spec.strict_return
        told += f',"returns":{{"schema":{head.returns},"is_strict":{_TRUTH[is_strict]}}}'
    if inputs.files:
        told += ',"files":[' + ",".join(as_json({"path": each.path, "bytes": each.size}) for each in inputs.files) + "]"
    return (told + (',"streams":true}' if streams else "}")).encode("ascii")


def _form(call: CallForm) -> dict[str, object]:
    return {
        "kind": call.kind,
        "names": call.names,
        "injected": call.injected,
        "takes_mapping": call.takes_mapping,
    }


def lowered_limits(policy: Policy, box_policy: Policy) -> dict[str, float]:
    """The limits per process where a call asks for less than its box gives. The kernel counts processor time in whole
    seconds; beside that stands what was asked for, for who counts that of the whole call."""
    asked, given = policy.limits, box_policy.limits
    lower = [name for name in _PROCESS_LIMITS if getattr(asked, name) < getattr(given, name)]
    lowered: dict[str, float] = {name: getattr(asked, name) for name in lower}
    if asked.cpu < given.cpu:
        lowered.update(cpu=int(asked.cpu) + 1, cpu_s=asked.cpu)
    return lowered


def box_environment(policy: Policy, *, prefix: str | None = None) -> Mapping[str, str]:
    """The variables that all calls of a box have: what is always so, and the truth about the box's size; with the
    programs of the environment whose `prefix` this is, if there is one."""
    is_public = policy.network.mode is NetworkMode.PUBLIC
    return _environment(min(policy.limits.cpus, _machine_cpus()), prefix, is_public=is_public)


@lru_cache(maxsize=64)
def _environment(cpus: int, prefix: str | None, *, is_public: bool) -> Mapping[str, str]:
    hints = dict.fromkeys(("PYTHON_CPU_COUNT", *_THREAD_HINTS), str(cpus))
    own = {"VIRTUAL_ENV": prefix, "PATH": f"{prefix}/bin:{_DEFAULTS['PATH']}"} if prefix else {}
    return MappingProxyType({**_DEFAULTS, **_TRUTHS, **hints, **own, **(_PROXIES if is_public else {})})


@cache
def _machine_cpus() -> int:
    return os.cpu_count() or 1


def _asked_variables(spec: CallSpec, policy: Policy) -> str:
    """What a call's environment has beside its box's, as members of an object that has others: of the host's only what
    the policy names, nothing that would hide the truth, and none of ours."""
    if not (spec.env or spec.env_layers or policy.variables.passed):
        return ""
    layers = merged(passed_through(policy), *spec.env_layers, spec.env)
    asked = {name: text for name, text in layers.items() if name not in _OURS}
    return "," + as_json(asked)[1:-1] if asked else ""
