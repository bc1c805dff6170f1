"""However a page of an index is written, it lists the same files, and from afar none of this machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import pytest

from sandbox.environments.indexes.pages import JSON_PAGE, ListedFile, parse_html, parse_page

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
NOT_FOLLOWED: Final = [
    f"{way}/etc/gadget-2.0-py3-none-any.whl"
    for way in (
        *("file://", "FILE://", "File://", "fIlE:", "file:", "FILE:", "file://localhost", "FILE:////", "file:\\\\\\"),
        *(
            " file://",
            "\tFILE://",
            "\x01FILE://",
            "\x1fFILE://",
            "\u00a0FILE://",
            "FI\nLE://",
            "F\tILE://",
            "file\r://",
        ),
        *(
            "file://elsewhere.test",
            "file://user:pw@localhost",
            "jar:file://",
            "url:file://",
            "ftp://one.test",
            "data:,",
        ),
        *("http:", "http://", "HTTP:\\\\one.test", "http://one.test\\@10.0.0.1", "http://[", "https://one.test:port"),
    )
]


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


def _page(form: str, address: str, *, base: str = "") -> tuple[ListedFile, ...]:
    """The files of a page, come from afar, that lists one other file beside that address."""
    other = "https://two.test/gadget-1.0-py3-none-any.whl"
    if form == "json":
        files = [{"filename": "gadget-2.0-py3-none-any.whl", "url": url, "hashes": {}} for url in (address, other)]
        return parse_page(json.dumps({"files": files}).encode(), content_type=JSON_PAGE, address=ADDRESS)
    head = f'<base href="{base}">' if base else ""
    text = f'{head}<a href="{address}">x</a><a href="{other}">y</a>'
    return parse_page(text.encode(), content_type="text/html; charset=utf-8", address=ADDRESS)


@pytest.mark.parametrize("form", ["json", "html"])
@pytest.mark.parametrize("number", range(len(NOT_FOLLOWED)))
def test_a_page_from_afar_lists_nothing_but_http_however_it_is_spelled(number: int, form: str) -> None:
    assert [file.url for file in _page(form, NOT_FOLLOWED[number])] == ["https://two.test/gadget-1.0-py3-none-any.whl"]


@pytest.mark.parametrize("base", ["file:///etc/", "FILE:///etc/", "\tfile:/", "file://localhost/etc/x", "http://["])
def test_a_page_from_afar_does_not_become_one_of_this_machine_by_its_base(base: str) -> None:
    for address in ("gadget-2.0-py3-none-any.whl", "/gadget-2.0-py3-none-any.whl"):
        assert all(file.url.startswith("https://") for file in _page("html", address, base=base))


@pytest.mark.parametrize("address", ["HTTPS://two.test/gadget-1.0.zip", " https://two.test/gadget-1.0.zip\n"])
def test_an_address_is_told_as_it_was_understood(address: str) -> None:
    (file,) = parse_html(f'<a href="{address}">x</a>', address=ADDRESS)
    assert file.url == "https://two.test/gadget-1.0.zip"


def test_a_page_of_this_machine_lists_its_files() -> None:
    page = '<a href="FILE:///srv/gadget-1.0.zip">x</a><a href="gadget-2.0.zip">y</a>'
    found = parse_html(page, address="file:///srv/gadget/index.html")
    assert [file.url for file in found] == ["file:///srv/gadget-1.0.zip", "file:///srv/gadget/gadget-2.0.zip"]
