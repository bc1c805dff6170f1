"""Each of the four dialects of tools is read with its way of calling the tool."""

from __future__ import annotations

import pytest

from sandbox.errors import SourceError
from sandbox.tools import CallForm, bind, read_tool

METHODS = '''
from sandbox import Tool, openapi_schema, method_metadata, tool_metadata

@tool_metadata(display_name="Files")
class SandboxFilesTool(Tool):
    """Works on files."""

    @openapi_schema({"type": "function", "function": {"name": "create_file", "description": "Make a file.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}})
    async def create_file(self, path: str, agent_id: str = "") -> str: ...

    @method_metadata(display_name="Remove")
    def delete_file(self, path: str): ...

    @openapi_schema({"name": "hidden"})
    def _hidden(self): ...

    def plain(self): ...
'''
EXECUTE = """
class FetchTool(BaseTool):
    name = "fetch"
    description = "Fetches."
    def execute(self, args: dict) -> ToolResult: ...
"""
MODULE = """
TOOL_NAME = "weather"
TOOL_DESCRIPTION = "Tells the weather."
TOOL_PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"]}
async def run(ctx, **kwargs): ...
def format_it(x): ...
"""
LISTED = """
def _add(a: int, b: int): ...
def negate(args): ...
TOOLS = [
    {"name": "add", "description": "", "parameters": {"a": {"type": "integer", "required": True}}, "handler": _add},
    {"name": "negate", "description": "Negates.", "parameters": {}, "handler": negate},
    {"name": "odd", "parameters": {"n": {"type": "integer"}}, "handler": lambda n: n % 2},
]
"""


@pytest.mark.parametrize(
    ("source", "entry", "name", "form", "parameters"),
    [
        ("def f(a: int, ctx=None): ...", None, "f", CallForm("function", ("f",), ("ctx",)), ["a"]),
        (
            METHODS,
            "SandboxFilesTool.create_file",
            "create_file",
            CallForm("method", ("SandboxFilesTool", "create_file"), ("agent_id",)),
            ["path"],
        ),
        (
            METHODS,
            "SandboxFilesTool.delete_file",
            "delete_file",
            CallForm("method", ("SandboxFilesTool", "delete_file")),
            ["path"],
        ),
        (EXECUTE, None, "fetch", CallForm("execute", ("FetchTool",), takes_mapping=True), []),
        (EXECUTE, "FetchTool", "fetch", CallForm("execute", ("FetchTool",), takes_mapping=True), []),
        (EXECUTE, "fetch", "fetch", CallForm("execute", ("FetchTool",), takes_mapping=True), []),
        (MODULE, None, "weather", CallForm("module", ("run",), ("ctx",)), ["city", "days"]),
        (MODULE, "weather", "weather", CallForm("module", ("run",), ("ctx",)), ["city", "days"]),
        (LISTED, "add", "add", CallForm("handler", ("TOOLS", "0", "_add")), ["a"]),
        (LISTED, "negate", "negate", CallForm("handler", ("TOOLS", "1", "negate"), takes_mapping=True), []),
        (LISTED, "odd", "odd", CallForm("handler", ("TOOLS", "2", "")), ["n"]),
    ],
)
def test_each_dialect_has_its_way_of_calling(
    source: str, entry: str | None, name: str, form: CallForm, parameters: list[str]
) -> None:
    tool = read_tool(source, entry=entry)
    assert (tool.name, tool.call) == (name, form)
    assert [each.name for each in tool.parameters] == parameters


def test_a_marked_tool_goes_before_plain_functions() -> None:
    assert read_tool("@tool\ndef a(): ...\ndef b(): ...\n").entry == "a"
    assert read_tool(EXECUTE + "\ndef helping(): ...\n").entry == "FetchTool"
    assert read_tool(MODULE).entry == "run"


def test_a_helper_function_is_called_on_request() -> None:
    assert read_tool(MODULE, entry="format_it").call == CallForm("function", ("format_it",))


@pytest.mark.parametrize("entry", ["SandboxFilesTool", "SandboxFilesTool._hidden", "SandboxFilesTool.plain", None])
def test_a_class_of_several_methods_needs_a_chosen_method(entry: str | None) -> None:
    with pytest.raises(SourceError, match=r"SandboxFilesTool\.create_file, SandboxFilesTool\.delete_file"):
        read_tool(METHODS, entry=entry)


def test_bases_are_known_by_their_last_name_also_indirectly() -> None:
    source = "class Base(kit.tools.BaseTool):\n    name = 'n'\n\nclass Real(Base):\n    def execute(self, args): ...\n"
    assert read_tool(source).name == "n"


def test_an_attribute_may_be_a_property_that_returns_a_literal() -> None:
    named = "    @property\n    def name(self):\n        return 'n'\n"
    source = f"class A(BaseTool):\n{named}    def execute(self, a: int): ...\n"
    tool = read_tool(source)
    assert (tool.name, [each.name for each in tool.parameters], tool.call.takes_mapping) == ("n", ["a"], False)


def test_settings_in_code_win_over_the_script_block() -> None:
    block = '# /// script\n# [tool.sandbox]\n# output_type = "json"\n# timeout = 5\n# ///\n'
    tool = read_tool(block + "@tool(output_type=OutputType.TABLE, return_char_limit=9)\ndef f(): ...\n")
    settings = tool.settings
    assert (settings.output_type, settings.return_char_limit, settings.timeout) == ("table", 9, 5)
    with pytest.raises(SourceError, match="return_char_limit of f"):
        read_tool("@tool(return_char_limit=0)\ndef f(): ...\n")


@pytest.mark.parametrize(
    "place", ["    args_schema = Args\n    def execute(self, args): ...", "    def execute(self, args: Args): ..."]
)
def test_the_members_of_a_model_are_the_parameters_of_execute(place: str) -> None:
    model = "class Args(BaseModel):\n    url: str\n    tries: int = 3\n"
    tool = read_tool(f"{model}class Fetch(BaseTool):\n{place}\n")
    assert tool.call.takes_mapping
    assert [(each.name, each.required) for each in tool.parameters] == [("url", True), ("tries", False)]
    assert not tool.accepts_extra
    assert [each.path for each in bind(tool, {"tries": "x", "more": 1}).problems] == ["more", "url", "tries"]
    assert bind(tool, {"url": "a", "tries": "4"}).arguments == {"url": "a", "tries": 4}
