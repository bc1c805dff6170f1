"""A limit is believed when a container was seen to be held by it: with every runtime, and with one that keeps few."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from sandbox.backends.container.backend import ContainerBackend
from sandbox.backends.container.probe_cache import ProbeCache, RuntimeLimits
from sandbox.backends.container.runtime_probe import probe_runtime
from sandbox.backends.limit_probes import PROGRAM, LimitFinding
from sandbox.errors import BackendUnavailable
from sandbox.images import BaseImage
from tests.daemons import HARDENED, RUNTIMES
from tests.end_to_end.calls import wait_until
from tests.provision.docker_daemon import control_groups

if TYPE_CHECKING:
    from docker import DockerClient

LOOSE: Final = {
    "runc": set[str](),
    "crun": set[str](),
    "runsc": {"inodes"},
    "runsc-unlimited": {"inodes", "memory", "processes", "cpus"},
}
NOTHING_HELD: Final = 64


@pytest.fixture
def proof() -> RuntimeLimits:
    return found(datetime.now(UTC))


def found(when: datetime) -> RuntimeLimits:
    return RuntimeLimits(
        runtime="runc", findings={"memory": LimitFinding(is_enforced=True, evidence="killed")}, found=when
    )


def never() -> RuntimeLimits:
    raise AssertionError("it was proved again")


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.parametrize("runtime", LOOSE)
def test_each_limit_is_seen_to_hold_or_not(runtime: str, docker_client: DockerClient, base_image: BaseImage) -> None:
    proof = probe_runtime(docker_client, image=base_image.tag, runtime=runtime)
    told = {name: finding.evidence for name, finding in proof.findings.items()}
    assert set(proof.unenforced) == LOOSE[runtime], told
    assert len(proof.findings) == 8
    assert proof.control_groups.in_force == (runtime != "runsc-unlimited"), proof.control_groups.detail


@pytest.mark.slow
@pytest.mark.root
def test_where_nothing_is_limited_no_canary_says_that_it_is(docker_client: DockerClient, base_image: BaseImage) -> None:
    asked = ["disk=1048576", "inodes=16", "open_files=128", "processes=16", "network=0", "memory=1048576"]
    options = {**HARDENED, "network_mode": "host", "tmpfs": {"/work": "uid=200001,gid=200001,mode=0700"}}
    command = ["python3", "-I", "-c", PROGRAM.read_text(), *asked]
    container = docker_client.containers.create(base_image.tag, command, **options)
    try:
        container.start()
        assert container.wait()["StatusCode"] == NOTHING_HELD
    finally:
        container.remove(force=True)


@pytest.mark.slow
@pytest.mark.root
def test_a_runtime_that_does_not_start_proves_nothing(docker_client: DockerClient, base_image: BaseImage) -> None:
    with pytest.raises(BackendUnavailable, match="never-heard-of"):
        probe_runtime(docker_client, image=base_image.tag, runtime="never-heard-of")


@pytest.mark.slow
@pytest.mark.root
def test_canaries_leave_no_container(docker_client: DockerClient, base_image: BaseImage) -> None:
    before = {container.id for container in docker_client.containers.list(all=True)}
    probe_runtime(docker_client, image=base_image.tag, runtime="crun")
    with pytest.raises(BackendUnavailable):
        probe_runtime(docker_client, image="there-is:none", runtime="crun")
    assert {container.id for container in docker_client.containers.list(all=True)} <= before


@pytest.mark.slow
@pytest.mark.root
def test_what_one_process_proved_another_does_not_prove_again(
    tmp_path: Path, docker_client: DockerClient, base_image: BaseImage
) -> None:
    folder = tmp_path / "canaries"
    first = ProbeCache(folder).find_or_probe(docker_client, image=base_image.tag, runtime="crun")
    again = ProbeCache(folder).find_or_probe(docker_client, image="not-even:there", runtime="crun")
    assert again == first
    with pytest.raises(BackendUnavailable):
        ProbeCache(folder).find_or_probe(docker_client, image="not-even:there", runtime="runc")


def test_what_was_proved_is_remembered_where_nothing_can_be_written(tmp_path: Path, proof: RuntimeLimits) -> None:
    (tmp_path / "a file").touch()
    proofs = ProbeCache(tmp_path / "a file" / "folder")
    assert proofs.find_or("key", lambda: proof) is proof
    assert proofs.find_or("key", never) is proof


@pytest.mark.parametrize("age", [timedelta(days=2), timedelta(days=-2)])
def test_after_a_day_it_is_proved_again(tmp_path: Path, proof: RuntimeLimits, age: timedelta) -> None:
    old = found(datetime.now(UTC) - age)
    proofs = ProbeCache(tmp_path / "canaries")
    assert proofs.find_or("key", lambda: old) == old
    assert proofs.find_or("key", lambda: proof) == proof
    assert ProbeCache(tmp_path / "canaries").find_or("key", never) == proof


@pytest.mark.parametrize("text", ["", "{}", '{"runtime": 1}', "\0"])
def test_a_damaged_cache_file_is_ignored(tmp_path: Path, proof: RuntimeLimits, text: str) -> None:
    folder = tmp_path / "canaries"
    ProbeCache(folder).find_or("key", lambda: found(datetime.now(UTC)))
    (folder / "key.json").write_text(text)
    assert ProbeCache(folder).find_or("key", lambda: proof) is proof
    assert ProbeCache(folder).find_or("key", never) == proof


def test_a_folder_that_others_can_write_to_proves_nothing(tmp_path: Path, proof: RuntimeLimits) -> None:
    folder = tmp_path / "canaries"
    forged = found(datetime.now(UTC))
    ProbeCache(folder).find_or("key", lambda: forged)
    folder.chmod(0o777)
    assert ProbeCache(folder).find_or("key", lambda: proof) is proof


def test_what_was_left_open_is_tried_again_by_the_next_process(tmp_path: Path, proof: RuntimeLimits) -> None:
    unclear = LimitFinding(is_enforced=False, is_certain=False, evidence="the canary is running still")
    left_open = proof.model_copy(update={"findings": {"memory": unclear}})
    proofs = ProbeCache(tmp_path / "canaries")
    assert proofs.find_or("key", lambda: left_open) is left_open
    assert proofs.find_or("key", never) is left_open
    assert ProbeCache(tmp_path / "canaries").find_or("key", lambda: proof) is proof


def test_old_proofs_do_not_pile_up(tmp_path: Path, proof: RuntimeLimits) -> None:
    folder = tmp_path / "canaries"
    ProbeCache(folder).find_or("old", lambda: proof)
    long_ago = (datetime.now(UTC) - timedelta(days=3)).timestamp()
    os.utime(folder / "old.json", (long_ago, long_ago))
    ProbeCache(folder).find_or("new", lambda: proof)
    assert [path.name for path in folder.iterdir()] == ["new.json"]


def test_it_is_kept_among_the_users_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proof: RuntimeLimits
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ProbeCache().find_or("key", lambda: proof)
    assert (tmp_path / "sandbox-limit-probes" / "key.json").exists()


def _groups(url: str) -> set[Path]:
    """The control groups of a test daemon's containers."""
    return {*control_groups(Path(url.removeprefix("unix://")).parent)}


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_canaries_leave_no_control_group(
    runtime: str, docker_daemon: str, docker_client: DockerClient, base_image: BaseImage
) -> None:
    docker_client.containers.run(base_image.tag, ["true"], remove=True, **HARDENED)  # which makes their common parent
    before = _groups(docker_daemon)
    probe_runtime(docker_client, image=base_image.tag, runtime=runtime)
    assert _groups(docker_daemon) == before


@pytest.mark.slow
@pytest.mark.root
def test_canaries_leave_nothing_when_the_engine_closes_meanwhile(
    docker_daemon: str,
    docker_client: DockerClient,
    base_image: BaseImage,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    docker_client.containers.run(base_image.tag, ["true"], remove=True, **HARDENED)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # where no proof is remembered
    before = _groups(docker_daemon), _containers(docker_client)

    async def close_while_proving() -> None:
        backend = ContainerBackend(host=docker_daemon, runtime="runsc")
        proving = backend._begin_probe(await backend.daemon(), image=base_image.tag, runtime="runsc")
        assert await asyncio.to_thread(wait_until, lambda: _containers(docker_client) != before[1])
        await backend.close()
        assert proving.done()

    asyncio.run(close_while_proving())
    assert (_groups(docker_daemon), _containers(docker_client)) == before


def _containers(client: DockerClient) -> set[str]:
    """Asked for at once: a list of the SDK's asks for each, which may be gone by then."""
    return {str(container["Id"]) for container in client.api.containers(all=True)}
