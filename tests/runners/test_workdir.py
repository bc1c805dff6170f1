"""A call's folder is removed in any condition, and nothing outside of it is touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from box import workdir


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "place"
    place.mkdir()
    return place


def test_a_call_with_mounts_of_its_own_needs_no_folder() -> None:
    assert workdir.choose({"namespaces": ["user", "mount"]}) is None


def test_folder_names_are_unique_and_name_their_box(tmp_path: Path) -> None:
    plan: dict[str, object] = {"namespaces": [], "workplace": None, "folder": str(tmp_path)}
    first, second = workdir.choose(plan), workdir.choose(plan)
    assert first is not None
    assert first != second
    assert Path(first).parent == tmp_path
    assert Path(first).name.startswith("sandbox-")


def test_links_are_removed_but_not_their_targets(place: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    (place / "folder").symlink_to(outside)
    (place / "file").symlink_to(outside / "kept")
    (place / "nowhere").symlink_to("nowhere")
    os.link(outside / "kept", place / "hard")
    workdir.remove(str(place))
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["kept", "outside"]


def test_a_link_in_place_of_the_folder_is_not_followed(place: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").touch()
    place.rmdir()
    place.symlink_to(tmp_path / "outside")
    workdir.remove(str(place))
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["kept", "outside"]


def test_folders_without_permissions_are_removed(place: Path) -> None:
    (place / "a" / "b").mkdir(parents=True)
    (place / "a" / "b" / "file").touch()
    for folder in ("a/b", "a", ""):
        (place / folder).chmod(0)
    workdir.remove(str(place))
    assert not place.exists()


@pytest.mark.slow
def test_any_depth_is_removed(place: Path) -> None:
    here = os.getcwd()
    os.chdir(place)
    try:
        for _ in range(5000):
            os.mkdir("d" * 100)
            os.chdir("d" * 100)
    finally:
        os.chdir(here)
    workdir.remove(str(place))
    assert not place.exists()


def test_a_missing_folder_is_not_an_error(tmp_path: Path) -> None:
    workdir.remove(str(tmp_path / "nowhere"))
