"""An exception is described with its message and traceback, and any class yields bounded text."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

from call import failure
from sandbox.protocol.messages import ExceptionReply, parse_reply

MESSAGE, TRACEBACK = 4096, 16384
PATH: Final = "/work/tool.py"


def raised_by(source: str, path: str = PATH) -> BaseException:
    """Return the exception that this source raises."""
    try:
        exec(compile(source, path, "exec"), {})
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def raised_below_ours(source: str) -> BaseException:
    """Return the same exception, raised below a module of the runner, as in a call."""
    path = str(Path(failure.__file__).with_name("call.py"))
    runner = {"code": compile(source, PATH, "exec")}
    try:
        exec(compile("exec(code, {})", path, "exec"), runner)
    except BaseException as error:
        step: Any = error.__traceback__
        return error.with_traceback(step.tb_next)  # without our own frame
    raise AssertionError("nothing was raised")


def described(error: BaseException, path: str = PATH, source: str = "") -> ExceptionReply:
    """Return the description as the engine reads it."""
    description = failure.describe(error, path, source, max_message=MESSAGE, max_traceback=TRACEBACK)
    reply = parse_reply(json.dumps(description).encode("ascii"))
    assert isinstance(reply, ExceptionReply)
    assert len(reply.error.message) <= MESSAGE + 100
    assert len(reply.error.traceback) <= TRACEBACK + 100
    return reply


def test_an_exception_has_its_type_its_message_and_the_frames_of_the_tool() -> None:
    error = described(raised_by("def f():\n    raise KeyError('k')\nf()\n")).error
    assert (error.type, error.message) == ("KeyError", "'k'")
    assert error.traceback.startswith(f'Traceback (most recent call last):\n  File "{PATH}", line 3')
    assert __file__ not in error.traceback


def test_frames_below_the_tool_stay() -> None:
    error = described(raised_by("import json\njson.loads('{')\n")).error
    assert ("json/decoder.py" in error.traceback, error.type) == (True, "JSONDecodeError")


def test_the_lines_of_the_tool_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "tool.py"
    path.write_text("another = 'file'\nby = 'now'\n")
    source = "text = 'a'\nint(text)\n"
    assert "int(text)" in described(raised_by(source, str(path)), str(path), source).error.traceback


def test_a_syntax_error_shows_its_place_and_none_of_our_frames() -> None:
    error = described(raised_by("def f(:\n")).error
    assert (error.type, f'File "{PATH}", line 1' in error.traceback) == ("SyntaxError", True)
    assert __file__ not in error.traceback


def test_every_exception_of_a_chain_is_trimmed() -> None:
    source = "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise ValueError('second') from error\n"
    error = described(raised_by(source)).error
    assert ("ZeroDivisionError: division by zero" in error.traceback, "direct cause" in error.traceback) == (True, True)
    assert __file__ not in error.traceback


RAISED_AGAIN: Final = """
class Odd(Exception):
    def __str__(self):
        raise self
class Quoting(Exception):
    def __str__(self):
        return str(self.__cause__)
def tool():
    raise Odd
def quote():
    try:
        tool()
    except Odd as error:
        raise Quoting from error
