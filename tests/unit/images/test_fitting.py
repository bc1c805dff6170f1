"""An environment only goes into an image whose Python can use it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from sandbox.errors import EnvironmentUnavailable
from sandbox.images.fitting import check_fit, fits
from sandbox.images.image_python import UNKNOWN, ImagePython

PYTHON: Final = ImagePython("cpython", "3.11.2", "cp311", "linux_x86_64", "2.36", "cpython-311", "a70d0d0a")


@pytest.mark.parametrize("tag", ["cp311-linux_x86_64-glibc2.36", "cp311-linux_x86_64-glibc2.17"])
def test_another_patch_release_or_an_older_c_library_fits(tag: str) -> None:
    assert fits(tag, PYTHON)


@pytest.mark.parametrize(
    "tag",
    [
        "cp312-linux_x86_64-glibc2.36",
        "cp311d-linux_x86_64-glibc2.36",
        "cp311-linux_aarch64-glibc2.36",
        "cp311-linux_x86_64-glibc2.40",
        "cp311-linux_x86_64-musl",
        "cp311-linux_x86_64",
        "nonsense",
    ],
)
def test_an_environment_for_another_python_does_not_fit(tag: str) -> None:
    assert not fits(tag, PYTHON)


def test_an_unknown_python_does_not_fit() -> None:
    assert not fits("cp311-linux_x86_64-glibc2.36", UNKNOWN)


def test_a_c_library_of_the_other_kind_fits_its_own(tmp_path: Path) -> None:
    assert fits("cp311-linux_x86_64-musl", replace(PYTHON, glibc=""))
    assert not fits("cp311-linux_x86_64-glibc2.36", replace(PYTHON, glibc=""))


def test_a_folder_that_is_no_environment_is_reported(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnavailable, match="is gone from it"):
        check_fit(tmp_path / "environment", PYTHON, base="sandbox/base:1")
