"""A rehearsed child already owns the pages that its call writes to: every other page costs a fault."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

import pytest

from sandbox.backends.subprocess.backend import runner_folder

_PROGRAM: Final = """
import gc, json, os, resource, sys
sys.path.insert(0, sys.argv[1])
from call import call, compiled
call.open_streams()
compiled.keep("".join("def f%d(x):\\n    return x + %d.5\\n" % (n, n) for n in range(300)), os.devnull)
for _ in range(12):
    call.rehearse()
gc.collect()
gc.freeze()

def faults_of(work):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    work()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def learn_an_id():
    os.environ["SANDBOX_CALL_ID"] = "6" * 32

def run_what_is_compiled():
    exec(next(iter(compiled._known.values())), {})

def in_a_fork(is_rehearsed, work):
    ours, theirs = os.pipe()
    if os.fork() == 0:
        try:
            if is_rehearsed:
                call.rehearse("f")
            faults_of(dict)
            os.write(theirs, b"%d" % faults_of(work))
        finally:
            os._exit(0)
    os.close(theirs)
    return int(os.read(ours, 100))

works = (learn_an_id, run_what_is_compiled)
answers = {work.__name__: [in_a_fork(is_rehearsed, work) for is_rehearsed in (False, True)] for work in works}
os.write(1, json.dumps(answers).encode())
"""


def test_a_rehearsal_touches_the_memory_of_a_call() -> None:
    command = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(runner_folder())]
    answers = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    shares = {name: after / before for name, (before, after) in answers.items()}
    assert shares == {
        "learn_an_id": pytest.approx(0, abs=0.1),
        "run_what_is_compiled": pytest.approx(0, abs=0.35),
    }
