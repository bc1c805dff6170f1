"""Every source gets a report from a check, and a tool or a `SourceError` from a reading, in bounded time."""

from __future__ import annotations

import ast
import json
import sysconfig
import time
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.errors import SourceError
from sandbox.tools import bind, read_tool
from sandbox.tools.check import CheckReport, check_source
from sandbox.tools.risk.model import MAX_FINDINGS
from tests.processor_time import within

MOST_SECONDS: Final = 2.0
LONGEST_REPORT: Final = 1 << 20
STDLIB: Final = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))


def _doubling(first: str, step: str, use: str, *, times: int = 60) -> str:
    """Return definitions that each use the one before twice."""
    steps = "\n".join(step.format(new=f"A{number}", old=f"A{number - 1}") for number in range(1, times))
    return f"{first}\n{steps}\n{use.format(last=f'A{times - 1}')}\n"


def _lines(line: str, *, first: str = "", last: str = "") -> str:
    return "\n".join([first, *(line.format(n=number) for number in range(3000)), last])


DOCUMENTED: Final = 'class A(BaseTool):\n  """Do.\n\n{}"""\n  def execute(self, a): ...'
ALIASES: Final = "def f(a: {last}): ..."
RANGE: Final = range(30)
HOSTILE: Final = {
    "aliases_that_double": _doubling("A0 = tuple[int, str]", "{new} = tuple[{old}, {old}]", ALIASES),
    "unions_that_double": _doubling("A0 = int | str", "{new} = {old} | list[{old}]", ALIASES),
    "optionals_that_double": _doubling("A0 = Optional[int]", "{new} = Union[{old}, {old}]", ALIASES),
    "classes_that_double": _doubling(
        "class A0(BaseModel):\n  x: int", "class {new}(BaseModel):\n  a: {old}\n  b: {old}", ALIASES
    ),
    "a_long_line_of_bases": _doubling(
        "class A0(BaseModel):\n  x: int", "class {new}({old}):\n  a: int", ALIASES, times=300
    ),
    "constants_that_double": _doubling("A0 = [1, 1]", "{new} = [{old}, {old}]", "def f(a: list = {last}): ..."),
    "text_that_doubles": _doubling("A0 = 'xx'", "{new} = {old} + {old}", "def f(a: str = {last}): ..."),
    "numbers_that_square": _doubling("A0 = 99999999999", "{new} = {old} * {old}", "def f(a: int = {last}): ..."),
    "an_alias_of_itself": "A = A\ndef f(a: A, b: 'list[A] | None'): ...",
    "aliases_of_each_other": "A = B\nB = A\ndef f(a: A, b: 'A | None', c: list[B]): ...",
    "a_union_of_itself": "A = 'A | int'\ndef f(a: A): ...",
    "constants_of_each_other": "A = B\nB = A\nTOOL_NAME = A\ndef run(a: int = A): ...",
    "classes_of_each_other": "\n".join(
        [
            *(
                f"class C{n}(BaseModel):\n" + "\n".join(f"  m{m}: 'C{(n * m + 1) % 30}'" for m in range(30))
                for n in RANGE
            ),
            "def f(a: C0): ...",
        ]
    ),
    "functions_of_classes_of_each_other": "\n".join(
        [
            *(f"class C{n}(BaseModel):\n  a: list[int]\n  b: dict[str, 'C{(n + 1) % 30}']" for n in RANGE),
            *(f"def f{n}(a: C{n % 30}, b: list[C{n * 7 % 30}]): ..." for n in range(100)),
        ]
    ),
    "aliases_in_a_row": _lines("X{n} = 'X{n} | Y'\nX{n}_ = X{n}", last="def f(a: X2999_): ..."),
    "tools_in_a_row": _doubling(
        "class A0(BaseTool):\n  def execute(self, a): ...", "class {new}({old}):\n  name = 'x'", "", times=900
    ),
    "text_that_doubles_for_each": _doubling(
        "A0 = 'x'",
        "{new} = {old} + {old}",
        "def f(" + ", ".join(f"a{n}: Annotated[str, {{last}}]" for n in range(200)) + "): ...",
        times=20,
    ),
    "patterns_that_repeat": "def f("
    + ", ".join(f"a{n}: Annotated[str, Field(pattern='(\\\\w{{1,1000}}){{1,{n + 900}}}')]" for n in range(100))
    + "): ...",
    "quotes_in_a_comment": "#" + "f'" * 2_500_000,
    "a_docstring_of_5_mib": 'def f(a: int):\n  """Do.\n' + "a: b - c\n" * 500_000 + '"""',
    "a_docstring_of_dashes": 'def f(a: int):\n  """Do.\n\n  Args:\n    a (' + "(" * 60_000 + ' - x\n  """',
    "a_docstring_of_headers": 'def f(a: int):\n  """Do.\n\n' + "  Args:\n    a: A\n  x\n" * 2500 + '  """',
    "bases_of_each_other": "class A(B): x: int\nclass B(A, BaseModel): y: int\ndef f(a: A): ...",
    "tools_of_each_other": "class A(B):\n  def execute(self, args): ...\nclass B(A, BaseTool): ...",
    "an_enum_of_many": _lines("  A{n} = {n}", first="class E(Enum):", last="def f(a: list[E]): ..."),
    "many_classes": _lines("class C{n}(BaseModel): x: int", last="def f(a: C2999): ..."),
    "many_functions": _lines("def f{n}(a: int): ..."),
    "many_parameters": f"def f({', '.join(f'p{number}: dict[str, list[int | str]]' for number in range(255))}): ...",
    "many_tools": f"TOOLS = [{', '.join(f'dict(name={n!r}, handler=f)' for n in map(str, range(2000)))}]",
    "quotes_in_quotes": f"def f(a: {repr(repr(repr('int | str')))!r}): ...",
    "deep_annotations": f"def f(a: {'list[' * 90}int{']' * 90}): ...",
    "deep_decorators": f"class A(Tool):\n  @openapi_schema({'[' * 90}1{']' * 90})\n  def a(self): ...",
    "a_docstring_of_colons": 'def f(a: int):\n  """Do.\n\n  Args:\n' + ("    a" + ":" * 2000 + "\n") * 20 + '  """',
    "a_docstring_of_spaces": 'def f(a: int):\n  """Do.\n\n  Args:\n' + " " * 60_000 + 'x\n  """',
    "a_docstring_of_lines": 'def f(a: int):\n  """Do.\n\n' + "-----\n" * 12_000 + '  """',
    "a_docstring_of_stars": DOCUMENTED.format(("*" * 3000 + "\n") * 20),
    "a_docstring_of_emoji": DOCUMENTED.format("⚠️ " * 20_000),
    "odd_constraints": (
        "def f(a: Annotated[int, Field(ge='x', json_schema_extra=5)], b: Annotated[str, Field(ge=1, max_length=-1)],"
        " c: Annotated[None, Field(ge=1)], d: Annotated[int, Field(examples=3, pattern='(')]): ..."
    ),
    "references_of_its_own": (
        "def f(a: Annotated[int, Field(json_schema_extra={'$ref': '#/no', 'x-inside': 'Q'})]): ..."
    ),
    "numbers_beyond_json": f"def f(a: float = 1e999, b: Literal[1e999] = 3, c: int = {'9' * 4000}): ...",
    "half_characters": (
        'def f(a: "\\ud800", b: Literal["\\ud800"], c: str = "\\ud800"):\n'
        '  """\\ud800 x.\n\n  Args:\n    a: \\udfff\n  """'
    ),
    "odd_members": (
        "class C(BaseModel):\n  model_config: int\n  schema: str\n  json: int = Field(alias='')\ndef f(a: C): ..."
    ),
    "odd_schemas": (
        "TOOL_NAME='a'\nTOOL_PARAMETERS = {1: 2, 'type': 5, 'properties': [], 'required': 3}\ndef run(**k): ..."
    ),
    "schemas_that_fetch": (
        "TOOL_NAME='a'\nTOOL_PARAMETERS = {'type': 'object', 'properties':"
        " {'a': {'$ref': '#'}, 'b': {'$ref': 'file:///etc/passwd'}}}\ndef run(**k): ..."
    ),
    "keys_that_no_dict_has": (
        "TOOL_NAME = {[]: 1}\nX = {**5}\nTOOLS = [{**X, 'name': {1, 2}, 'handler': 1}]\ndef run(): ..."
    ),
    "generics_of_themselves": (
        "T = TypeVar('T')\nclass A(BaseModel, Generic[T]):\n  a: 'A[list[T]]'\n  b: 'A[set[T]] | A[A[T]]'\n  c: T\n"
        "def f(a: A[int], b: A[str], c: A): ..."
    ),
    "generics_of_each_other": (
        "class A[T](BaseModel):\n  b: 'B[T, list[T]] | B[B[T, T], T]'\nclass B[K, V](A[K | V]):\n  a: 'A[K] | A[V]'\n"
        "def f[T: A](a: A[int], b: B[str, A[T]]): ..."
    ),
    "generics_that_double": _doubling(
        "class A0(Generic[T]):\n  x: T\nT = TypeVar('T')",
        "class {new}({old}[tuple[T, T]], Generic[T]):\n  a: {old}[T]\n  b: {old}[list[T]]",
        ALIASES.replace("{last}", "{last}[int]"),
    ),
    "variables_of_themselves": (
        "T = TypeVar('T', bound='A[T]')\nclass A(BaseModel, Generic[T]):\n  a: T\nX = A[T]\n"
        "def f(a: T, b: X, c: X[X]): ..."
    ),
    "parameters_in_a_row": _lines(
        "type A{n}[T, U: (int, str)] = dict[T, U] | A{n}[U, T]", last="def f(a: A7[int, str]): ..."
    ),
    "brackets_without_end": "def a[\n" * 49_000,
    "brackets_of_5_mib": _lines("# " + "x" * 1500 + "\nclass A{n}[T](BaseModel): x: T", last="def f(a: A9[int]): ..."),
    "arguments_that_are_no_model": (
        "X = {'args_schema': 'x', 'name': 5}\n@tool(**X)\ndef f(a): ...\n"
        "class C: x: int\n@tool(args_schema=C)\ndef g(a): ..."
    ),
    "a_default_of_5_mib": f"X = '''{'a' * 5_000_000}'''\ndef f(a: str = X): ...",
    "comments_of_5_mib": "# comment comment\n" * 270_000 + "def f(): ...",
    "statements_of_5_mib": "x = 1\n" * 800_000 + "def f(): ...",
}


