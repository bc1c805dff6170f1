"""The values that an expression may have: names of known callables, constant text, and where its data comes from.

An expression is evaluated once, when a rule asks for it, and a name once in each scope: to the union of all that it is
ever bound to. The result of a call of the source's own function is what the function returns. Evaluation follows at
most `MAX_DEPTH` steps; `was_cut` says that a source needed more.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import Final

from sandbox.tools.risk import flow_names, rule_names
from sandbox.tools.risk.collection import Collected, How, NameBinding, NameScope
from sandbox.tools.risk.folding import UNKNOWN, Constant, added, bounded, filled, path_joined
from sandbox.tools.risk.results import result_of, result_of_comprehension, result_of_method, reverse
from sandbox.tools.risk.value import (
    ARGUMENT,
    ENCODED,
    MAX_TEXTS,
    NO_MARKS,
    NOTHING,
    PATH,
    PIECES,
    Value,
    called,
    constants,
    member_of,
    named,
    texts_of,
    union,
)

MAX_DEPTH: Final = 40
LONG_LITERAL: Final = 40
_BUILTINS: Final = frozenset(dir(builtins))
_LOCAL: Final = "local "
_ARGUMENT: Final = Value(marks=ARGUMENT)


class Evaluator:
    """Evaluates expressions of one source."""

    def __init__(self, collected: Collected) -> None:
        self.was_cut = False
        self._collected = collected
        self._values: dict[int, Value] = {}
        self._named: dict[tuple[int, str], Value] = {}
        self._unbound: dict[str, Value] = {}
        self._returned: dict[str, Value] = {}
        self._depth = 0

    def value(self, node: ast.AST | None, scope: NameScope) -> Value:
        """Return what an expression may stand for."""
        if isinstance(node, ast.Name):
            return self.look_up(node.id, scope)
        found = self._values.get(id(node))
        if found is not None:
            return found
        evaluate = _EVALUATED.get(type(node))
        if evaluate is None:
            return NOTHING
        if self._depth >= MAX_DEPTH:
            self.was_cut = True
            return NOTHING
        self._values[id(node)] = NOTHING  # an expression that needs itself
        self._depth += 1
        try:
            found = evaluate(self, node, scope)
            self._values[id(node)] = found
        finally:
            self._depth -= 1
        return found

    def look_up(self, name: str, scope: NameScope) -> Value:
        """Return what a name may stand for."""
        current: NameScope | None = scope
        while current is not None:
            if name in current.bindings and (current is scope or not current.is_class):
                return self._bound((id(current), name), current.bindings[name])
            current = current.parent
        found = self._unbound.get(name)
        if found is None:
            found = self._unbound[name] = self._look_outside(name)
        return found

    def _look_outside(self, name: str) -> Value:
        """Return what a name may stand for that the source does not bind."""
        stars = [f"{module}.{name}" for module in self._collected.stars]
        if name in _BUILTINS and not any(each in flow_names.KNOWN for each in stars):
            return named([f"builtins.{name}"])
        return named(["builtins"] if name == "__builtins__" else stars)

    def _bound(self, key: tuple[int, str], bindings: list[NameBinding]) -> Value:
        found = self._named.get(key)
        if found is not None:
            return found
        if self._depth >= MAX_DEPTH:
            self.was_cut = True
            return NOTHING
        self._named[key] = NOTHING  # a name that is bound to itself
        self._depth += 1
        try:
            found = self._union_of(bindings)
        finally:
            self._depth -= 1
        self._named[key] = found
        return found

    def _union_of(self, bindings: list[NameBinding]) -> Value:
        values: list[Value] = []
        for each in bindings:
            value = self._binding(each)
            if each.how is How.ADDED and values:
                last = values[-1]
                sums = (added(left, right) for left in last.texts for right in value.texts)
                values[-1] = Value(last.names | value.names, constants(sums), last.marks | value.marks)
            else:
                values.append(value)
        return union(values)

    def _binding(self, binding: NameBinding) -> Value:
        if binding.how is How.IMPORTED:
            return named([binding.name])
        if binding.how is How.FUNCTION:
            return Value(frozenset({f"{_LOCAL}{binding.name}"}))
        if binding.how is How.UNKNOWN:
            return _ARGUMENT
        value = self.value(binding.node, binding.scope)
        if binding.how is How.INSTANCE:
            return Value(called(value.names), marks=ARGUMENT)
        if binding.how is How.ELEMENT and PATH not in value.names:
            items = [each for texts in value.texts if isinstance(texts, tuple) for each in texts]
            return Value(value.names, tuple(items[:MAX_TEXTS]), value.marks)
        return value

    # Each kind of expression has a method.

    def _constant(self, node: ast.Constant, _: NameScope) -> Value:
        is_long = isinstance(node.value, str | bytes) and len(node.value) >= LONG_LITERAL
        return texts_of(bounded(node.value), marks=ENCODED if is_long else NO_MARKS)

    def _attribute(self, node: ast.Attribute, scope: NameScope) -> Value:
        found = member_of(self.value(node.value, scope), node.attr)
        assigned = self._collected.attributes
        if assigned and isinstance(node.value, ast.Name) and (dotted := f"{node.value.id}.{node.attr}") in assigned:
            return union([found, self._bound((0, dotted), assigned[dotted])])
        return found

    def _subscript(self, node: ast.Subscript, scope: NameScope) -> Value:
        base = self.value(node.value, scope)
        if isinstance(node.slice, ast.Slice):
            return reverse(base) if _is_backwards(node.slice) else base
        keys = self.value(node.slice, scope)
        if isinstance(node.value, ast.Attribute) and node.value.attr in rule_names.REFLECTIVE:
            found = union(member_of(named(["os", "builtins"]), each) for each in keys.whole_texts())
        else:
            found = self._by_key(base, keys)
        return Value(found.names, found.texts, found.marks | base.marks | keys.marks)

    def _by_key(self, base: Value, keys: Value) -> Value:
        """Return the member of a namespace, or the item of a container, under a constant key."""
        spaces = {each.removesuffix("()") for each in base.names}
        if "sys.modules" in spaces:
            return named(keys.whole_texts())
        if not spaces.isdisjoint({"builtins.globals", "builtins.locals"}):
            return union([self.look_up(each, self._collected.module) for each in keys.whole_texts()])
        if spaces & rule_names.SENSITIVE_MODULES:
            return union([member_of(base, each) for each in keys.whole_texts()])
        items = (
            text[key]
            for text in base.texts
            for key in keys.texts
            if isinstance(key, int) and isinstance(text, tuple) and -len(text) <= key < len(text)
        )
        return Value(base.names, constants(items))

    def _operation(self, node: ast.BinOp, scope: NameScope) -> Value:
        if isinstance(node.op, ast.Add):
            return self._sum(node, scope)
        left, right = self.value(node.left, scope), self.value(node.right, scope)
        marks = left.marks | right.marks
        if isinstance(node.op, ast.Div) and PATH in left.names | right.names:
            return Value(frozenset({PATH}), (path_joined([left.first_text(), right.first_text()]),), marks)
        if isinstance(node.op, ast.Mod):
            parts = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
            values = [self.value(each, scope).first_text() for each in parts]
            return texts_of(*(filled(each, values) for each in left.texts), marks=(marks - ENCODED) | PIECES)
        if isinstance(node.op, ast.BitXor):
            marks |= {"decoded"}
        return Value(marks=marks)

    def _sum(self, node: ast.BinOp, scope: NameScope) -> Value:
        """Return the value of a sum; its terms are listed first, because sums can have thousands of them."""
        terms: list[ast.expr] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp) and isinstance(left.op, ast.Add):
            terms.append(left.right)
            left = left.left
        values = [self.value(each, scope) for each in (left, *reversed(terms))]
        whole = union(values)
        if not whole.texts:
            return whole
        total: Constant | None = values[0].texts[0] if values[0].texts else UNKNOWN
        for each in values[1:]:
            total = None if total is None else added(total, each.texts[0] if each.texts else UNKNOWN)
        marks = whole.marks | PIECES if all(each.texts for each in values) else whole.marks
        return Value(whole.names, constants([total]), marks)

    def _format(self, node: ast.JoinedStr, scope: NameScope) -> Value:
        nodes = [each.value if isinstance(each, ast.FormattedValue) else each for each in node.values]
        parts = [self.value(each, scope) for each in nodes]
        text = bounded("".join(each.first_text() for each in parts))
        return texts_of(text, marks=(NO_MARKS.union(*(each.marks for each in parts)) - ENCODED) | PIECES)

    def _display(self, node: ast.List | ast.Tuple | ast.Set, scope: NameScope) -> Value:
        values = [self.value(each, scope) for each in node.elts]
        whole = union(values)
        firsts = [each.texts[0] if each.texts else UNKNOWN for each in values]
        items = bounded(tuple(each for each in firsts if isinstance(each, int | str | bytes)))
        return Value(whole.names, constants([items]), whole.marks - ENCODED)

    def _dict(self, node: ast.Dict, scope: NameScope) -> Value:
        whole = union([self.value(each, scope) for each in node.values])
        return Value(whole.names, (), whole.marks - ENCODED)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp, scope: NameScope) -> Value:
        item, source = self.value(node.elt, scope), self.value(node.generators[0].iter, scope)
        return result_of_comprehension(item, source, is_plain=_is_plain(node))

    def _either(self, node: ast.AST, scope: NameScope) -> Value:
        """Return the union of the values that an expression chooses from."""
        return union([self.value(each, scope) for each in _choices(node)])

    def _lambda(self, node: ast.Lambda, _: NameScope) -> Value:
        return Value(frozenset({f"{_LOCAL}{self._collected.lambdas[id(node)]}"}))

    def _call(self, node: ast.Call, scope: NameScope) -> Value:
        function = self.value(node.func, scope)
        args = [self.value(each, scope) for each in node.args]
        passed = [*args, *[self.value(each.value, scope) for each in node.keywords]]
        found = [self._result(each, args) for each in sorted(function.names)]
        if isinstance(node.func, ast.Attribute):
            found.append(result_of_method(node.func.attr, self.value(node.func.value, scope), args))
        if not function.names and not any(each is not NOTHING for each in (function, *found, *passed)):
            return NOTHING
        whole = union(found)
        marks = whole.marks | (function.marks.union(*(each.marks for each in passed)) - ENCODED)
        return Value(whole.names, whole.texts, marks)

    def _result(self, name: str, args: list[Value]) -> Value:
        if name.startswith(_LOCAL):
            return self._returns(name)
        if name == "builtins.map" and args:
            own = [self._returns(each) for each in sorted(args[0].names) if each.startswith(_LOCAL)]
            return union([result_of(name, args), *own])
        return result_of(name, args)

    def _returns(self, name: str) -> Value:
        found = self._returned.get(name)
        if found is None:
            self._returned[name] = NOTHING  # a function that calls itself
            function = self._collected.functions[int(name.removeprefix(_LOCAL))]
            whole = union([self.value(each, function.scope) for each in function.returned])
            found = self._returned[name] = Value(whole.names, whole.texts, whole.marks - ARGUMENT)
        return found


def _is_backwards(part: ast.Slice) -> bool:
    """Return whether a slice is `[::-1]`."""
    step = part.step
    return (
        isinstance(step, ast.UnaryOp)
        and isinstance(step.op, ast.USub)
        and isinstance(step.operand, ast.Constant)
        and step.operand.value == 1
    )


def _is_plain(node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> bool:
    """Return whether a comprehension is `f(x) for x in …`."""
    inner = node.elt.args[0] if isinstance(node.elt, ast.Call) and node.elt.args else None
    target = node.generators[0].target
    return isinstance(inner, ast.Name) and isinstance(target, ast.Name) and inner.id == target.id


def _choices(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, ast.BoolOp):
        return node.values
    value = getattr(node, "value", None)
    return [value] if isinstance(value, ast.expr) else []


# Each method takes the kind of node that it is listed for.
_EVALUATED: Final[dict[type | None, Callable[..., Value]]] = {
    ast.Constant: Evaluator._constant,
    ast.Attribute: Evaluator._attribute,
    ast.Subscript: Evaluator._subscript,
    ast.BinOp: Evaluator._operation,
    ast.JoinedStr: Evaluator._format,
    ast.List: Evaluator._display,
    ast.Tuple: Evaluator._display,
    ast.Set: Evaluator._display,
    ast.Dict: Evaluator._dict,
    ast.ListComp: Evaluator._comprehension,
    ast.GeneratorExp: Evaluator._comprehension,
    ast.SetComp: Evaluator._comprehension,
    ast.IfExp: Evaluator._either,
    ast.BoolOp: Evaluator._either,
    ast.NamedExpr: Evaluator._either,
    ast.Await: Evaluator._either,
    ast.Starred: Evaluator._either,
    ast.Lambda: Evaluator._lambda,
    ast.Call: Evaluator._call,
}
