"""Whoever is still at an index when it is hung up on asks for nothing more, and keeps no connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sandbox.environments.indexes.answers import Fault
from sandbox.environments.indexes.upstream import Upstream
from tests.indexes import LocalIndex


@pytest.fixture
def index(tmp_path: Path) -> Iterator[LocalIndex]:
    with LocalIndex(tmp_path / "index") as index:
        index.add("small", "1.0")
        yield index


def _connections(index: LocalIndex) -> int:
    """How many this process holds to it."""
    port = int(index.root.rpartition(":")[2].partition("/")[0])
    found = psutil.Process().net_connections("tcp")
    return sum(bool(each.raddr) and each.raddr.port == port for each in found)


def test_nothing_is_asked_after_the_end(index: LocalIndex) -> None:
    settings = index.settings()
    upstream = Upstream(settings)
    assert upstream.page(settings.indexes[0], "small")
    upstream.close()
    asked = len(index.asked)
    with pytest.raises(Fault, match="nobody waits"):
        upstream.page(settings.indexes[0], "small")
    assert len(index.asked) == asked
    assert _connections(index) == 0


def test_a_file_that_is_read_past_the_end_leaves_no_connection(index: LocalIndex) -> None:
    settings = index.settings()
    upstream = Upstream(settings)
    (file,) = upstream.page(settings.indexes[0], "small")
    with upstream.open(file.url, listed_by=index.url) as reply:
        upstream.close()
        assert b"".join(reply.pieces)
    assert _connections(index) == 0


def test_who_asks_while_it_ends_leaves_no_connection_either(index: LocalIndex) -> None:
    settings = index.settings()
    for _ in range(10):
        upstream = Upstream(settings)
        asked = threading.Event()

        def ask(upstream: Upstream = upstream, asked: threading.Event = asked) -> None:
            while True:
                try:
                    upstream.page(settings.indexes[0], "small")
                except Fault:
                    return
                asked.set()

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert asked.wait(10)
        upstream.close()
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()
        assert _connections(index) == 0