@pytest.mark.slow
@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_source_is_read_in_bounded_time(source: str) -> None:
    with within(MOST_SECONDS):
        report, _ = _checked(source)
    assert len(report.to_json()) < LONGEST_REPORT
    with within(MOST_SECONDS):
        _read_and_bound(source)


def _checked(source: str | bytes) -> tuple[CheckReport, float]:
    started = time.process_time()
    report = check_source(source)
    seconds = time.process_time() - started
    json.loads(report.to_json())
    assert report.ok or any(each.severity == "error" for each in report.problems)
    assert report.risk is None or len(report.risk.findings) <= MAX_FINDINGS
    return report, seconds


def _read_and_bound(source: str | bytes, *, entry: str | None = None) -> None:
    try:
        tool = read_tool(source, entry=entry)
    except SourceError:
        return
    values: tuple[object, ...] = (None, 1, "x", [{}], {"a": {"a": 1}})
    for value in values:
        bind(tool, {each.name: value for each in tool.parameters})


@pytest.mark.slow
@pytest.mark.parametrize("file", STDLIB[::12], ids=lambda file: file.stem)
def test_files_of_other_projects_are_read(file: Path) -> None:
    source = file.read_bytes()
    with within(MOST_SECONDS):
        _checked(source)
    _read_and_bound(source)