"""


@pytest.mark.parametrize("entry", ["tool", "quote"])
def test_an_exception_raised_again_by_its_own_methods_shows_tool_frames(entry: str) -> None:
    traceback = described(raised_below_ours(f"{RAISED_AGAIN}{entry}()\n")).error.traceback
    assert ("in tool" in traceback, "in __str__" in traceback) == (True, True)
    assert traceback.count('  File "') == traceback.count(f'File "{PATH}"')


def test_a_chain_that_is_a_ring_comes_to_an_end() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert "second" in described(first).error.traceback


@pytest.mark.slow
def test_a_chain_of_thousands_is_bounded() -> None:
    error: BaseException = ValueError("first")
    for number in range(10_000):
        following = ValueError(number)
        following.__cause__ = error
        error = following
    assert described(error).error.message == "9999"
    while error.__cause__:  # let go of it link by link
        error = error.__cause__


def test_the_members_of_a_group_are_shown() -> None:
    source = "raise ExceptionGroup('many', [ValueError(1), ExceptionGroup('inner', [KeyError('k')])])\n"
    error = described(raised_by(source)).error
    assert (error.type, error.message) == ("ExceptionGroup", "many (2 sub-exceptions)")
    assert all(text in error.traceback for text in ("ValueError: 1", "KeyError: 'k'"))


def test_endless_recursion_is_described_briefly() -> None:
    error = described(raised_by("def f():\n    f()\nf()\n")).error
    assert (error.type, "more times" in error.traceback) == ("RecursionError", True)


def test_a_memory_error_is_marked() -> None:
    assert described(MemoryError()).memory is True
    assert described(ValueError("MemoryError")).memory is False


def test_the_errno_of_an_os_error_is_reported() -> None:
    assert described(raised_by("open('/nowhere')")).errno == 2
    assert [described(error).errno for error in (OSError("x"), OSError("7", "x"), OSError(1 << 70, "x"))] == [None] * 3


@pytest.mark.parametrize("text", ["x" * 10_000_000, "line\n" * 200_000, "\ud800" * 5_000, "\0" * 100_000])
def test_a_long_message_keeps_both_ends(text: str) -> None:
    error = described(ValueError("first " + text + " last")).error
    assert (error.message.startswith("first "), error.message.endswith(" last")) == (True, True)
    assert "characters left out" in error.message


def test_half_a_surrogate_pair_is_written_out() -> None:
    assert described(ValueError("a\ud800b")).error.message == "a\\ud800b"


def _refuse(*_: object) -> NoReturn:
    raise SystemExit("asked")


class _Unprintable(Exception):
    __str__ = __repr__ = _refuse


class _NotText(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]  # noqa: PLE0307


class _Text(str):
    __slots__ = ()
    __str__ = __len__ = __getitem__ = encode = _refuse  # type: ignore[assignment]


class _LyingText(Exception):
    def __str__(self) -> str:
        return _Text("text")


class _Raising(Exception):
    def __getattribute__(self, name: str) -> Any:
        raise KeyboardInterrupt(name)


class _Meta(type):
    @property
    def __name__(cls) -> NoReturn:  # type: ignore[override]
        raise SystemExit("asked")


class _Nameless(Exception, metaclass=_Meta):
    def __str__(self) -> str:
        raise self


class _Posing(Exception):
    __class__ = OSError  # type: ignore[assignment]


class _Renumbered(OSError):
    errno = property(_refuse)


HOSTILE: Final = (_Unprintable, _NotText, _LyingText, _Raising, _Nameless, _Posing, _Renumbered)


@pytest.mark.parametrize("kind", HOSTILE, ids=type.__dict__["__name__"].__get__)
def test_an_exception_that_lies_or_raises_is_still_described(kind: type[BaseException]) -> None:
    description = described(kind("said"))
    assert description.error.type == type.__dict__["__name__"].__get__(kind)
    assert description.memory is False


def test_a_long_exception_name_is_cut() -> None:
    assert len(described(type("x" * 10_000_000, (Exception,), {})()).error.type) <= 100


def test_notes_are_shown_and_may_be_anything() -> None:
    error = ValueError("said")
    error.add_note("and more")
    assert "and more" in described(error).error.traceback
    error.__notes__ = [_Unprintable(), 5]  # type: ignore[list-item]
    assert "ValueError: said" in described(error).error.traceback


def test_places_are_listed_if_no_traceback_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "traceback", None)
    error = described(raised_by("def f():\n    1 / 0\nf()\n")).error
    place = f'  File "{PATH}", line '
    assert error.traceback.splitlines()[1:] == [place + "3, in <module>", place + "2, in f", "ZeroDivisionError"]
