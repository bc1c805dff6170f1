"""Files go into containers and come out of them as they do with boxes of processes, however a container is used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from sandbox import Sandbox
from sandbox.backends import open_backend
from sandbox.config import Configuration, ContainerSettings
from sandbox.images import BaseImage
from sandbox.outputs.artifacts.store import ArtifactStore
from sandbox.policy import ReuseMode, load
from tests.end_to_end.file_checks import CHECKS, Check

pytestmark = [pytest.mark.slow, pytest.mark.root]

WAYS: Final = {
    "kept": (ReuseMode.BOX, "runc"),
    "single use": (ReuseMode.NEVER, "crun"),
    "gvisor": (ReuseMode.NEVER, "runsc"),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ArtifactStore:
    return ArtifactStore(tmp_path_factory.mktemp("artifacts"))


@pytest.fixture(scope="module", params=WAYS)
def sandbox(
    request: pytest.FixtureRequest, docker_daemon: str, base_image: BaseImage, store: ArtifactStore
) -> Iterator[Sandbox]:
    """Return an engine for each way."""
    mode, runtime = WAYS[request.param]
    policy = load("default")
    policy = policy.model_copy(update={"reuse": policy.reuse.model_copy(update={"mode": mode, "ahead": 0})})
    backend = open_backend("container", Configuration(container=ContainerSettings(host=docker_daemon, runtime=runtime)))
    with Sandbox(backend=backend, policy=policy, artifact_store=store) as engine:
        yield engine


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_in_containers(check: Check, sandbox: Sandbox, store: ArtifactStore) -> None:
    check(sandbox, store)