@given(st.binary(max_size=400) | st.text(max_size=400))
@settings(max_examples=200)
def test_any_bytes_have_a_report(source: str | bytes) -> None:
    _checked(source)


# Valid Python of all kinds

WORDS: Final = ("int", "str", "list", "dict", "None", "Any", "A", "B", "C", "T", "x.y", "typing.List", "datetime.date")
NAMES: Final = st.sampled_from((*WORDS, "Field", "Optional", "Literal", "Union", "Annotated"))
CONSTANTS: Final = st.one_of(
    st.integers(), st.booleans(), st.none(), st.text(max_size=8), st.binary(max_size=4), st.floats()
).map(repr)


KEYWORDS: Final = ("ge", "min_length", "pattern", "default", "alias", "description", "examples")
ASSIGNED: Final = ("A", "B", "C", "T", "TOOL_NAME", "TOOLS", "TOOL_PARAMETERS")


def _expressions() -> st.SearchStrategy[str]:
    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        several = st.lists(inner, min_size=1, max_size=3).map(", ".join)
        return st.one_of(
            st.tuples(NAMES, several).map(lambda each: f"{each[0]}[{each[1]}]"),
            st.tuples(inner, inner).map(lambda each: f"({each[0]} | {each[1]})"),
            st.tuples(NAMES, several).map(lambda each: f"{each[0]}({each[1]})"),
            inner.map(repr),
            several.map(lambda each: f"[{each}]"),
            st.tuples(inner, inner).map(lambda each: f"{{{each[0]}: {each[1]}}}"),
            inner.map(lambda each: f"(lambda: {each})"),
            inner.map(lambda each: f"-{each}"),
            st.tuples(st.sampled_from(KEYWORDS), inner).map(lambda each: f"Field({each[0]}={each[1]})"),
        )

    return st.recursive(NAMES | CONSTANTS, grown, max_leaves=8)


