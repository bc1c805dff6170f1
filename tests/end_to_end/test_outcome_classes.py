"""Tools of every kind end as their values claim: ok, failed or denied."""

from __future__ import annotations

from typing import Any, Final

import pytest

from sandbox import Sandbox, Status

FUNCTION: Final = "def f():\n    return {}\n"
LETTA: Final = '''
def read_table(table: str) -> str:
    """Read a table.

    Args:
        table (str): The name of the table.

    Returns:
        str: The rows, or the reason why there are none.
    """
    return {}
'''
DATACLASS: Final = """
from dataclasses import dataclass
from http import HTTPStatus

@dataclass
class Answer:
    slope: float = 1.0
    error: object = None
    message: str = ""
    code: object = None

def f():
    return {}
"""
RESULT: Final = "from sandbox import ToolResult\n\ndef f():\n    return {}\n"
OTHER_RESULT: Final = """
class ToolResult:
    def __init__(self, success, output):
        self.success, self.output = success, output

def f():
    return {}
"""
SUNA: Final = """
from sandbox import Tool, openapi_schema

class FilesTool(Tool):
    @openapi_schema({{"name": "read", "description": "Reads.", "parameters": {{"type": "object", "properties": {{}}}}}})
    def read(self):
        return {}
"""
CASES: Final = {
    "ok": [
        (FUNCTION, "{'slope': 1, 'error': 0.05}"),
        (FUNCTION, "{'error': 'no such city'}"),
        (FUNCTION, "[{'error': 'Access denied'}]"),
        (FUNCTION, "'permission denied, ' * 40"),
        (DATACLASS, "Answer(error=0.05)"),
        (DATACLASS, "Answer(error='no such city')"),
        (RESULT, "ToolResult(True, stdout='Access denied')"),
        (SUNA, "self.success_response({'denied': 3})"),
        (LETTA, "'denied: 3 rows'"),
    ],
    "failed": [
        (FUNCTION, "{'success': False, 'error': 'no such city'}"),
        (FUNCTION, """'{"success": false}'"""),
        (RESULT, "ToolResult(False, stderr='no such city')"),
        (OTHER_RESULT, "ToolResult(False, 'no such city')"),
        (SUNA, "self.fail_response('no such city')"),
    ],
    "denied": [
        (FUNCTION, "{'success': False, 'message': 'Access denied'}"),
        (FUNCTION, "{'error': 'permission denied for table payroll'}"),
        (FUNCTION, '(\'{"message": "Unauthorized"}\')'),
        (DATACLASS, "Answer(message='You are not authorized to do this')"),
        (DATACLASS, "Answer(error='ask an administrator', code=HTTPStatus.FORBIDDEN)"),
        (RESULT, "ToolResult(False, stderr='ls: /root: Permission denied')"),
        (RESULT, "ToolResult(False, stderr='ask Bob', meta={'error_code': 'permission_denied'})"),
        (OTHER_RESULT, "ToolResult(False, 'Access denied')"),
        (SUNA, "self.fail_response('Access denied')"),
        (SUNA, "self.fail_response({'code': 403, 'message': 'ask an administrator'})"),
        (LETTA, "f'User bob does not have the ADMIN privilege on {table}'"),
    ],
}


@pytest.mark.parametrize(("status", "tool"), [(status, tool) for status, tools in CASES.items() for tool in tools])
def test_a_call_ends_as_its_value_claims(status: str, tool: tuple[str, str], sandbox: Sandbox) -> None:
    source, value = tool
    arguments: dict[str, Any] = {"table": "payroll"} if source is LETTA else {}
    outcome = sandbox.run(source.format(value), arguments)
    assert outcome.status.value == status, outcome
    assert (outcome.error is None) == (status == "ok")
    assert (outcome.value is not None, outcome.exit_code) == (True, 0 if status == "ok" else 1)


@pytest.mark.parametrize("value", ["{'slope': 1, 'error': 0.05}", "{'error': 'no such city'}"])
def test_an_error_is_data_for_the_return_contract(value: str, sandbox: Sandbox) -> None:
    source = f"def f() -> list[int]:\n    return {value}\n"
    outcome = sandbox.run(source)
    assert (outcome.status, len(outcome.warnings)) == (Status.OK, 1)
    assert sandbox.run(source, strict_return=True).status is Status.EXCEPTION
