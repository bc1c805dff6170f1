"""The request that a box gets for a call: the tool, the arguments, the variables, and the lowered limits.

A call's variables come in layers, of which later ones win:

    the host's variables that the policy names  ·  the catalog's  ·  the tenant's  ·  the tool's  ·  the call's

None in a layer removes what the layers below it set. The engine's own variables come on top, and no layer can hide
them. The host's environment is never inherited: a call sees a variable of the host only if the policy names it.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Final

from sandbox.egress import PORT
from sandbox.engine.inputs import Inputs, as_json
from sandbox.policy import NetworkMode, Policy
from sandbox.spec import CallSpec
from sandbox.tools import ParameterKind, ToolDefinition
from sandbox.tools.syntax.parsing import parse_expression
from sandbox.tools.syntax.scope import Scope, dotted_name
from sandbox.tools.tool import CallForm
from sandbox.tools.types.known_types import ARRAYS, MAPPINGS, PLAIN, SETS, known_name

Layer = Mapping[str, str | None]

_PROCESS_LIMITS: Final = ("open_files", "file_size")
_THREAD_HINTS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_DEFAULTS: Final = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/work",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    # The user id of a call may have no name. Programs that ask for one look here first.
    "USER": "tool",
    "LOGNAME": "tool",
}
_FIXED: Final = {"NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
_PROXY: Final = f"http://127.0.0.1:{PORT}"
_PROXIED: Final = {"HTTP_PROXY": _PROXY, "HTTPS_PROXY": _PROXY, "ALL_PROXY": _PROXY, "NO_PROXY": "localhost,127.0.0.1"}
# Some programs read the names in capitals only, others in lower case only. The call's own loopback needs no proxy.
_PROXIES: Final = {spelled: text for name, text in _PROXIED.items() for spelled in (name, name.lower())}
_RESERVED: Final = frozenset({*_FIXED, "PYTHON_CPU_COUNT", *_THREAD_HINTS, "SANDBOX_CALL_ID", "SANDBOX_TOOL"})
_JSON_BOOLEAN: Final = {True: "true", False: "false"}
_JSON_TYPES: Final = frozenset(PLAIN) | (ARRAYS - SETS) | {"Optional", "Union"}


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The beginning of the requests of all calls of a tool under a policy."""

    text: str
    """JSON whose last field, the environment, is still open."""
    policy: Policy
    is_plain: bool
    """Whether the tool is a function that takes plain JSON values."""
    returns: str | None
    """The schema of the return value, if the tool declares one."""
    is_strict: bool
    """Whether any other return value is an exception, unless the call says otherwise."""


def build_request(spec: CallSpec, tool: ToolDefinition, arguments: Mapping[str, object], policy: Policy) -> bytes:
    """Return the whole request of a call, as JSON."""
    return complete_request(request_head(tool, policy), spec, Inputs(as_json(arguments)))


def request_head(tool: ToolDefinition, policy: Policy) -> RequestHead:
    """Return the part of the request that all calls of a tool under a policy share."""
    fields: dict[str, object] = {
        "source": tool.text,
        "filename": tool.filename,
        "entry": tool.entry,
        "positional": [each.name for each in tool.parameters if each.kind is ParameterKind.POSITIONAL_ONLY],
        "value_limit": policy.limits.value,
    }
    rebuilds = needs_rebuilding(tool)
    is_plain = tool.call.kind == "function" and not (rebuilds or tool.call.injected)
    if not is_plain:
        fields.update(form=_form(tool.call), rebuilds=rebuilds)
    fields["environment"] = {"SANDBOX_TOOL": tool.name}
    returns = None if tool.returns is None else as_json(tool.returns)
    return RequestHead(as_json(fields)[:-2], policy, is_plain, returns, bool(tool.settings.strict_return))


def complete_request(head: RequestHead, spec: CallSpec, inputs: Inputs, *, streams: bool = False) -> bytes:
    """Return the whole request. With `streams`, the box sends each item of a generator as the tool yields it."""
    asked = _asked_variables(spec, head.policy)
    # The pattern of a call id allows no character that JSON escapes.
    text = f'{head.text}{asked},"SANDBOX_CALL_ID":"{spec.call_id}"}},"arguments":{inputs.arguments}'
    if not head.is_plain:
        text += f',"given":{inputs.given},"permitted":{_JSON_BOOLEAN[spec.permitted]}'
    if head.returns is not None:
        is_strict = head.is_strict if spec.strict_return is None else spec.strict_return
        text += f',"returns":{{"schema":{head.returns},"is_strict":{_JSON_BOOLEAN[is_strict]}}}'
    if inputs.files:
        text += ',"files":[' + ",".join(as_json({"path": each.path, "bytes": each.size}) for each in inputs.files) + "]"
    return (text + (',"streams":true}' if streams else "}")).encode("ascii")