EXPRESSIONS: Final = _expressions()
DOCSTRINGS: Final = st.lists(
    st.sampled_from(
        ["Do.", "Args:", "    a: The a.", "", "    b", "Returns:", ":param a: x", "---", "**Usage:** x", "  "]
    ),
    max_size=8,
).map("\n    ".join)
BASES: Final = st.sampled_from(
    ["BaseModel", "Enum", "TypedDict", "NamedTuple", "Tool", "BaseTool", "A", "B", "x.StrEnum", "Generic[T]"]
)


@st.composite
def _modules(draw: st.DrawFn) -> str:
    assigned = draw(st.lists(st.sampled_from(ASSIGNED), max_size=4))
    lines = [f"{name} = {draw(EXPRESSIONS)}" for name in assigned]
    for name in draw(st.lists(st.sampled_from(["A", "B", "C"]), max_size=3)):
        lines += [f"@{draw(NAMES)}", f"class {name}({draw(BASES)}):", f'    """{draw(DOCSTRINGS)}"""']
        lines += [f"    a: {draw(EXPRESSIONS)} = {draw(EXPRESSIONS)}", f"    b = {draw(EXPRESSIONS)}"]
        lines += [f"    @openapi_schema({draw(EXPRESSIONS)})", "    def execute(self, args): ..."]
    for name in draw(st.lists(st.sampled_from(["f", "g", "run"]), min_size=1, max_size=2, unique=True)):
        annotated = f"a: {draw(EXPRESSIONS)}, b: {draw(EXPRESSIONS)} = {draw(EXPRESSIONS)}"
        lines += [f"def {name}({annotated}) -> {draw(EXPRESSIONS)}:", f'    """{draw(DOCSTRINGS)}"""']
    return "\n".join(lines) + "\n"


@pytest.mark.slow
@given(_modules())
@settings(max_examples=150)
def test_any_valid_module_has_a_report_and_is_a_tool_or_a_source_error(source: str) -> None:
    ast.parse(source)
    report, seconds = _checked(source)
    assert seconds < MOST_SECONDS
    for each in report.callables:
        _read_and_bound(source, entry=each.entry)
