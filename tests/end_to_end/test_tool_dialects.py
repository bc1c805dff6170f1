"""Every way of writing a tool runs, with what it imports from `sandbox`, in a real box."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox import Outcome, Sandbox, Status
from tests.end_to_end.command_line import sandbox as command

METHODS: Final = '''
from sandbox import Tool, ToolResult, method_metadata, openapi_schema, tool_metadata

@tool_metadata(display_name="Files", weight=20)
class FilesTool(Tool):
    """Files."""
    made = 0

    def __init__(self) -> None:
        FilesTool.made += 1
        self.seen = FilesTool.made

    @openapi_schema({"name": "read", "description": "Reads."})
    def read(self, path: str) -> dict:
        return {"path": path, "made": self.seen}

    @method_metadata(is_core=True)
    async def write(self, path: str, lines: list[str]) -> ToolResult:
        return self.success_response({"path": path, "lines": lines})

    @staticmethod
    @method_metadata()
    def name(path: str) -> str:
        return path.rpartition("/")[2]
'''
EXECUTE: Final = """
from sandbox import BaseTool, OutputType, ToolResult

class Remove(BaseTool):
    name = "remove"
    description = "Removes a path."
    output_semantic_type = OutputType.STATUS_MESSAGE

    def validate_args(self, args: dict):
        return ("path" in args, "a path is needed")

    async def needs_permission(self, args: dict):
        return "May /etc be removed?" if args["path"].startswith("/etc") else False

    async def execute(self, args: dict) -> ToolResult:
        if args["path"] == "/missing":
            return ToolResult(ok=False, stderr="no such path")
        return ToolResult(ok=True, stdout="removed " + args["path"], meta={"count": 1})
"""
MODULE: Final = """
TOOL_NAME = "greet"
TOOL_DESCRIPTION = "Greets."
TOOL_PARAMETERS = {"type": "object", "properties": {"who": {"type": "string"}, "times": {"type": "integer"}},
                   "required": ["who"]}

async def run(ctx, **kwargs):
    return {"given": kwargs, "user": ctx.user.name}
"""
LISTED: Final = """
def add(a: int, b: int) -> int:
    return a + b

async def show(args):
    return args

