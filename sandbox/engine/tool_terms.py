"""What a tool's own source asks of its calls, under `[tool.sandbox]` in its script block: a policy, a time limit.

A source is written by nobody we trust, so it can only ask for less than its caller's policy grants. A policy that would
allow anything more is refused, and named by name alone: a source leads to no file of the host. A time limit that is
longer than granted has no effect; the same source may be called under a policy that grants more.
"""

from __future__ import annotations

from collections.abc import Mapping

from sandbox.errors import PolicyError
from sandbox.policy import Limits, Policy, find_widenings, list_shipped, load
from sandbox.tools import ToolDefinition


def policy_for(tool: ToolDefinition, granted: Policy) -> Policy:
    """The policy that the tool's calls are granted; raises `PolicyError` where its own would be more."""
    named = tool.settings.policy
    if named is None or named == granted.name:
        return granted
    if named not in list_shipped():
        raise PolicyError(
            f"the source asks for policy {named[:80]!r}, which is none of those that a source can name",
            remedy=f"name one of {', '.join(list_shipped())}",
        )
    asked = load(named)
    wider = [line for line in find_widenings(granted, asked) if not _is_made_up_for(line, granted, asked)]
    if wider:
        raise PolicyError(
            f"the source asks for policy '{named}', which is more than '{granted.name}' grants: {'; '.join(wider)}",
            remedy="run it under a policy that grants as much, or mend its [tool.sandbox]",
        )
    return asked


def limits_for(tool: ToolDefinition, granted: Policy, asked: Mapping[str, object]) -> Mapping[str, object]:
    """The limits that a call asks for, with the tool's own where the call says nothing."""
    timeout = tool.settings.timeout
    if timeout is None or "wall" in asked:
        return asked
    wall = Limits.model_validate({"wall": timeout}).wall
    return {**asked, "wall": wall} if wall < granted.limits.wall else asked


def _is_made_up_for(line: str, granted: Policy, asked: Policy) -> bool:
    """A stronger kind of box needs not each layer of a weaker one; which it needs, its own policy says."""
    return line.startswith("isolation.require:") and asked.isolation.minimum > granted.isolation.minimum
