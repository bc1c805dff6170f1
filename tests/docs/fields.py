"""The fields of models and typed dictionaries, and the members of enums, with what the source says of each."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from tests.docs.layout import item

_PLAIN: Final = {"_Value": "Json", "_Facts": "dict[str, Json]", "Text": "str"}


def members(each: Any) -> list[str]:
    """List the members of an enum."""
    described = descriptions(each)
    return [*(line for member in each for line in item(f"`{member}`", "", described.get(member.name, ""))), ""]


def fields(each: type, described: Mapping[str, str] | None = None) -> list[str]:
    """List the fields of a model or a typed dictionary with their types and descriptions."""
    described = descriptions(each) if described is None else described
    kinds = {name: _plain_type(str(kind)) for name, kind in inspect.get_annotations(each).items()}
    shown = {name: kind for name, kind in kinds.items() if not name.startswith("_") and name != "model_config"}
    return [line for name, kind in shown.items() for line in item(f"`{name}`", f"`{kind}`", described.get(name, ""))]


@cache
def descriptions(each: type) -> Mapping[str, str]:
    """Return the docstring below each field or member, or else the comment on its line."""
    source = textwrap.dedent(inspect.getsource(each))
    lines = source.splitlines()
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    found: dict[str, str] = {}
    for node, following in zip(definition.body, [*definition.body[1:], None], strict=True):
        name = _assigned_name(node)
        comment = re.search(r"  # (?!noqa|type:)(.*)$", lines[(node.end_lineno or 1) - 1])
        if name and isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            found[name] = _sentence(inspect.cleandoc(str(following.value.value)))
        elif name and comment:
            found[name] = _sentence(comment[1])
    return found


def _sentence(text: str) -> str:
    """Begin with a capital, unless the first word is a name of the code, and end with a full stop."""
    first = text.split(maxsplit=1)[0]
    is_name = "." in first or "_" in first
    return f"{text if is_name else text[0].upper() + text[1:]}{'' if text.endswith('.') else '.'}"


def _assigned_name(node: ast.stmt) -> str | None:
    targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets if isinstance(node, ast.Assign) else []
    return next((target.id for target in targets if isinstance(target, ast.Name)), None)


def _plain_type(annotation: str) -> str:
    """Show an annotation without what only pydantic needs."""
    if forward := re.fullmatch(r"ForwardRef\('(.*)', module=.*\)", annotation):
        annotation = forward[1]
    tree = _WithoutAnnotated().visit(ast.parse(annotation, mode="eval"))
    return ast.unparse(tree)


class _WithoutAnnotated(ast.NodeTransformer):
    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == "Annotated" and isinstance(node.slice, ast.Tuple):
            first: ast.AST = self.visit(node.slice.elts[0])
            return first
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.parse(_PLAIN[node.id], mode="eval").body if node.id in _PLAIN else node
