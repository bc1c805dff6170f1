"""Containers, too, import a tool's packages once for all of its calls, and isolate the calls from that import."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox import Sandbox
from sandbox.backends.container.backend import ContainerBackend
from sandbox.images import BaseImage, prune_environment_images
from tests.end_to_end.packages import machine_with, publish_files, requiring
from tests.end_to_end.test_preloaded_packages import DRAWS, SHOWS_WHAT_IS_LEFT
from tests.indexes import LocalIndex

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = [pytest.mark.slow, pytest.mark.root]


@pytest.fixture
def sandbox(
    docker_daemon: str, docker_client: DockerClient, base_image: BaseImage, tmp_path: Path
) -> Iterator[Sandbox]:
    """An engine whose only index has a package that writes when it is imported; the daemon keeps no image of it."""
    publish_files(tmp_path / "wheels", "draws", {"draws/__init__.py": "", "draws/simple.py": DRAWS})
    with LocalIndex(tmp_path / "wheels") as index, machine_with(index.url):
        with Sandbox(backend=ContainerBackend(host=docker_daemon), store=tmp_path / "store") as engine:
            yield engine
        for environment in (tmp_path / "store" / "envs").glob("*/*"):
            prune_environment_images(docker_client, key=environment.name)


def test_parts_of_packages_are_imported_once_for_all_calls_and_may_write(sandbox: Sandbox) -> None:
    source = requiring(("draws",), SHOWS_WHAT_IS_LEFT)
    outcomes = [sandbox.run(source) for _ in range(3)]
    assert [outcome.status for outcome in outcomes] == ["ok"] * 3, outcomes[0].to_json()
    values: list[Any] = [outcome.value for outcome in outcomes]
    first, *others = values
    assert others == [first, first]
    assert first[1:] == [["/work/tool.py"], []]
