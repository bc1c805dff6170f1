"""Code that is compiled ahead equals the code of a call, and calls still report warnings and errors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from call import compiled
from tests.runners.plain_runner import RUNNER

SOURCE = "def tool() -> int:\n    return 41 + 1\n"
PATH = "/work/tool.py"
WITHOUT_DESCRIPTORS: Final = """
import os, resource, sys
sys.path.insert(0, sys.argv[1])
from call import compiled
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
compiled.keep("number = 1\\n", "/work/tool.py")
resource.setrlimit(resource.RLIMIT_NOFILE, limits)
first = len(compiled._known)
compiled.keep("number = 1\\n", "/work/tool.py")
print(first, len(compiled._known))
"""


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    compiled._known.clear()
    yield
    compiled._known.clear()


def _result(source: str, path: str = PATH) -> object:
    names: dict[str, object] = {}
    exec(compiled.code_of(source, path), names)
    tool = names["tool"]
    assert callable(tool)
    return tool()


def test_a_kept_tool_is_not_compiled_again() -> None:
    assert compiled.code_of(SOURCE, PATH) is not compiled.code_of(SOURCE, PATH)
    compiled.keep(SOURCE, PATH)
    assert compiled.code_of(SOURCE, PATH) is compiled.code_of(SOURCE, PATH)
    assert _result(SOURCE) == 42


def test_another_text_or_another_file_is_another_tool() -> None:
    compiled.keep(SOURCE, PATH)
    assert _result(SOURCE.replace("41", "1")) == 2
    assert compiled.code_of(SOURCE, "/work/other.py").co_filename == "/work/other.py"


def test_kept_code_equals_code_compiled_by_a_call() -> None:
    without = compiled.code_of(SOURCE, PATH)
    compiled.keep(SOURCE, PATH)
    assert compiled.code_of(SOURCE, PATH) == without


@pytest.mark.parametrize("source", ["def tool(:\n", "x = '\0'\n", "(" * 3000])
def test_a_syntax_error_is_not_kept_and_raises_in_the_call(source: str) -> None:
    compiled.keep(source, PATH)
    assert not compiled._known
    with pytest.raises((SyntaxError, ValueError, MemoryError, RecursionError)):
        compiled.code_of(source, PATH)


def test_a_source_with_compiler_warnings_is_left_to_the_calls() -> None:
    source = "def tool() -> bool:\n    return 1 is 1\n"
    compiled.keep(source, PATH)
    assert not compiled._known
    with pytest.warns(SyntaxWarning):
        compiled.code_of(source, PATH)


def test_a_source_with_oversized_code_is_left_to_the_calls() -> None:
    """The compiler copies each `finally`, with all those inside of it."""
    lines = [f"{' ' * level}try: pass\n{' ' * level}finally:" for level in range(15)]
    source = "\n".join([*lines, f"{' ' * 15}x = 1", ""])
    compiled.keep(source, PATH)
    assert not compiled._known
    assert compiled.code_of(source, PATH).co_filename == PATH


def test_the_oldest_make_room() -> None:
    for number in range(compiled._MAX_TOOLS + 3):
        compiled.keep(f"number = {number}\n", PATH)
    assert len(compiled._known) == compiled._MAX_TOOLS
    assert (PATH, "number = 2\n") not in compiled._known
    assert (PATH, f"number = {compiled._MAX_TOOLS + 2}\n") in compiled._known


def test_a_shortage_of_descriptors_leaves_compiling_to_the_calls() -> None:
    """The zygote that ended with an error here would end all of its calls."""
    command = [sys.executable, "-I", "-S", "-c", WITHOUT_DESCRIPTORS, str(RUNNER)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (answer.stdout, answer.stderr) == ("0 1\n", "")
