"""The examples of the documentation that need containers do what their pages say."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from sandbox.images import BaseImage
from tests.container.registries import LocalRegistry
from tests.docs.examples import PageRun
from tests.docs.pages import needs_containers, written_pages
from tests.end_to_end.packages import machine_with, publish_installed
from tests.indexes import LocalIndex

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(300)]

PAGES: Final = [page for page in written_pages() if needs_containers(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_run(page: Path, docker_daemon: str, base_image: BaseImage, tmp_path: Path) -> None:
    publish_installed(tmp_path / ".wheels", "packaging")
    variables = {
        "DOCKER_HOST": docker_daemon,
        "SANDBOX_ARTIFACTS": str(tmp_path / ".artifacts"),
        "SANDBOX_STORE": str(tmp_path / ".store"),
        "XDG_CONFIG_HOME": str(tmp_path / ".settings"),
    }
    with LocalRegistry() as registry, LocalIndex(tmp_path / ".wheels") as index, machine_with(index.url):
        PageRun(page, tmp_path, variables, {"REGISTRY": registry.address}).run()
