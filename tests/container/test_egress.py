"""Destinations of calls in containers under a policy that opens public addresses.

The attacks are the same as on boxes of processes (see `tests/escape/test_egress.py`), against the same outside.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox import Sandbox
from sandbox.errors import IsolationUnavailable
from sandbox.images import BaseImage
from tests.checkout import ROOT
from tests.escape.engines import Engine, call, engine_of
from tests.escape.outside_engines import policy, world
from tests.escape.test_egress import REFUSED_HOSTS, TOOL, is_refusal, until_nothing_is_open
from tests.outside import PUBLIC, Heard, Outside

__all__ = ["world"]

pytestmark = [pytest.mark.root, pytest.mark.slow]

SINGLE_USE: Final = """
[isolation]
minimum = "container"
require = ["mount_namespace", "pid_namespace", "network_namespace", "seccomp", "no_new_privs", "capabilities"]
[reuse]
mode = "never"
"""


@pytest.fixture(scope="module")
def set_up(docker_daemon: str, base_image: BaseImage) -> dict[str, str]:
    """The variables of an engine whose calls run in containers."""
    assert base_image.id
    return {**os.environ, "SANDBOX_BACKEND": "container", "DOCKER_HOST": docker_daemon}


@pytest.fixture(scope="module")
def engine(world: Outside, set_up: dict[str, str]) -> Iterator[Engine]:
    with engine_of(*world.inside(), sys.executable, cwd=ROOT, env=set_up) as (engine, _):
        yield engine


@pytest.fixture(params=["kept", "single use"])
def network(request: pytest.FixtureRequest, world: Outside) -> str:
    """A policy for containers that are kept, and one whose containers are for one call each."""
    until_nothing_is_open(world)
    world.heard()
    if request.param == "kept":
        return "network"
    file = Path(policy(world, "single-use"))
    file.write_text(file.read_text() + SINGLE_USE)
    return str(file)


def test_a_call_reaches_public_hosts_and_its_outcome_tells(engine: Engine, world: Outside, network: str) -> None:
    outcome = engine.run(TOOL, {"url": "http://public.example/hello"}, entry="ask", policy=network)
    assert outcome.value == [200, "hello from public.example"]
    assert outcome.receipt is not None
    assert (outcome.receipt.backend, outcome.receipt.network) == ("container", "public, through the engine's proxy")
    found: Any = outcome.evidence["network"]
    assert (found["connections"], found["refused"]) == (1, 0)
    assert world.heard() == [Heard(PUBLIC, 80, "GET /hello HTTP/1.1")]


def test_nothing_but_public_addresses_is_reached(engine: Engine, world: Outside, network: str) -> None:
    places = {"places": [f"{host}:80" for host in REFUSED_HOSTS]}
    answers = engine.value(TOOL, places, entry="connect", policy=network)
    assert [host for host, answer in zip(REFUSED_HOSTS, answers, strict=True) if not is_refusal(answer)] == []
    assert world.heard() == []


def test_a_connection_left_open_ends_with_its_call(engine: Engine, world: Outside, network: str) -> None:
    assert " 200 " in engine.value(TOOL, {"path": "/silent"}, entry="leave_open", policy=network)
    until_nothing_is_open(world)


def test_the_way_to_the_engine_is_closed_before_a_tool_is_there(engine: Engine, network: str) -> None:
    source = TOOL + (
        "\ndef knock() -> list:\n"
        "    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as near:\n"
        "        return [near.connect_ex('/egress/handoff'), own_descriptors()]\n"
    )
    answer, descriptors = engine.value(source, entry="knock", policy=network)
    assert answer == 2
    assert [each for each in descriptors if each.startswith("anon_inode:")] == []
    assert len([each for each in descriptors if each.startswith("socket:")]) == 1


def test_an_engine_that_is_killed_leaves_nothing(world: Outside, set_up: dict[str, str]) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="sandbox-killed-") as folder,
        engine_of(*world.inside(), sys.executable, cwd=ROOT, env={**set_up, "TMPDIR": folder}) as (_, process),
    ):
        assert process.stdin is not None
        process.stdin.write(json.dumps([None, call(TOOL, {"path": "/silent"}, entry="stay", policy="network")]) + "\n")
        process.stdin.flush()
        while not world.heard():
            assert process.poll() is None
        process.kill()
        process.wait()
        until_nothing_is_open(world)
        assert list(Path(folder).glob("sandbox-egress-*")) == []


def test_where_the_kernel_is_another_it_is_refused_by_name(docker_daemon: str, base_image: BaseImage) -> None:
    from sandbox.backends.container.backend import ContainerBackend

    assert base_image.id
    with (
        Sandbox(backend=ContainerBackend(host=docker_daemon, runtime="runsc")) as sandbox,
        pytest.raises(IsolationUnavailable, match="public addresses only") as refusal,
    ):
        sandbox.run("def tool() -> None: ...", policy="network")
    assert refusal.value.missing == ("egress filter",)
