"""The files of a job are counted while it runs, because no control of the kernel does that."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from sandbox.engine.build_jobs import _DiskWatch, _excess
from sandbox.environments import bare_environment
from sandbox.environments.build_jobs import Job
from sandbox.errors import StoreUnwritable
from sandbox.policy import load

MOST_FILES: Final = 10
MOST_BYTES: Final = 1 << 16


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """Return a job with bounds for files and bytes."""
    default = load("default")
    limits = default.limits.model_copy(update={"inodes": MOST_FILES})
    policy = default.model_copy(update={"limits": limits})
    return Job("unpack", "unpack", {}, policy, bare_environment(), folder=tmp_path, disk=MOST_BYTES)


def test_files_within_bounds_are_accepted(job: Job, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1000)
    assert _excess(job, 0) is None


def test_too_many_bytes_are_refused(job: Job, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 2 * MOST_BYTES)
    assert "disk" in str(_excess(job, 0))


def test_a_full_disk_is_reported_whatever_the_folder_shows(job: Job) -> None:
    with pytest.raises(StoreUnwritable, match="nearly full"):
        _excess(job, 1 << 60)


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_too_many_empty_files_and_folders_are_refused(make: object, job: Job, tmp_path: Path) -> None:
    assert callable(make)
    for number in range(MOST_FILES + 1):
        make(tmp_path / str(number))
    assert "inodes" in str(_excess(job, 0))


def test_a_sudden_loss_of_disk_space_is_inspected_early(job: Job, tmp_path: Path) -> None:
    calm, watch = _DiskWatch(replace(job, disk=1 << 50)), _DiskWatch(job)
    (tmp_path / "file").write_bytes(os.urandom(16 * MOST_BYTES))
    assert watch.is_due()
    assert "disk" in str(watch.scan())
    assert not calm.is_due() or time.monotonic() > calm._latest