def _form(call: CallForm) -> dict[str, object]:
    return {
        "kind": call.kind,
        "names": call.names,
        "injected": call.injected,
        "takes_mapping": call.takes_mapping,
    }


def lowered_limits(policy: Policy, box_policy: Policy) -> dict[str, float]:
    """Return the limits per process that are lower than those of the box."""
    asked, given = policy.limits, box_policy.limits
    lower = [name for name in _PROCESS_LIMITS if getattr(asked, name) < getattr(given, name)]
    lowered: dict[str, float] = {name: getattr(asked, name) for name in lower}
    if asked.cpu < given.cpu:
        # The kernel counts in whole seconds. `cpu_s` is exact, for a watcher that adds up the whole call.
        lowered.update(cpu=int(asked.cpu) + 1, cpu_s=asked.cpu)
    return lowered


# Variables


def box_environment(policy: Policy, *, prefix: str | None = None) -> Mapping[str, str]:
    """Return the variables that all calls of a box share. `prefix` is the environment whose programs come first."""
    is_public = policy.network.mode is NetworkMode.PUBLIC
    return _environment(min(policy.limits.cpus, _machine_cpus()), prefix, is_public=is_public)


@lru_cache(maxsize=64)
def _environment(cpus: int, prefix: str | None, *, is_public: bool) -> Mapping[str, str]:
    hints = dict.fromkeys(("PYTHON_CPU_COUNT", *_THREAD_HINTS), str(cpus))
    own = {"VIRTUAL_ENV": prefix, "PATH": f"{prefix}/bin:{_DEFAULTS['PATH']}"} if prefix else {}
    return MappingProxyType({**_DEFAULTS, **_FIXED, **hints, **own, **(_PROXIES if is_public else {})})


@cache
def _machine_cpus() -> int:
    return os.cpu_count() or 1


def _asked_variables(spec: CallSpec, policy: Policy) -> str:
    """Return the variables that the call adds to those of its box, as further members of a JSON object."""
    if not (spec.env or spec.env_layers or policy.variables.passed):
        return ""
    layers = merged(passed_through(policy), *spec.env_layers, spec.env)
    asked = {name: text for name, text in layers.items() if name not in _RESERVED}
    return "," + as_json(asked)[1:-1] if asked else ""


def merged(*layers: Layer) -> dict[str, str]:
    """Return all layers as one."""
    variables: dict[str, str | None] = {}
    for layer in layers:
        variables.update(layer)
    return {name: text for name, text in variables.items() if text is not None}


def passed_through(policy: Policy) -> dict[str, str]:
    """Return the variables of the host that the policy names and that are text."""
    named = ((name, os.environ.get(name)) for name in policy.variables.passed)
    return {name: text for name, text in named if text is not None and _is_text(text)}


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes that are not UTF-8
        return False
    return True


# Arguments that are more than JSON


def needs_rebuilding(tool: ToolDefinition) -> bool:
    """Return whether the box must build the arguments from JSON.

    Most tools take strings, numbers, lists and dicts, which is what the engine sends. Working out their annotations in
    the box would only cost time there.
    """
    annotations = {each.annotation for each in tool.parameters if each.annotation is not None}
    return tool.call.takes_mapping or not all(_is_json(each, tool.scope) for each in annotations)


def _is_json(annotation: str, scope: Scope) -> bool:
    waiting: list[ast.expr | None] = [parse_expression(annotation)]
    # Quoted annotations are parsed again, so the number of steps is bounded.
    steps_left = len(annotation) + 1
    while waiting:
        node = waiting.pop()
        steps_left -= 1
        inner = None if node is None or steps_left < 0 else _inner(node, scope)
        if inner is None:
            return False
        waiting += inner
    return True


def _inner(node: ast.expr, scope: Scope) -> list[ast.expr | None] | None:
    """Return the expressions inside a JSON type that must be JSON types too, or None for any other type."""
    if isinstance(node, ast.Constant):
        return [parse_expression(node.value)] if isinstance(node.value, str) else [] if node.value is None else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [node.left, node.right]
    if not isinstance(node, ast.Subscript):
        return [] if _name(node, scope) in _JSON_TYPES | MAPPINGS else None
    name = _name(node.value, scope)
    arguments = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name == "Literal":
        return [] if all(_is_plain_literal(each) for each in arguments) else None
    if name in MAPPINGS:
        return [*arguments[1:]] if _name(arguments[0], scope) in ("str", "Any") else None
    return [*arguments] if name in _JSON_TYPES else None


def _is_plain_literal(node: ast.expr) -> bool:
    value = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(value, ast.Constant) and not isinstance(value.value, bytes)


def _name(node: ast.expr, scope: Scope) -> str | None:
    """Return the well-known name that a node stands for."""
    dotted = dotted_name(node)
    full = None if dotted is None else scope.full_name(dotted)
    if dotted is None or full is None:
        return None
    return known_name(full, is_imported=dotted.partition(".")[0] in scope.imports)
