"""An index on a public address sends nobody to what only this machine reaches, and one that is near may."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox.environments.indexes.answers import Fault
from sandbox.environments.indexes.nearby import NearAddress, is_near, refuse_near_host
from sandbox.environments.indexes.settings import Index, IndexSettings
from sandbox.environments.indexes.upstream import Patience, Upstream
from tests.indexes import LocalIndex

PUBLIC: Final = "http://93.184.216.34"
FILE: Final = "child-9.0-py3-none-any.whl"
IMPATIENT: Final = Patience(attempts=1)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[LocalIndex]:
    with LocalIndex(tmp_path / "index") as index:
        index.add("child", "2.0")
        yield index


def _through(index: LocalIndex) -> IndexSettings:
    """A machine that knows one index on a public address, which is reached through a proxy: that one, near."""
    return IndexSettings(indexes=(Index(f"{PUBLIC}/simple"),), proxies={"http": index.root}, timeout_s=5)


NEAR: Final = [
    *("127.0.0.1", "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "localhost", "LOCALHOST", "it.localhost", "0.0.0.0"),
    *("169.254.169.254", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "168.63.129.16", "127.0.0.1."),
    *("[::1]", "[::]", "[fe80::1]", "[fd00::1]", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]"),
]


@pytest.mark.parametrize("host", NEAR)
def test_a_host_that_is_written_as_a_near_address_is_refused(host: str) -> None:
    with pytest.raises(NearAddress):
        refuse_near_host(host)
    assert is_near(f"http://{host}/simple")


def test_public_addresses_and_names_are_not() -> None:
    for host in ("93.184.216.34", "[2606:2800:220:1:248:1893:25c8:1946]", "files.test"):
        refuse_near_host(host)
    assert not is_near(f"{PUBLIC}/simple")


@pytest.mark.parametrize("host", NEAR)
def test_what_a_public_index_lists_is_not_fetched_from_near(host: str, index: LocalIndex) -> None:
    settings = _through(index)
    index.strays["child"] = {FILE: f"http://{host}/files/{FILE}"}
    upstream = Upstream(settings, patience=IMPATIENT)
    files = upstream.page(settings.indexes[0], "child")
    asked = len(index.asked)
    for file in (each for each in files if each.filename == FILE):
        with (
            pytest.raises(Fault, match="an index on a public address may not lead"),
            upstream.open(file.url, listed_by=settings.indexes[0].url),
        ):
            pass
    upstream.close()
    assert len(index.asked) == asked


@pytest.mark.parametrize("path", ["/simple/child/", "/files/child-2.0-py3-none-any.whl"])
def test_a_public_index_does_not_redirect_to_what_is_near(path: str, index: LocalIndex) -> None:
    settings = _through(index)
    index.redirects[path] = f"http://169.254.169.254{path}"
    upstream = Upstream(settings, patience=IMPATIENT)
    with (
        pytest.raises(Fault, match="link-local"),
        upstream.open(f"{PUBLIC}{path}", listed_by=settings.indexes[0].url),
    ):
        pass
    upstream.close()
    assert not [each for each in index.asked if "169.254" in each]


def test_a_name_that_leads_near_is_found_out_before_anything_is_asked(
    index: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(_through(index), proxies={})
    looked_up = socket.getaddrinfo

    def names(host: Any, *arguments: Any, **options: Any) -> Any:
        return looked_up("127.0.0.1" if host == "files.test" else host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", names)
    upstream = Upstream(settings, patience=IMPATIENT)
    url = f"{index.root.replace('127.0.0.1', 'files.test')}/files/child-2.0-py3-none-any.whl"
    with pytest.raises(Fault, match="loopback"), upstream.open(url, listed_by=settings.indexes[0].url):
        pass
    assert index.asked == []
    with upstream.open(url, listed_by=index.url) as reply:  # that index is near itself
        assert b"".join(reply.pieces)
    upstream.close()


@pytest.mark.parametrize("listed_by", ["/srv/wheels", "file:///srv/simple", "links.html"])
def test_a_page_of_this_machine_may_list_what_is_near(listed_by: str, index: LocalIndex) -> None:
    upstream = Upstream(index.settings(), patience=IMPATIENT)
    url = f"{index.root}/files/child-2.0-py3-none-any.whl"
    with upstream.open(url, listed_by=listed_by) as reply:
        assert b"".join(reply.pieces)
    upstream.close()


def test_what_is_of_this_machine_is_opened_only_for_who_is(index: LocalIndex, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("mine")
    upstream = Upstream(index.settings(), patience=IMPATIENT)
    for url in (secret.as_uri(), secret.as_uri().replace("file:", "FILE:"), str(secret)):
        with pytest.raises(Fault, match="a file of this machine"), upstream.open(url, listed_by=index.url):
            pass
        with upstream.open(url, listed_by=tmp_path.as_uri()) as reply:
            assert b"".join(reply.pieces) == b"mine"
    upstream.close()
