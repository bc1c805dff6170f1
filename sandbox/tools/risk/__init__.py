"""Risk: advice about what a source does, from its syntax tree and simple data flow.

This is not a security boundary: code can always hide what it does from a reader. Policies and boxes are the boundary;
the analysis helps a person or a catalog to decide what deserves a look.

    collection   walks the tree once: what names are bound to, and the places to look at
    values       evaluates an expression on demand: names, constant text, where data comes from
    rules        judges each place with the tables in `rule_names` and the patterns in `texts`

The cost is linear in the size of the tree: each node is visited once and evaluated at most once, values have bounds,
and no recursion is deeper than a fixed depth.
"""

from __future__ import annotations

import ast

from sandbox.tools.risk.collection import Collector
from sandbox.tools.risk.model import RiskFinding, RiskKind, RiskLevel, RiskReport, build_report, is_within
from sandbox.tools.risk.rule_names import REFLECTIVE
from sandbox.tools.risk.rules import Judge
from sandbox.tools.risk.values import Evaluator

__all__ = ["RiskFinding", "RiskKind", "RiskLevel", "RiskReport", "analyze_risk", "is_within"]


def analyze_risk(text: str, module: ast.Module) -> RiskReport:
    """Return the risk report of a source, given as its text and its syntax tree."""
    collected = Collector(REFLECTIVE).collect(module)
    judge = Judge(collected, Evaluator(collected), text)
    return build_report(judge.judge())
