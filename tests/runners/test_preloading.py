"""Forks find packages that were imported ahead as if each had imported them itself."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.checkout import ROOT
from tests.runners.interpreters import interpreters

pytestmark = pytest.mark.slow

Preload = Callable[..., list[Any]]
_IMPORT_AND_FORK: Final = """
import json, os, sys
given = json.loads(sys.argv[1])
sys.path.insert(0, given["runner"])
from call import call, preloading
sys.path[0] = given["packages"]
call.open_streams()
_, failed, left_open = preloading.preload(given["modules"])
print(json.dumps({"failed": failed, "left_open": left_open, "threads": preloading.count_threads()}), flush=True)
for number in range(given["forks"]):
    open(given["ready"], "a").close()
    if os.fork() == 0:
        call.prepare()
        made = {}
        exec(given["source"], made)
        print(json.dumps(made["tool"]()), flush=True)
        os._exit(0)
    os.wait()
"""
KEEPS_STREAMS: Final = """
import sys
OUT = sys.stdout
def say(text, file=sys.stderr):
    print(text, file=OUT)
    print(text, file=file)
"""
GENERATORS: Final = """
import random
class Own(random.Random):
    def random(self): return super().random() / 2
ONE, OTHER, SEEDED = random.Random(), Own(), random.Random(7)
LATER = random.Random()
LATER.seed(b"on purpose")
"""
DRAWS: Final = """
import made
def tool():
    return [[each.random() for each in some] for some in ((made.ONE, made.OTHER), (made.SEEDED, made.LATER))]
"""


@pytest.fixture(params=interpreters())
def preload(request: pytest.FixtureRequest, tmp_path: Path) -> Preload:
    """Import packages, given as texts, in a process of each Python; what it reports, and what `tool` of the source
    returns in each fork. The file `ready` is there from the first fork on."""

    def run(
        packages: dict[str, str], *, modules: list[str] | None = None, source: str = "", forks: int = 0
    ) -> list[Any]:
        for name, text in packages.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text.replace("READY", repr(str(tmp_path / "ready"))))
        given = {
            "runner": str(ROOT / "runners" / "python"),
            "packages": str(tmp_path),
            "modules": modules or [name.partition(".")[0] for name in packages],
            "source": source,
            "forks": forks,
            "ready": str(tmp_path / "ready"),
        }
        command = [interpreters()[request.param], "-I", "-S", "-B", "-c", _IMPORT_AND_FORK, json.dumps(given)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path)
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(("{", "[", '"'))]

    return run


def test_streams_that_a_package_kept_are_those_of_the_fork(preload: Preload) -> None:
    source = "import made\ndef tool():\n    made.say('[\"kept\"]')\n    return [1]\n"
    assert preload({"made.py": KEEPS_STREAMS}, source=source, forks=1)[1:] == [["kept"], [1]]


def test_generators_that_the_system_seeded_draw_other_numbers_in_each_fork(preload: Preload) -> None:
    _, *found = preload({"made.py": GENERATORS}, source=DRAWS, forks=3)
    assert len({number for numbers, _ in found for number in numbers}) == 6
    assert [seeded for _, seeded in found] == [[random.Random(7).random(), random.Random(b"on purpose").random()]] * 3


def test_descriptors_that_a_package_leaves_open_are_counted(preload: Preload) -> None:
    closed, kept = "open(__file__).close()\n", "KEPT = [open(__file__), open(__file__)]\n"
    assert preload({"closed.py": closed})[0]["left_open"] == 0
    assert preload({"closed.py": closed, "kept.py": kept})[0]["left_open"] == 2


def test_modules_that_cannot_be_imported_are_named_with_the_reason(preload: Preload) -> None:
    report = preload({"broken.py": "1 / 0\n"}, modules=["broken", "nowhere"])[0]
    assert report["failed"] == {
        "broken": "ZeroDivisionError: division by zero",
        "nowhere": "ModuleNotFoundError: No module named 'nowhere'",
    }


def test_threads_left_by_a_package_are_counted_unless_ending(preload: Preload) -> None:
    stays = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    ends = "import threading, time\nthreading.Thread(target=time.sleep, args=(0.05,), daemon=True).start()\n"
    assert preload({"ends.py": ends})[0]["threads"] == 1
    assert preload({"stays.py": stays})[0]["threads"] == 2


def test_parts_of_a_package_that_failed_are_imported_anew_by_forks(preload: Preload) -> None:
    packages = {
        "whole/__init__.py": "",
        "whole/good.py": "import os\nMARK = os.getpid()\n",
        "whole/needy.py": "from . import part\nopen(READY).close()\nKIND = part.KIND\n",
        "whole/part.py": "KIND = 'needy'\n",
    }
    source = "import whole.good, whole.needy\ndef tool():\n    return whole.needy.KIND, whole.good.MARK\n"
    report, first, second = preload(packages, modules=["whole", "whole.good", "whole.needy"], source=source, forks=2)
    assert set(report["failed"]) == {"whole.needy"}
    assert first == second == ["needy", first[1]]
