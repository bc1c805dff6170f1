"""Wheels that lie about what is in them, and packages whose code turns against the process that starts with them.

Unpacking runs nothing of a wheel; what it says of itself is held against what came out. Code that runs when Python
starts, or when it is imported ahead of a call, may end the box it is in: the call ends in bounded time and says so.
"""

from __future__ import annotations

import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from sandbox import Sandbox, Status
from sandbox.errors import BuildFailed, ResolutionFailed, SandboxError
from sandbox.policy import load
from sandbox.pool import opener
from tests.end_to_end.calls import is_at_rest, serves, wait_until
from tests.end_to_end.packages import machine_with, publish, publish_files, refusal_of, requiring, version_of
from tests.indexes import make_wheel

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("harmless")]

BOUND_S: Final = 110.0
OPENING_S: Final = 5.0
NOTHING: Final = "def tool() -> int:\n    return 1\n"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The machine's folder of wheels."""
    folder = tmp_path_factory.mktemp("wheels")
    publish(folder, "honest", "1.0")
    return folder


@pytest.fixture(scope="module")
def sandbox(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Return an engine with a store for this module, and with a short time for the opening of a box."""
    settings = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    policy = load("default")
    policy = policy.model_copy(update={"limits": policy.limits.model_copy(update={"wall": OPENING_S})})
    with pytest.MonkeyPatch.context() as patch, machine_with(None, **settings):
        patch.setattr(opener, "_MIN_OPENING_S", OPENING_S)
        with Sandbox(store=tmp_path_factory.mktemp("store"), policy=policy) as engine:
            yield engine


@pytest.fixture
def harmless(sandbox: Sandbox) -> Iterator[None]:
    """Assert that the engine goes on after the test's wheel, and that no process is left."""
    yield
    assert serves(sandbox)
    assert sandbox.run(version_of("honest", "honest"), policy="default").value == "1.0"
    assert wait_until(is_at_rest)


LIES: Final = {
    "a wrong digest": ("{name}.py,sha256=" + 43 * "A" + ",16\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n"),
    "a file that is not there": ("{true}gone.py,sha256=" + 43 * "A" + ",1\n"),
    "no digests": "{name}.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n",
    "nothing": "",
    "no table": '\x00\x01\x02"',
    "a file outside": ("{true}../../../../../etc/passwd,,\n"),
    "an absolute file": ("{true}/etc/passwd,,\n"),
    "a file less": "{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n",
}


@pytest.mark.parametrize("lie", LIES)
def test_a_wheel_whose_record_is_wrong_is_refused_by_name(lie: str, sandbox: Sandbox, wheels: Path) -> None:
    name = f"lies{list(LIES).index(lie)}"
    about = f"{name}-1.0.dist-info"
    wheel = make_wheel(wheels, name, "1.0", {f"{name}.py": "VERSION = '1.0'\n"})
    with zipfile.ZipFile(wheel) as archive:
        files = {each: archive.read(each) for each in archive.namelist()}
    true = files[f"{about}/RECORD"].decode()
    files[f"{about}/RECORD"] = LIES[lie].format(name=name, about=about, true=true).encode()
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    refusal = refusal_of(sandbox, name)
    assert isinstance(refusal, BuildFailed | ResolutionFailed)  # uv refuses a record that is no table
    assert name in refusal.message
    assert not Path("/etc/passwd.lies").exists()


def test_a_file_that_the_record_does_not_list_is_not_taken(sandbox: Sandbox, wheels: Path) -> None:
    make_wheel(wheels, "unlisted", "1.0", {"unlisted.py": "VERSION = '1.0'\n"}, extra={"secretly.py": "VERSION = 1"})
    refusal = refusal_of(sandbox, "unlisted")
    assert isinstance(refusal, BuildFailed)
    assert "secretly.py" in refusal.message


DEEDS: Final = {
    "kills its parent": "import os, signal; os.kill(os.getppid(), signal.SIGKILL)",
    "kills everything": "import os, signal; os.kill(-1, signal.SIGKILL)",
    "stops itself": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
    "forks": "import os\nfor _ in range(6): os.fork()",
    "leaves a process": "import os, time\nif os.fork() == 0: os.setsid(); time.sleep(60); os._exit(0)",
    "starts threads": "import threading as t, time\nfor _ in range(20): t.Thread(target=time.sleep, args=(9,)).start()",
    "closes everything": "import os; os.closerange(0, 1000)",
    "takes all memory": "held = []\nwhile True: held.append(bytearray(1 << 24))",
    "replaces what the runner uses": "import builtins, os, json\nos.fork = os.read = json.loads = builtins.len = None",
    "ignores signals": "import signal\nfor number in (2, 15, 17): signal.signal(number, signal.SIG_IGN)",
    "loops": "while True: pass",
    "sleeps": "import time; time.sleep(10 ** 6)",
    "recurses": "import sys; sys.setrecursionlimit(10 ** 9)\ndef again(): again()\nagain()",
}


@pytest.mark.parametrize("way", ["at start", "when imported"])
@pytest.mark.parametrize("deed", DEEDS)
def test_a_package_that_attacks_its_process_ends_at_most_its_own_call(
    deed: str, way: str, sandbox: Sandbox, wheels: Path
) -> None:
    name = f"deed{list(DEEDS).index(deed)}{way[0]}"
    start = {f"{name}.pth": f"import {name}\n"} if way == "at start" else {}
    publish_files(wheels, name, {f"{name}.py": DEEDS[deed] + "\n", **start})
    source = requiring((name,), NOTHING if start else f"import {name}\n{NOTHING}")
    begun = time.monotonic()
    with suppress(SandboxError):
        outcome = sandbox.run(source, limits={"wall": 2, "memory": 128 << 20})
        assert outcome.status is not Status.OK or outcome.value == 1
        assert outcome.status is Status.OK or outcome.error is not None
    assert time.monotonic() - begun < BOUND_S
