"""An index that lists files of the host: a build of a stranger's source, which sees its pages, gets none of them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox import Sandbox, Status
from tests.end_to_end.packages import machine_with, requiring
from tests.escape.sources import make_source
from tests.indexes import Form, LocalIndex

pytestmark = pytest.mark.slow

SECRET: Final = "hunter2-of-the-host"
WHEEL: Final = "leak-{number}.0-py3-none-any.whl"
_READER: Final = """
import http.client, json

def ask(path):
    gateway = http.client.HTTPConnection("127.0.0.1", 8479, timeout=20)
    gateway.request("GET", path)
    answer = gateway.getresponse()
    said = answer.read().decode("utf-8", "replace")
    gateway.close()
    return answer.status, said

def attack(folder):
    status, page = ask("/0/simple/leak/")
    files = json.loads(page)["files"]
    urls = [file["url"] + behind for file in files for behind in ("", ".metadata")]
    return {"listed": [file["filename"] for file in files], "read": [ask(url)[1] for url in urls]}
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
    name = make_source(folder / "links", f"reader_{form}", _READER)
    tool = requiring((name,), f"import {name}\ndef tool():\n    return {name}.REPORT\n")
    with LocalIndex(folder / "index", form=form) as index, Sandbox(store=folder / "store") as engine:
        index.add("leak", "1.0")
        addresses = _spellings(folder / "secret")
        index.strays["leak"] = {WHEEL.format(number=2 + at): url for at, url in enumerate(addresses)}
        with machine_with(index.url, PIP_FIND_LINKS=str(folder / "links")):
            outcome = engine.run(tool, policy=str(folder / "policy.toml"))
    assert outcome.status is Status.OK, outcome
    report: Any = outcome.value
    assert "leak-1.0-py3-none-any.whl" in report["listed"]
    assert report["read"]
    assert SECRET not in repr(report)
