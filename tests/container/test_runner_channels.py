"""Where the daemon is on this machine, calls lead past it; where the engine may not do that, they lead through it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from sandbox import Sandbox
from sandbox.backends.container.backend import ContainerBackend
from sandbox.images import BaseImage
from tests.checkout import ROOT
from tests.container.proxies import Proxy, proxy_to
from tests.end_to_end.calls import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.root]

CALLS: Final = 5
PRINTED: Final = 1 << 16
TOOL: Final = f"def tool() -> int:\n    print('x' * {PRINTED})\n    return 3\n"
WITHOUT_TRACING: Final = ("setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace")
ENGINE: Final = """
import sys
from sandbox import Sandbox
from sandbox.backends.container.backend import ContainerBackend
with Sandbox(backend=ContainerBackend(host=sys.argv[1])) as sandbox:
    for _ in range(int(sys.argv[3])):
        outcome = sandbox.run(sys.argv[2])
        print(outcome.status, outcome.value, outcome.stdout.characters, flush=True)
"""


@pytest.fixture
def proxy(docker_daemon: str, base_image: BaseImage, tmp_path: Path) -> Iterator[Proxy]:
    assert base_image.id
    with proxy_to(docker_daemon, at=tmp_path / "proxy.sock") as proxy:
        yield proxy


def test_calls_lead_past_a_daemon_on_this_machine(proxy: Proxy) -> None:
    with Sandbox(backend=ContainerBackend(host=proxy.url)) as sandbox:
        assert sandbox.run(TOOL).value == 3
        carried = proxy.carried_attached
        assert wait_until(lambda: sandbox.run(TOOL).timing.ahead)
        assert sandbox.run(TOOL, files={"given": bytes(PRINTED)}).value == 3
        only_runners = wait_until(lambda: proxy.carried_attached % carried == 0)
        assert only_runners, (
            "more than the runners themselves was sent by streams, of which one may be on its way still"
        )


def test_an_engine_that_may_not_trace_speaks_by_way_of_the_daemon(proxy: Proxy) -> None:
    command = [*WITHOUT_TRACING, sys.executable, "-c", ENGINE, proxy.url, TOOL, str(CALLS)]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert answer.stdout == f"ok 3 {PRINTED + 1}\n" * CALLS
    assert proxy.carried_attached > CALLS * PRINTED
