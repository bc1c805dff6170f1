"""Programs that isolate themselves, in a new interpreter that is started like the runner.

A program is text. Before it runs, the process imports the runner's kernel modules from the runner's folder, and changes
to the requested user. The program answers with one JSON document, by calling `answer`, and finds its arguments in
`given`.

The interpreter is the one the tests run in. `SANDBOX_RUNNER_PYTHON=/path/to/python3.8` tries another.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.checkout import ROOT

# A high id without an account, like the user of a box.
A_USER: Final = 1879050123
# Root can become either. Without root there is the caller only.
USERS: Final = (0, A_USER) if os.geteuid() == 0 else (os.geteuid(),)

_PRELUDE: Final = """
import ctypes, errno, json, os, resource, shutil, signal, socket, struct, subprocess, sys, threading
given = json.loads(sys.argv[1])
sys.path.insert(0, given["runner"])
from kernel import calls, capabilities, landlock, seccomp
sys.path.pop(0)
# Older Pythons import these on first use, when the standard library may be hidden already.
open(os.devnull).close(), "".encode("ascii")
if os.geteuid() != given["user"]:
    os.setgroups([])
    os.setresgid(given["user"], given["user"], given["user"])
    os.setresuid(given["user"], given["user"], given["user"])
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

def answer(document):
    print(json.dumps(document), flush=True)

def status_fields(*names):
    with open("/proc/self/status", encoding="utf-8", errors="replace") as status:
        lines = dict(line.split(":", 1) for line in status if ":" in line)
    return {name: lines[name].strip() for name in names if name in lines}

def capability_sets():
    return {name: int(value, 16) for name, value in status_fields(*SETS).items()}

SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")

def seccomp_mode():
    return int(status_fields("Seccomp").get("Seccomp", 0))

def seccomp_filters():
    return int(status_fields("Seccomp_filters").get("Seccomp_filters", 0))

def error_of(attempt):
    try:
        attempt()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
"""


def python() -> str:
    return os.environ.get("SANDBOX_RUNNER_PYTHON", sys.executable)


def start(program: str, /, *, user: int | None = None, **given: Any) -> subprocess.CompletedProcess[str]:
    """Run the program to its end."""
    known = {**given, "runner": str(ROOT / "runners" / "python"), "user": os.geteuid() if user is None else user}
    command = [python(), "-I", "-S", "-B", "-c", _PRELUDE + program, json.dumps(known)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd="/")


def ask(program: str, /, *, user: int | None = None, **given: Any) -> Any:
    """Return the answer of a program, which must succeed."""
    ended = start(program, user=user, **given)
    assert ended.returncode == 0, ended.stderr[-4000:]
    return json.loads(ended.stdout)


@contextmanager
def folder_of(user: int) -> Iterator[Path]:
    """Make a temporary folder that belongs to the user, where every user can reach it."""
    with tempfile.TemporaryDirectory() as name:
        if user != os.geteuid():
            os.chown(name, user, user)
        yield Path(name)
