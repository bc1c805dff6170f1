"""Objects of well-known classes in terms of plainer values.

A class is recognised by the names of the classes an object inherits from and of their modules, as Python itself keeps
them. Nothing is imported for that, so a library that an environment lacks costs nothing. The plainer value may hold
any objects again, which are converted in turn (see call/values.py). An object may lie about itself: its parts are its
own word, and an object that raises is shown by its repr.

Some plainer values name their origin by a key that begins with a dollar:

    {"$type": "bytes", "base64": …, "bytes": n}
    {"$type": "table", "columns": [{"name", "dtype"}, …], "rows": [[…], …], "row_count": n, "first_rows": n}
                       if rows are missing, `first_rows` of them begin the table, and the others end it
    {"$type": "image", "artifact": name, "mime", "width", "height"}      a file of that name was left under `outputs`
"""

from __future__ import annotations

import itertools
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

NOTHING: Any = object()
"""The result for an object of an unknown class."""
_LINE = type.__dict__["__mro__"]
_NAME = type.__dict__["__name__"]
_MODULE = type.__dict__["__module__"]
_OUTPUTS = "outputs"
_MAX_CELLS = 100000


def simplify(value: Any, room: int) -> Any:
    """Return a plainer value of about `room` parts at most; `NOTHING` for an object of an unknown class."""
    kind = type(value)
    for base in _LINE.__get__(kind):
        convert = _KINDS.get((_name_of(_MODULE, base), _name_of(_NAME, base)))
        if convert is not None:
            return convert(value, room)
        marks = type.__dict__["__dict__"].__get__(base)
        for mark, convert_marked in _MARKED:
            if mark in marks:
                return convert_marked(value, room)
    return NOTHING


def _name_of(descriptor: Any, kind: type) -> str | None:
    name = descriptor.__get__(kind)
    return name if type(name) is str else None


# Objects that one text describes


def _text(value: Any, _: int) -> Any:
    return str(value)


def _iso(value: Any, _: int) -> Any:
    return value.isoformat()


def _duration(value: Any, _: int) -> Any:
    """Return an ISO 8601 duration, with the sign of a negative one in front."""
    days, seconds, microseconds = value.days, value.seconds, value.microseconds
    sign = ""
    if days < 0:
        sign, value = "-", -value
        days, seconds, microseconds = value.days, value.seconds, value.microseconds
    parts = "%d" % seconds + (".%06d" % microseconds).rstrip("0") * bool(microseconds)
    return "%sP%dDT%sS" % (sign, days, parts)


def _path(value: Any, _: int) -> Any:
    return os.fsdecode(value)


def _enum(value: Any, _: int) -> Any:
    return object.__getattribute__(value, "_value_")


def _nothing(*_: Any) -> Any:
    return None


def _bytes(value: Any, room: int) -> Any:
    """Return base64, unless the bytes cannot fit."""
    import base64

    with memoryview(value) as view:
        if view.nbytes > room:
            return Oversized(view.nbytes)
        text = base64.b64encode(view).decode("ascii")
        return {"$type": "bytes", "base64": text, "bytes": view.nbytes}


# Objects with parts


def _items(value: Any, room: int) -> Any:
    return list(itertools.islice(iter(value), max(room, 0) + 1))


def _mapping(value: Any, room: int) -> Any:
    return {key: value[key] for key in itertools.islice(iter(value), max(room, 0) + 1)}


def _dataclass(value: Any, _: int) -> Any:
    return _fields(value, type(value).__dataclass_fields__)


def _attrs(value: Any, _: int) -> Any:
    return _fields(value, [field.name for field in type(value).__attrs_attrs__])


def _fields(value: Any, names: Iterable[str]) -> Any:
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _model(value: Any, _: int) -> Any:
    """Return the fields of a model of pydantic 1 or 2."""
    return value.model_dump() if hasattr(value, "model_dump") else value.dict()


# Numbers and tables


def _scalar(value: Any, _: int) -> Any:
    """Convert a scalar of NumPy; a point in time has more digits than Python's, and becomes text."""
    if value.dtype.kind in "mM":
        return None if value != value else str(value)
    plain = value.item()
    if type(plain) is not type(value):
        return plain
    return float(value) if value.dtype.kind == "f" else NOTHING


def _array(value: Any, room: int) -> Any:
    if value.size > room:
        return Oversized(value.size)
    return (value.astype(str) if value.dtype.kind in "mM" else value).tolist()


def _tensor(value: Any, room: int) -> Any:
    return Oversized(value.numel()) if value.numel() > room else value.detach().cpu().tolist()


def _frame(value: Any, room: int) -> Any:
    """Convert a table of pandas; an index that only counts is left out, any other comes first."""
    if type(value.index).__name__ != "RangeIndex":
        value = value.rename_axis([name or "index" for name in value.index.names]).reset_index(allow_duplicates=True)
    columns = [{"name": str(name), "dtype": str(dtype)} for name, dtype in zip(value.columns, value.dtypes)]
    return _table(columns, lambda *part: value.iloc[slice(*part)].itertuples(index=False, name=None), len(value), room)


def _series(value: Any, room: int) -> Any:
    return _frame(value.to_frame(), room)


def _polars_frame(value: Any, room: int) -> Any:
    columns = [{"name": name, "dtype": str(dtype)} for name, dtype in zip(value.columns, value.dtypes)]
    return _table(columns, lambda *part: value[slice(*part)].iter_rows(), value.height, room)


def _polars_series(value: Any, room: int) -> Any:
    return _polars_frame(value.to_frame(), room)


