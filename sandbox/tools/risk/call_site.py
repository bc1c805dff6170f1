"""A call that rules look at, with its arguments."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from sandbox.tools.risk.collection import NameScope
from sandbox.tools.risk.findings import Findings
from sandbox.tools.risk.model import RiskKind, RiskLevel
from sandbox.tools.risk.value import NOTHING, Value
from sandbox.tools.risk.values import Evaluator


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call that a rule looks at."""

    call: ast.Call
    scope: NameScope
    values: Evaluator
    findings: Findings
    function: Value

    def add(self, kind: RiskKind, level: RiskLevel, reason: str) -> None:
        self.findings.add(kind, level, self.call.lineno, reason)

    def argument(self, position: int, *keywords: str) -> Value:
        """Return the value of an argument, by position or by keyword."""
        given = self.call.args
        if position < len(given) and not any(isinstance(each, ast.Starred) for each in given[: position + 1]):
            return self.value(given[position])
        node = next((each.value for each in self.call.keywords if each.arg in keywords), None)
        return NOTHING if node is None else self.value(node)

    def value(self, node: ast.expr) -> Value:
        return self.values.value(node, self.scope)

    def has(self, position: int, *keywords: str) -> bool:
        return position < len(self.call.args) or any(each.arg in keywords for each in self.call.keywords)

    def is_true(self, keyword: str) -> bool:
        """Return whether a keyword is given with anything else than `False` or `None`."""
        node = next((each.value for each in self.call.keywords if each.arg == keyword), None)
        return node is not None and not (isinstance(node, ast.Constant) and not node.value)

    def whole(self) -> Value:
        """Return the object whose method is called."""
        return self.value(self.call.func.value) if isinstance(self.call.func, ast.Attribute) else NOTHING
