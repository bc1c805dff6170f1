"""Return values: `ToolResult`, and the contract between a value and the tool's return annotation.

A `ToolResult` says itself whether the tool did its task. Our class and those of other libraries are recognised by the
name of a class among the bases, and read by their common attributes. The word of a `ToolResult` is the tool's, as any
value is, and has no other effect here.

The engine turns the return annotation into a JSON schema. The value is compared with the schema in the form in which it
will be sent, except that a number without a JSON form is compared as the number. The comparison knows the keywords that
such schemas use: types, members, items, choices, bounds and local references. Unknown keywords are ignored, and a value
that is too large to compare fits.
"""

from __future__ import annotations

from call import authoring_module, values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_MISFIT = "the value is not what the tool says it returns: %s"
_MAX_STEPS = 100000
_MAX_PROBLEMS = 3
_MAX_REFERENCES = 30
_MAX_TEXT = 300
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
"""The schemas of most annotations, which a value of the type fits without a comparison."""
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


_RESULT_CLASS = "ToolResult"
_LINE = type.__dict__["__mro__"]
_CLASS_NAME = type.__dict__["__name__"]
_COMMON = frozenset((dict, list, str, int, float, bool, tuple, type(None)))
_MISSING = object()
_PARTS = {"stdout": ("stdout", "output"), "stderr": ("stderr", "error"), "meta": ("meta", "metadata")}


def _reports_failure(value: Any) -> bool:
    """Whether a tool returns this in place of a result. An `error` alone is data, as any other key."""
    return isinstance(value, dict) and value.get("success") is False


def read_result(value: Any) -> tuple[Any, bool | None]:
    """Return a `ToolResult` as plain parts with its success; any other value unchanged, with None."""
    kind = type(value)
    if kind in _COMMON or not any(_CLASS_NAME.__get__(base) == _RESULT_CLASS for base in _LINE.__get__(kind)):
        return value, None
    success = _first_attribute(value, ("ok", "success"), _MISSING)
    if success is _MISSING:
        return value, None
    ok = bool(success)
    parts = {name: _first_attribute(value, names, None) for name, names in _PARTS.items()}
    empty = {"stdout": "", "stderr": "", "meta": {}}
    return dict({"ok": ok}, **{name: empty[name] if part is None else part for name, part in parts.items()}), ok


def _first_attribute(value: Any, names: tuple[str, ...], otherwise: Any) -> Any:
    for name in names:
        found = getattr(value, name, _MISSING)
        if found is not _MISSING:
            return found
    return otherwise


class _TooLarge(Exception):
    """The comparison takes too many steps."""


class ReturnContract:
    """The contract of one call: none, or a `schema`, strict or not; a `ToolResult` (with `ok`) has none."""

    def __init__(self, contract: dict[str, Any] | None, *, ok: bool | None) -> None:
        self._contract = contract if ok is None else None
        self._broken: list[str] = []

    @property
    def check(self) -> Callable[[Any], list[str]] | None:
        """The function that returns warnings about a plain value, if there is a contract."""
        return self._check if self._contract else None

    @property
    def is_broken(self) -> bool:
        """Whether the value does not fit a strict contract."""
        return bool(self._broken and self._contract and self._contract["is_strict"])

    def failure(self, source: str) -> dict[str, Any]:
        """Return the reply in place of the value."""
        return {
            "kind": "exception",
            "error": {"type": "ReturnMismatch", "message": "; ".join(self._broken), "traceback": ""},
            "memory": False,
            "errno": None,
            "warnings": authoring_module.warnings(source),
        }

    def _check(self, value: Any) -> list[str]:
        assert self._contract is not None
        if _reports_failure(value):
            return []
        self._broken = [_MISFIT % each for each in find_misfits(value, self._contract["schema"])]
        return self._broken


def find_misfits(value: Any, schema: Any) -> list[str]:
    """Return some of the reasons why a plain value does not fit, each with a path."""
    if schema == _ALONE.get(type(value)):
        return []
    found: list[str] = []
    try:
        for path, reason in _SchemaComparison(schema).misfits(value, schema, ""):
            found.append(("%s: %s" % (path, reason) if path else reason)[:_MAX_TEXT])
            if len(found) >= _MAX_PROBLEMS:
                break
    except (_TooLarge, RecursionError):
        pass
    return found


class _SchemaComparison:
    """The comparison of one value with one schema, in a bounded number of steps."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = _MAX_STEPS

    def misfits(self, value: Any, schema: Any, path: str) -> Iterator[tuple[str, str]]:
        self._left -= 1
        if self._left < 0:
            raise _TooLarge
        if type(value) is values.NonJsonNumber:
            value = value.number
        schema = self._resolve(schema)
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

    def _resolve(self, schema: Any) -> Any:
        for _ in range(_MAX_REFERENCES):
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
            yield path, "is not one of %.200s" % (", ".join(map(repr, schema["enum"])),)
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
            if member is None and name in known and name not in required:  # counts as left out
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
    """Return the JSON type of a value; bytes are a string to schemas, in spite of their form."""
    if isinstance(value, dict) and value.get("$type") == "bytes":
        return "string"
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "null")


def _is_same(value: Any, other: Any) -> bool:
    kinds = {kind_of(value), kind_of(other)}
    return (len(kinds) == 1 or kinds <= {"integer", "number"}) and bool(value == other)


def _below(path: str, name: Any) -> str:
    return "%s.%.80s" % (path, name) if path else "%.80s" % (name,)
