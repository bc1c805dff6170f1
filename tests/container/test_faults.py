"""Errors name the faults around containers; a fault costs at most one call, and leaves nothing behind.

`tests/unit/docker/test_daemon.py` covers daemons that are forbidden, too old or absent; `test_daemon_faults.py` covers
faults that need a daemon to break.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil
import pytest

from sandbox import Outcome, Sandbox, Status
from sandbox.backends.container import backend as container_backend
from sandbox.backends.container import box as container_box
from sandbox.backends.container.backend import ContainerBackend
from sandbox.backends.container.docker import link
from sandbox.backends.container.meters import ContainerFacts
from sandbox.backends.ownership import ContainerOwner
from sandbox.errors import BackendUnavailable, IsolationUnavailable
from sandbox.images import BaseImage
from sandbox.outcome import EnforcedBy
from sandbox.policy import Layer, load
from tests.checkout import ROOT
from tests.container.proxies import proxy_to
from tests.end_to_end.calls import ENDLESS, TRIVIAL, serves, under_way, wait_until

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = [pytest.mark.slow, pytest.mark.root]

MIB: Final = 1 << 20
GIB: Final = 1 << 30
YEARS: Final = 10 * 365 * 24 * 3600
ELSEWHERE: Final = "0" * 32


@pytest.fixture
def sandbox(docker_daemon: str, docker_client: DockerClient, base_image: BaseImage) -> Iterator[Sandbox]:
    """An engine whose calls run in containers; afterwards the daemon has none of them."""
    before = containers(docker_client)
    with Sandbox(backend=ContainerBackend(host=docker_daemon)) as engine:
        yield engine
    assert containers(docker_client) <= before  # some of them may have been ending


def containers(client: DockerClient) -> set[str]:
    return {found["Id"] for found in client.api.containers(all=True)}


def containers_of(client: DockerClient, process: int) -> list[dict[str, Any]]:
    """Return the containers of the engines in that process."""
    found: list[dict[str, Any]] = client.api.containers(all=True, filters={"label": f"sandbox.pid={process}"})
    return found


def only_container(client: DockerClient, *, before: set[str]) -> str:
    (id,) = containers(client) - before
    return id


def was_lost(outcome: Outcome) -> bool:
    return outcome.status is Status.CRASHED and outcome.evidence.get("box") == "lost"


def test_where_no_daemon_is_a_call_says_what_to_do(tmp_path: Path) -> None:
    with (
        Sandbox(backend=ContainerBackend(host=f"unix://{tmp_path}/none.sock")) as sandbox,
        pytest.raises(BackendUnavailable, match="no Docker daemon answers at unix://") as refused,
    ):
        sandbox.run(TRIVIAL, {"a": 1, "b": 2})
    assert "start Docker" in (refused.value.remedy or "")


def test_a_container_that_is_paused_costs_its_call_no_more_than_its_time(
    sandbox: Sandbox, docker_client: DockerClient
) -> None:
    before = containers(docker_client)
    with under_way(sandbox, ENDLESS, limits={"wall": 3}) as outcome:
        paused = only_container(docker_client, before=before)
        docker_client.api.pause(paused)
        assert outcome.result().status is Status.TIMEOUT
    assert serves(sandbox)
    assert wait_until(lambda: paused not in containers(docker_client))


def test_a_call_for_a_paused_container_runs_in_another_one(sandbox: Sandbox, docker_client: DockerClient) -> None:
    before = containers(docker_client)
    sandbox.prepare(TRIVIAL)
    paused = only_container(docker_client, before=before)
    docker_client.api.pause(paused)
    outcome = sandbox.run(TRIVIAL, {"a": 1, "b": 2}, limits={"wall": 2})
    assert (outcome.status, outcome.value) == (Status.OK, 3), outcome
    assert serves(sandbox)
    assert wait_until(lambda: paused not in containers(docker_client))


def test_a_call_whose_stream_is_cut_is_lost_and_the_next_one_works(
    docker_daemon: str, docker_client: DockerClient, base_image: BaseImage, tmp_path: Path
) -> None:
    before = containers(docker_client)
    with (
        proxy_to(docker_daemon, at=tmp_path / "proxy.sock") as proxy,
        Sandbox(backend=ContainerBackend(host=proxy.url)) as sandbox,
    ):
        with under_way(sandbox, ENDLESS) as outcome:
            lost = only_container(docker_client, before=before)
            assert proxy.cut_attached() == 1
            assert was_lost(outcome.result())
        assert serves(sandbox)
        assert wait_until(lambda: lost not in containers(docker_client))
        assert proxy.cut_attached() == 1  # the stream of a box that waits for a call
        assert wait_until(lambda: serves(sandbox))  # a call that comes before that is heard is lost with it
    assert containers(docker_client) <= before


def test_a_container_made_without_an_answer_is_removed_later(
    docker_daemon: str, docker_client: DockerClient, base_image: BaseImage, tmp_path: Path
) -> None:
    before = containers(docker_client)
    with (
        proxy_to(docker_daemon, at=tmp_path / "proxy.sock") as proxy,
        Sandbox(backend=ContainerBackend(host=proxy.url)) as sandbox,
    ):
        assert serves(sandbox)
        known = containers(docker_client)
        with proxy.losing_answers(to=b"/containers/create"), pytest.raises(BackendUnavailable):
            sandbox.run(TRIVIAL, {"a": 1, "b": 2}, tenant="another")
        unheard = only_container(docker_client, before=known)
        assert sandbox.run(TRIVIAL, {"a": 1, "b": 2}, tenant="another").value == 3
        assert wait_until(lambda: unheard not in containers(docker_client))
    assert containers(docker_client) <= before


@pytest.mark.timeout(50)
def test_a_silent_daemon_does_not_delay_a_closing_engine(
    docker_daemon: str,
    docker_client: DockerClient,
    base_image: BaseImage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Shorten the time that the daemon has for an answer."""
    before = containers(docker_client)
    monkeypatch.setattr(link, "_MAX_SILENCE_S", 0.5)
    with proxy_to(docker_daemon, at=tmp_path / "proxy.sock") as proxy:
        sandbox = Sandbox(backend=ContainerBackend(host=proxy.url))
        assert serves(sandbox)
        with proxy.silent():
            sandbox.close()
        assert wait_until(lambda: containers(docker_client) <= before)


