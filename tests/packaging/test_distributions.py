"""A release holds what git tracks, no less and no more."""

from __future__ import annotations

import tarfile
from typing import Final
from zipfile import ZipFile

import pytest

from tests.checkout import tracked_files
from tests.packaging.builds import Built

DATA_FOLDERS: Final = ("runners/", "policies/", "images/")

pytestmark = pytest.mark.slow


def _home_in_wheel(file: str) -> str:
    return f"sandbox/_bundled/{file}" if file.startswith(DATA_FOLDERS) else file


def test_the_wheel_holds_exactly_what_git_tracks(built: Built) -> None:
    with ZipFile(built.wheel) as wheel:
        shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    tracked = {_home_in_wheel(file) for file in tracked_files() if file.startswith(("sandbox/", *DATA_FOLDERS))}
    assert {"shipped, not tracked": shipped - tracked, "tracked, not shipped": tracked - shipped} == {
        "shipped, not tracked": set(),
        "tracked, not shipped": set(),
    }


def test_the_sdist_holds_the_tests_and_all_they_need(built: Built) -> None:
    with tarfile.open(built.sdist) as sdist:
        shipped = {name.partition("/")[2] for name in sdist.getnames()}
    assert set(tracked_files()) - shipped == set()
