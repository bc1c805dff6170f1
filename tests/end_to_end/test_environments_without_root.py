"""Environments of an engine without root, whose boxes run as its own user: the store is theirs, and not to change."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox import Sandbox
from sandbox.errors import EnvironmentUnavailable
from tests.end_to_end.packages import machine_with, publish, requiring, version_of
from tests.escape.without_root import run_all_without_root
from tests.unprivileged import AS_NOBODY, NOBODY

pytestmark = pytest.mark.slow

TRIES: Final = """
import left, os, shutil, sys

def tried(act, *arguments):
    try:
        act(*arguments)
    except OSError:
        return "refused"
    return "done"

def write(place):
    with open(place, "ab") as file:
        file.write(b"VERSION = 'mine'")

def tool(store: str) -> dict:
    file, folder = left.__file__, os.path.dirname(left.__file__)
    places = [file, "/environment/pyvenv.cfg", "/environment/bin/python"]
    places += [os.path.join(each, "planted.py") for each in (folder, "/environment", "/environment/bin", store)]
    found = {"write " + place: tried(write, place) for place in places}
    for place in (folder, "/environment", store, os.path.dirname(store)):
        found["chmod " + place] = tried(os.chmod, place, 0o777)
        found["list " + place] = tried(os.listdir, place) if place.startswith(os.path.dirname(store)) else "refused"
        found["rename " + place] = tried(os.rename, place, place + "-gone")
    found["open"] = tried(os.open, file, os.O_RDWR)
    found["truncate"] = tried(os.truncate, file, 0)
    found["unlink"] = tried(os.unlink, file)
    found["link"] = tried(os.link, file, "/work/linked")
    found["utime"] = tried(os.utime, file, (0, 0))
    found["chmod"] = tried(os.chmod, file, 0o666)
    found["by descriptor"] = tried(os.fchmod, os.open(file, os.O_RDONLY), 0o666)
    return found
"""


@pytest.fixture
def folder(unprivileged_python: Path) -> Iterator[Path]:
    """Make a folder of wheels for all to read, and a store that an unprivileged user owns."""
    folder = Path(tempfile.mkdtemp(prefix="sandbox-nobody-"))
    folder.chmod(0o755)
    publish(folder / "wheels", "left", "1.0", "2.0")
    publish(folder / "wheels", "right", "1.0", requires=("left<2",))
    (folder / "home").mkdir()
    if AS_NOBODY:
        os.chown(folder / "home", NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


def _run(python: Path, folder: Path, *calls: dict[str, Any]) -> list[Any]:
    home = folder / "home"
    settings = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder / "wheels"), "HOME": str(home)}
    with machine_with(None, SANDBOX_STORE=str(home / "store"), **settings):
        outcomes = run_all_without_root(python, list(calls))
    assert [outcome["status"] for outcome in outcomes] == ["ok"] * len(calls), outcomes
    return [outcome["value"] for outcome in outcomes]


def _call(source: str, **args: object) -> dict[str, Any]:
    return {"source": source, "args": args}


def test_an_engine_without_root_builds_and_runs(unprivileged_python: Path, folder: Path) -> None:
    calls = [_call(version_of("left", each)) for each in ("left==1.0", "left==2.0", "right", "left==1.0")]
    assert _run(unprivileged_python, folder, *calls) == ["1.0", "2.0", "1.0", "1.0"]
    assert len(list(folder.glob("home/store/envs/*/*"))) == 3
    assert list((folder / "home/store/building").iterdir()) == []


def test_a_tool_changes_neither_its_environment_nor_the_store(unprivileged_python: Path, folder: Path) -> None:
    source, before = requiring(("left==1.0",), TRIES), version_of("left", "left==1.0")
    tries = _call(source, store=str(folder / "home" / "store"))
    first, found, after = _run(unprivileged_python, folder, _call(before), tries, _call(before))
    assert {what for what, answer in found.items() if answer != "refused"} == set()
    assert (first, after) == ("1.0", "1.0")


@pytest.mark.root
def test_a_store_of_another_user_is_not_used(unprivileged_python: Path, folder: Path) -> None:
    assert _run(unprivileged_python, folder, _call(version_of("left", "left==1.0"))) == ["1.0"]
    with pytest.raises(EnvironmentUnavailable, match="belongs to user"), Sandbox(store=folder / "home/store") as engine:
        engine.run(version_of("left", "left==2.0"))
