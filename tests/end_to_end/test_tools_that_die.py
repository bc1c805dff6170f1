"""Tools that end in every way but by returning: the right status, its evidence, and what was printed until then."""

from __future__ import annotations

import signal
from typing import Final

import pytest

from sandbox import Sandbox, Status
from tests.end_to_end.calls import out_of_time, serves

pytestmark = pytest.mark.usefixtures("harmless")

HEAD: Final = "import os, signal, sys\ndef tool():\n    print('before')\n"

ENDS: Final[dict[str, tuple[str, Status, str, dict[str, object]]]] = {
    "an exception": ("raise ValueError('no')", Status.EXCEPTION, "ValueError", {}),
    "a base exception": ("raise KeyboardInterrupt('no')", Status.EXCEPTION, "KeyboardInterrupt", {}),
    "an exception group": ("raise ExceptionGroup('no', [ValueError()])", Status.EXCEPTION, "ExceptionGroup", {}),
    "sys.exit with text": ("sys.exit('x')", Status.EXITED, "SystemExit", {"exit_code": 1}),
    "sys.exit without": ("sys.exit()", Status.EXITED, "SystemExit", {"exit_code": 0}),
    "sys.exit with a number": ("sys.exit(7)", Status.EXITED, "SystemExit", {"exit_code": 7}),
    "os._exit as if all was well": ("os._exit(0)", Status.EXITED, "SystemExit", {"exit_code": 0}),
    "os._exit": ("os._exit(70)", Status.EXITED, "SystemExit", {"exit_code": 70}),
    "a segmentation fault": ("import ctypes; ctypes.string_at(0)", Status.CRASHED, "SIGSEGV", {"signal": "SIGSEGV"}),
    "abort": ("os.abort()", Status.CRASHED, "SIGABRT", {"signal": "SIGABRT"}),
    "SIGKILL": ("os.kill(os.getpid(), 9)", Status.CRASHED, "SIGKILL", {"signal": "SIGKILL"}),
    "SIGTERM": ("os.kill(os.getpid(), 15)", Status.CRASHED, "SIGTERM", {"signal": "SIGTERM"}),
    "a real-time signal": ("os.kill(os.getpid(), 40)", Status.CRASHED, "signal 40", {"signal": "signal 40"}),
    "SIGKILL to its group": ("os.killpg(0, 9)", Status.CRASHED, "SIGKILL", {"signal": "SIGKILL"}),
    "Python's own fatal error": (
        "import ctypes; ctypes.pythonapi.Py_FatalError(b'no')",
        Status.CRASHED,
        "SIGABRT",
        {"signal": "SIGABRT"},
    ),
}


@pytest.mark.parametrize("kind", ENDS)
def test_the_end_of_a_tool_is_reported_with_its_evidence(kind: str, sandbox: Sandbox) -> None:
    code, status, failure, evidence = ENDS[kind]
    outcome = sandbox.run(f"{HEAD}    {code}\n")
    assert outcome.status is status, outcome.error
    assert outcome.error is not None
    assert outcome.error.type == failure
    assert outcome.evidence.items() >= evidence.items()
    assert outcome.stdout.text == "before\n"
    assert outcome.value is None
    assert outcome.receipt is not None


def test_what_sys_exit_was_given_is_on_stderr(sandbox: Sandbox) -> None:
    assert sandbox.run(f"{HEAD}    sys.exit('x')\n").stderr.text == "x\n"


@pytest.mark.slow
def test_endless_recursion_is_an_exception_with_a_bounded_traceback(sandbox: Sandbox) -> None:
    again = "def _again():\n    return _deeper()\ndef _deeper():\n    return _again()\n"
    outcome = sandbox.run(f"{again}{HEAD}    _deeper()\n")
    assert outcome.status is Status.EXCEPTION
    assert outcome.error is not None
    assert outcome.error.type == "RecursionError"
    assert len(outcome.error.traceback or "") < 100_000
    assert outcome.stdout.text == "before\n"


