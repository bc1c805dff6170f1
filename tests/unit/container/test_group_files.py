"""A meter reads the files of a control group of version 2 wherever a container driver puts the group."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from sandbox.backends.cgroups import find_counters
from sandbox.backends.container.meters import ContainerMeter
from sandbox.protocols import Reading

MIB: Final = 1 << 20
ID: Final = "5ab8" * 16


def write_version_2(folder: Path) -> Reading:
    """A group's files as version 2 writes them; what they say."""
    texts = {
        "cpu.stat": "usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\n",
        "memory.peak": "4096\n",
        "memory.events": "low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\noom_group_kill 0\n",
        "pids.peak": "9\n",
        "pids.events": "max 3\n",
    }
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
    return Reading(cpu_s=1.5, memory_peak_bytes=4096, processes_peak=9, out_of_memory_kills=1, refused_forks=3)


@pytest.mark.parametrize(
    ("group", "below"),
    [
        ("docker/{id}", ""),
        ("system.slice/docker-{id}.scope", ""),
        ("machine.slice/libpod-{id}.scope", "/container"),
    ],
)
def test_groups_of_version_2_are_found_as_every_driver_names_them(tmp_path: Path, group: str, below: str) -> None:
    path = group.format(id=ID)
    said = write_version_2(tmp_path / path)
    mounted = [("cgroup", Path("/nowhere"), frozenset({"memory"})), ("cgroup2", tmp_path, frozenset({"rw"}))]
    counters = find_counters({"": f"/{path}{below}"}, part=ID, mounted=mounted)
    assert counters is not None
    with closing(counters):
        assert counters.read() == said


@pytest.mark.parametrize("path", ["/", f"/docker/{ID[:-1]}1", f"/../docker/{ID}", f"/elsewhere/{ID}"])
def test_groups_that_are_not_the_containers_or_not_in_sight_are_not_read(tmp_path: Path, path: str) -> None:
    write_version_2(tmp_path / "docker" / ID)
    assert find_counters({"": path}, part=ID, mounted=[("cgroup2", tmp_path, frozenset())]) is None


def test_a_peak_above_the_memory_that_an_earlier_call_left_is_no_calls(tmp_path: Path) -> None:
    """The kernel still frees files of that call: nothing can tell which part of the new peak they are."""
    write_version_2(tmp_path / "docker" / ID)
    peak = tmp_path / "docker" / ID / "memory.peak"
    found: list[int | None] = []
    for left, reached in ((0, 50 * MIB), (100 * MIB, 101 * MIB)):
        peak.write_text(f"0{left}\n")  # a reset overwrites the first digit; the kernel would write the present memory
        counters = find_counters({"": f"/docker/{ID}"}, part=ID, mounted=[("cgroup2", tmp_path, frozenset())])
        assert counters is not None
        with closing(ContainerMeter(counters)) as meter:
            peak.write_text(f"0{reached}\n")
            found.append(meter.read().memory_peak_bytes)
    assert found == [50 * MIB, None]
