"""Compare policies, and lower a policy for one call.

The operator's policy is a ceiling. A policy that `extends` another one, and a call with limits of its own, may only
lower it. `_RULES` says for every field which direction is down. A field without a rule raises `KeyError` here, so that
no new permission stays uncompared; a test checks that every field has a rule.

`SETTINGS` are the exception: where packages come from describes a machine and permits nothing, so an operator's file
sets them freely. A call has only limits, so a call sets none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pydantic import ValidationError

from sandbox.policy.base_model import Section
from sandbox.policy.hosts import is_covered
from sandbox.policy.messages import build_error, describe_errors
from sandbox.policy.model import Limits, Policy
from sandbox.policy.paths import is_within

_Rule = Callable[[Section, Section, str, str], list[str]]


def find_widenings(granted: Policy, asked: Policy) -> list[str]:
    """Return a line for each field in which `asked` allows more, or demands less, than `granted`."""
    parts = asked.sections()
    return [
        line
        for section, part in granted.sections().items()
        for line in _compare_section(section, part, parts[section], granted.name)
    ]


def tighten(policy: Policy, limits: Mapping[str, object] | None = None) -> Policy:
    """Return the policy of a call that asks for these limits. Raise `PolicyError` if a limit exceeds the policy's."""
    if not limits:
        return policy
    asked = _validate_limits(policy, limits)
    wider = _compare_section("limits", policy.limits, asked, policy.name)
    if wider:
        remedy = "ask for less, or choose a policy that grants more"
        raise build_error(f"the call asks for more than policy '{policy.name}' grants", lines=wider, remedy=remedy)
    return policy if asked == policy.limits else policy.model_copy(update={"limits": asked})


def keep_settings(policy: Policy, *, of: Policy) -> Policy:
    """Return the policy with the settings of another: a source that names a policy may not change an operator's."""
    kept: dict[str, dict[str, object]] = {}
    for field in sorted(SETTINGS):
        section, _, key = field.partition(".")
        kept.setdefault(section, {})[key] = getattr(of.sections()[section], key)
    update = {section: policy.sections()[section].model_copy(update=values) for section, values in kept.items()}
    return policy.model_copy(update=update)


def _compare_section(section: str, granted: Section, asked: Section, name: str) -> list[str]:
    return [
        f"{section}.{key}: {problem}"
        for key in type(granted).model_fields
        if f"{section}.{key}" not in SETTINGS
        for problem in _RULES[f"{section}.{key}"](granted, asked, key, name)
    ]


def _validate_limits(policy: Policy, limits: Mapping[str, object]) -> Limits:
    try:
        return Limits.model_validate({**policy.limits.model_dump(), **limits})
    except ValidationError as error:
        lines = describe_errors(error, model=Limits, section="limits")
        raise build_error("the call's own limits are malformed", lines=lines) from None


def _at_most(granted: Section, asked: Section, key: str, name: str) -> list[str]:
    if getattr(asked, key) <= getattr(granted, key):
        return []
    return [f"{asked.format_field(key)} is more than {granted.format_field(key)} granted by '{name}'"]


def _at_least(granted: Section, asked: Section, key: str, name: str) -> list[str]:
    if getattr(asked, key) >= getattr(granted, key):
        return []
    return [f"{asked.format_field(key)} is weaker than {granted.format_field(key)} demanded by '{name}'"]


def _all_of(granted: Section, asked: Section, key: str, name: str) -> list[str]:
    missing = [item for item in getattr(granted, key) if item not in getattr(asked, key)]
    return [f"leaves out {', '.join(missing)} demanded by '{name}'"] if missing else []


def _within(granted: Section, asked: Section, key: str, name: str) -> list[str]:
    shown = getattr(granted, key)
    outside = [path for path in getattr(asked, key) if not any(is_within(path, parent=parent) for parent in shown)]
    return [f"{path} is not within what is granted by '{name}'" for path in outside]


def _some_of(granted: Section, asked: Section, key: str, name: str) -> list[str]:
    others = [item for item in getattr(asked, key) if item not in getattr(granted, key)]
    return [f"{item} is not among what is granted by '{name}'" for item in others]


def _some_of_any(granted: Section, asked: Section, key: str, name: str) -> list[str]:
    """Compare lists that admit only their items, or everything if empty."""
    if not getattr(granted, key):
        return []
    if not getattr(asked, key):
        return [f"{asked.format_field(key)} is more than those granted by '{name}'"]
    return _some_of(granted, asked, key, name)


def _covered(granted: Section, asked: Section, key: str, name: str) -> list[str]:
    """Compare lists of host patterns that admit any host if empty."""
    before, after = getattr(granted, key), getattr(asked, key)
    if before and not after:
        return [f"{asked.format_field(key)} is more than those granted by '{name}'"]
    others = [each for each in after if before and not any(is_covered(each, by=wider) for wider in before)]
    return [f"{each} is not among what is granted by '{name}'" for each in others]


def _each_at_most(granted: Section, asked: Section, key: str, name: str) -> list[str]:
    """Compare pairs of a name and a number. A missing name stands for an unknown number, so it counts as more."""
    after = dict(getattr(asked, key))
    return [
        f"{each} {after.get(each, 'of its own')} is more than {most} granted by '{name}'"
        for each, most in getattr(granted, key)
        if after.get(each, most + 1) > most
    ]


SETTINGS: Final = frozenset({"supply.indexes", "supply.wheelhouse", "supply.offline"})

_RULES: Final[Mapping[str, _Rule]] = {
    "limits.wall": _at_most,
    "limits.cpu": _at_most,
    "limits.memory": _at_most,
    "limits.processes": _at_most,
    "limits.open_files": _at_most,
    "limits.file_size": _at_most,
    "limits.disk": _at_most,
    "limits.inodes": _at_most,
    "limits.output": _at_most,
    "limits.output_rate": _at_most,
    "limits.value": _at_most,
    "limits.arguments": _at_most,
    "limits.artifacts": _at_most,
    "limits.artifact_bytes": _at_most,
    "limits.inputs": _at_most,
    "limits.cpus": _at_most,
    "network.mode": _at_most,
    "network.hosts": _covered,
    "network.connections": _at_most,
    "network.connections_in_all": _at_most,
    "network.sent": _at_most,
    "network.received": _at_most,
    "network.idle": _at_most,
    "filesystem.readable": _within,
    "isolation.minimum": _at_least,
    "isolation.prefer": _at_least,
    "isolation.require": _all_of,
    "environment.verify": _at_least,
    "environment.build_time": _at_most,
    "environment.build_memory": _at_most,
    "environment.build_disk": _at_most,
    "environment.packages": _at_most,
    "environment.preload": _at_most,
    "supply.sdists": _at_most,
    "supply.direct_references": _at_most,
    "supply.require_hashes": _at_least,
    "supply.prereleases": _at_most,
    "supply.exclude_newer": _at_least,
    "supply.allow": _some_of_any,
    "supply.deny": _all_of,
    "variables.passed": _some_of,
    "output.shown": _at_most,
    "output.budgets": _each_at_most,
    "output.tokens": _each_at_most,
    "output.over": _at_least,
    "output.slow_reader": _at_least,
    "reuse.mode": _at_least,
    "reuse.idle": _at_most,
    "reuse.ahead": _at_most,
}
