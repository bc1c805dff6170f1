"""The data folders are found in copies of each layout of an installation."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from sandbox import resources


def installed(root: Path) -> ModuleType:
    """Import the module itself from another place, as an installation would."""
    (root / "sandbox").mkdir(parents=True, exist_ok=True)
    copy = Path(shutil.copy(resources.__file__, root / "sandbox" / "resources.py"))
    spec = importlib.util.spec_from_file_location("resources_elsewhere", copy)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def filled(parent: Path) -> Path:
    for name in ("runners", "images", "policies"):
        (parent / name).mkdir(parents=True)
    (parent / "policies" / "default.toml").touch()
    return parent


def test_this_installation_has_its_policies() -> None:
    assert (resources.find_folder("policies") / "default.toml").is_file()


@pytest.mark.parametrize("name", ["runners", "images", "policies"])
def test_a_checkout_has_its_folders_next_to_the_package(tmp_path: Path, name: str) -> None:
    filled(tmp_path)
    assert installed(tmp_path).find_folder(name) == tmp_path / name


@pytest.mark.parametrize("name", ["runners", "images", "policies"])
def test_a_wheel_has_its_folders_inside_the_package_only(tmp_path: Path, name: str) -> None:
    filled(tmp_path)
    filled(tmp_path / "sandbox" / "_bundled")
    assert installed(tmp_path).find_folder(name) == tmp_path / "sandbox" / "_bundled" / name


def test_a_wheel_without_a_folder_does_not_take_a_foreign_one(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "sandbox" / "_bundled" / "policies").mkdir(parents=True)
    with pytest.raises(
        FileNotFoundError, match=r"'images'.* is missing from .*_bundled.* install sandbox-engine again"
    ):
        installed(tmp_path).find_folder("images")


def test_a_foreign_folder_next_to_an_emptied_package_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    with pytest.raises(FileNotFoundError, match="the installation is incomplete"):
        installed(tmp_path).find_folder("images")


def test_a_checkout_behind_a_link_is_found(tmp_path: Path) -> None:
    filled(tmp_path / "checkout")
    installed(tmp_path / "checkout")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "sandbox").symlink_to(tmp_path / "checkout" / "sandbox")
    assert installed(tmp_path / "linked").find_folder("policies") == tmp_path / "checkout" / "policies"
