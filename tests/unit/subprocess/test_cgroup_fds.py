"""The descriptors of a slot's group open all or not at all, because the group may vanish at any time."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandbox.backends.subprocess.box import GroupSlot
from sandbox.backends.subprocess.groups import Group, Hierarchies
from tests.leaks import Watch, descriptors


@dataclass(frozen=True)
class Going(Group):
    """A group that has only these files left."""

    left: tuple[str, ...] = ()

    def entry_files(self) -> list[str]:
        return [*self.left, "/nonexistent/tasks"]


def test_descriptors_of_a_vanishing_group_are_closed(tmp_path: Path) -> None:
    file = tmp_path / "tasks"
    file.touch()
    group = Going(Hierarchies(1, {}), "gone", left=(str(file), str(file)))
    watch = Watch(descriptors)
    slot = GroupSlot(0, group)
    with pytest.raises(FileNotFoundError):
        slot.open_cgroup_fds()
    slot.close()
    assert not watch.leftovers()
    assert os.path.exists(file)