def _arrow_table(value: Any, room: int) -> Any:
    columns = [{"name": field.name, "dtype": str(field.type)} for field in value.schema]
    return _table(columns, lambda *part: _arrow_rows(value, *part), value.num_rows, room)


def _arrow_rows(value: Any, begin: int, end: int) -> Any:
    for batch in value.slice(begin, end - begin).to_batches(max_chunksize=1000):
        for row in batch.to_pylist():
            yield row.values()


def _table(columns: list[dict[str, str]], part: Callable[[int, int], Iterable[Any]], count: int, room: int) -> Any:
    """Return as many rows from both ends as there may be room for, with the number of all rows."""
    limit = min(max(room // 4, 0), _MAX_CELLS) // (len(columns) + 1) + 2
    first = count if count <= limit else limit // 2
    last = max(first, count - limit // 2)
    ends = [[list(row) for row in itertools.islice(part(*each), limit)] for each in ((0, first), (last, count))]
    return CutTable(columns, ends[0], ends[1], count)


class Oversized:
    """An object with more parts than there is room for, which are not converted to Python objects."""

    __slots__ = ("parts",)

    def __init__(self, parts: int) -> None:
        self.parts = parts


class CutTable:
    """A table with rows from both ends of `count`."""

    __slots__ = ("columns", "count", "first", "last")

    def __init__(
        self, columns: list[dict[str, str]], first: list[list[Any]], last: list[list[Any]], count: int
    ) -> None:
        self.columns = columns
        self.first = first
        self.last = last
        self.count = count


# Images


def _image(value: Any, _: int) -> Any:
    """Leave an image of Pillow as PNG, after converting a mode that PNG does not have."""
    import io

    buffer = io.BytesIO()
    plain = value if value.mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16") else value.convert("RGB")
    plain.save(buffer, format="PNG")
    return _leave_image(buffer.getvalue(), value.size)


def _figure(value: Any, _: int) -> Any:
    """Leave a figure of matplotlib."""
    import io

    buffer = io.BytesIO()
    value.savefig(buffer, format="png", bbox_inches="tight")
    data = buffer.getvalue()
    return _leave_image(data, (int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")))


def _leave_image(data: bytes, size: tuple[int, int]) -> Any:
    """Save an image in the tool's output folder, by a free name."""
    folder = os.path.join(_home, _OUTPUTS)
    name = next(name for name in map("image-%d.png".__mod__, itertools.count(1)) if name not in os.listdir(folder))
    with open(os.path.join(folder, name), "xb") as file:
        file.write(data)
    return {"$type": "image", "artifact": name, "mime": "image/png", "width": int(size[0]), "height": int(size[1])}


_home = ""


def leave_images_in(home: str) -> None:
    """Set the call's own folder, because the tool may change the current folder."""
    global _home
    _home = home


_ADDRESSES = ("IPv4Address", "IPv6Address", "IPv4Network", "IPv6Network", "IPv4Interface", "IPv6Interface")
_VIEWS = ("dict_keys", "dict_values", "dict_items", "generator", "map", "filter", "zip", "range", "reversed")
_ITERATORS = (
    "list_iterator",
    "tuple_iterator",
    "set_iterator",
    "dict_keyiterator",
    "enumerate",
    "list_reverseiterator",
    "callable_iterator",
)
_KINDS: dict[tuple[str | None, str | None], Callable[[Any, int], Any]] = {
    ("enum", "Enum"): _enum,
    ("pandas._libs.tslibs.nattype", "_NaT"): _nothing,
    ("pandas._libs.missing", "C_NAType"): _nothing,
    ("datetime", "datetime"): _iso,
    ("datetime", "date"): _iso,
    ("datetime", "time"): _iso,
    ("datetime", "timedelta"): _duration,
    ("datetime", "tzinfo"): _text,
    ("decimal", "Decimal"): _text,
    ("fractions", "Fraction"): _text,
    ("uuid", "UUID"): _text,
    ("pathlib", "PurePath"): _path,
    ("pathlib._local", "PurePath"): _path,
    ("builtins", "bytes"): _bytes,
    ("builtins", "bytearray"): _bytes,
    ("builtins", "memoryview"): _bytes,
    ("collections", "deque"): _items,
    ("array", "array"): _items,
    ("builtins", "mappingproxy"): _mapping,
    ("collections", "ChainMap"): _mapping,
    ("collections", "UserDict"): _mapping,
    ("collections", "UserList"): _items,
    ("collections", "UserString"): _text,
    ("pydantic.main", "BaseModel"): _model,
    ("pydantic.v1.main", "BaseModel"): _model,
    ("numpy", "generic"): _scalar,
    ("numpy", "ndarray"): _array,
    ("torch", "Tensor"): _tensor,
    ("pandas.core.frame", "DataFrame"): _frame,
    ("pandas.core.series", "Series"): _series,
    ("pandas.core.indexes.base", "Index"): _items,
    ("pandas", "DataFrame"): _frame,
    ("pandas", "Series"): _series,
    ("pandas", "Index"): _items,
    ("polars.dataframe.frame", "DataFrame"): _polars_frame,
    ("polars.series.series", "Series"): _polars_series,
    ("pyarrow.lib", "Table"): _arrow_table,
    ("PIL.Image", "Image"): _image,
    ("matplotlib.figure", "Figure"): _figure,
    **{("ipaddress", name): _text for name in _ADDRESSES},
    **{("builtins", name): _items for name in (*_VIEWS, *_ITERATORS)},
}
_MARKED = (("__dataclass_fields__", _dataclass), ("__attrs_attrs__", _attrs))
