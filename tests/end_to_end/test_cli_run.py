"""`sandbox run`, from the words on the command line to what stands on the screen."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.outcome import Outcome, Status
from tests.checkout import ROOT
from tests.end_to_end.command_line import COMMAND, environment, sandbox

pytestmark = pytest.mark.slow

WORD_COUNT = ROOT / "examples" / "word_count.py"
HOSTILE = "red \x1b[31m, title \x1b]0;owned\x07, c1 \x9b, back\r, bidi \u202e, zero \u200b, half \ud800"

Tool = Callable[[str], Path]


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    """Write a tool's source to a file."""

    def write(source: str) -> Path:
        path = tmp_path / "tool.py"
        path.write_text(source, encoding="utf-8", errors="surrogatepass")
        return path

    return write


def test_the_value_stands_on_stdout_and_the_figures_on_stderr() -> None:
    answer = sandbox("run", WORD_COUNT, "-a", "text=to be or not to be")
    assert answer.returncode == 0
    assert json.loads(answer.stdout)["words"] == 6
    assert answer.stderr.startswith("ok · ")
    assert answer.stderr.count("\n") == 1


def test_text_is_shown_as_it_is_and_nothing_for_none(tool: Tool) -> None:
    assert sandbox("run", tool("def f():\n    return 'plain \\u00e9 text'")).stdout == "plain é text\n"
    assert sandbox("run", tool("def f():\n    pass")).stdout == ""


def test_what_the_tool_prints_comes_before_its_value_each_on_its_stream(tool: Tool) -> None:
    source = "import sys\ndef f():\n    print('out', end='')\n    print('err', file=sys.stderr)\n    return [1, 2]\n"
    answer = sandbox("run", tool(source))
    assert answer.stdout == "out\n[1, 2]\n"
    assert answer.stderr.startswith("err\nok · ")


def test_types_declared_by_the_tool_say_what_text_means(tool: Tool) -> None:
    path = tool("def f(n: int, ratio: float, names: list[str], plain):\n    return [n, ratio, names, plain]")
    answer = sandbox("run", path, "-a", "n=5", "-a", "ratio=0.5", "-a", 'names=["a"]', "-a", "plain=7=7")
    assert json.loads(answer.stdout) == [5, 0.5, ["a"], "7=7"]


@pytest.mark.parametrize("origin", ["text", "file", "standard input"])
def test_arguments_come_as_json_from(origin: str, tool: Tool, tmp_path: Path) -> None:
    document = '\ufeff{"n": [1, {"é": null}]}'
    (tmp_path / "args.json").write_text(document, encoding="utf-8")
    given = {"text": document[1:], "file": f"@{tmp_path / 'args.json'}", "standard input": "-"}[origin]
    answer = sandbox("run", tool("def f(n, m=0):\n    return [n, m]"), "--args", given, "-a", "m=1", input=document)
    assert json.loads(answer.stdout) == [[1, {"é": None}], "1"]


def test_json_is_the_outcome_and_nothing_else(tool: Tool) -> None:
    answer = sandbox("run", tool("def f():\n    print('x')\n    return 1"), "--json")
    outcome = Outcome.from_json(answer.stdout)
    assert (outcome.value, outcome.stdout.text, outcome.receipt is not None) == (1, "x\n", True)
    assert answer.stdout.count("\n") == 1
    assert answer.stderr == ""


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ("raise ValueError('no such city')", Status.EXCEPTION, 1),
        ("raise SystemExit(0)", Status.EXITED, 1),
        ("import os; os.kill(os.getpid(), 11)", Status.CRASHED, 1),
        ("x = []\n    while True: x.append(bytearray(b'x' * 2**20))", Status.MEMORY, 3),
        ("while True: pass", Status.TIMEOUT, 3),
        ("import os\n    while True: os.open('/dev/null', 0)", Status.LIMIT, 3),
    ],
)
def test_each_way_to_fail_has_its_exit_code_and_says_so(tool: Tool, body: str, status: Status, code: int) -> None:
    path = tool(f"def f():\n    print('before')\n    {body}\n")
    seconds = "2s" if status is Status.TIMEOUT else "30s"
    answer = sandbox("run", path, "--timeout", seconds, "--limit", "memory=64MiB")
    assert answer.returncode == code
    assert answer.stdout in ("before\n", "")  # a killed tool loses the output that it had not flushed
    assert answer.stderr.splitlines()[0].startswith(f"{status.value}")
    assert answer.stderr.splitlines()[-1].startswith(f"{status.value} · ")


def test_an_exception_shows_the_authors_lines(tool: Tool) -> None:
    answer = sandbox("run", tool("def f():\n    return 1 / 0  # here\n"))
    assert answer.stderr.startswith("exception: ZeroDivisionError: division by zero\n  Traceback")
    assert "return 1 / 0  # here" in answer.stderr