CLOSES_BESIDE_A_SILENT_DAEMON: Final = """
import sys
from sandbox import Sandbox
from sandbox.backends.container.docker import link
from sandbox.backends.container.backend import ContainerBackend
assert link._MAX_SILENCE_S > 0.5
link._MAX_SILENCE_S = 0.5
with Sandbox(backend=ContainerBackend(host=sys.argv[1])) as sandbox:
    print(sandbox.run(sys.argv[2], {"a": 1, "b": 2}).value, flush=True)
    sys.stdin.readline()
print("closed", flush=True)
"""


def test_a_program_closes_its_engine_quietly_with_a_silent_daemon(
    docker_daemon: str, docker_client: DockerClient, base_image: BaseImage, tmp_path: Path
) -> None:
    before = containers(docker_client)
    with proxy_to(docker_daemon, at=tmp_path / "proxy.sock") as proxy:
        command = [sys.executable, "-c", CLOSES_BESIDE_A_SILENT_DAEMON, proxy.url, TRIVIAL]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as program:
            assert program.stdin is not None
            assert program.stdout is not None
            assert program.stdout.readline() == "3\n"
            with proxy.silent():
                program.stdin.write("\n")
                program.stdin.flush()
                assert program.stdout.readline() == "closed\n"
            _, said = program.communicate(timeout=60)
        assert (program.returncode, said) == (0, "")
    assert wait_until(lambda: containers(docker_client) <= before)


@pytest.mark.parametrize("policy", ["default", "strict"])
def test_a_tool_that_asks_for_the_name_of_its_user_is_answered(
    policy: str, docker_daemon: str, base_image: BaseImage
) -> None:
    """Though its number is drawn for its container, where that is for one call."""
    source = "import getpass\ndef tool() -> str:\n    return getpass.getuser()\n"
    with Sandbox(backend=ContainerBackend(host=docker_daemon, runtime="runc"), policy=policy) as sandbox:
        assert sandbox.run(source).value == "tool"


TAKE_THE_RUNNER_ALONG: Final = """
import os

def tool() -> None:
    # holds next to nothing itself: who has most is the runner, and with it the container ends
    script = "for number in 1 2 3 4 5 6 7 8; do head -c 30000000 /dev/zero > /work/full-$number; done; sleep 60"
    os.execv("/bin/sh", ["sh", "-c", script])
"""


@contextmanager
def group_kept(client: DockerClient, container: str) -> Iterator[None]:
    """Keep the container's group from being deleted at its end."""
    keeper = psutil.Process(psutil.Process(client.api.inspect_container(container)["State"]["Pid"]).ppid())
    keeper.suspend()
    try:
        yield
    finally:
        keeper.resume()


