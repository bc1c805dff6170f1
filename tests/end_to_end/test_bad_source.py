"""Sources as they come: unusual ones run as written, and what is no tool is refused before anything starts."""

from __future__ import annotations

from typing import Final

import psutil
import pytest

from sandbox import Sandbox, SourceError, Status
from tests.end_to_end.calls import serves

MIB: Final = 1 << 20
LARGEST: Final = 5 * MIB

NOT_TOOLS: Final[dict[str, tuple[str | bytes, str]]] = {
    "a syntax error": ("def tool(:\n    pass\n", "syntax error"),
    "a syntax error in its last line": ("def tool() -> None:\n    return\n)", "syntax error"),
    "mixed indentation": ("def tool() -> None:\n    x = 1\n\ty = 2\n", "syntax error"),
    "nothing": ("", "empty"),
    "only comments": ("# nothing\n\n", "empty"),
    "a NUL character": ("def tool() -> None:\n    '\0'\n", "NUL"),
    "NUL bytes only": (b"\0" * 100, "NUL"),
    "no function": ("x = 1\n", "no public top-level function"),
    "only a private function": ("def _tool() -> None: ...\n", "no public top-level function"),
    "a function inside an if": ("if True:\n    def tool() -> None: ...\n", "no public top-level function"),
    "two candidates": ("def one() -> None: ...\ndef two() -> None: ...\n", "2 public functions"),
    "bytes that are not UTF-8": (b"def tool() -> str:\n    return '\xff'\n", "0xff"),
    "an encoding that hides code": ("# coding: rot13\nqrs gbby(): cnff\n", "rot13"),
    "UTF-16": ("def tool() -> None: ...\n".encode("utf-16"), "UTF-16"),
    "more bytes than a source may have": ("#" * (LARGEST + 1), "bytes"),
    "nesting too deep to parse": ("def tool() -> None:\n    " + "(" * 5000 + ")" * 5000, "nest|parenthes"),
}

UNUSUAL: Final[dict[str, str | bytes]] = {
    "a byte order mark": b"\xef\xbb\xbfdef tool() -> str:\n    return 'caf\xc3\xa9'\n",
    "a byte order mark in text": "\ufeffdef tool() -> str:\n    return 'café'\n",
    "CRLF line ends": "def tool() -> str:\r\n    text = 'café'\r\n    return text\r\n",
    "tabs": "def tool() -> str:\n\ttext = 'café'\n\treturn text\n",
    "an encoding line": "# -*- coding: latin-1 -*-\ndef tool() -> str:\n    return 'café'\n".encode("latin-1"),
    "an encoding line in text": "# -*- coding: latin-1 -*-\ndef tool() -> str:\n    return 'café'\n",
    "no newline at its end": "def tool() -> str: return 'café'",
    "a form feed": "\fdef tool() -> str:\n    return 'café'\n",
    "a name of many bytes": "def tool() -> str:\n    é = 'café'\n    return é\n",
}


@pytest.mark.parametrize("kind", NOT_TOOLS)
def test_what_is_no_tool_is_refused_before_anything_starts(kind: str) -> None:
    source, said = NOT_TOOLS[kind]
    before = set(psutil.Process().children())
    with Sandbox() as engine:
        with pytest.raises(SourceError, match=said) as refused:
            engine.run(source)
        assert set(psutil.Process().children()) <= before
    assert len(str(refused.value)) < 1000


def test_an_engine_that_refused_all_of_them_serves(sandbox: Sandbox) -> None:
    assert serves(sandbox)
    for source, said in NOT_TOOLS.values():
        with pytest.raises(SourceError, match=said):
            sandbox.run(source)
    assert serves(sandbox)


def test_a_syntax_error_names_its_place(sandbox: Sandbox) -> None:
    with pytest.raises(SourceError) as refused:
        sandbox.run("def tool() -> int:\n    x = 1\n    return x +\n")
    assert refused.value.line == 3
    assert "return x +" in str(refused.value)


@pytest.mark.parametrize("kind", UNUSUAL)
def test_an_unusual_source_runs_as_written(kind: str, sandbox: Sandbox) -> None:
    outcome = sandbox.run(UNUSUAL[kind])
    assert (outcome.status, outcome.value) == (Status.OK, "café"), outcome.error


@pytest.mark.slow
def test_a_source_of_five_mebibytes_runs(sandbox: Sandbox) -> None:
    code = "def tool() -> int:\n    return len(TEXT)\n"
    text = "x" * (LARGEST - len(code) - len('TEXT = ""\n'))
    source = f'TEXT = "{text}"\n{code}'
    assert len(source) == LARGEST
    outcome = sandbox.run(source)
    assert (outcome.status, outcome.value) == (Status.OK, len(text)), outcome.error


@pytest.mark.parametrize(
    "deletion",
    ["os.unlink(__file__)", "os.rename(__file__, 'elsewhere')", "open(__file__, 'w').write('x = 0\\n' * 99)"],
)
def test_a_traceback_shows_the_lines_of_a_source_that_is_gone(deletion: str, sandbox: Sandbox) -> None:
    source = f"import os\ndef tool() -> None:\n    print('before')\n    {deletion}\n    raise ValueError('the line')\n"
    outcome = sandbox.run(source)
    assert outcome.status is Status.EXCEPTION
    assert outcome.error is not None
    assert outcome.error.traceback is not None
    assert "line 5, in tool\n    raise ValueError('the line')\n" in outcome.error.traceback
    assert outcome.stdout.text == "before\n"
    assert serves(sandbox)


def test_an_error_while_the_source_is_loaded_is_the_calls(sandbox: Sandbox) -> None:
    outcome = sandbox.run("print('loading')\n1 / 0\ndef tool() -> None: ...\n")
    assert outcome.status is Status.EXCEPTION
    assert outcome.error is not None
    assert (outcome.error.type, outcome.stdout.text) == ("ZeroDivisionError", "loading\n")
    assert "line 2" in (outcome.error.traceback or "")
    assert serves(sandbox)


def test_what_compiling_alone_finds_is_the_calls_error(sandbox: Sandbox) -> None:
    outcome = sandbox.run("def tool() -> None:\n    break\n")
    assert outcome.status is Status.EXCEPTION
    assert outcome.error is not None
    assert outcome.error.type == "SyntaxError"
    assert serves(sandbox)
