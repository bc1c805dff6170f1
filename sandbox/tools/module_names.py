"""What a module imports when it is loaded.

It is read from the statements that run at import: those directly in the module and those inside its `if`, `try`, `with`
and loops. `if TYPE_CHECKING:` and `if __name__ == "__main__":` never run in a box, so they do not count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator


def import_time_statements(module: ast.Module, *, with_typing: bool = False) -> Iterator[ast.stmt]:
    """The statements that loading the module runs, in no particular order; and those for type checkers, if asked."""
    waiting: list[ast.AST] = list(module.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and _never_holds(node.test):
            waiting += [*node.orelse, *(node.body if with_typing and not isinstance(node.test, ast.Compare) else [])]
            continue
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            waiting += ast.iter_child_nodes(node)


def imported_names(statements: Iterable[ast.stmt]) -> frozenset[str]:
    """The modules imported, and the packages that they are in; `from a import b` names `a.b`, which may be something
    else in `a`. `__future__` speaks to the compiler, and relative imports have no package."""
    names: set[str] = set()
    for node in statements:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module not in (None, "__future__"):
            names.update((str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)))
    return frozenset(names | {name.partition(".")[0] for name in names})


def _never_holds(test: ast.expr) -> bool:
    if isinstance(test, ast.Name | ast.Attribute):
        return (test.id if isinstance(test, ast.Name) else test.attr) == "TYPE_CHECKING"
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq):
        return False
    return isinstance(test.left, ast.Name) and test.left.id == "__name__"
