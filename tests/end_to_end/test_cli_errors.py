"""The command line reports every error in one clear line, with the right exit code and never a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.command_line import sandbox

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files to be named on command lines."""
    for name, text in {
        "good.py": "def f(n=1): return n\n",
        "two.py": "def a(): pass\ndef b(): pass\n",
        "bad.py": "def f(:\n    pass\n",
        "empty.py": "",
        "nul.py": "def f():\n    return '\0'\n",
        "needy.py": '# /// script\n# dependencies = ["nothing-like-it --pre"]\n# ///\ndef f(): pass\n',
        "list.json": "[1]",
        "bad.json": '{"n": }',
        "deep.json": "[" * 100_000,
        "twice.json": '{"n": 1, "n": 2}',
        "broken.toml": "limits = 3\n",
    }.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "latin.json").write_bytes(b'{"n": "\xe9"}')
    return tmp_path


CASES: dict[str, tuple[list[str], int, str]] = {
    "no command": (["ruun"], 2, "no such command 'ruun'. Did you mean 'run'?"),
    "no file given": (["run"], 2, "missing argument 'FILE'"),
    "no subcommand": (["policy"], 2, "missing command"),
    "unknown option": (["run", "@/good.py", "--bogus"], 2, "no such option: --bogus"),
    "option without value": (["run", "@/good.py", "--args"], 2, "→ sandbox run --help"),
    "option of a group without value": (["env", "lock", "--file"], 2, "→ sandbox env lock --help"),
    "option of no command": (["--bogus"], 2, "→ sandbox --help"),
    "missing file": (["run", "@/none.py"], 2, "there is no file"),
    "a folder": (["run", "@/"], 2, "is not a file"),
    "a device": (["run", "/dev/null"], 2, "is not a file"),
    "no path": (["run", ""], 2, "is not a file"),
    "not python": (["run", "@/bad.py"], 2, "syntax error: "),
    "empty": (["run", "@/empty.py"], 2, "the source is empty"),
    "nul": (["run", "@/nul.py"], 2, ""),
    "two candidates": (["run", "@/two.py"], 2, "the source has 2 public functions: a, b"),
    "no such entry": (["run", "@/good.py", "--entry", "g"], 2, "no public top-level function g"),
    "requirements": (["run", "@/needy.py"], 4, "nothing-like-it"),
    "no equals": (["run", "@/good.py", "-a", "n"], 2, "-a 'n' is not NAME=VALUE"),
    "twice": (["run", "@/good.py", "-a", "n=1", "-a", "n=2"], 2, "-a gives 'n' twice"),
    "both ways": (["run", "@/good.py", "-a", "n=1", "--args", '{"n": 1}'], 2, "by -a and by --args"),
    "not json": (["run", "@/good.py", "--args", "{n: 1}"], 2, "--args is not JSON: "),
    "not an object": (["run", "@/good.py", "--args", "@@/list.json"], 2, "must be a JSON object"),
    "bad json file": (["run", "@/good.py", "--args", "@@/bad.json"], 2, "is not JSON: "),
    "deep json": (["run", "@/good.py", "--args", "@@/deep.json"], 2, ""),
    "repeated member": (["run", "@/good.py", "--args", "@@/twice.json"], 2, "'n' is given twice"),
    "not UTF-8": (["run", "@/good.py", "--args", "@@/latin.json"], 2, "is not UTF-8 text, from byte 7 on"),
    "no args file": (["run", "@/good.py", "--args", "@@/none.json"], 2, "No such file"),
    "args folder": (["run", "@/good.py", "--args", "@@/"], 2, "Is a directory"),
    "nothing to read": (["run", "@/good.py", "--args", "-"], 2, "standard input (--args -) is not JSON"),
    "bad time": (["run", "@/good.py", "--timeout", "soon"], 2, "limits.wall: must be a duration"),
    "time twice": (["run", "@/good.py", "--timeout", "1", "--limit", "wall=1"], 2, "are the same limit"),
    "too much time": (["run", "@/good.py", "--timeout", "1h"], 2, "more than 30 s granted by 'default'"),
    "no such limit": (["run", "@/good.py", "--limit", "speed=1"], 2, "limits.speed: there is no such key"),
    "bad variable": (["run", "@/good.py", "--env", "a b=1"], 2, "not the name of an environment variable"),
    "no such policy": (["run", "@/good.py", "--policy", "lax"], 2, "no policy is called 'lax'"),
    "broken policy": (["run", "@/good.py", "--policy", "@/broken.toml"], 2, "limits: "),
    "no such backend": (["run", "@/good.py", "--backend", "moon"], 2, "there is no backend 'moon'"),
    "too strict": (["run", "@/good.py", "--policy", "strict"], 5, "accepts nothing weaker than a container"),
    "show nothing": (["policy", "show", "lax"], 2, "no policy is called 'lax'"),
    "explain nothing": (["policy", "explain", "@/none.toml"], 2, "cannot be read"),
    "no doctor there": (["doctor", "--backend", "moon"], 2, "there is no backend 'moon'"),
}


def _words(case: str, folder: Path) -> list[str]:
    return [word.replace("@/", f"{folder}/") for word in CASES[case][0]]


@pytest.mark.parametrize("case", CASES)
def test_an_error_is_reported_in_a_clear_line(case: str, folder: Path) -> None:
    _, code, said = CASES[case]
    answer = sandbox(*_words(case, folder))
    assert answer.returncode == code, answer.stderr
    assert answer.stdout == ""
    assert answer.stderr.startswith("error: ")
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr
    assert "something is wrong inside" not in answer.stderr


@pytest.mark.parametrize(
    "case", ["no command", "unknown option", "missing file", "not json", "too strict", "requirements"]
)
def test_an_error_as_json_is_a_document_with_the_same_exit_code(case: str, folder: Path) -> None:
    words = _words(case, folder)
    answer = sandbox(*(["--json"] if words == ["ruun"] else []), *words, "--json")
    error: dict[str, Any] = json.loads(answer.stdout)["error"]
    assert set(error) == {"type", "message", "remedy"}
    assert answer.returncode == CASES[case][1]
    assert answer.stderr == ""


def test_a_remedy_has_a_line_of_its_own(folder: Path) -> None:
    answer = sandbox("run", folder / "good.py", "--policy", "lax")
    assert answer.stderr.splitlines()[-1].startswith("  → a policy file of your own")


def test_a_syntax_error_shows_the_line_and_a_caret(folder: Path) -> None:
    answer = sandbox("run", folder / "bad.py")
    assert answer.stderr.splitlines()[1:] == ["    def f(:", "          ^"]


def test_no_words_at_all_show_the_help_and_are_a_usage_error() -> None:
    answer = sandbox()
    assert answer.returncode == 2
    assert "Commands:" in answer.stdout
    assert sandbox("--help").returncode == 0


def test_the_version_is_printed() -> None:
    assert sandbox("--version").stdout.startswith("sandbox ")


def test_a_file_that_may_not_be_read_is_an_error(folder: Path) -> None:
    loop = folder / "loop.py"
    loop.symlink_to(loop)
    answer = sandbox("run", loop)
    assert (answer.returncode, answer.stderr.startswith("error: ")) == (2, True)


def test_a_file_name_that_is_no_text_does_no_harm(folder: Path) -> None:
    odd = folder / "odd-\udcff.py"
    odd.write_text("def f(): return 1\n")
    assert sandbox("run", odd).stdout == "1\n"
    assert sandbox("run", folder / "none-\udcff\x1b[31m.py").stderr.startswith("error: there is no file")