def test_a_limit_is_reported_with_its_bound_and_measure(tool: Tool) -> None:
    answer = sandbox("run", tool("def f():\n    while True: pass"), "--timeout", "300ms")
    assert re.search(r"limit wall: 300 ms, measured [\d.]+ m?s", answer.stderr), answer.stderr


def test_every_wrong_argument_has_a_line_of_its_own(tool: Tool) -> None:
    path = tool("def f(count: int, name: str): return 1")
    answer = sandbox("run", path, "-a", "count=many", "-a", "extra=1")
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert answer.stderr.splitlines() == [
        "invalid: the arguments do not fit f",
        '  extra: the tool takes no argument of this name; expected one of count, name, got "1"',
        '  count: must be an integer; got "many"',
        "  name: this argument is required and was not given; expected a string",
        "invalid · nothing ran",
    ]
    assert Outcome.from_json(sandbox("run", path, "--json").stdout).status is Status.INVALID


@pytest.mark.parametrize("way", [["--stream"], []], ids=["streamed", "at the end"])
@pytest.mark.parametrize("place", ["return HOSTILE", "print(HOSTILE)", "raise ValueError(HOSTILE)", "warn()"])
def test_nothing_a_tool_says_can_drive_a_terminal(tool: Tool, place: str, way: list[str]) -> None:
    source = f"import sys\nHOSTILE = {HOSTILE!r}.encode('utf-8', 'replace').decode()\n"
    warn = "def _warn(): print(HOSTILE, file=sys.stderr)\n"
    answer = sandbox("run", tool(f"{source}{warn}def f():\n    {place.replace('warn', '_warn')}\n"), *way)
    shown = answer.stdout + answer.stderr
    is_read = place in ("print(HOSTILE)", "warn()")  # as a terminal shows it: the end of a rewritten line
    start = "" if is_read else r"red \u001b[31m, title \u001b]0;owned\u0007, c1 \u009b, back\u000d"
    assert rf"{start}, bidi \u202e, zero \u200b" in shown
    assert all(letter.isprintable() or letter in "\n\t" for letter in shown)


def test_json_keeps_every_character(tool: Tool) -> None:
    answer = sandbox("run", tool(f"def f():\n    return {HOSTILE[:-7]!r}"), "--json")
    assert json.loads(answer.stdout)["value"] == HOSTILE[:-7]
    assert "\x1b" not in answer.stdout


def test_a_streamed_call_shows_output_once_and_then_its_value(tool: Tool) -> None:
    source = "import sys\ndef f():\n    print('a\\r')\n    print('b', end='\\r', flush=True)\n    return 'c'"
    answer = sandbox("run", tool(source), "--stream")
    assert answer.stdout == "a\nb\nc\n"


def test_a_progress_bar_is_watched_on_a_terminal_and_colours_are_left_out(tool: Tool) -> None:
    source = "import sys\ndef f():\n    print('\x1b[31mred\x1b[0m', flush=True)\n    print(' 0%\\r99%')\n"
    assert sandbox("run", tool(source), "--stream").stdout in ("red\n 0%\n99%\n", "red\n99%\n")
    shown = _on_a_terminal("run", tool(source), "--stream")
    assert shown.startswith(("red\r\n 0%\r\x1b[K99%\r\n", "red\r\n99%\r\n"))


def test_a_table_has_columns_on_a_terminal(tool: Tool) -> None:
    columns = [{"name": "id", "dtype": "int64"}, {"name": "city", "dtype": "str"}]
    value = {"$type": "table", "columns": columns, "rows": [[1, "Oslo"], [20, "Bergen"]], "row_count": 2}
    path = tool(f"def f():\n    return {value!r}\n")
    assert "\r\n     1   Oslo\r\n    20   Bergen\r\n" in _on_a_terminal("run", path)


def test_a_streamed_call_as_json_is_one_document_per_line(tool: Tool) -> None:
    answer = sandbox("run", tool("def f():\n    print('é', flush=True)\n    return 2"), "--stream", "--json")
    *events, last = answer.stdout.splitlines()
    printed = [json.loads(event) for event in events]
    assert {event["event"] for event in printed} == {"printed"}
    assert "".join(event["text"] for event in printed) == "é\n"
    assert Outcome.from_json(last).value == 2


def test_the_entry_the_policy_variables_and_limits_reach_the_call(tool: Tool) -> None:
    path = tool("import os\ndef a(): return os.environ['CITY']\ndef b(): return 2\n")
    words = ["--entry", "a", "--policy", "offline", "--env", "CITY=Oslo", "--limit", "wall=7s", "--tenant", "us"]
    outcome = Outcome.from_json(sandbox("run", path, *words, "--json").stdout)
    assert outcome.value == "Oslo"
    assert outcome.receipt is not None
    assert outcome.receipt.policy.name == "offline"
    assert outcome.receipt.limits["wall"].value == 7


