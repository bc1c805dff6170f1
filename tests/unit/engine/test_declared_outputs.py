"""A source may declare its outputs in several ways."""

from __future__ import annotations

import pytest

from sandbox.engine.plan import declared_outputs
from sandbox.outputs.budgets import DeclaredOutputs
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
        (FUNCTION, DeclaredOutputs()),
        (BLOCK.format(said='output_type = "table"') + FUNCTION, DeclaredOutputs(value="table")),
        (BLOCK.format(said="return_char_limit = 50000") + FUNCTION, DeclaredOutputs(return_char_limit=50_000)),
        (BLOCK.format(said='stdout_type = "file_content"') + FUNCTION, DeclaredOutputs(stdout="file_content")),
        (
            f"@tool(output_type='image', return_char_limit=7)\n{FUNCTION}",
            DeclaredOutputs(value="image", return_char_limit=7),
        ),
        (f"@tool(output_type=OutputType.TABLE)\n{FUNCTION}", DeclaredOutputs(value="table")),
        (CLASS.format(said=EXECUTE), DeclaredOutputs(value="status_message", stdout="status_message")),
        (
            CLASS.format(said="    output_semantic_type = OutputType.KNOWLEDGE_CONTENT\n" + EXECUTE),
            DeclaredOutputs(value="knowledge_content", stdout="knowledge_content"),
        ),
        (
            CLASS.format(
                said="    stdout_semantic_type = 'table'\n    stderr_semantic_type = OutputType.STATUS_MESSAGE\n"
                + EXECUTE
            ),
            DeclaredOutputs(value="status_message", stdout="table", stderr="status_message"),
        ),
    ],
)
def test_a_declaration_of_outputs_is_read(source: str, declared: DeclaredOutputs) -> None:
    assert declared_outputs(read_tool(source)) == declared
