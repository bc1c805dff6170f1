"""A tool's own facts are read from its source."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import pytest

from sandbox.errors import SourceError
from sandbox.tools import CallForm, Parameter, ParameterKind, ToolDefinition, read_tool
from tests.processor_time import within

EXAMPLES = Path(__file__).parents[3] / "examples"
TWO = "def one(): pass\ndef two(): pass\n"


def test_a_tool_is_read_completely() -> None:
    source = 'import json\n\n\nasync def greet(name: str, *, times: int = 1):\n    """Greet.\n\n    Often.\n    """\n'
    assert read_tool(source, filename="/tmp/greeting.py") == ToolDefinition(
        name="greet",
        entry="greet",
        filename="greeting.py",
        text=source,
        digest=hashlib.sha256(source.encode()).hexdigest(),
        is_async=True,
        is_generator=False,
        parameters=(
            Parameter("name", ParameterKind.POSITIONAL_OR_KEYWORD, "str", required=True, has_default=False),
            Parameter("times", ParameterKind.KEYWORD_ONLY, "int", required=False, has_default=True),
        ),
        accepts_extra=False,
        imports=frozenset({"json"}),
        line=4,
        docstring="Greet.\n\nOften.",
        requirements=(),
        requires_python=None,
        call=CallForm("function", ("greet",)),
    )


def test_a_tool_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        read_tool(TWO, entry="one").name = "other"  # type: ignore[misc]


# Choosing the entry


def test_the_requested_entry_is_chosen() -> None:
    assert read_tool(TWO, entry="two").name == "two"


@pytest.mark.parametrize("filename", ["two.py", "two", "/some/where/two.py", "C:\\tools\\two.py"])
def test_without_a_request_the_function_named_like_the_file_is_chosen(filename: str) -> None:
    assert read_tool(TWO, filename=filename).name == "two"


@pytest.mark.parametrize("filename", ["word-count.py", "word count.py"])
def test_a_file_name_that_is_no_identifier_still_names_its_function(filename: str) -> None:
    assert read_tool("def word_count(): pass\ndef other(): pass", filename=filename).name == "word_count"


def test_the_only_public_function_is_chosen() -> None:
    assert read_tool("def _before(): pass\ndef tool(): pass\ndef _after(): pass\n", filename="x.py").name == "tool"


def test_several_candidates_are_listed() -> None:
    with pytest.raises(SourceError, match="one, two"):
        read_tool(TWO)


def test_a_thousand_candidates_are_not_all_listed() -> None:
    with pytest.raises(SourceError, match="and 980 more") as refusal:
        read_tool("\n".join(f"def f{number}{'x' * 90}(): pass" for number in range(1000)))
    assert len(str(refusal.value)) < 2000


def test_an_unknown_entry_is_answered_with_the_known_ones() -> None:
    with pytest.raises(SourceError, match=r"three.*one, two"):
        read_tool(TWO, entry="three")


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    def tool(self): pass",
        "def outer():\n    def tool(): pass",
        "if True:\n    def tool(): pass",
        "try:\n    def tool(): pass\nexcept ImportError: pass",
        "tool = lambda: 1",
        "tool = print",
        "from os import tool",
    ],
)
def test_only_a_function_of_the_module_itself_is_called(source: str) -> None:
    with pytest.raises(SourceError, match="no public top-level function tool"):
        read_tool(source, entry="tool")


@pytest.mark.parametrize("entry", ["_private", "__init__", "A.method", "", "one two", "one()", "\x1b[2J", "x" * 10_000])
def test_an_entry_that_is_not_callable_is_refused(entry: str) -> None:
    with pytest.raises(SourceError) as refusal:
        read_tool(TWO + "def _private(): pass\n", entry=entry)
    assert "\x1b" not in str(refusal.value)
    assert len(str(refusal.value)) < 500


@pytest.mark.parametrize("source", ["", "\n\n", "# only\n# comments\n", "   \n\t\n", b"", "\ufeff", "\\\n"])
def test_a_source_without_code_is_refused(source: str | bytes) -> None:
    with pytest.raises(SourceError):
        read_tool(source)


@pytest.mark.parametrize("source", ["'''Only a docstring.'''", "x = 1", "def _only_private(): pass", "class A: pass"])
def test_a_source_without_a_function_is_refused_with_a_remedy(source: str) -> None:
    with pytest.raises(SourceError, match="def name"):
        read_tool(source)


@pytest.mark.parametrize(
    "name", ["tool.py", "examples/word_count.py", "./2-tools/a.py", "C:\\tools\\a.py", " a b.py\n"]
)
def test_a_file_name_is_not_mistaken_for_a_source(name: str) -> None:
    with pytest.raises(SourceError, match="is the name of a file, not a source") as refused:
        read_tool(name)
    assert "Path" in str(refused.value)


def test_a_tool_on_one_line_may_end_with_the_name_of_a_file() -> None:
    assert read_tool("def tool(): return 1  # as in tool.py").name == "tool"


def test_the_later_of_two_definitions_counts() -> None:
    tool = read_tool("def tool(a): pass\ndef tool(b): pass\n")
    assert (tool.line, tool.parameters[0].name) == (2, "b")


def test_names_are_compared_as_python_compares_them() -> None:
    source = "def ﬁnd(ﬂag: int): pass\ndef größe(): pass"
    assert read_tool(source, entry="ﬁnd").name == "find"
    assert read_tool(source, entry="find").parameters[0].name == "flag"
    assert read_tool(source, filename="gro\u0308ße.py").name == "größe"


@pytest.mark.parametrize(
    ("given", "safe"),
    [
        ("tool.py", "tool.py"),
        ("../../etc/passwd", "passwd.py"),
        ("/a/b/c.py", "c.py"),
        ("..\\..\\x.py", "x.py"),
        ("my tool;rm -rf.py", "my_tool_rm__rf.py"),
        ("größe.py", "gr__e.py"),
        (".hidden.py", "hidden.py"),
        ("", "tool.py"),
        ("-", "tool.py"),
        ("..", "tool.py"),
        ("/", "tool.py"),
        ("a\nb.py", "a_b.py"),
        ("x" * 5000 + ".py", "x" * 100 + ".py"),
    ],
)
def test_the_file_in_the_box_has_a_safe_name(given: str, safe: str) -> None:
    assert read_tool("def tool(): pass", filename=given).filename == safe


# The signature


def test_every_kind_of_parameter_is_read() -> None:
    tool = read_tool("def tool(a, b: int = 1, /, c: 'str' = '', *, d: list[int], e=None, **rest): pass")
    assert [(each.name, str(each.kind), each.annotation, each.required) for each in tool.parameters] == [
        ("a", "positional_only", None, True),
        ("b", "positional_only", "int", False),
        ("c", "positional_or_keyword", "'str'", False),
        ("d", "keyword_only", "list[int]", True),
        ("e", "keyword_only", None, False),
    ]
    assert tool.accepts_extra


@pytest.mark.parametrize(
    ("annotation", "required"),
    [
        ("int", True),
        ("Any", True),
        ("None", False),
        ("Optional[int]", False),
        ("typing.Optional[int]", False),
        ("int | None", False),
        ("None | int", False),
        ("'int | None'", False),
        ("Union[int, None]", False),
        ("Union[int, Optional[str]]", False),
        ("Literal['a', None]", False),
        ("Annotated[int | None, 'text']", False),
        ("list[int | None]", True),
        ("other.Optional[int]", True),
    ],
)
def test_a_parameter_whose_type_accepts_none_is_not_required(annotation: str, required: bool) -> None:
    assert read_tool(f"def tool(a: {annotation}): pass").parameters[0].required is required


def test_an_annotation_keeps_its_text_on_any_line_after_any_character() -> None:
    tool = read_tool("def tool(é: 'ß', b: dict[\n  str,  # why\n  'ü'\n], c: (int\n | str) = 1): pass")
    assert [each.annotation for each in tool.parameters] == ["'ß'", "dict[\n  str,  # why\n  'ü'\n]", "int\n | str"]


def test_star_arguments_are_refused_with_a_remedy() -> None:
    with pytest.raises(SourceError, match="list parameter, such as items") as refusal:
        read_tool("\ndef tool(*items): pass")
    assert (refusal.value.line, refusal.value.column) == (2, 11)


def test_more_parameters_than_a_tool_may_have_are_refused() -> None:
    with pytest.raises(SourceError, match="300 parameters"):
        read_tool(f"def tool({', '.join(f'p{number}' for number in range(300))}): pass")


def test_absurdly_long_annotations_are_refused() -> None:
    with pytest.raises(SourceError, match="annotations"):
        read_tool(f"def tool(a: '{'x' * 20_000}'): pass")


@pytest.mark.parametrize(
    ("body", "generates"),
    [
        ("yield 1", True),
        ("x = yield", True),
        ("yield from ()", True),
        ("if 1:\n        for a in b:\n            yield a", True),
        ("return [a for a in b]", False),
        ("return (a for a in b)", False),
        ("def inner(): yield 1", False),
        ("def inner(a=(yield)): pass", True),
        ("return lambda: (yield)", False),
        ("return lambda a=(yield): a", True),
        ("'''yield'''", False),
        ("class A:\n        def inner(self): yield", False),
    ],
)
def test_a_generator_differs_from_a_function_with_a_nested_one(body: str, generates: bool) -> None:
    assert read_tool(f"def tool():\n    {body}\n").is_generator is generates
    assert read_tool(f"async def tool():\n    {body.replace('yield from ()', 'yield')}\n").is_generator is generates


def test_the_line_is_that_of_the_definition_not_of_its_decorators() -> None:
    assert read_tool("import a\n@a.b\n@a.c(\n)\ndef tool(): pass\n").line == 5


def test_a_docstring_is_text_even_when_an_escape_makes_half_a_character() -> None:
    docstring = read_tool('def tool():\n    """A \\ud800 b."""\n').docstring
    assert docstring == "A ? b."


@pytest.mark.parametrize("body", ["pass", "1", "f'''no'''", "b'''no'''"])
def test_a_function_without_docstring_has_none(body: str) -> None:
    assert read_tool(f"def tool():\n    {body}\n").docstring is None


# Imports


def test_imports_are_those_that_loading_the_module_runs() -> None:
    source = """
