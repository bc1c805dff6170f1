"""What is wrong with an index is told as what it is, whatever it is, and with its remedy where one is known."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.environments.indexes.gateway import Gateway
from sandbox.environments.indexes.settings import Index, IndexSettings
from sandbox.environments.indexes.upstream import Patience
from tests.end_to_end.calls import wait_until
from tests.indexes import LocalIndex

IMPATIENT = Patience(attempts=1)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[LocalIndex]:
    with LocalIndex(tmp_path / "index") as index:
        index.add("child", "2.0", {"child.py": "#" * (1 << 22)})
        yield index


def _ask(gateway: Gateway, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("gateway", timeout=20)
    connection.sock = socket.socket(socket.AF_UNIX)
    with closing(connection):
        connection.sock.connect(str(gateway.socket))
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("file://otherhost/x", "names a file of another machine"),
        ("http://user:S3CRET@[/simple", "cannot be read"),
        ("http://[::1/simple", "cannot be read"),
    ],
)
def test_settings_that_nobody_can_follow_are_a_fault_with_its_remedy(url: str, reason: str, tmp_path: Path) -> None:
    with Gateway(IndexSettings(indexes=(Index(url),)), tmp_path, patience=IMPATIENT) as gateway:
        status, said = _ask(gateway, "/0/simple/child/")
        (fault,) = gateway.faults
    assert status == 502
    assert reason in fault.reason
    assert fault.remedy
    assert "S3CRET" not in said + repr(fault)


@pytest.mark.parametrize(
    ("url", "proxy"),
    [("http://index.test/simple", "::://"), ("http://index.test/simple", "http://["), ("http://a..b\u00e4/simple", "")],
)
def test_addresses_that_cannot_be_used_come_with_a_remedy(url: str, proxy: str, tmp_path: Path) -> None:
    settings = IndexSettings(indexes=(Index(url),), proxies={"http": proxy} if proxy else {})
    with Gateway(settings, tmp_path, patience=IMPATIENT) as gateway:
        assert _ask(gateway, "/0/simple/child/")[0] == 502
        (fault,) = gateway.faults
    assert "HTTP_PROXY" in str(fault.remedy)


def test_what_nobody_foresaw_is_a_fault_of_that_index(tmp_path: Path) -> None:
    (tmp_path / "simple" / "child").mkdir(parents=True)
    (tmp_path / "simple" / "child" / "index.html").symlink_to("index.html")
    with Gateway(IndexSettings(indexes=(Index((tmp_path / "simple").as_uri()),)), tmp_path) as gateway:
        assert _ask(gateway, "/0/simple/child/")[0] == 502
        assert len(gateway.faults) == 1


def test_a_box_that_hangs_up_is_no_fault_of_the_index(index: LocalIndex, tmp_path: Path) -> None:
    with Gateway(index.settings(), tmp_path, patience=IMPATIENT) as gateway:
        assert _ask(gateway, "/0/simple/child/")[0] == 200
        for _ in range(3):
            with socket.socket(socket.AF_UNIX) as box:
                box.connect(str(gateway.socket))
                box.sendall(b"GET /0/simple/child/ HTTP/1.1\r\nHost: x\r\n\r\n" * 200)
        wait_until(lambda: len(index.asked) > 1)
        assert gateway.faults == []


@pytest.mark.parametrize(
    ("login", "reason", "remedy"),
    [(("bob", "wrong"), "it refuses the login", "correct the login"), (None, "it wants a login", "give one")],
)
def test_a_login_that_is_wrong_is_told_from_one_that_is_missing(
    login: tuple[str, str] | None, reason: str, remedy: str, index: LocalIndex, tmp_path: Path
) -> None:
    index.login = ("bob", "right")
    settings = replace(index.settings(), indexes=(Index(index.url, login),))
    with Gateway(settings, tmp_path, patience=IMPATIENT) as gateway:
        assert _ask(gateway, "/0/simple/child/")[0] == 502
        (fault,) = gateway.faults
    assert reason in fault.reason
    assert remedy in str(fault.remedy)
