"""Requirements of a script are read from its comment block, and from nowhere else."""

from __future__ import annotations

import pytest

from sandbox.errors import SourceError
from sandbox.tools import ToolDefinition, read_tool
from sandbox.tools.check import check_source

FUNCTION = "def tool(): pass\n"


def _read(*block: str) -> ToolDefinition:
    return read_tool("\n".join([*block, FUNCTION]))


def test_dependencies_and_the_python_are_read() -> None:
    tool = _read(
        "#!/usr/bin/env python",
        "# /// script",
        '# requires-python = ">=3.11"',
        "# dependencies = [",
        '#   "requests<3",',
        "#",
        '#   " rich ",',
        "# ]",
        "# ///",
    )
    assert tool.requirements == ("requests<3", "rich")
    assert tool.requires_python == ">=3.11"


def test_windows_newlines_do_not_hide_the_block() -> None:
    assert read_tool(b'# /// script\r\n# dependencies = ["a"]\r\n# ///\r\ndef tool(): pass\r\n').requirements == ("a",)


@pytest.mark.parametrize(
    "block",
    [
        [],
        ["# /// other", '# dependencies = ["a"]', "# ///"],
        ["# /// other", '# dependencies = ["a"]'],
        ["# /// script ", '# dependencies = ["a"]', "# ///"],
        ["    # /// script", '    # dependencies = ["a"]', "    # ///"],
        ["# /// script", "# ///"],
        ["# /// script", '# [tool.other]\n# dependencies = ["a"]', "# ///"],
    ],
)
def test_anything_but_a_script_block_is_ignored(block: list[str]) -> None:
    tool = _read(*block)
    assert (tool.requirements, tool.requires_python) == ((), None)


@pytest.mark.parametrize(
    "block",
    [
        ["# /// script", '# dependencies = ["a"]'],
        ["# /// script", '#dependencies = ["a"]', "# ///"],
        ["# /// script", "# dependencies = [", "", "# ]", "# ///"],
        ["# /// script", "# ///", "", "# /// script", '# dependencies = ["a"]'],
        ["# /// script"],
    ],
)
def test_a_block_that_never_closes_is_refused_with_its_line(block: list[str]) -> None:
    text = "\n".join(["", *block, FUNCTION])
    line = text[: text.rindex("# /// script")].count("\n") + 1
    with pytest.raises(SourceError, match="never closed") as refusal:
        read_tool(text)
    assert refusal.value.line == line
    assert "# ///" in str(refusal.value.remedy)
    report = check_source(text)
    assert [each.line for each in report.problems if each.code == "script_block"] == [line]
    assert not report.ok


def test_the_last_closing_line_ends_a_block() -> None:
    tool = _read("# /// script", "# x = '''", "# ///", "# '''", '# dependencies = ["a"]', "# ///", "# more")
    assert tool.requirements == ("a",)


def test_blocks_of_other_types_do_not_count() -> None:
    tool = _read("# /// one", "# x", "# ///", "", "# /// script", '# dependencies = ["a"]', "# ///")
    assert tool.requirements == ("a",)


def test_two_script_blocks_are_refused_with_the_line_of_the_second() -> None:
    with pytest.raises(SourceError, match="two") as refusal:
        _read("# /// script", "# ///", "", "# /// script", "# ///")
    assert refusal.value.line == 4


@pytest.mark.parametrize(
    "content",
    [
        "# dependencies = [",
        "# dependencies",
        "# a = " + "[" * 5000,
        "# a = " + "9" * 5000,
        "# a = 1\n# a = 2",
        "# a = '\x1b[2J",
        "# a = '" + "x" * 20_000 + "'",
        '# dependencies = "a"',
        "# dependencies = [1]",
        '# dependencies = ["a", ""]',
        '# dependencies = {a = "b"}',
        "# requires-python = 3.11",
    ],
)
def test_a_malformed_block_is_refused_with_its_line(content: str) -> None:
    with pytest.raises(SourceError, match=r"script block|PEP 723") as refusal:
        _read("", "# /// script", content, "# ///")
    assert refusal.value.line == 2
    assert len(str(refusal.value)) < 500
    assert "\x1b" not in str(refusal.value)
