"""The return contract: whether a value is what its tool says it returns.

The engine reads the annotation and sends it as a JSON schema of its own making; here the value is compared with that,
as it is going to be sent; a number that cannot be sent as one is compared as what it is. Of JSON Schema this knows what
such schemas hold: types, members, items, choices, bounds and local references. What it does not know it does not hold
against anybody, and what is too large to compare fits.
"""

from __future__ import annotations

from call import authoring_module, values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_MISFIT = "the value is not what the tool says it returns: %s"
_MOST_STEPS = 100000
_MOST_TOLD = 3
_LONGEST = 300
_KINDS = (
    (bool, "boolean"),
    (str, "string"),
    (int, "integer"),
    (float, "number"),
    (dict, "object"),
    (list, "array"),
    (tuple, "array"),
)
_ALONE: dict[type, dict[str, str]] = {
    bool: {"type": "boolean"},
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    dict: {"type": "object"},
    list: {"type": "array"},
}
"""What most tools that say anything say, and what a value that is just that fits without another look."""
_BOUNDS: tuple[tuple[str, str, Callable[[Any, Any], bool]], ...] = (
    ("minimum", "is less than %s", lambda value, bound: value < bound),
    ("maximum", "is more than %s", lambda value, bound: value > bound),
    ("exclusiveMinimum", "is not more than %s", lambda value, bound: value <= bound),
    ("exclusiveMaximum", "is not less than %s", lambda value, bound: value >= bound),
)
_LENGTHS: tuple[tuple[tuple[str, str, str], str, Callable[[Any, Any], bool]], ...] = (
    (("minLength", "minItems", "minProperties"), "has fewer than %s", lambda size, bound: size < bound),
    (("maxLength", "maxItems", "maxProperties"), "has more than %s", lambda size, bound: size > bound),
)


def _tells_of_failure(value: Any) -> bool:
    """Whether it is what tools return in the place of a result; what that comes to is for the engine to say."""
    return isinstance(value, dict) and (bool(value.get("error")) or value.get("success") in (False, "false"))


class _TooLarge(Exception):
    """There is more to compare than is worth it."""


class Contract:
    """What one call is held to: nothing, or a `schema`, strictly or not."""

    def __init__(self, told: dict[str, Any] | None, *, ok: bool | None) -> None:
        """A value that says itself how the call went (`ok`) is held to nothing."""
        self._told = told if ok is None else None
        self._broken: list[str] = []

    @property
    def check(self) -> Callable[[Any], list[str]] | None:
        """What to ask of a plain value, if anything; it gives warnings."""
        return self._check if self._told else None

    @property
    def is_broken(self) -> bool:
        """Whether the value does not fit, and has to."""
        return bool(self._broken and self._told and self._told["is_strict"])

    def failure(self, source: str) -> dict[str, Any]:
        """The reply in the place of the value."""
        told = {"type": "ReturnMismatch", "message": "; ".join(self._broken), "traceback": ""}
        return {
            "kind": "exception",
            "error": told,
            "memory": False,
            "errno": None,
            "warnings": authoring_module.warnings(source),
        }

    def _check(self, value: Any) -> list[str]:
        assert self._told is not None
        if _tells_of_failure(value):
            return []
        self._broken = [_MISFIT % each for each in misfits(value, self._told["schema"])]
        return self._broken


def misfits(value: Any, schema: Any) -> list[str]:
    """Where a plain value does not fit, and why; some of it, each with a path."""
    if schema == _ALONE.get(type(value)):
        return []
    found: list[str] = []
    try:
        for path, reason in _Comparison(schema).misfits(value, schema, ""):
            found.append(("%s: %s" % (path, reason) if path else reason)[:_LONGEST])
            if len(found) >= _MOST_TOLD:
                break
    except (_TooLarge, RecursionError):
        pass
    return found


