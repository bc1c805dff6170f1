"""A lock for another release of Python is accepted if its packages require the same on this release."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from sandbox.environments.builds.fitting import refuse_unfit
from sandbox.environments.interpreters.host import interpreter_tagged, own_interpreter
from sandbox.environments.lock import Lock, LockedPackage
from sandbox.environments.store.store import Store
from sandbox.environments.store.tree_report import TreeReport
from sandbox.errors import BuildFailed
from tests.indexes import make_wheel, sha256_of
from tests.unit.environments.made_wheels import INTERPRETER, Made, key_of, tree_in

pytestmark = pytest.mark.slow

HERE: Final = own_interpreter().version
ELSEWHERE: Final = f"{HERE}0"
ONLY_HERE: Final = f'python_full_version == "{HERE}"'
CHILD: Final = LockedPackage(name="child", version="1.0", wheel="child-1.0-py3-none-any.whl", sha256="0" * 64)


def _tree(folder: Path, *requires: str, requires_python: str | None = None) -> TreeReport:
    wheel = make_wheel(folder, "parent", "1.0", requires=requires, requires_python=requires_python)
    locked = LockedPackage(name="parent", version="1.0", wheel=wheel.name, sha256=sha256_of(wheel))
    return tree_in(Store(folder / "store"), Made(wheel, locked), key_of(1))


def _refusal(tree: TreeReport, *locked: LockedPackage, python: str | None = ELSEWHERE, asked: str = "parent") -> str:
    lock = Lock(requirements=(asked,), interpreter=INTERPRETER, python=python, packages=locked)
    try:
        refuse_unfit(lock, [tree], own_interpreter())
    except BuildFailed as error:
        return error.message
    return ""


def test_packages_required_on_this_release_only_must_be_locked(tmp_path: Path) -> None:
    tree = _tree(tmp_path, f"child>=1; {ONLY_HERE}")
    assert "parent 1.0 requires child>=1" in _refusal(tree)
    assert f"made for Python {ELSEWHERE}" in _refusal(tree)
    assert "child" in _refusal(tree, python=None)
    assert "child" in _refusal(tree, CHILD.model_copy(update={"version": "0.9"}))
    assert _refusal(tree, CHILD) == ""


def test_a_lock_for_this_release_is_accepted(tmp_path: Path) -> None:
    assert _refusal(_tree(tmp_path, f"child; {ONLY_HERE}"), python=HERE) == ""


@pytest.mark.parametrize("requirement", ["child", 'child; python_version >= "3"', 'child; python_full_version < "3"'])
def test_requirements_without_markers_are_not_examined(requirement: str, tmp_path: Path) -> None:
    assert _refusal(_tree(tmp_path, requirement)) == ""


def test_an_extra_counts_if_it_was_requested(tmp_path: Path) -> None:
    tree = _tree(tmp_path, f'child; {ONLY_HERE} and extra == "more"')
    assert _refusal(tree) == ""
    assert "child" in _refusal(tree, asked="parent[more]")


def test_requirements_of_the_tool_itself_count_too(tmp_path: Path) -> None:
    assert "the tool requires child" in _refusal(_tree(tmp_path), asked=f"child; {ONLY_HERE}")


def test_a_package_that_does_not_run_on_this_release_is_refused(tmp_path: Path) -> None:
    assert "requires Python" in _refusal(_tree(tmp_path, requires_python=f"!={HERE}"))


def test_the_interpreter_of_the_locked_release_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    own = own_interpreter()
    other = replace(own, version=ELSEWHERE, python=Path("/other/python"), digest="0" * 64)
    monkeypatch.setattr("sandbox.environments.interpreters.host.find_interpreters", lambda: (own, other))
    assert interpreter_tagged(own.tag, release=ELSEWHERE) == other
    assert interpreter_tagged(own.tag, release="3.0.0") == own
    assert interpreter_tagged(own.tag) == own
    assert interpreter_tagged(own.tag, f"=={ELSEWHERE}", release=HERE) == other
