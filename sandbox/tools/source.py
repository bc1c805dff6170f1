"""A source, parsed once for every reader of it: its tree, what its module-level names stand for, and its problems."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.tools.problems import Problems
from sandbox.tools.syntax.literals import NotLiteral, literal
from sandbox.tools.syntax.scope import Scope, assignments, import_time_statements, last_name, line_of_bases, scope_of
from sandbox.tools.types.source_types import SourceTypes

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Source:
    """The text and the syntax tree of one module."""

    text: str
    module: ast.Module
    statements: list[ast.stmt]
    """The statements that loading the module runs, in the order of the text."""
    functions: Mapping[str, Function]
    """The functions directly in the module; of two definitions, the later one."""
    classes: Mapping[str, ast.ClassDef]
    constants: Mapping[str, ast.expr]
    """The expressions that are assigned to names of the module."""
    scope: Scope
    problems: Problems = field(default_factory=Problems)
    taken: SourceTypes = field(default_factory=SourceTypes)
    """The types of its classes and aliases, for arguments."""
    returned: SourceTypes = field(default_factory=SourceTypes)
    """The types of its classes and aliases, for results."""

    def literal(self, node: ast.expr, *, of: str) -> Any:
        """Return the plain value; add a problem and return None if it is not a literal."""
        try:
            return literal(node, self.scope.constant)
        except NotLiteral as fault:
            self.problems.add(
                "not_literal",
                f"{of} is not a literal, and nothing is executed to read it",
                at=fault.node,
                remedy="write the value out",
            )
            return None

    def line_of_bases(self, owner: ast.ClassDef) -> Iterator[ast.ClassDef]:
        """Yield a class and those it derives from, as far as they stand directly in this source."""
        return line_of_bases(owner, self.classes)

    def derives_from(self, owner: ast.ClassDef, name: str) -> bool:
        """Return whether a class, or one it derives from here, names a base that is known as `name`."""
        return any(last_name(base) == name for each in self.line_of_bases(owner) for base in each.bases)


def open_source(text: str, module: ast.Module, problems: Problems | None = None) -> Source:
    """Return the source of a module, with what all readers of it share."""
    statements = _in_order(import_time_statements(module))
    return Source(
        text=text,
        module=module,
        statements=statements,
        functions={each.name: each for each in module.body if isinstance(each, Function)},
        classes={each.name: each for each in module.body if isinstance(each, ast.ClassDef)},
        constants=dict(_constants(statements)),
        scope=scope_of(_in_order(import_time_statements(module, with_typing=True))),
        problems=problems or Problems(text),
    )


def _in_order(statements: Iterable[ast.stmt]) -> list[ast.stmt]:
    return sorted(statements, key=lambda each: (each.lineno, each.col_offset))


def _constants(statements: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for statement in statements:
        yield from assignments(statement)