class _Comparison:
    """One value and one schema, with as many steps as it may take."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = _MOST_STEPS

    def misfits(self, value: Any, schema: Any, path: str) -> Iterator[tuple[str, str]]:
        self._left -= 1
        if self._left < 0:
            raise _TooLarge
        if type(value) is values.Unwritable:
            value = value.number
        schema = self._resolved(schema)
        if schema is False:
            yield path, "is not expected"
        if not isinstance(schema, dict):
            return
        wanted = schema.get("type")
        if wanted is not None and not self._is_of(value, wanted):
            wanted = " or ".join(wanted) if isinstance(wanted, list) else wanted
            yield path, "is %s, not %s" % (kind_of(value), wanted)
            return
        yield from self._choices(value, schema, path)
        yield from self._bounds(value, schema, path)
        if isinstance(value, dict):
            yield from self._members(value, schema, path)
        elif isinstance(value, (list, tuple)):
            yield from self._items(value, schema, path)

    def _resolved(self, schema: Any) -> Any:
        for _ in range(_MOST_TOLD * 10):
            reference = schema.get("$ref") if isinstance(schema, dict) else None
            if not isinstance(reference, str) or not reference.startswith("#"):
                return schema
            schema = self._root
            for part in reference[1:].split("/")[1:]:
                name = part.replace("~1", "/").replace("~0", "~")
                schema = schema.get(name, True) if isinstance(schema, dict) else True
        return True

    def _is_of(self, value: Any, wanted: Any) -> bool:
        kinds = wanted if isinstance(wanted, list) else [wanted]
        kind = kind_of(value)
        if kind == "integer":
            return "integer" in kinds or "number" in kinds
        return kind in kinds or (kind == "number" and "integer" in kinds and value == value // 1)

    def _choices(self, value: Any, schema: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
        if "const" in schema and not _is_same(value, schema["const"]):
            yield path, "is not %.80r" % (schema["const"],)
        if "enum" in schema and not any(_is_same(value, each) for each in schema["enum"]):
            yield path, "is none of %.200s" % (", ".join(map(repr, schema["enum"])),)
        for name in ("anyOf", "oneOf"):
            branches = schema.get(name)
            if branches and all(self._first(value, branch, path) for branch in branches):
                yield path, "fits none of its %d forms" % len(branches)
        for branch in schema.get("allOf", ()):
            yield from self.misfits(value, branch, path)

    def _first(self, value: Any, schema: Any, path: str) -> Any:
        return next(self.misfits(value, schema, path), None)

    def _bounds(self, value: Any, schema: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
        if kind_of(value) in ("integer", "number"):
            for name, text, is_past in _BOUNDS:
                if name in schema and is_past(value, schema[name]):
                    yield path, text % schema[name]
        elif isinstance(value, (str, list, tuple, dict)):
            at = 0 if isinstance(value, str) else 2 if isinstance(value, dict) else 1
            for names, text, is_past in _LENGTHS:
                if names[at] in schema and is_past(len(value), schema[names[at]]):
                    yield path, text % schema[names[at]]

    def _members(self, value: dict[str, Any], schema: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
        known = schema.get("properties", {})
        for name in schema.get("required", ()):
            if name not in value:
                yield _below(path, name), "is missing"
        others, required = schema.get("additionalProperties", True), schema.get("required", ())
        for name, member in value.items():
            if member is None and name in known and name not in required:  # as good as left out
                continue
            yield from self.misfits(member, known.get(name, others), _below(path, name))

    def _items(self, value: Any, schema: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
        first, others = schema.get("prefixItems", ()), schema.get("items", True)
        if others is True and not first:
            return
        for number, item in enumerate(value):
            below = first[number] if number < len(first) else others
            yield from self.misfits(item, below, "%s[%d]" % (path, number))


def kind_of(value: Any) -> str:
    """What JSON calls it; bytes are a string to schemas, however they are written."""
    if isinstance(value, dict) and value.get("$type") == "bytes":
        return "string"
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "null")


def _is_same(value: Any, other: Any) -> bool:
    kinds = {kind_of(value), kind_of(other)}
    return (len(kinds) == 1 or kinds <= {"integer", "number"}) and bool(value == other)


def _below(path: str, name: Any) -> str:
    return "%s.%.80s" % (path, name) if path else "%.80s" % (name,)
