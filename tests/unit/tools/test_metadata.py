"""Metadata of a tool: its enabled methods, and its descriptions."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.tools.metadata import (
    NOTHING_DETAILED,
    MethodRecord,
    ToolRecord,
    detailed_description,
    enabled_methods,
    is_enabled,
)


def _record(*, is_core: bool = False) -> ToolRecord:
    methods = tuple(
        MethodRecord(name=name, display_name=name, description=name, is_core=name == "core") for name in ("a", "b")
    )
    core = (MethodRecord(name="core", display_name="Core", description="Core.", is_core=True),) if is_core else ()
    return ToolRecord(name="t", display_name="T", description="T.", methods=(*methods, *core))


@pytest.mark.parametrize(
    ("setting", "on"),
    [
        (None, ("a", "b")),
        (True, ("a", "b")),
        (False, ()),
        ({"enabled": True}, ("a", "b")),
        ({"enabled": False}, ()),
        ({"methods": {"a": False}}, ("b",)),
        ({"enabled": True, "methods": {"a": False, "b": False}}, ()),
        ({"enabled": False, "methods": {"a": True}}, ()),
        ({"enabled": True, "methods": {"unknown": False}}, ("a", "b")),
    ],
)
def test_an_unmentioned_method_is_enabled_and_all_disabled_means_none(setting: Any, on: tuple[str, ...]) -> None:
    assert enabled_methods(_record(), setting) == on
    assert is_enabled(_record(), setting) == bool(on)


@pytest.mark.parametrize("setting", [False, {"enabled": False}, {"methods": {"a": False, "b": False, "core": False}}])
def test_a_core_method_cannot_be_disabled(setting: Any) -> None:
    assert enabled_methods(_record(is_core=True), setting) == ("core",)


def test_a_core_tool_without_methods_cannot_be_disabled() -> None:
    record = ToolRecord(name="t", display_name="T", description="T.", is_core=True)
    assert is_enabled(record, False)
    assert not is_enabled(record.model_copy(update={"is_core": False}), False)


@pytest.mark.parametrize(
    "header",
    [
        "**Use cases:**",
        "**Use Cases**:",
        "Use cases:",
        "💡 **USE CASES:**",
        "**💡 Use cases:**",
        "**use cases**",
        "# Usage:",
    ],
)
@pytest.mark.parametrize("is_below", [False, True])
def test_a_header_counts_in_every_form(header: str, is_below: bool) -> None:
    if not is_below and header.endswith("cases**"):
        return
    text = f"{header}\n    - here" if is_below else f"{header} - here"
    detailed = detailed_description(f"First.\n\n    {text}\n", arguments=None, fallback="x")
    assert detailed == "First.\n\n**Use cases**:\n- here"


@pytest.mark.parametrize("word", ["CRITICAL", "Important", "WARNING"])
def test_a_warning_goes_before_everything_else(word: str) -> None:
    text = f"First.\n\nSecond.\n\n**Benefits:** fast\n\n**{word}:** hot\n"
    assert detailed_description(text, arguments=None, fallback="x") == (
        "First.\n\n⚠️ **Important**: hot\n\n**Use cases**:\nfast"
    )


def test_parameters_are_those_of_their_method() -> None:
    own = "First.\n\nArgs:\n    a: of the class\n"
    inner = "Run.\n\n**Args:**\n    b: of execute\n\n**Returns:**\n    c\n"
    assert detailed_description(own, arguments=inner, fallback="x") == "First.\n\n**Parameters**:\nb: of execute"
    assert detailed_description(own, arguments="Run.", fallback="x") == "First.\n\n**Parameters**:\na: of the class"


@pytest.mark.parametrize("docstring", [None, "", "   \n"])
def test_a_tool_without_a_docstring_is_reported(docstring: str | None) -> None:
    assert detailed_description(docstring, arguments="**Args:** a", fallback="What.") == f"What.\n\n{NOTHING_DETAILED}"
