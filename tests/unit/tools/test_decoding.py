"""Bytes become text as Python would read them, or are refused."""

from __future__ import annotations

import codecs

import pytest

from sandbox.errors import SourceError
from sandbox.tools import read_tool
from sandbox.tools.syntax.decoding import MAX_SOURCE_BYTES, decode_source
from tests.processor_time import within

BODY = "def greet(name: str = 'Zoë'):\n    return name\n"


@pytest.mark.parametrize(
    ("cookie", "codec"),
    [
        ("utf-8", "utf-8"),
        ("UTF_8", "utf-8"),
        ("utf8", "utf-8"),
        ("utf-8-unix", "utf-8"),
        ("utf8-dos", "utf-8"),
        ("latin-1", "latin-1"),
        ("iso-8859-1", "latin-1"),
        ("ISO_8859_15", "iso8859-15"),
        ("cp1252", "cp1252"),
        ("windows-1252", "cp1252"),
    ],
)
def test_a_declared_character_set_is_followed(cookie: str, codec: str) -> None:
    tool = read_tool(f"# -*- coding: {cookie} -*-\n{BODY}".encode(codec))
    assert tool.text == "# -*- coding: utf-8 -*-\n" + BODY
    assert tool.line == 2


def test_a_declaration_of_another_encoding_is_rewritten_to_utf_8() -> None:
    text = decode_source(f"#!/usr/bin/python\n# coding: latin-1, for old times\n{BODY}".encode("latin-1"))
    assert text.split("\n")[1] == "# coding: utf-8, for old times"
    compiled = compile(text.encode(), "tool.py", "exec")
    assert "Zoë" in str(compiled.co_consts)


def test_the_declaration_of_a_text_is_rewritten_too() -> None:
    assert decode_source(f"# coding: cp1252\n{BODY}") == f"# coding: utf-8\n{BODY}"


@pytest.mark.parametrize(
    "cookie",
    [
        *("unicode_escape", "utf-7", "utf_7", "rot13", "rot_13", "raw-unicode-escape", "idna", "punycode", "hex"),
        *("utf-16", "utf-32", "shift_jis", "gbk", "mbcs", "cp037", "cp1259", "iso-8859-12", "nonsense", "fast"),
    ],
)
@pytest.mark.parametrize("as_bytes", [True, False])
def test_an_encoding_that_could_hide_code_is_refused_by_name(cookie: str, as_bytes: bool) -> None:
    text = f"# comment\n# coding: {cookie}\ndef greet(): pass\n"
    with pytest.raises(SourceError, match=cookie) as refusal:
        read_tool(text.encode() if as_bytes else text)
    assert refusal.value.line == 2


def test_an_encoding_line_after_code_or_the_second_line_is_ignored() -> None:
    assert read_tool(b"import os\n# coding: rot13\ndef greet(): pass\n").line == 3
    assert read_tool(b"\n\n# coding: rot13\ndef greet(): pass\n").line == 4


def test_an_encoding_line_after_a_lone_carriage_return_is_seen() -> None:
    with pytest.raises(SourceError, match="rot13"):
        read_tool(b"#\r# coding: rot13\rdef greet(): pass\r")


def test_an_encoding_line_after_a_form_feed_is_seen() -> None:
    with pytest.raises(SourceError, match="utf7"):
        read_tool(b"\x0c# coding: utf7\ndef greet(): pass\n")


@pytest.mark.parametrize("source", [codecs.BOM_UTF8 + BODY.encode(), "\ufeff" + BODY])
def test_a_byte_order_mark_is_dropped(source: str | bytes) -> None:
    tool = read_tool(source)
    assert (tool.line, tool.text) == (1, BODY)


def test_a_byte_order_mark_may_agree_with_an_encoding_line() -> None:
    assert read_tool(codecs.BOM_UTF8 + b"# coding: utf-8\ndef greet(): pass").line == 2


def test_a_byte_order_mark_with_another_encoding_is_refused() -> None:
    with pytest.raises(SourceError, match="byte order mark"):
        read_tool(codecs.BOM_UTF8 + b"# coding: latin-1\ndef greet(): pass")


@pytest.mark.parametrize("codec", ["utf-16", "utf-32"])
def test_wide_text_is_refused_with_a_remedy(codec: str) -> None:
    with pytest.raises(SourceError, match="UTF-8"):
        read_tool(BODY.encode(codec))


def test_bytes_that_are_not_text_are_refused_with_their_line() -> None:
    with pytest.raises(SourceError, match="0xff") as refusal:
        read_tool(b"def greet():\r\n    '''\r\n    \xff'''\r\n")
    assert refusal.value.line == 3


def test_bytes_outside_a_declared_character_set_are_refused() -> None:
    with pytest.raises(SourceError, match="ascii"):
        read_tool(b"# coding: ascii\n" + BODY.encode())


@pytest.mark.parametrize("source", ["def greet():\n    '\0'\n", b"def greet():\n    '\0'\n"])
def test_a_nul_byte_is_refused_with_its_line(source: str | bytes) -> None:
    with pytest.raises(SourceError, match="NUL") as refusal:
        read_tool(source)
    assert refusal.value.line == 2


def test_half_of_a_surrogate_pair_is_refused_with_its_line() -> None:
    with pytest.raises(SourceError, match="surrogate") as refusal:
        read_tool("def greet():\n    return '\ud800'\n")
    assert refusal.value.line == 2


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_line_numbers_are_right_for_every_kind_of_line_end(newline: str) -> None:
    tool = read_tool(
        newline.join(["import os", "", "def greet(", "    name: str,", "):", "\treturn name", ""]).encode()
    )
    assert tool.line == 3
    assert tool.parameters[0].annotation == "str"


@pytest.mark.slow
@pytest.mark.parametrize(
    "filler", ["#", "# more\n", "\n", "\n#", "    \n"], ids=["one comment", "comments", "newlines", "hashes", "blanks"]
)
def test_a_source_of_exactly_the_limit_is_read_in_time(filler: str) -> None:
    source = ("def greet(): pass\n" + filler * MAX_SOURCE_BYTES)[:MAX_SOURCE_BYTES].encode()
    with within(2):
        assert read_tool(source).name == "greet"


@pytest.mark.parametrize("source", ["#" * (MAX_SOURCE_BYTES + 1), b"#" * (MAX_SOURCE_BYTES + 1)])
def test_a_source_over_the_limit_is_refused(source: str | bytes) -> None:
    with pytest.raises(SourceError, match=str(MAX_SOURCE_BYTES)):
        read_tool(source)


def test_a_source_is_measured_in_bytes() -> None:
    with pytest.raises(SourceError, match=str(MAX_SOURCE_BYTES)):
        read_tool("#" + "é" * (MAX_SOURCE_BYTES // 2))