RECURSIONS: Final = {
    "in Python": "f = lambda: f()\n    f()",
    "through C": "C = type('C', (), {'__repr__': lambda self: repr(self)})\n    repr(C())",
    "through ctypes": "import ctypes\n    call = ctypes.CFUNCTYPE(None)(lambda: call())\n    call()",
    "in C": "x = ()\n    for _ in range(10**6): x = (x,)\n    hash(x)",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", RECURSIONS)
def test_recursion_to_death_is_the_calls_end_only(kind: str, sandbox: Sandbox) -> None:
    source = f"{HEAD}    sys.setrecursionlimit(10**9)\n    {RECURSIONS[kind]}\n"
    outcome = sandbox.run(source, limits={"wall": 20})
    assert outcome.status in (Status.CRASHED, Status.MEMORY, Status.EXCEPTION), outcome
    if outcome.status is Status.CRASHED:
        assert outcome.evidence["signal"] == "SIGSEGV"
    assert outcome.stdout.text == "before\n"


@pytest.mark.slow
def test_an_overflown_c_stack_is_a_crash(sandbox: Sandbox) -> None:
    outcome = sandbox.run(f"{HEAD}    {RECURSIONS['in C']}\n", limits={"wall": 20})
    assert (outcome.status, outcome.evidence["signal"]) == (Status.CRASHED, "SIGSEGV")


PARENTS: Final = {
    "its parent": "os.kill(os.getppid(), 9)",
    "its parent, softly": "os.kill(os.getppid(), 15)",
    "the first process": "os.kill(1, 9)",
    "all it can reach": "os.kill(-1, 9)",
    "the first process, stopped": "os.kill(1, 19)",
    "the first process, continued": "os.kill(1, 18)",
    "its parent's parent": "os.kill(int(open('/proc/1/stat').read().split(')')[1].split()[1]) or 2**22, 9)",
    "every number there is": """for pid in range(1, 33000):
        try: pid == os.getpid() or os.kill(pid, 9)
        except OSError: pass""",
    "a thread of its parent": "import ctypes\n    ctypes.CDLL(None).syscall(234, 1, 1, 9)",
    "its parent through a descriptor": "fd = os.pidfd_open(1); signal.pidfd_send_signal(fd, 9)",
}


@pytest.mark.slow
@pytest.mark.parametrize("target", PARENTS)
def test_a_tool_cannot_kill_what_it_lives_in(target: str, sandbox: Sandbox) -> None:
    code = f"try:\n        {PARENTS[target].replace(chr(10), chr(10) + '    ')}\n    except OSError: pass"
    outcome = sandbox.run(f"{HEAD}    {code}\n    print('after')\n    return 'alive'\n")
    assert outcome.status is Status.OK, outcome.error
    assert (outcome.value, outcome.stdout.text) == ("alive", "before\nafter\n")


def test_a_tool_that_kills_its_process_group_ends_only_itself(sandbox: Sandbox) -> None:
    outcome = sandbox.run(f"{HEAD}    os.kill(0, signal.SIGKILL)\n")
    assert (outcome.status, outcome.evidence["signal"]) == (Status.CRASHED, "SIGKILL")
    assert outcome.stdout.text == "before\n"


KILLS_OR_WAITS: Final = """
import os, time
def tool(i: int) -> str:
    if i % 2:
        time.sleep(0.3)
        return "alive"
    try:
        os.kill(-1, 9)
    except ProcessLookupError:
        return "alive"
"""


@pytest.mark.slow
def test_killing_all_it_reaches_spares_the_neighbours(sandbox: Sandbox) -> None:
    source = KILLS_OR_WAITS
    outcomes = sandbox.map(source, [{"i": i} for i in range(6)])
    assert [outcome.status for outcome in outcomes] == [Status.OK] * 6, outcomes


CLOSINGS: Final = {
    "0 to 20": "os.closerange(0, 21)",
    "all": "os.closerange(0, 65536)",
    "all but the streams": "os.closerange(3, 65536)",
    "one by one, and opened again": "[(os.close(n), os.open('/dev/null', os.O_RDWR)) for n in range(3)]",
    "all replaced": """null = os.open('/dev/null', os.O_RDWR)
    for n in range(256):
        try: n == null or os.dup2(null, n)
        except OSError: pass""",
}


@pytest.mark.parametrize("which", CLOSINGS)
def test_a_tool_that_closes_descriptors_hurts_only_itself(which: str, sandbox: Sandbox) -> None:
    outcome = sandbox.run(f"{HEAD}    {CLOSINGS[which]}\n    return 1\n")
    assert outcome.status in (Status.OK, Status.EXCEPTION, Status.EXITED), outcome
    assert outcome.stdout.text == "before\n"


def test_a_tool_that_closes_descriptors_0_to_20_still_returns(sandbox: Sandbox) -> None:
    outcome = sandbox.run(f"{HEAD}    os.closerange(0, 21)\n    return 'returned'\n")
    assert (outcome.status, outcome.value) == (Status.OK, "returned"), outcome.error


@pytest.mark.parametrize(
    "which", ["os.closerange(3, 65536)", "import builtins; builtins.len = None; sys.modules.clear()"]
)
def test_a_tool_whose_end_cannot_be_reported_says_so_on_its_stderr(which: str, sandbox: Sandbox) -> None:
    outcome = sandbox.run(f"{HEAD}    {which}\n    return [1]\n")
    assert (outcome.status, outcome.evidence) == (Status.EXITED, {"exit_code": 1})
    assert outcome.stderr.text.startswith("the call has no reply: the tool changed its own process")
    assert "guard" not in outcome.stderr.text
    assert outcome.error is not None
    assert outcome.error.message == "its process ended without a reply, with code 1"


@pytest.mark.slow
def test_every_signal_a_tool_sends_itself_ends_at_most_its_call(sandbox: Sandbox) -> None:
    stopping = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
    source = "import os\ndef tool(number: int) -> str:\n    os.kill(os.getpid(), number)\n    return 'alive'\n"
    numbers = [number for number in range(1, 65) if number not in stopping and number not in (32, 33)]
    outcomes = sandbox.map(source, [{"number": number} for number in numbers])
    assert {outcome.status for outcome in outcomes} <= {Status.OK, Status.CRASHED, Status.EXCEPTION, Status.LIMIT}
    assert serves(sandbox)


@pytest.mark.slow
def test_a_tool_that_stops_itself_is_ended_at_its_time(sandbox: Sandbox) -> None:
    outcome = out_of_time(sandbox, f"{HEAD}    os.kill(os.getpid(), signal.SIGSTOP)\n    return 1\n")
    assert (outcome.status, outcome.limit_name, outcome.stdout.text) == (Status.TIMEOUT, "wall", "before\n")
