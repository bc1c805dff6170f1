"""A source may declare its outputs in several ways."""

from __future__ import annotations

import pytest

from sandbox.engine.declared_outputs import declared_outputs
from sandbox.outputs.budgets import Declared
from sandbox.tools import read_tool

BLOCK = "# /// script\n# [tool.sandbox]\n# {said}\n# ///\n"
FUNCTION = "def f() -> str:\n    return 'a'\n"
CLASS = (
    "from sandbox import BaseTool, OutputType\nclass Lint(BaseTool):\n    name, description = 'lint', 'Checks.'\n{said}"
)
EXECUTE = "    def execute(self, args: dict):\n        return None\n"


@pytest.mark.parametrize(
    ("source", "declared"),
    [
        (FUNCTION, Declared()),
        (BLOCK.format(said='output_type = "table"') + FUNCTION, Declared(value="table")),
        (BLOCK.format(said="return_char_limit = 50000") + FUNCTION, Declared(return_char_limit=50_000)),
        (BLOCK.format(said='stdout_type = "file_content"') + FUNCTION, Declared(stdout="file_content")),
        (f"@tool(output_type='image', return_char_limit=7)\n{FUNCTION}", Declared(value="image", return_char_limit=7)),
        (f"@tool(output_type=OutputType.TABLE)\n{FUNCTION}", Declared(value="table")),
        (CLASS.format(said=EXECUTE), Declared(value="status_message", stdout="status_message")),
        (
            CLASS.format(said="    output_semantic_type = OutputType.KNOWLEDGE_CONTENT\n" + EXECUTE),
            Declared(value="knowledge_content", stdout="knowledge_content"),
        ),
        (
            CLASS.format(
                said="    stdout_semantic_type = 'table'\n    stderr_semantic_type = OutputType.STATUS_MESSAGE\n"
                + EXECUTE
            ),
            Declared(value="status_message", stdout="table", stderr="status_message"),
        ),
    ],
)
def test_a_declaration_of_outputs_is_read(source: str, declared: Declared) -> None:
    assert declared_outputs(read_tool(source)) == declared