from __future__ import annotations
import os.path, json as j
from numpy.linalg import norm
from . import sibling
try:
    import fast
except ImportError:
    import slow
if TYPE_CHECKING:
    import checked
elif WINDOWS:
    import windows
if typing.TYPE_CHECKING:
    import checked_too
with suppress():
    import suppressed
class A:
    import inside_class
def tool():
    from zygote import boot
if __name__ == "__main__":
    import main_only
"""
    modules = {"os", "os.path", "json", "numpy", "numpy.linalg", "fast", "slow", "windows", "suppressed"}
    expected = {*modules, "numpy.linalg.norm"}
    assert read_tool(source).imports == expected


# Remembering


def test_reading_again_returns_the_same_tool() -> None:
    assert read_tool(TWO, entry="one") is read_tool(TWO, entry="one")
    assert read_tool(TWO, entry="one") != read_tool(TWO, entry="two")
    assert read_tool(TWO, entry="one") != read_tool(TWO, entry="one", filename="other.py")


def test_bytes_and_text_of_the_same_letters_are_different_sources() -> None:
    text = "# coding: latin-1\ndef tool(): return 'é'\n"
    assert "'é'" in read_tool(text).text
    assert "'Ã©'" in read_tool(text.encode()).text


def test_reading_again_costs_microseconds() -> None:
    source = (EXAMPLES / "word_count.py").read_bytes()
    read_tool(source)
    with within(0.05):
        for _ in range(1000):
            read_tool(source)


@pytest.mark.parametrize(
    ("filename", "parameters", "is_async"),
    [
        ("word_count.py", ["text", "top"], False),
        ("fibonacci.py", ["count"], False),
        ("statistics_summary.py", ["values", "kind", "digits"], False),
        ("async_countdown.py", ["start", "seconds_between"], True),
    ],
)
def test_the_shipped_examples_are_tools(filename: str, parameters: list[str], is_async: bool) -> None:
    tool = read_tool((EXAMPLES / filename).read_bytes(), filename=filename)
    assert tool.name == filename.removesuffix(".py")
    assert [each.name for each in tool.parameters] == parameters
    assert tool.is_async is is_async
    assert tool.docstring is not None
    assert "Args:" in tool.docstring


def test_every_shipped_example_is_covered_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} >= {"word_count.py", "fibonacci.py", "async_countdown.py"}
