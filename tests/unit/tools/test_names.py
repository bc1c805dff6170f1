"""Names for people and for machines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.tools.tool import MAX_GENERATED_NAME, display_name, machine_name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("SandboxFilesTool", "Sandbox Files"),
        ("sb_shell_tool", "Sb Shell"),
        ("MessageTool", "Message"),
        ("DataProvidersTool", "Data Providers"),
        ("sb_image_edit_tool", "Sb Image Edit"),
        ("browser_navigate_to", "Browser Navigate To"),
        ("str_replace", "Str Replace"),
        ("MyTool_tool", "My"),
        ("HTTPServerTool", "Http Server"),
        ("user's_files", "User's Files"),
        ("  a__b  c ", "A B C"),
        ("Tool", "Tool"),
        ("_tool", "_tool"),
        ("___", "___"),
        ("", ""),
    ],
)
def test_a_name_is_shown_to_people_in_words(name: str, shown: str) -> None:
    assert display_name(name) == shown


@given(st.text(min_size=1))
def test_a_name_for_people_is_never_empty(name: str) -> None:
    assert display_name(name)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("SandboxFilesTool", "sandbox_files_tool"),
        ("Files", "files_tool"),
        ("HTTPServer", "http_server_tool"),
        ("A1Tool", "a1_tool"),
        ("Tool", "tool"),
    ],
)
def test_a_class_has_a_machine_name_derived_from_its_own(name: str, known: str) -> None:
    assert machine_name(name) == known


def test_a_generated_name_is_short_enough_for_every_provider() -> None:
    assert len(machine_name("Very" * 40)) == MAX_GENERATED_NAME
