"""The guard's last record, which is written without an encoder, reads as what it tells."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, Final

import pytest

from box import pipes

NO_WORKPLACE: Final[dict[str, Any]] = {"workplace": None, "namespaces": []}


@pytest.mark.parametrize(
    ("status", "code", "number"),
    [(0, 0, None), (256 * 255, 255, None), (signal.SIGKILL, None, signal.SIGKILL), (signal.SIGSEGV | 0x80, None, 11)],
)
def test_how_the_tool_ended(status: int, code: int | None, number: int | None) -> None:
    told = pipes.read_end(pipes.describe_end(NO_WORKPLACE, status, max_rss=3))
    assert (told["exit_code"], told["signal"], told["max_rss"]) == (code, number, 3072)
    assert (told["bytes_free"], told["inodes_free"]) == (None, None)
    assert told["cpu_s"] >= 0


def test_it_has_the_fields_of_an_end_without_a_record() -> None:
    told = pipes.read_end(pipes.describe_end(NO_WORKPLACE, 0, max_rss=0))
    assert list(told) == list(pipes.end_without_record(None))


@pytest.mark.parametrize("namespaces", [[], ["mount"]], ids=["of the host", "of its own"])
def test_the_room_that_is_left_is_that_of_the_workplace(tmp_path: Path, namespaces: list[str]) -> None:
    plan = {"workplace": {"path": str(tmp_path)}, "namespaces": namespaces}
    told = pipes.read_end(pipes.describe_end(plan, 0, max_rss=0))
    disk = os.statvfs(tmp_path)
    assert 0 < told["bytes_free"] <= disk.f_blocks * disk.f_frsize
    assert told["inodes_free"] is None or 0 < told["inodes_free"] <= disk.f_files