def test_variables_of_the_environment_choose_policy_and_backend(tool: Tool) -> None:
    path = tool("def f(): return 1")
    outcome = Outcome.from_json(sandbox("run", path, "--json", env={"SANDBOX_POLICY": "offline"}).stdout)
    assert outcome.receipt is not None
    assert outcome.receipt.policy.name == "offline"
    assert sandbox("run", path, env={"SANDBOX_BACKEND": "nowhere"}).returncode == 2


def _on_a_terminal(*words: object, **variables: str) -> str:
    """Return the output of both streams on a terminal."""
    ours, theirs = os.openpty()
    try:
        process = subprocess.Popen(
            [*COMMAND, *map(str, words)],
            cwd=ROOT,
            env=environment(TERM="xterm-256color", **variables),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
    finally:
        os.close(theirs)
    shown = b""
    with os.fdopen(ours, "rb", buffering=0) as terminal, process:
        while True:
            try:
                piece = terminal.read(1 << 16)
            except OSError:  # Linux: the other side is closed
                break
            if not piece:
                break
            shown += piece
    return shown.decode()


def test_a_terminal_gets_colours_unless_it_wants_none(tool: Tool) -> None:
    path = tool("def f(): return {'a': 1}")
    shown = _on_a_terminal("run", path)
    assert "\x1b[2mok · " in shown
    assert "\x1b[" in shown.splitlines()[0]
    assert _on_a_terminal("run", path, NO_COLOR="1").splitlines()[0] == '{"a": 1}'
    assert "\x1b[31mexception: " in _on_a_terminal("run", tool("def f(): 1 / 0"))


def test_a_run_for_a_program_imports_nothing_to_draw_with(tool: Tool) -> None:
    script = (
        "import sys; from sandbox.cli.app import exit_code_of;"
        f"exit_code_of(['run', {str(tool('def f(): return 1'))!r}, '--json']);"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'rich', 'pygments'}))"
    )
    answer = subprocess.run([COMMAND[0], "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "[]"


def test_a_run_imports_no_other_command_and_nothing_that_draws(tool: Tool) -> None:
    others = sorted(path.stem for path in (ROOT / "sandbox/cli").glob("*_*.py"))
    shared = {"artifact_options", "build_progress", "error_report", "outcome_report"}
    script = (
        "import sys; from sandbox.cli.app import exit_code_of;"
        f"exit_code_of(['run', {str(tool('def f(): return 1'))!r}]);"
        f"others = {{f'sandbox.cli.{{name}}' for name in {others}}} | {{'sandbox.cli.check', 'sandbox.cli.doctor'}};"
        "print(sorted(set(sys.modules) & (others | {'rich', 'psutil', 'docstring_parser'})))"
    )
    answer = subprocess.run([COMMAND[0], "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(ast.literal_eval(answer.stdout.splitlines()[-1])) <= {f"sandbox.cli.{name}" for name in shared}


def test_help_needs_neither_the_engine_nor_anything_to_draw_with() -> None:
    script = (
        "import sys; from sandbox.cli.app import exit_code_of; exit_code_of(['--help']);"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'rich', 'pydantic', 'asyncio', 'psutil'}))"
    )
    answer = subprocess.run([COMMAND[0], "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "[]"


def test_an_output_is_shown_as_it_is_asked_for(tool: Tool) -> None:
    path = tool("def f():\n    print('one two three ' * 400)\n    return list(range(900))\n")
    words = ("--output", "stdout.characters=40", "--output", "value.characters=200", "--json")
    outcome = Outcome.from_json(sandbox("run", path, *words).stdout)
    assert (outcome.stdout.shown <= 40, outcome.shaped_value.shown <= 200) == (True, True)
    answer = sandbox("run", path, "--tokens", "10", "--tokenizer", "builtins:str.split")
    assert "more items" in answer.stdout
    assert answer.stdout.count("one") <= 10
    for wrong, told in (
        (("--tokens", "10"), "--tokenizer"),
        (("--tokens", "10", "--tokenizer", "builtins:nothing"), "nothing"),
        (("--output", "stdout=5"), "stdout.characters=500"),
        (("--output", "stdin.type=table"), "'value', 'stdout' or 'stderr'"),
    ):
        answer = sandbox("run", path, *wrong)
        assert (answer.returncode, told in answer.stderr) == (2, True), answer.stderr


def test_a_table_and_bytes_are_shown_for_eyes(tool: Tool) -> None:
    table = {"$type": "table", "columns": [{"name": "n", "dtype": "int64"}], "rows": [[1], [2]], "row_count": 2}
    assert sandbox("run", tool(f"def f():\n    return {table!r}")).stdout.splitlines()[1:] == ["n (int64)", "1", "2"]
    assert sandbox("run", tool("def f():\n    return b'\\x00' * 9")).stdout.startswith("[binary value.bin: ")
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x09\0\0\0\x07"
    shown = sandbox("run", tool(f"def f():\n    return {png!r}")).stdout
    assert shown.startswith("[image value.png: image/png, 9 × 7, 24 bytes, ")  # noqa: RUF001
