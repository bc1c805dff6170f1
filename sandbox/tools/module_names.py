"""What a module imports when it is loaded, and which well-known names it gives a meaning of its own.

Both are read from the statements that run at import: those directly in the module and those inside its `if`, `try`,
`with` and loops. `if TYPE_CHECKING:` and `if __name__ == "__main__":` never run in a box, so they do not count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from sandbox.tools.annotations import KNOWN_NAMES, TYPING_MODULES


def import_time_statements(module: ast.Module) -> Iterator[ast.stmt]:
    """The statements that loading the module runs, in no particular order."""
    waiting: list[ast.AST] = list(module.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and _never_holds(node.test):
            waiting += node.orelse
            continue
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            waiting += ast.iter_child_nodes(node)


def imported_modules(statements: Iterable[ast.stmt]) -> frozenset[str]:
    """The top-level modules imported; `__future__` speaks to the compiler, and relative imports have no package."""
    names: set[str] = set()
    for node in statements:
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            names.add(node.module.partition(".")[0])
    return frozenset(names - {"__future__"})


def redefined_names(statements: Iterable[ast.stmt]) -> frozenset[str]:
    """Names such as `Sequence` that an annotation in this module does not mean in the usual way."""
    return frozenset(name for node in statements for name in _bound(node) if name in KNOWN_NAMES)


def _bound(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id
    elif isinstance(node, ast.ImportFrom):
        usual = node.module in TYPING_MODULES
        yield from (alias.asname or alias.name for alias in node.names if not (usual and _keeps_name(alias)))
    elif isinstance(node, ast.Import):
        yield from (alias.asname for alias in node.names if alias.asname is not None)
    else:
        name = getattr(node, "name", None)  # of `type X = ...`, for which Python 3.11 has no node
        yield from [name.id] if isinstance(name, ast.Name) else []


def _keeps_name(alias: ast.alias) -> bool:
    return alias.asname is None or alias.asname == alias.name


def _never_holds(test: ast.expr) -> bool:
    if isinstance(test, ast.Name | ast.Attribute):
        return (test.id if isinstance(test, ast.Name) else test.attr) == "TYPE_CHECKING"
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq):
        return False
    return isinstance(test.left, ast.Name) and test.left.id == "__name__"
