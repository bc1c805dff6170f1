"""The guard's last record, which is written without an encoder, is valid JSON with its values."""

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
    record = pipes.read_end(pipes.describe_end(NO_WORKPLACE, status, max_rss=3))
    assert (record["exit_code"], record["signal"], record["max_rss"]) == (code, number, 3072)
    assert (record["bytes_free"], record["inodes_free"]) == (None, None)
    assert record["cpu_s"] >= 0


def test_the_record_has_the_fields_of_an_end_without_a_record() -> None:
    record = pipes.read_end(pipes.describe_end(NO_WORKPLACE, 0, max_rss=0))
    assert list(record) == list(pipes.end_without_record(None))


@pytest.mark.parametrize("namespaces", [[], ["mount"]], ids=["of the host", "of its own"])
def test_the_room_that_is_left_is_that_of_the_workplace(tmp_path: Path, namespaces: list[str]) -> None:
    plan = {"workplace": {"path": str(tmp_path)}, "namespaces": namespaces}
    record = pipes.read_end(pipes.describe_end(plan, 0, max_rss=0))
    disk = os.statvfs(tmp_path)
    assert 0 < record["bytes_free"] <= disk.f_blocks * disk.f_frsize
    assert record["inodes_free"] is None or 0 < record["inodes_free"] <= disk.f_files
