"""The plan of a call: all that the engine works out before the call needs a box.

Calls of one tool under one policy share a `CallTemplate`, which the engine builds once and keeps. A warm call adds only
its own arguments, variables and names.

A source is written by someone whom the engine does not trust, so `[tool.sandbox]` in its script block can only ask for
less than the caller's policy grants. The engine refuses a policy that would allow anything more. A source names a
policy by name alone, never by the path of a file on the host. A time limit longer than granted has no effect, because
the same source may be called under a policy that grants more.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from time import perf_counter as now
from typing import Final

from sandbox.backends.base import BoxPlan
from sandbox.engine.request import RequestHead, box_environment, lowered_limits, needs_rebuilding, request_head
from sandbox.environments import Environment
from sandbox.errors import PolicyError
from sandbox.outcome import EnvironmentUsed, ToolName
from sandbox.outputs.budgets import Budgets, DeclaredOutputs, requested_outputs
from sandbox.outputs.tokens import Tokenizer
from sandbox.policy import Limits, Policy, Strength, find_widenings, keep_settings, list_shipped, load
from sandbox.pool.queue import BoxKey
from sandbox.spec import CallSpec
from sandbox.tools import ToolDefinition

_BOX_LIMITS: Final = ("memory", "processes", "disk", "inodes", "artifacts", "artifact_bytes", "cpus")
_EXECUTE_TYPE: Final = "status_message"
_ASYNC: Final = frozenset({"asyncio"})
_TYPING: Final = frozenset({"typing"})
_AUTHORING: Final = frozenset({"sandbox"})
"""Present in every box, whatever is installed."""
_WITH_EFFECTS: Final = frozenset(
    {"antigravity", "idlelib", "lib2to3", "test", "this", "tkinter", "turtle", "turtledemo"}
)
_TEMPLATE_OVERHEAD: Final = 1 << 16
_MAX_PRELOADED: Final = 256
_MAX_LOOKUPS: Final = 1024
_COMPILED: Final = (".so", ".pyd")


@dataclass(slots=True)
class CallTiming:
    """The moments at which a call passed each stage."""

    begun: float = field(default_factory=now)
    equipped: float = 0.0
    """The environment is known."""
    admitted: float = 0.0
    """The call has its turn."""
    boxed: float = 0.0
    """The call has a box."""
    ended: float = 0.0

    def spans(self) -> dict[str, float]:
        """Return the milliseconds of each stage and in all, under the names of `Timing`."""
        # To the microsecond. `round` takes several times as long.
        return {
            "queue_ms": int((self.admitted - self.equipped) * 1e6) / 1e3,
            "environment_ms": int((self.equipped - self.begun) * 1e6) / 1e3,
            "box_ms": int((self.boxed - self.admitted) * 1e6) / 1e3,
            "run_ms": int((self.ended - self.boxed) * 1e6) / 1e3,
            "total_ms": int((now() - self.begun) * 1e6) / 1e3,
        }


@dataclass(frozen=True)
class CallTemplate:
    """All that calls of one tool under one policy share. Without slots, for its cached properties."""

    tool: ToolDefinition
    granted: Policy
    """The policy as its operator wrote it. Templates are found by its identity, so it must stay alive with them."""
    policy: Policy
    box_policy: Policy
    environment: Environment
    tenant: str
    tokenizer: Tokenizer | None = None
    _last_within: list[CallTemplate] = field(default_factory=list, init=False, repr=False, compare=False)

    def within(self, environment: Environment) -> CallTemplate:
        """Return the template with another environment. The last one is kept, because the next call most likely needs
        the same."""
        if not self._last_within or self._last_within[0].environment is not environment:
            self._last_within[:] = [replace(self, environment=environment)]
        return self._last_within[0]

    def box(self, *, is_plain: bool) -> tuple[BoxKey, BoxPlan]:
        """Return the key by which calls share a box, and the plan that opens such a box."""
        return self._plain_box if is_plain else self._isolated_box

    @cached_property
    def budgets(self) -> Budgets:
        """How much the outcome shows of each output, for a call that asks for nothing else."""
        return Budgets(declared_outputs(self.tool), self.policy.output, tokenizer=self.tokenizer)

    @cached_property
    def preload(self) -> tuple[str, ...]:
        """The modules of the tool that are worth importing ahead of its calls."""
        return preloadable(self.tool, environment=self.environment if self.policy.environment.preload else None)

    @cached_property
    def accepts_plain(self) -> bool:
        """Whether the policy accepts a box with limits and filters alone."""
        isolation = self.box_policy.isolation
        return isolation.minimum is Strength.PLAIN and not any("namespace" in layer for layer in isolation.require)

    @cached_property
    def lowered(self) -> Mapping[str, float]:
        """The limits per process that are lower than those of the box."""
        return lowered_limits(self.policy, self.box_policy)

    @cached_property
    def request_head(self) -> RequestHead:
        """The beginning of each call's request."""
        return request_head(self.tool, self.policy)

    @cached_property
    def environment_used(self) -> EnvironmentUsed:
        return EnvironmentUsed(key=self.environment.key, lock_digest=self.environment.lock_digest)

    @cached_property
    def tool_name(self) -> ToolName:
        return ToolName(name=self.tool.name)

    @cached_property
    def _isolated_box(self) -> tuple[BoxKey, BoxPlan]:
        return self._new_box(is_plain=False)

    @cached_property
    def _plain_box(self) -> tuple[BoxKey, BoxPlan]:
        return self._new_box(is_plain=True)

    def _new_box(self, *, is_plain: bool) -> tuple[BoxKey, BoxPlan]:
        used = self.environment
        key = BoxKey(used.key, self.box_policy.digest, self.tenant, is_plain=is_plain, copy=used.copy)
        plan = BoxPlan(self.box_policy, used, preload=self.preload, is_plain=is_plain)
        return key, replace(plan, environment=box_environment(self.box_policy, prefix=plan.prefix))


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A spec with all that the engine worked out for it."""

    spec: CallSpec
    template: CallTemplate
    timing: CallTiming

    @property
    def budgets(self) -> Budgets:
        """How much the outcome shows of each output."""
        asked = requested_outputs(self.spec)
        return self.template.budgets if asked is None else replace(self.template.budgets, asked=asked)


def template_weight(template: CallTemplate) -> int:
    """Return about how many bytes a template holds."""
    return _TEMPLATE_OVERHEAD + 4 * len(template.tool.text)


def limits_key(limits: Mapping[str, object]) -> tuple[Hashable, ...] | None:
    """Return limits as part of a template's key, or None if some are of other types than limits have."""
    # By exact type: `True` equals 1, and is refused later.
    is_plain = all(type(value) in (int, float, str) for value in limits.values())
    return tuple((name, type(value), value) for name, value in limits.items()) if is_plain else None