NUMBER = {"type": "integer"}
TOOLS = [
    {"name": "add", "description": "Adds.", "handler": add,
     "parameters": {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]}},
    {"name": "double", "description": "Doubles.", "handler": lambda a=4: 2 * a,
     "parameters": {"type": "object", "properties": {"a": NUMBER}}},
    {"name": "show", "description": "Shows.", "handler": show,
     "parameters": {"type": "object", "properties": {"a": NUMBER}}},
]
"""


def value(outcome: Outcome) -> Any:
    """Return the value of a call that is ok."""
    assert outcome.ok, outcome
    return outcome.value


def test_each_method_of_a_class_is_called_on_one_of_its_own(sandbox: Sandbox) -> None:
    for _ in range(3):
        assert value(sandbox.run(METHODS, {"path": "a"}, entry="FilesTool.read")) == {"path": "a", "made": 1}
    assert value(sandbox.run(METHODS, {"path": "a/b"}, entry="FilesTool.name")) == "b"
    written = value(sandbox.run(METHODS, {"path": "a", "lines": '["x"]'}, entry="FilesTool.write"))
    assert json.loads(written["stdout"]) == {"path": "a", "lines": ["x"]}


def test_a_class_with_execute_is_asked_before_it_is_executed(sandbox: Sandbox) -> None:
    removed = sandbox.run(EXECUTE, {"path": "/tmp/x"})
    assert value(removed) == {"ok": True, "stdout": "removed /tmp/x", "stderr": "", "meta": {"count": 1}}
    invalid = sandbox.run(EXECUTE, {"folder": "x"})
    assert (invalid.status, [each.message for each in invalid.problems]) == (Status.INVALID, ["a path is needed"])
    assert invalid.exit_code == 2
    denied = sandbox.run(EXECUTE, {"path": "/etc"})
    assert (denied.status, denied.detail) == (Status.DENIED, "May /etc be removed?")
    assert value(sandbox.run(EXECUTE, {"path": "/etc"}, permitted=True))["stdout"] == "removed /etc"


def test_a_result_that_is_not_ok_has_failed(sandbox: Sandbox) -> None:
    outcome = sandbox.run(EXECUTE, {"path": "/missing"})
    assert (outcome.status, outcome.detail) == (Status.FAILED, "no such path")
    assert outcome.value == {"ok": False, "stdout": "", "stderr": "no such path", "meta": {}}
    assert outcome.error_line == "Error executing function remove: Failed: no such path"
    assert outcome.shaped_value.text


def test_a_module_gets_what_its_schema_says_and_ctx_as_it_declares_it(sandbox: Sandbox) -> None:
    ctx = {"user": {"name": "Ada"}}
    given = value(sandbox.run(MODULE, {"who": "null", "times": "2"}, ctx=ctx))
    assert given == {"given": {"who": "null", "times": 2}, "user": "Ada"}
    assert sandbox.run(MODULE, {"times": "x"}, ctx=ctx).status is Status.INVALID


def test_each_listed_tool_is_called_by_its_name(sandbox: Sandbox) -> None:
    assert value(sandbox.run(LISTED, {"a": 1, "b": "2"}, entry="add")) == 3
    assert value(sandbox.run(LISTED, {}, entry="double")) == 8
    assert value(sandbox.run(LISTED, {"a": 5}, entry="double")) == 10
    assert value(sandbox.run(LISTED, {"a": 5}, entry="show")) == {"a": 5}


def test_what_stands_under_main_does_not_run(sandbox: Sandbox) -> None:
    source = 'def tool() -> str:\n    return __name__\nif __name__ == "__main__":\n    raise SystemExit(3)\n'
    assert value(sandbox.run(source)) == "tool"


@pytest.mark.slow
def test_the_command_line_runs_every_dialect(tmp_path: Path) -> None:
    file = tmp_path / "files.py"
    file.write_text(METHODS)
    answer = command("run", str(file), "--entry", "FilesTool.name", "-a", "path=a/b")
    assert (answer.returncode, answer.stdout) == (0, "b\n")
    file.write_text(EXECUTE)
    answer = command("run", str(file), "-a", "path=/etc", "--json")
    assert (answer.returncode, json.loads(answer.stdout)["status"]) == (1, "denied")
    answer = command("run", str(file), "-a", "path=/etc", "--permit", "--json")
    assert json.loads(answer.stdout)["value"]["meta"] == {"count": 1}
    file.write_text(MODULE)
    answer = command("run", str(file), "-a", "who=x", "--ctx", '{"user": {"name": "Bo"}}', "--json")
    assert json.loads(answer.stdout)["value"]["user"] == "Bo"


KIT: Final = """
import importlib, sandbox
def tool() -> list:
    try:
        importlib.import_module("sandbox.client.client")
    except ImportError as error:
        said = str(error)
    return [sandbox.__name__, sorted(sandbox.__all__)[0], hasattr(sandbox, "Sandbox"), said]
