"""An index that lists files of the host: a build of a stranger's source, which sees its pages, gets none of them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox import IndexUnavailable, ResolutionFailed, Sandbox, Status
from tests.end_to_end.packages import machine_with, refusal_of, requiring
from tests.escape.sources import make_source
from tests.indexes import Form, LocalIndex, make_wheel

pytestmark = pytest.mark.slow

SECRET: Final = "hunter2-of-the-host"
WHEEL: Final = "leak-{number}.0-py3-none-any.whl"
_READER: Final = """
import html, re, socket

def ask(url):
    host = re.match("(?:[a-z]+://)?([^/]*)", url)[1]
    with socket.create_connection(("127.0.0.1", 8479), timeout=20) as proxy:
        proxy.sendall(("GET " + url + " HTTP/1.1\\r\\nHost: " + host + "\\r\\n\\r\\n").encode("latin-1"))
        said = b""
        while piece := proxy.recv(65536):
            said += piece
    return said.decode("utf-8", "replace")

def attack(folder):
    page = ask(URL + "/leak/")
    urls = [html.unescape(url) for url in re.findall('(?:"url": "|href=")([^"]*)', page)]
    return {"page": page, "read": [ask(url) for url in urls]}
"""
_POLICY: Final = 'description = "for tests"\n[supply]\nsdists = true\n'


@pytest.fixture
def folder() -> Iterator[Path]:
    """Others can look into it, but not into what only its owner may read."""
    folder = Path(tempfile.mkdtemp(prefix="sandbox-index-"))
    folder.chmod(0o755)
    for name in ("links", "index"):
        (folder / name).mkdir()
    (folder / "policy.toml").write_text(_POLICY)
    (folder / "secret").touch(mode=0o600)
    (folder / "secret").write_text(SECRET)
    yield folder
    shutil.rmtree(folder)


def _spellings(secret: Path) -> list[str]:
    ways = ("file://", "FILE://", "File:", "\tFILE://", "\x01FILE://", "F\nILE://", "file://localhost", "FILE:////", "")
    return [f"{way}{secret}" for way in ways]


@pytest.mark.parametrize("form", ["json", "html"])
def test_a_build_reads_no_file_of_the_host_that_an_index_lists(form: Form, folder: Path) -> None:
    with LocalIndex(folder / "index", form=form) as index, Sandbox(store=folder / "store") as engine:
        name = make_source(folder / "links", f"reader_{form}", f"URL = {index.url!r}\n{_READER}")
        tool = requiring((name,), f"import {name}\ndef tool():\n    return {name}.REPORT\n")
        index.add("leak", "1.0")
        addresses = _spellings(folder / "secret")
        index.strays["leak"] = {WHEEL.format(number=2 + at): url for at, url in enumerate(addresses)}
        with machine_with(index.url, PIP_FIND_LINKS=str(folder / "links")):
            outcome = engine.run(tool, policy=str(folder / "policy.toml"))
    assert outcome.status is Status.OK, outcome
    report: Any = outcome.value
    assert "leak-1.0-py3-none-any.whl" in report["page"]
    assert len(report["read"]) > len(addresses) // 2
    assert SECRET not in repr(report)


@pytest.mark.parametrize("form", ["json", "html"])
def test_a_file_of_the_host_that_an_index_lists_is_no_wheel(form: Form, folder: Path) -> None:
    with LocalIndex(folder / "index", form=form) as index, Sandbox(store=folder / "store") as engine:
        wheel = make_wheel(folder / "private", "leak", "2.0", {"leak.py": f"VERSION = {SECRET!r}\n"})
        index.strays["leak"] = {wheel.name: wheel.as_uri()}
        with machine_with(index.url):
            refusal = refusal_of(engine, "leak==2.0")
    assert isinstance(refusal, ResolutionFailed | IndexUnavailable), refusal
    assert not list((folder / "store").rglob("leak-2.0*"))
