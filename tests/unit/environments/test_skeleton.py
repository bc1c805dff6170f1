"""A skeleton fits its interpreter for every installation of the engine and every setting of virtualenv."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from sandbox.environments.disk.file_inventory import StoredFile, take_inventory
from sandbox.environments.interpreters.host import own_interpreter
from sandbox.environments.interpreters.skeleton import (
    begin_skeleton,
    finish_skeleton,
    is_kept,
    make_skeleton,
    site_folder,
)
from tests.checkout import ROOT

pytestmark = pytest.mark.slow

SITE: Final = site_folder(own_interpreter())


def _made(folder: Path) -> tuple[StoredFile, ...]:
    """Return the files of a skeleton, which the store keeps next to that folder."""
    folder.mkdir(parents=True, exist_ok=True)
    content = folder / f"content-{len(list(folder.iterdir()))}"
    make_skeleton(own_interpreter(), kept_in=folder / "kept", folder=content)
    assert (content / SITE).is_dir()
    return take_inventory(content).files


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[StoredFile, ...]:
    """Return the files of an undisturbed skeleton."""
    return _made(tmp_path_factory.mktemp("plain"))


def test_a_skeleton_has_the_interpreter_and_no_installer(plain: tuple[StoredFile, ...]) -> None:
    kinds = {file.path: file.kind for file in plain}
    assert kinds.pop("pyvenv.cfg") == "file"
    assert "bin/python" in kinds
    assert set(kinds.values()) == {"link"}


def test_the_second_skeleton_is_a_copy_of_the_first(plain: tuple[StoredFile, ...], tmp_path: Path) -> None:
    assert _made(tmp_path) == plain
    assert is_kept(own_interpreter(), kept_in=tmp_path / "kept")
    assert _made(tmp_path) == plain


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_files_for_installers_are_added_before_virtualenv_and_stay(
    plain: tuple[StoredFile, ...], tmp_path: Path, umask: int
) -> None:
    content, before = tmp_path / "content", os.umask(umask)
    try:
        content.mkdir(mode=0o755)
        begin_skeleton(own_interpreter(), content)
        begun = take_inventory(content).files
        assert {file.path for file in begun} == {"bin/python", "pyvenv.cfg"}
        assert set(begun) < set(plain)
        for aside in ("first", "second"):  # made, and copied
            kept = tmp_path / "kept"
            finish_skeleton(own_interpreter(), content, kept_in=kept, aside=tmp_path / aside)
            assert take_inventory(content).files == plain
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in content.rglob("*") if path.is_dir() and not path.is_symlink()}
    assert (modes, (content / "pyvenv.cfg").stat().st_mode & 0o777) == ({0o755}, 0o644)


def _without_programs(content: Path) -> None:
    shutil.rmtree(content / "bin")


def _with_another_interpreter(content: Path) -> None:
    (content / "bin" / "python").unlink()
    (content / "bin" / "python").symlink_to("/bin/true")


def _with_more(content: Path) -> None:
    (content / SITE / "sitecustomize.py").write_text("print('here')\n")


def _without_anything(content: Path) -> None:
    shutil.rmtree(content)


def _without_a_list(content: Path) -> None:
    (content.parent / "files").unlink()


SPOILT: Final = (_without_programs, _with_another_interpreter, _with_more, _without_anything, _without_a_list)


@pytest.mark.parametrize("spoil", SPOILT, ids=lambda spoil: spoil.__name__)
def test_a_broken_skeleton_is_made_again(
    spoil: Callable[[Path], None], plain: tuple[StoredFile, ...], tmp_path: Path
) -> None:
    _made(tmp_path)
    (content,) = tmp_path.glob("kept/*/content")
    spoil(content)
    assert not is_kept(own_interpreter(), kept_in=tmp_path / "kept")
    assert _made(tmp_path) == plain
    assert is_kept(own_interpreter(), kept_in=tmp_path / "kept")
    assert [each.name for each in tmp_path.iterdir() if each.name.endswith((".kept", ".broken"))] == []


SETTINGS: Final = {
    "VIRTUALENV_ALWAYS_COPY": "1",
    "VIRTUALENV_CREATOR": "venv",
    "VIRTUALENV_DISCOVERY": "nosuch",
    "VIRTUALENV_PROMPT": "mine",
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_variable_of_virtualenv_makes_no_difference(
    name: str, plain: tuple[StoredFile, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(name, SETTINGS[name])
    assert _made(tmp_path) == plain


def test_a_configuration_file_of_virtualenv_makes_no_difference(
    plain: tuple[StoredFile, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    written = tmp_path / "config" / "virtualenv" / "virtualenv.ini"
    written.parent.mkdir(parents=True)
    written.write_text("[virtualenv]\nalways-copy = true\ndiscovery = nosuch\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("VIRTUALENV_CONFIG_FILE", str(written))
    assert _made(tmp_path / "made") == plain


def test_a_folder_may_have_any_name(plain: tuple[StoredFile, ...], tmp_path: Path) -> None:
    assert _made(tmp_path / "größe 漢字 $HOME") == plain


_ELSEWHERE: Final = """
import sys
from pathlib import Path
from sandbox.environments.interpreters.host import own_interpreter
from sandbox.environments.interpreters.skeleton import make_skeleton
folder = Path(sys.argv[1])
make_skeleton(own_interpreter(), kept_in=folder / "kept", folder=folder / "content")
"""


def test_an_engine_found_through_a_variable_makes_a_skeleton(plain: tuple[StoredFile, ...], tmp_path: Path) -> None:
    """An engine that is installed for its user alone has an interpreter without the engine's packages."""
    places = os.pathsep.join([str(ROOT), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    command = [str(own_interpreter().python), "-s", "-c", _ELSEWHERE, str(tmp_path)]
    answer = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": places}, capture_output=True, text=True, check=False, timeout=100
    )
    assert answer.returncode == 0, answer.stderr
    assert take_inventory(tmp_path / "content").files == plain


_NO_PROGRAM: Final = """
import uv
def nowhere():
    raise uv._find_uv.UvNotFound("not here")
uv.find_uv_bin = nowhere
from sandbox.cli import main
main()
"""


def test_a_uv_package_without_its_program_is_reported_with_a_remedy(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _NO_PROGRAM, "env", "lock", "six", "--store", str(tmp_path)]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100)
    assert answer.returncode == 4, answer
    assert "uv, which resolves" in answer.stderr
    assert "force-reinstall uv" in answer.stderr
