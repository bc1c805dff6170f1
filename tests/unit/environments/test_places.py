"""A store is a folder of its own, with a marker, and with its own modes under every umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from sandbox import Sandbox
from sandbox.environments.disk.paths import make_root, named_place
from sandbox.environments.disk.store_marker import SIGN
from sandbox.environments.interpreters.host import own_interpreter
from sandbox.environments.interpreters.skeleton import is_kept, make_skeleton
from sandbox.environments.store.store import Store
from sandbox.errors import EnvironmentUnavailable, SpecError

PLAIN: Final = ("building", "envs", "failed", "locks", "logs", "packages", "wheels")


@pytest.fixture(params=[0o000, 0o077], ids=["open", "closed"])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _all_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("names", [("wheels",), ("wheels", "packages", "building", "logs"), PLAIN, ("holiday.jpg",)])
def test_a_folder_with_other_contents_does_not_become_a_store(names: tuple[str, ...], tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name / "mine").mkdir(parents=True)
    before = _all_in(tmp_path)
    with pytest.raises(EnvironmentUnavailable, match=f"is no store, and not empty: it holds {sorted(names)[0]}"):
        Store(tmp_path)
    assert _all_in(tmp_path) == before


def test_an_empty_folder_becomes_a_store_and_stays_one(tmp_path: Path) -> None:
    Store(tmp_path)
    (tmp_path / "beside").touch()
    Store(tmp_path).prune(older_than_s=0)
    assert (tmp_path / "beside").exists()


@pytest.mark.parametrize("name", ["artifacts-1/7", "public-index", ".new-0123456789abcdef"])
def test_other_folders_of_the_engine_may_be_there_first(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    Store(tmp_path)
    assert (tmp_path / SIGN).exists()


def test_a_store_without_a_marker_is_recognised_and_marked(tmp_path: Path) -> None:
    Store(tmp_path / "store")
    (tmp_path / "store" / SIGN).unlink()
    Store(tmp_path / "store")
    assert (tmp_path / "store" / SIGN).exists()


@pytest.mark.parametrize("name", ["", " ", "\n"])
def test_a_store_without_a_name_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="without a name"):
        named_place(name)
    with pytest.raises(SpecError, match="without a name"):
        Sandbox(store=name)


def test_a_store_with_an_ambiguous_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnavailable, match="has a ':' in its path"):
        Store(tmp_path / "a:b" / "store")
    assert list(tmp_path.iterdir()) == []


def test_a_store_whose_path_is_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnavailable, match=r"a\\udcff.*no text in UTF-8"):
        Store(tmp_path / os.fsdecode(b"a\xff"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("umask")
def test_a_store_has_its_modes_under_every_umask(tmp_path: Path) -> None:
    store = Store(tmp_path / "new" / "store")
    passable = 0o711 if os.geteuid() == 0 else 0o700
    closed = [store.skeletons, store.resolutions, store.locks, store.failed, store.logs]
    shown = [store.root, store.wheels, store.packages, store.environments, store.building]
    assert {_mode(folder) for folder in closed} == {0o700}
    assert {_mode(folder) for folder in shown} == {passable}
    assert _mode(tmp_path / "new") == 0o755


def test_modes_that_are_too_open_are_corrected(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.resolutions.chmod(0o755)
    Store(tmp_path)
    assert _mode(store.resolutions) == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o702])
@pytest.mark.parametrize("name", ["skeletons", "resolutions", "wheels"])
def test_a_folder_that_others_can_write_to_is_refused(name: str, mode: int, tmp_path: Path) -> None:
    Store(tmp_path)
    (tmp_path / name).chmod(mode)
    with pytest.raises(EnvironmentUnavailable, match=f"others may write to .*{name}.*chmod -R go-w"):
        Store(tmp_path)


def _plant(kept: Path) -> None:
    site = next(kept.glob("content/lib/*/site-packages"))
    (site / "evil.pth").write_text("import os")
    site.chmod(0o777)


def _close(kept: Path) -> None:
    (kept / "content" / "lib").chmod(0o700)


@pytest.mark.slow
@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("spoil", [_plant, _close])
def test_a_skeleton_with_other_modes_is_made_again(spoil: Callable[[Path], None], tmp_path: Path) -> None:
    interpreter, kept_in = own_interpreter(), tmp_path / "skeletons"
    make_root(tmp_path / "root", closed=())
    kept_in.mkdir(mode=0o700)

    def made(name: str) -> set[int]:
        folder = tmp_path / name
        make_skeleton(interpreter, kept_in=kept_in, folder=folder)
        assert list(folder.rglob("evil.pth")) == []
        return {_mode(path) for path in (folder, *folder.rglob("*")) if not path.is_symlink()}

    assert made("first") == made("second") == {0o755, 0o644}
    (kept,) = kept_in.iterdir()
    spoil(kept)
    assert not is_kept(interpreter, kept_in=kept_in)
    assert made("third") == made("fourth") == {0o755, 0o644}
    assert is_kept(interpreter, kept_in=kept_in)
