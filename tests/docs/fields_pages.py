"""The reference of outcome fields and policy fields, from the pydantic models and the shipped policies."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from pydantic import BaseModel

from sandbox import outcome
from sandbox.outcome import Outcome, Status
from sandbox.policy import Policy, list_shipped, load
from tests.docs.fields import fields, members
from tests.docs.layout import item, paragraphs, wrapped

_ABOUT_OUTCOMES: Final = """
The outcome document is the same in Python, in `--json` and in every transport. `null` means that nothing was measured.
"""
_ABOUT_POLICIES: Final = """
A policy file is TOML with these tables. Each field is listed with its default, which is safe for tools of unknown
authors. [Policies](../how-to/policies.md) explains how to write a file.
"""


def outcome_page() -> list[str]:
    """Write the page of outcome fields."""
    own: list[Any] = [each for each in vars(outcome).values() if getattr(each, "__module__", "") == outcome.__name__]
    classes = [each for each in own if isinstance(each, type) and not each.__name__.startswith("_")]
    models: list[type[BaseModel]] = [
        Outcome,
        *(each for each in classes if issubclass(each, BaseModel) and each is not Outcome),
    ]
    lines = ["# Outcome fields", "", *paragraphs(_ABOUT_OUTCOMES)]
    for model in models:
        lines += [f"## `{model.__name__}`", "", *paragraphs(model.__doc__ or ""), *fields(model), ""]
    for enum in (each for each in classes if issubclass(each, StrEnum)):
        lines += [f"## `{enum.__name__}`", "", *paragraphs(enum.__doc__ or ""), *members(enum)]
    lines += ["## Exit codes", "", "The command line exits with these codes for an outcome:", ""]
    return lines + [f"- `{status}`: {_exit_code(status)}" for status in Status]


def _exit_code(status: Status) -> int:
    empty: Any = Outcome.model_construct
    code: int = empty(status=status).exit_code
    return code


def policy_page() -> list[str]:
    """Write the page of policy fields."""
    defaults = Policy(name="default", description="The defaults.")
    lines = ["# Policy fields", "", *paragraphs(_ABOUT_POLICIES)]
    lines += item("`description`", "required", Policy.model_fields["description"].description or "")
    lines += [*item("`extends`", "optional", "a policy that this file tightens"), ""]
    for name, section in defaults.sections().items():
        lines += [f"## `[{name}]`", "", *paragraphs(type(section).__doc__ or "")]
        for key, field in type(section).model_fields.items():
            lines += item(f"`{key}`", f"default: {section.format_field(key)}", field.description or "")
        lines.append("")
    shown = [line for name in sorted(list_shipped()) for line in _shipped(name, defaults)]
    return [*lines, "## Shipped policies", "", *shown]


def _shipped(name: str, defaults: Policy) -> list[str]:
    policy, before = load(name), defaults.sections()
    different = [
        f"`{section}.{key}` = {part.format_field(key)}"
        for section, part in policy.sections().items()
        for key in type(part).model_fields
        if getattr(part, key) != getattr(before[section], key)
    ]
    summary = f"Different from the defaults: {'; '.join(different) or 'nothing'}."
    return [f"### `{name}`", "", *paragraphs(policy.description), *wrapped(summary), ""]
