"""Judge what the walk noted: each rule looks at one place and adds findings."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Final

from sandbox.tools.risk import rule_names
from sandbox.tools.risk.call_rules import CALL_RULES
from sandbox.tools.risk.call_site import CallSite
from sandbox.tools.risk.collection import Collected, NameScope
from sandbox.tools.risk.findings import Finding, Findings, shown
from sandbox.tools.risk.texts import is_secret_name, odd_letters
from sandbox.tools.risk.value import LIBRARY, Value
from sandbox.tools.risk.values import Evaluator

_REFERENCES: Final = (ast.Name, ast.Attribute)
_NO_CALLERS: Final = frozenset(
    {"functools.partial", "builtins.getattr", "builtins.isinstance", "builtins.issubclass", "builtins.vars"}
)
"""Functions that do not call what they are given."""


@dataclass(slots=True)
class Judge:
    """Findings of one source, as they are added."""

    collected: Collected
    values: Evaluator
    text: str
    findings: Findings = field(default_factory=Findings)

    def judge(self) -> list[Finding]:
        """Return the findings on all places."""
        for name, scope in self.collected.aliases:  # in the order of the text, so that long rows of names stay shallow
            self.values.value(name, scope)
        for call, scope in reversed(self.collected.calls):  # inner calls first, for the same reason
            self._call(call, scope)
        for node, scope in self.collected.handed:
            self._hand_on(self.values.value(node, scope), node.lineno)
        self._judge_texts()
        self._judge_environment()
        self._judge_letters()
        for line, attribute in self.collected.reflective:
            self.findings.add("dynamic_code", "medium", line, f"{rule_names.REFLECTIVE[attribute]}: {attribute}")
        if self.values.was_cut:
            self.findings.add("obfuscation", "medium", 1, "names and calls nest deeper than the analysis follows")
        self._judge_together()
        return self.findings.found

    def _call(self, call: ast.Call, scope: NameScope) -> None:
        function = self.values.value(call.func, scope)
        place = CallSite(call, scope, self.values, self.findings, function)
        for name in sorted(function.names):
            rule = rule_names.RULES.get(name)
            judge = CALL_RULES.get(name)
            if judge is not None:
                judge(place, name)
            elif rule is not None:
                self.findings.add(rule.kind, rule.level, call.lineno, f"{rule.reason}: {name}")
        if isinstance(call.func, ast.Attribute) and call.func.attr in rule_names.METHODS:
            rule = rule_names.METHODS[call.func.attr]
            self.findings.add(rule.kind, rule.level, call.lineno, f"{rule.reason}: {call.func.attr}")
        if isinstance(call.func, ast.Attribute) and LIBRARY in place.whole().names:
            self.findings.add("native", "medium", call.lineno, f"calls a native function: {shown(call.func.attr)}")
        if "pieces" in function.marks and function.names & rule_names.RULES.keys():
            self.findings.add(
                "obfuscation", "medium", call.lineno, f"builds the name of what it calls: {min(function.names)}"
            )
        if function.names.isdisjoint(_NO_CALLERS):
            for each in (*call.args, *(keyword.value for keyword in call.keywords)):
                if isinstance(each, _REFERENCES):
                    self._hand_on(self.values.value(each, scope), each.lineno)

    def _hand_on(self, value: Value, line: int) -> None:
        """Judge a callable that is handed on to be called elsewhere."""
        for name in sorted(value.names):
            rule = rule_names.RULES.get(name)
            if rule is not None and rule.kind != "network":
                self.findings.add(rule.kind, rule.level, line, f"{rule.reason}: {name}")
            if name in rule_names.ENVIRONMENT:
                self.findings.add("credentials", "low", line, "hands on all environment variables")

    def _judge_texts(self) -> None:
        for node in self.collected.texts:
            text = node.value if isinstance(node.value, str) else ""
            if "/" in text or "." in text or "_" in text or " " in text:
                self.findings.add_place(text, node.lineno)

    def _judge_environment(self) -> None:
        for node, scope in self.collected.iterated:
            if self.values.value(node, scope).names & rule_names.ENVIRONMENT:
                self.findings.add("credentials", "medium", node.lineno, "goes through the environment variables")
        for subscript, scope in self.collected.subscripts:
            key = subscript.slice.value if isinstance(subscript.slice, ast.Constant) else None
            if (
                isinstance(key, str)
                and is_secret_name(key)
                and self.values.value(subscript.value, scope).names & rule_names.ENVIRONMENT
            ):
                self.findings.add(
                    "credentials", "low", subscript.lineno, f"reads a secret from the environment: {shown(key)}"
                )

    def _judge_letters(self) -> None:
        if self.text.isascii():
            return
        lines = self.text.split("\n")
        spelled = [(node.lineno, node.attr) for node in self.collected.spaced if _is_spelled_otherwise(node, lines)]
        for line, name in (*self.collected.spelled, *spelled):
            reason = odd_letters(name)
            if reason is not None:
                self.findings.add("obfuscation", "medium", line, f"{reason}: {shown(name)}")

    def _judge_together(self) -> None:
        """Judge what is worse together: reading secrets and using the network."""
        if not any(kind == "network" for kind, *_ in self.findings.found):
            return
        for _, level, line, reason in [each for each in self.findings.found if each[0] == "credentials"]:
            is_scan = level != "low" or "all environment" in reason or "copies" in reason
            if is_scan:
                self.findings.add("credentials", "high", line, f"the source also uses the network, and {reason}")


def _is_spelled_otherwise(node: ast.Attribute, lines: list[str]) -> bool:
    """Return whether the text has other letters than the name of a member, which Python has normalized."""
    line = lines[node.end_lineno - 1] if node.end_lineno and node.end_lineno <= len(lines) else ""
    written = line.encode()[: node.end_col_offset].decode(errors="replace")
    return not written.endswith(node.attr)