def test_a_call_killed_for_memory_is_reported_without_the_daemons_word(
    sandbox: Sandbox, docker_client: DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The container's group may be deleted before the daemon hears of the kill; the test simulates that.

    The test also keeps the group until the engine has read it.
    """
    before, limits = containers(docker_client), {"memory": 96 * MIB}
    assert sandbox.run(TRIVIAL, {"a": 1, "b": 2}, limits=limits).value == 3
    unheard = ContainerFacts(status="exited", exit_code=137)
    with group_kept(docker_client, only_container(docker_client, before=before)), monkeypatch.context() as patched:
        patched.setattr(container_box, "container_facts", lambda *_, **__: unheard)
        outcome = sandbox.run(TAKE_THE_RUNNER_ALONG, limits=limits)
    assert (outcome.status, outcome.limit_name) == (Status.MEMORY, "memory"), outcome.to_json()
    assert serves(sandbox)


ENGINE: Final = """
import sys
from sandbox import Sandbox
from sandbox.backends.container.backend import ContainerBackend
with Sandbox(backend=ContainerBackend(host=sys.argv[1], runtime="runc"), policy=sys.argv[2]) as sandbox:
    for event in sandbox.stream(sys.argv[3]):
        print(event.text, end="", flush=True)
"""


def kill_engine_with_a_call(docker_daemon: str, policy: str) -> int:
    """The process of an engine that was killed while its call ran."""
    command = [sys.executable, "-c", ENGINE, docker_daemon, policy, ENDLESS]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as engine:
        assert engine.stdout is not None
        assert engine.stdout.readline() == "ready\n"
        engine.kill()
    return engine.pid


def stranger(client: DockerClient, image: BaseImage, owner: ContainerOwner) -> str:
    """Make a container with the labels of an engine on another host."""
    host = client.api.create_host_config(network_mode="none")
    labels = owner.labels(expires_at=time.time() + 3600)
    name = owner.new_name()
    id: str = client.api.create_container(image.tag, ["true"], labels=labels, name=name, host_config=host)["Id"]
    return id


@pytest.mark.parametrize("policy", ["default", "strict"])
def test_the_next_engine_removes_the_ended_containers_of_a_killed_one(
    policy: str, sandbox: Sandbox, docker_daemon: str, docker_client: DockerClient, base_image: BaseImage
) -> None:
    before = containers(docker_client)
    assert serves(sandbox)
    living = only_container(docker_client, before=before)
    foreign = stranger(docker_client, base_image, replace(ContainerOwner.current(), host=ELSEWHERE))
    try:
        dead = kill_engine_with_a_call(docker_daemon, policy)
        left = containers_of(docker_client, dead)
        assert left
        assert wait_until(lambda: all(each["State"] == "exited" for each in containers_of(docker_client, dead)))
        with Sandbox(backend=ContainerBackend(host=docker_daemon)) as next_engine:
            assert serves(next_engine)
            assert wait_until(lambda: containers_of(docker_client, dead) == [])
        assert {living, foreign} <= containers(docker_client)
        assert serves(sandbox)
    finally:
        docker_client.api.remove_container(foreign, force=True)


def test_an_engine_that_closes_leaves_the_calls_of_another_alone(
    sandbox: Sandbox, docker_daemon: str, docker_client: DockerClient
) -> None:
    before = containers(docker_client)
    with under_way(sandbox, ENDLESS) as running:
        ours = containers(docker_client) - before
        with Sandbox(backend=ContainerBackend(host=docker_daemon)) as other:
            outcomes = other.map(TRIVIAL, [{"a": n, "b": 1} for n in range(4)])
            assert [outcome.value for outcome in outcomes] == [1, 2, 3, 4]
        assert containers(docker_client) - before == ours != set()
        assert not running.done()
        docker_client.api.kill(only_container(docker_client, before=before))


LOUD: Final = """
import json, sys
from sandbox import Finished, Policy, Printed, Sandbox
from sandbox.backends.container.backend import ContainerBackend
from sandbox.policy import Limits

def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) << 10

PRINTS = '''
import os
def tool(mebibytes: int) -> str:
    piece = b"x" * ((1 << 16) - 1) + b"\\\\n"
    for _ in range(mebibytes * 16): os.write(1, piece) == 1 << 16 or os._exit(9)
    return "printed"
'''

def read(engine, mebibytes):
    taken = 0
    for event in engine.stream(PRINTS, {"mebibytes": mebibytes}):
        if isinstance(event, Printed):
            if taken < 16 << 20:
                engine.run(PRINTS, {"mebibytes": 0})  # has other things to do
            taken += len(event.text)
    return event.outcome, taken

limits = Limits(wall=200, cpu=200, output_rate=8 << 30)
policy = Policy(name="loud", description="x", limits=limits)
with Sandbox(backend=ContainerBackend(host=sys.argv[1]), policy=policy) as engine:
    read(engine, 64)
    before = peak()
    outcome, taken = read(engine, 1024)
    grown = peak() - before