"""


def test_in_a_box_the_module_sandbox_is_the_kit_and_nothing_else(sandbox: Sandbox) -> None:
    for _ in range(3):  # cold, and imported ahead
        name, first, is_engine, said = value(sandbox.run(KIT))
        assert (name, first, is_engine) == ("sandbox", "BaseTool", False)
        assert "'sandbox' is not a package" in said


def test_a_tool_without_the_kit_does_not_pay_for_it(sandbox: Sandbox) -> None:
    costly = ("sandbox", "typing", "inspect", "dataclasses")
    source = f"import sys\ndef tool() -> list:\n    return [name for name in {costly} if name in sys.modules]\n"
    with Sandbox() as engine:
        assert value(engine.run(source)) == []


HOSTILE: Final = {
    "__init__ that raises": (
        "class T(BaseTool):\n    def __init__(self): raise OSError('no disk')\n"
        "    def execute(self, args: dict): return 1\n",
        ("exception", "OSError: no disk"),
    ),
    "__init__ that wants arguments": (
        "class T(BaseTool):\n    def __init__(self, more): pass\n    def execute(self, args: dict): return 1\n",
        ("exception", "missing 1 required positional argument: 'more'"),
    ),
    "a validate_args that raises": (
        "class T(BaseTool):\n    def validate_args(self, args): raise KeyError('k')\n"
        "    def execute(self, args: dict): return 1\n",
        ("exception", "KeyError: 'k'"),
    ),
    "a validate_args that exits": (
        "class T(BaseTool):\n    def validate_args(self, args): raise SystemExit(0)\n"
        "    def execute(self, args: dict): return 1\n",
        ("exited", "with code 0"),
    ),
    "an answer without a truth value": (
        "class No:\n    def __bool__(self): raise ValueError('neither')\n"
        "class T(BaseTool):\n    def validate_args(self, args): return No()\n"
        "    def execute(self, args: dict): return 1\n",
        ("exception", "ValueError: neither"),
    ),
    "a text that cannot be read": (
        "class No:\n    def __str__(self): raise ValueError('unsaid')\n"
        "class T(BaseTool):\n    def validate_args(self, args): return False, No()\n"
        "    def execute(self, args: dict): return 1\n",
        ("exception", "ValueError: unsaid"),
    ),
    "half a surrogate as the text": (
        "class T(BaseTool):\n    def needs_permission(self, args): return 'a\\udc80' * 9999\n"
        "    def execute(self, args: dict): return 1\n",
        ("denied", "a\\udc80a"),
    ),
    "a result whose ok raises": (
        "class Lies(ToolResult):\n    @property\n    def ok(self): raise RuntimeError('who knows')\n"
        "    def __init__(self): pass\n"
        "class T(BaseTool):\n    def execute(self, args: dict): return Lies()\n",
        ("exception", "RuntimeError: who knows"),
    ),
    "a result whose repr says ok": (
        "class Lies(ToolResult):\n    def __repr__(self): return 'ToolResult(\\u2713)'\n    __class__ = dict\n"
        "class T(BaseTool):\n    def execute(self, args: dict): return Lies(False, stderr='said no')\n",
        ("failed", "said no"),
    ),
    "a result whose parts are not text": (
        "class Odd(ToolResult):\n    ok, stdout, stderr, meta = False, [1], {2}, float('nan')\n"
        "    def __init__(self): pass\n"
        "class T(BaseTool):\n    def execute(self, args: dict): return Odd()\n",
        ("failed", "without a reason"),
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.usefixtures("harmless")
def test_a_class_that_misbehaves_ends_its_own_call(name: str, sandbox: Sandbox) -> None:
    source, (status, said) = HOSTILE[name]
    outcome = sandbox.run("from sandbox import BaseTool, ToolResult\n" + source, {})
    assert (outcome.status.value, said in (outcome.error_line or "")) == (status, True), outcome
    assert "runners" not in str(outcome.error)


@pytest.mark.slow
@pytest.mark.usefixtures("harmless")
def test_limits_hold_for_a_tool_that_never_stops_validating(sandbox: Sandbox) -> None:
    source = "class T(BaseTool):\n    def validate_args(self, args):\n        while True: pass\n"
    source = f"from sandbox import BaseTool\n{source}    def execute(self, args: dict): return 1\n"
    outcome = sandbox.run(source, {}, limits={"wall": 1.0})
    assert outcome.status is Status.TIMEOUT


def test_a_result_too_large_is_a_limit_like_any_value(sandbox: Sandbox) -> None:
    source = "from sandbox import ToolResult\ndef tool():\n    return ToolResult(True, stdout='x' * 100_000)\n"
    outcome = sandbox.run(source, limits={"value": 1000})
    assert (outcome.status, outcome.limit_name) == (Status.LIMIT, "value")


RAISES: Final = """
from sandbox import Tool, method_metadata
class Odd(Tool):
    @method_metadata()
    def chained(self, n: int) -> int:
        try:
            int("x")
        except ValueError as error:
            raise RuntimeError("one\\ntwo \\udc80") from error
    @method_metadata()
    async def grouped(self, n: int) -> int:
        raise self.many()
    def many(self):
        class Many(Exception):
            exceptions = [ValueError("a")]
        return Many("some")
    @method_metadata()
    def gives(self, n: int):
        yield 1
        raise OSError(5, "in the middle")
    @method_metadata()
    async def gives_later(self, n: int):
        yield 1
        raise LookupError()
    @method_metadata()
    def itself(self, n: int) -> int:
        class Itself(Exception):
            def __str__(self):
                raise self
        raise Itself
"""


@pytest.mark.parametrize(
    ("entry", "line", "frames"),
    [
        ("chained", "Error executing function chained: RuntimeError: one two \\udc80", 2),
        ("grouped", "Error executing function grouped: Many: some", 1),
        ("gives", "Error executing function gives: OSError: [Errno 5] in the middle", 1),
        ("gives_later", "Error executing function gives_later: LookupError", 1),
        ("itself", "Error executing function itself: Itself: <unreadable: Itself>", 2),
    ],
)
def test_an_exception_of_any_dialect_is_one_line_and_the_tools_own_frames(
    entry: str, line: str, frames: int, sandbox: Sandbox
) -> None:
    outcome = sandbox.run(RAISES, {"n": 1}, entry=f"Odd.{entry}")
    assert (outcome.status, outcome.error_line) == (Status.EXCEPTION, line)
    assert outcome.error is not None
    traceback = outcome.error.traceback or ""
    assert traceback.count('  File "') == traceback.count('File "/work/tool.py"') == frames
