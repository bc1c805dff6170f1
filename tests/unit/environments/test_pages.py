"""However a page of an index is written, it lists the same files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from sandbox.environments.indexes.pages import ListedFile, parse_html

ADDRESS: Final = "https://one.test/simple/gadget/"
PLAIN: Final = f"""<!DOCTYPE html>
<html><head><title>Links for gadget</title></head><body>
<a href="../../files/gadget-1.0.tar.gz#sha256={"a" * 64}" data-upload-time="2026-01-02T03:04:05Z">gadget</a><br/>
<a href="https://two.test/gadget-1.0-py3-none-any.whl?a=1&amp;b=2" data-requires-python="&gt;=3.8,&lt;4">it</a><br />
<a
    href="gadget-1.1-py3-none-any.whl" data-yanked="it says &quot;oh&quot;" rel="internal"
>gadget</a>
</body></html>
"""
OTHERWISE: Final[dict[str, Callable[[str], str]]] = {
    "in quotes of the other kind": lambda text: text.replace("&quot;", "\\").replace('"', "'").replace("\\", "&quot;"),
    "in capitals": lambda text: text.replace("<a", "<A").replace("href", "HREF").replace("data-", "DATA-"),
    "with elements in its anchors": lambda text: text.replace("</a>", "<b>!</b></a>"),
    "with an attribute without a value": lambda text: text.replace("<a", "<a download"),
    "with a comment": lambda text: f"{text}<!-- the end -->",
    "partly": lambda text: text.replace(">gadget</a>", "><b>gadget</b></a>", 1),
}


def _files(text: str) -> list[ListedFile]:
    return sorted(parse_html(text, address=ADDRESS), key=lambda file: file.url)


def test_a_plain_page_is_read() -> None:
    archive, latest, wheel = _files(PLAIN)
    assert (archive.url, archive.sha256) == ("https://one.test/files/gadget-1.0.tar.gz", "a" * 64)
    assert archive.upload_time == "2026-01-02T03:04:05Z"
    assert (wheel.url, wheel.requires_python) == ("https://two.test/gadget-1.0-py3-none-any.whl?a=1&b=2", ">=3.8,<4")
    assert (latest.url, latest.yanked) == (f"{ADDRESS}gadget-1.1-py3-none-any.whl", 'it says "oh"')


@pytest.mark.parametrize("way", OTHERWISE)
def test_a_page_that_is_written_otherwise_lists_the_same(way: str) -> None:
    page = OTHERWISE[way](PLAIN)
    assert page != PLAIN
    assert _files(page) == _files(PLAIN)


def test_what_addresses_are_relative_to_holds_for_plain_anchors_too() -> None:
    page = PLAIN.replace("<head>", '<head><base href="https://three.test/">')
    assert "https://three.test/gadget-1.1-py3-none-any.whl" in {file.url for file in _files(page)}


def test_what_is_commented_out_is_not_listed() -> None:
    page = PLAIN.replace("<a\n", "<!-- <a\n").replace("</body>", "--></body>")
    assert len(_files(page)) == len(_files(PLAIN)) - 1