print(json.dumps({"status": outcome.status, "counted": outcome.stdout.characters, "taken": taken, "grown": grown}))
"""


def test_a_gibibyte_for_a_slow_reader_takes_at_most_16_mebibytes(docker_daemon: str, base_image: BaseImage) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", LOUD, docker_daemon], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    told = json.loads(answer.stdout)
    assert (told["status"], told["counted"], told["taken"]) == ("ok", GIB, GIB)
    assert told["grown"] <= 16 * MIB


def test_a_taken_name_costs_no_call_and_stays_its_owners(
    sandbox: Sandbox, docker_client: DockerClient, base_image: BaseImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert serves(sandbox)
    taken = ContainerOwner.current().new_name()
    host = docker_client.api.create_host_config(network_mode="none")
    theirs = docker_client.api.create_container(base_image.tag, ["true"], name=taken, host_config=host)["Id"]
    names, draw = [taken], ContainerOwner.new_name
    try:
        with monkeypatch.context() as patched:
            patched.setattr(ContainerOwner, "new_name", lambda owner: names.pop() if names else draw(owner))
            assert sandbox.run(TRIVIAL, {"a": 1, "b": 2}, tenant="another").value == 3
        assert names == []
        assert theirs in containers(docker_client)
    finally:
        docker_client.api.remove_container(theirs)


@pytest.mark.parametrize("jump", [-YEARS, YEARS])
def test_a_clock_that_jumps_changes_no_call_and_takes_no_container(
    jump: int, sandbox: Sandbox, docker_daemon: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert serves(sandbox)
    real = time.time
    with monkeypatch.context() as patched, Sandbox(backend=ContainerBackend(host=docker_daemon)) as other:
        with under_way(sandbox, ENDLESS, limits={"wall": 3}) as outcome:
            patched.setattr(time, "time", lambda: real() + jump)
            assert serves(other)  # and has swept
            found = outcome.result()
        assert (found.status, found.stdout.text) == (Status.TIMEOUT, "ready\n")
        assert 3 <= found.usage.wall_s < 60
        assert serves(sandbox)


def test_a_runtime_that_the_daemon_has_not_is_refused_with_those_it_has(
    docker_daemon: str, base_image: BaseImage
) -> None:
    with (
        Sandbox(backend=ContainerBackend(host=docker_daemon, runtime="kata")) as sandbox,
        pytest.raises(IsolationUnavailable, match=r"no runtime 'kata'; it has .*runc") as refused,
    ):
        sandbox.run(TRIVIAL, {"a": 1, "b": 2}, policy="strict")
    assert refused.value.missing == ("kata",)
    assert "runtimes" in (refused.value.remedy or "")


def test_a_runtime_without_limits_is_noted_or_refused_by_policy(docker_daemon: str, base_image: BaseImage) -> None:
    strict = load("strict")
    isolation = strict.isolation.model_copy(update={"require": (*strict.isolation.require, Layer.CGROUP)})
    relying = strict.model_copy(update={"isolation": isolation})
    with Sandbox(backend=ContainerBackend(host=docker_daemon, runtime="runsc-unlimited"), policy=strict) as sandbox:
        outcome = sandbox.run(TRIVIAL, {"a": 1, "b": 2})
        receipt = outcome.receipt
        assert receipt is not None
        assert receipt.notes == ("runtime runsc-unlimited was seen not to limit: memory, processes, cpus",)
        assert outcome.warnings == receipt.notes
        assert receipt.limits["memory"].enforced_by is EnforcedBy.NONE
        assert "four times as much" in receipt.limits["memory"].note
        assert not receipt.layers["cgroup"].in_force
        with pytest.raises(IsolationUnavailable, match="'strict' cannot be enforced here: cgroup") as refused:
            sandbox.run(TRIVIAL, {"a": 1, "b": 2}, policy=relying)
        assert refused.value.missing == ("cgroup",)


@pytest.mark.parametrize("profile", ["no json", '{"defaultAction": "SCMP_ACT_UNHEARD_OF"}'])
def test_a_system_call_profile_that_is_refused_opens_no_box_without_one(
    profile: str, sandbox: Sandbox, docker_client: DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = containers(docker_client)
    with monkeypatch.context() as patched:
        patched.setattr(container_backend, "docker_profile", lambda *_, **__: profile)
        with pytest.raises(BackendUnavailable, match=r"refused (making|starting) a container") as refused:
            sandbox.run(TRIVIAL, {"a": 1, "b": 2})
    assert len(str(refused.value)) < 1000
    assert wait_until(lambda: containers(docker_client) <= before)
    assert serves(sandbox)
