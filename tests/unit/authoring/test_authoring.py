"""The authoring module stands alone: it works on every Python since 3.8, marks without changing, and costs little."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

import sandbox
from sandbox import BaseTool, OutputType, Tool, ToolResult, authoring, method_metadata, openapi_schema, tool
from sandbox.resources import read_authoring
from tests.runners.interpreters import interpreters

USE: Final = """
from authoring import *
from authoring import __all__ as names
@tool
def plain(text: str) -> str: return text
@tool(name="other", output_type=OutputType.TABLE)
async def named(): pass
@tool_metadata(display_name="Files", weight=20)
class FilesTool(Tool):
    @openapi_schema({"name": "read", "description": "first"})
    @openapi_schema({"name": "read", "description": "second"})
    @method_metadata(is_core=True)
    def read(self, path): return self.success_response({"path": path})
class Lint(BaseTool):
    name, description = "lint", "Lints."
assert plain("x") == "x" and plain.__tool__["name"] is None
assert named.__tool__["name"] == "other" and named.__tool__["output_type"] == "table"
assert (FilesTool.__tool__["display_name"], FilesTool.__tool__["weight"]) == ("Files", 20)
assert [each["description"] for each in FilesTool.read.__tool__["schemas"]] == ["first", "second"]
assert FilesTool.read.__tool__["is_core"] is True
assert repr(FilesTool().read("a")) == "ToolResult(\\u2713, stdout_len=13, stderr_len=0)"
assert Lint().validate_args({}) is True and Lint().needs_permission({}) is False
try:
    Lint().execute({})
except NotImplementedError as error:
    assert str(error) == "Lint does not define execute"
assert len(names) == 8 and str(OutputType.JSON_DATA) == "json_data"
"""


@pytest.mark.slow
@pytest.mark.parametrize("version", interpreters())
def test_the_module_works_alone_on_every_python(version: str) -> None:
    loading = (
        f"kit = sys.modules['authoring'] = types.ModuleType('authoring'); exec({read_authoring()!r}, kit.__dict__)"
    )
    script = f"import sys, types\n{loading}\n{USE}"
    answer = subprocess.run(
        [interpreters()[version], "-I", "-S", "-W", "error", "-c", script], capture_output=True, check=False
    )
    assert (answer.returncode, answer.stderr.decode()) == (0, "")


def test_the_module_imports_nothing_slow() -> None:
    script = f"exec({read_authoring()!r}); import sys; print(*sorted(sys.modules))"
    answer = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, check=True, text=True)
    assert {"typing", "dataclasses", "inspect", "re", "json"}.isdisjoint(answer.stdout.split())


def test_the_engine_exports_the_names_of_the_module() -> None:
    assert {getattr(sandbox, name) for name in authoring.__all__} == {
        vars(authoring)[name] for name in authoring.__all__
    }
    assert set(authoring.__all__) <= set(sandbox.__all__)


def test_a_result_shows_lengths_and_no_text() -> None:
    assert repr(ToolResult(True, stdout="secret")) == "ToolResult(✓, stdout_len=6, stderr_len=0)"
    assert repr(ToolResult(ok=False, stderr="no" * 1000)) == "ToolResult(✗, stdout_len=0, stderr_len=2000)"
    assert repr(ToolResult(0, "a")) == "ToolResult(✗, stdout_len=1, stderr_len=0)"  # type: ignore[arg-type]


def test_a_result_reports_success_and_its_parts() -> None:
    assert ToolResult(True, "a", meta={"n": 1}) == ToolResult(True, stdout="a", meta={"n": 1})
    assert ToolResult(True, "a") != ToolResult(True, "b")
    assert ToolResult(True) != "ok"
    with pytest.raises(TypeError, match="stdout must be a string, not dict"):
        ToolResult(True, stdout={})  # type: ignore[arg-type]


def test_responses_take_text_and_anything_json_has() -> None:
    assert Tool().success_response("done") == ToolResult(True, stdout="done")
    assert Tool().success_response({"é": [1]}) == ToolResult(True, stdout='{"é": [1]}')
    assert Tool().fail_response("no") == ToolResult(False, stderr="no")


def test_options_of_a_base_class_stay_with_the_base() -> None:
    @sandbox.tool_metadata(icon="disk")
    class Base(Tool):
        pass

    @sandbox.tool_metadata(color="red")
    class Derived(Base):
        pass

    assert vars(Base)["__tool__"]["icon"] == "disk"
    assert vars(Derived)["__tool__"]["icon"] is None


def test_decorators_of_one_method_add_up_in_any_order() -> None:
    @method_metadata(display_name="Read")
    @openapi_schema({"name": "read"})
    def one() -> None: ...

    @openapi_schema({"name": "read"})
    @method_metadata(display_name="Read")
    def other() -> None: ...

    assert vars(one)["__tool__"] == vars(other)["__tool__"]


def test_a_marked_function_is_the_function_itself() -> None:
    def double(number: int) -> int:
        return 2 * number

    assert tool(double) is double
    assert tool(name="twice")(double)(2) == 4


def test_output_types_are_their_names() -> None:
    assert {str(each) for each in OutputType} == {each.value for each in OutputType}
    assert OutputType("table") is OutputType.TABLE
    assert issubclass(BaseTool, object)