def box_policy(granted: Policy, policy: Policy) -> Policy:
    """Return the granted policy, lowered only in the limits that shape a box."""
    if policy is granted:
        return granted
    lowered = {name: getattr(policy.limits, name) for name in _BOX_LIMITS}
    if all(getattr(granted.limits, name) == value for name, value in lowered.items()):
        return granted
    return granted.model_copy(update={"limits": granted.limits.model_copy(update=lowered)})


# The requests of a tool's own source


def policy_for(tool: ToolDefinition, granted: Policy) -> Policy:
    """Return the policy for the tool's calls. Raise `PolicyError` if the tool names one that grants more."""
    named = tool.settings.policy
    if named is None or named == granted.name:
        return granted
    if named not in list_shipped():
        raise PolicyError(
            f"the source names an unknown policy: {named[:80]!r}", remedy=f"name one of {', '.join(list_shipped())}"
        )
    asked = load(named)
    wider = [line for line in find_widenings(granted, asked) if not _is_covered(line, granted, asked)]
    if wider:
        raise PolicyError(
            f"the source asks for policy '{named}', which is more than '{granted.name}' grants: {'; '.join(wider)}",
            remedy="run it under a policy that grants as much, or change its [tool.sandbox]",
        )
    return keep_settings(asked, of=granted)


def limits_for(tool: ToolDefinition, granted: Policy, asked: Mapping[str, object]) -> Mapping[str, object]:
    """Return the limits that a call asks for, with the tool's time limit if the call names none."""
    timeout = tool.settings.timeout
    if timeout is None or "wall" in asked:
        return asked
    wall = Limits.model_validate({"wall": timeout}).wall
    return {**asked, "wall": wall} if wall < granted.limits.wall else asked


def _is_covered(line: str, granted: Policy, asked: Policy) -> bool:
    """Return whether a stronger kind of box makes up for a layer that the asked policy leaves out."""
    return line.startswith("isolation.require:") and asked.isolation.minimum > granted.isolation.minimum


def declared_outputs(tool: ToolDefinition) -> DeclaredOutputs:
    """Return the output types that the tool declares."""
    settings = tool.settings
    # A class with `execute` returns the state of things, even if its source declares no type.
    value = settings.output_type or (_EXECUTE_TYPE if tool.call.kind == "execute" else None)
    return DeclaredOutputs(
        value=value,
        stdout=settings.stdout_type or (value if tool.call.kind == "execute" else None),
        stderr=settings.stderr_type,
        return_char_limit=settings.return_char_limit,
        return_token_limit=settings.return_token_limit,
    )


# The modules that are worth importing ahead of calls


def preloadable(tool: ToolDefinition, *, environment: Environment | None = None) -> tuple[str, ...]:
    """Return the modules that the tool imports from the standard library and from `environment`, packages before the
    modules in them.

    A source gives names without their kind: `from scipy import stats` wants a module, `from numpy import array` does
    not. So a dotted name is looked up on disk. For the standard library that is the engine's own; a module that the
    box's Python lacks is skipped there.
    """
    wanted = tool.imports | _ASYNC if tool.is_async else tool.imports
    return _preloadable(wanted | _TYPING if needs_rebuilding(tool) else wanted, environment)


@lru_cache(maxsize=1024)
def _preloadable(imports: frozenset[str], environment: Environment | None) -> tuple[str, ...]:
    roots = {name: _root_of(name, environment) for name in sorted(imports)}
    known = ((name, root) for name, root in roots.items() if root is not None)
    found = (name for name, root in islice(known, _MAX_LOOKUPS) if "." not in name or _is_module(name, root))
    return (*sorted(_AUTHORING & imports), *islice(found, _MAX_PRELOADED))


def _root_of(name: str, environment: Environment | None) -> Path | None:
    """Return the folder that holds the first part of a name, or None for an unknown or private module."""
    top = name.partition(".")[0]
    if top.startswith("_") or ".__" in name:
        return None
    if environment is not None and environment.installed is not None and top in environment.modules:
        return environment.installed / environment.site
    is_of_python = top in sys.stdlib_module_names and top not in _WITH_EFFECTS
    return Path(sysconfig.get_path("stdlib")) if is_of_python else None


def _is_module(name: str, root: Path) -> bool:
    """Return whether a dotted name is a module: a file, compiled or not, or a folder."""
    *parents, last = name.split(".")
    folder = str(root.joinpath(*parents))
    path = os.path.join(folder, last)
    if os.path.isfile(f"{path}.py") or os.path.isdir(path):
        return True
    try:
        return any(file.startswith(f"{last}.") and file.endswith(_COMPILED) for file in os.listdir(folder))
    except OSError:
        return False
