"""However the command line is started, only the box reads the files next to a tool."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.checkout import ROOT
from tests.end_to_end.command_line import environment

pytestmark = pytest.mark.slow

SHADOWS: Final = ("json", "typer", "asyncio", "pydantic", "inspect", "sandbox")
TOOL: Final = "open('mark', 'w').close()\ndef tool() -> int:\n    return 1\n"
STARTS: Final = {"the script": [str(Path(sys.executable).with_name("sandbox"))], "the module": ["-m", "sandbox"]}


@pytest.mark.parametrize("way", STARTS)
def test_files_called_like_modules_are_not_imported_outside_of_a_box(way: str, tmp_path: Path) -> None:
    names = [name for name in SHADOWS if way == "the script" or name != "sandbox"]  # which Python itself looks for
    for name in names:
        (tmp_path / f"{name}.py").write_text(TOOL)
    answer = subprocess.run(
        [sys.executable, *STARTS[way], "run", "json.py"],
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(ROOT)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, answer.stdout) == (0, "1\n"), answer.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"{name}.py" for name in names)


def test_the_end_waits_for_what_is_under_way_and_takes_nothing_apart(tmp_path: Path) -> None:
    """Threads are waited for, handlers are called, and what was printed is written; objects are left to the kernel."""
    (tmp_path / "tool.py").write_text("def tool() -> int:\n    raise SystemExit(3)\n")
    script = (
        "import atexit, sys, threading, time\n"
        "from sandbox.cli import main\n"
        "class Noisy:\n"
        "    def __del__(self): print('taken apart', flush=True)\n"
        "def later():\n"
        "    threading.main_thread().join()\n"
        "    print('thread')\n"
        "noisy = Noisy()\n"
        "threading.Thread(target=later).start()\n"
        "sys.argv = ['sandbox', 'run', 'tool.py']\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    atexit.register(print, 'handler')\n"
    )
    command = [sys.executable, "-c", script]
    answer = subprocess.run(
        command, cwd=tmp_path, env=environment(PYTHONPATH=str(ROOT)), capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stdout.split()) == (1, ["thread", "handler"]), answer.stderr
