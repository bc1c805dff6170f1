"""`sandbox check` and `sandbox schema`, as users have them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.command_line import sandbox

pytestmark = pytest.mark.slow

FAULTY: Final = """\
from requests import Session


def größe(a: int, session: Session, *rest) -> None:
\t\"\"\"Do it.

\tArgs:
\t    a: The a.
\t\"\"\"
"""


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    file = tmp_path / "faulty.py"
    file.write_text(FAULTY)
    return file


def test_a_good_tool_is_ok() -> None:
    answer = sandbox("check", "examples/word_count.py")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "ok: 1 callable: word_count\n", "")


def test_every_problem_is_shown_with_its_line_and_a_caret(faulty: Path) -> None:
    answer = sandbox("check", faulty)
    assert (answer.returncode, answer.stderr) == (2, "")
    assert f"{faulty}:4:28: error: Session in the annotation of session is not understood" in answer.stdout
    line = "    def größe(a: int, session: Session, *rest) -> None:\n"
    assert line + " " * (4 + 27) + "^\n" in answer.stdout
    assert line + " " * (4 + 37) + "^\n" in answer.stdout
    assert answer.stdout.count("error: ") == 4
    assert answer.stdout.endswith("not ok: 4 errors; 1 callable: größe\n")


def test_a_syntax_error_is_shown_once(tmp_path: Path) -> None:
    file = tmp_path / "bad.py"
    file.write_text("def f(:\n    pass\n")
    answer = sandbox("check", file)
    assert answer.returncode == 2
    assert answer.stdout.count("def f(:\n          ^\n") == 1


def test_a_report_is_one_json_document(faulty: Path) -> None:
    answer = sandbox("check", faulty, "--json")
    document = json.loads(answer.stdout)
    assert (answer.returncode, document["ok"], document["entry"]) == (2, False, "größe")
    places = [(each["code"], each["line"], each["column"]) for each in document["problems"]]
    assert ("unknown_annotation", 4, 28) in places
    assert ("star_arguments", 4, 38) in places


def test_risk_is_a_section_of_its_own_and_does_not_change_the_exit_code(tmp_path: Path) -> None:
    file = tmp_path / "run.py"
    file.write_text('def run() -> None:\n    """Run a fixed program."""\n    eval(input())\n')
    answer = sandbox("check", file)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert f"risk: medium\n    {file}:3: medium: turns text into code: builtins.eval [dynamic_code]\n" in answer.stdout
    assert "not a security boundary" in answer.stdout
    risk = json.loads(sandbox("check", file, "--json").stdout)["risk"]
    assert (risk["level"], [each["line"] for each in risk["findings"]]) == ("medium", [3])


@pytest.mark.parametrize("words", [["check"], ["schema"]])
def test_a_file_that_is_not_there_is_an_error(words: list[str], tmp_path: Path) -> None:
    answer = sandbox(*words, tmp_path / "none.py")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "there is no file" in answer.stderr


@pytest.mark.parametrize(
    ("shape", "key"),
    [
        (None, "parameters"),
        ("openai", "function"),
        ("openai-responses", "parameters"),
        ("anthropic", "input_schema"),
        ("mcp", "inputSchema"),
        ("json", "properties"),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_a_schema_has_the_shape_that_is_asked_for(shape: str | None, key: str, strict: bool) -> None:
    words = [*(["--format", shape] if shape else []), *(["--strict"] if strict else [])]
    answer = sandbox("schema", "examples/word_count.py", *words)
    assert answer.returncode == 0
    assert key in json.loads(answer.stdout)


def test_a_shape_that_no_parameter_takes_is_an_error() -> None:
    answer = sandbox("schema", "examples/word_count.py", "--format", "xml")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "openai, openai-responses, anthropic, mcp, json" in answer.stderr


def test_a_schema_for_programs_is_one_line() -> None:
    pages, line = (sandbox("schema", "examples/word_count.py", *words).stdout for words in ([], ["--json"]))
    assert json.loads(line) == json.loads(pages)
    assert (line.count("\n"), pages.count("\n") > 1) == (1, True)


def test_a_source_that_lacks_something_has_no_schema(faulty: Path) -> None:
    answer = sandbox("schema", faulty)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "the source has no complete schema: line 4: " in answer.stderr
    assert "`sandbox check` lists all problems" in answer.stderr


def test_one_of_several_tools_is_asked_for_by_name(tmp_path: Path) -> None:
    file = tmp_path / "two.py"
    file.write_text('def f() -> None:\n    """F."""\n\n\ndef g() -> None:\n    """G."""\n')
    assert sandbox("check", file).returncode == 2
    assert sandbox("check", file, "--entry", "g").returncode == 0
    assert json.loads(sandbox("schema", file, "--entry", "g").stdout)["name"] == "g"
