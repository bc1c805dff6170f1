"""The whole runner without isolation speaks the same protocol in every supported Python."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from sandbox.protocol.frames import Stream
from sandbox.protocol.messages import (
    BoxFault,
    ExceptionReply,
    ExitedReply,
    Hello,
    TooLargeReply,
    ValueReply,
    parse_reply,
)
from tests.checkout import ROOT
from tests.end_to_end.calls import wait_until
from tests.runners.interpreters import interpreters
from tests.runners.plain_runner import Runner, plain_plan, start_runner, start_runner_on_a_socket

pytestmark = pytest.mark.slow

_PATIENCE_S: Final = 60.0
LIVELY: Final = "import os, time\ndef tool():\n    print(os.getpid(), flush=True)\n    time.sleep(600)\n"


@pytest.fixture(params=interpreters())
def python(request: pytest.FixtureRequest) -> str:
    return interpreters()[request.param]


@pytest.fixture
def runner(python: str, tmp_path: Path) -> Iterator[Runner]:
    with start_runner(plain_plan(tmp_path), python=python) as runner:
        hello = runner.hear()
        assert isinstance(hello, Hello)
        assert (hello.protocol, hello.failed, hello.refused, hello.unfit) == (1, {}, {}, "")
        yield runner
    assert list(tmp_path.iterdir()) == []


def _value(reply: Any) -> Any:
    assert isinstance(reply, ValueReply), reply
    return reply.value


def test_a_call_is_started_measured_answered_and_ended(runner: Runner) -> None:
    source = "def tool(a, b):\n    print('hello')\n    return {'sum': a + b}\n"
    seen = runner.run(source, arguments={"a": 1, "b": 2})
    assert (seen.started, seen.returned, seen.ended) != (None, None, None)
    assert _value(seen.reply) == {"sum": 3}
    assert seen.stdout == b"hello\n"
    assert seen.ended is not None
    assert (seen.ended.exit_code, seen.ended.signal, seen.ended.killed_by) == (0, None, None)
    assert seen.ended.cpu_s is not None
    walls = seen.walls["walls"]
    assert (walls["namespaces"], walls["workplace"], walls["landlock"]) == ([], None, None)
    assert walls["limits"]["open_files"] == 256


def test_files_that_come_with_the_request_are_all_placed(runner: Runner) -> None:
    """A single read may return the end of the request, whole files, and the beginning of another."""
    source = "def tool():\n    return [open('inputs/' + name).read() for name in 'abc']\n"
    contents = ["", "short", "long" * 9000]
    files = [{"path": name, "bytes": len(text)} for name, text in zip("abc", contents, strict=True)]
    seen = runner.run(source, files=files, follows="".join(contents).encode())
    assert _value(seen.reply) == contents


def test_every_way_a_call_can_end_is_reported(runner: Runner) -> None:
    raised = runner.run("def tool():\n    raise ValueError('said')\n").reply
    assert isinstance(raised, ExceptionReply)
    assert (raised.error.type, raised.error.message) == ("ValueError", "said")
    left = runner.run("import sys\ndef tool():\n    sys.exit('bye')\n")
    assert (left.reply, bytes(left.streams[Stream.STDERR])) == (ExitedReply(kind="exited", code=1), b"bye\n")
    large = runner.run("def tool():\n    return 'x' * 1000\n", value_limit=100).reply
    assert isinstance(large, TooLargeReply)
    ended = runner.run("import os\ndef tool():\n    os._exit(7)\n").ended
    assert (ended and ended.exit_code, ended and ended.signal) == (7, None)
    ended = runner.run("import os\ndef tool():\n    os.kill(os.getpid(), 9)\n").ended
    assert (ended and ended.exit_code, ended and ended.signal) == (None, 9)


def test_an_exception_shows_the_lines_of_a_tool_that_is_gone(runner: Runner) -> None:
    source = "import os\ndef tool():\n    os.unlink(__file__)\n    raise ValueError('lost')  # here\n"
    reply = runner.run(source).reply
    assert isinstance(reply, ExceptionReply)
    assert "raise ValueError('lost')" in reply.error.traceback


HOSTILE_ENDINGS: Final = {
    "it exits with an object without text": "class E:\n    def __str__(self): raise KeyError\n    __repr__ = __str__\n"
    "def tool():\n    raise SystemExit(E())\n",
    "it exits with a broken number": "class I(int):\n    __index__ = __int__ = __repr__ = None\n"
    "def tool():\n    raise SystemExit(I(1))\n",
    "it lies about its code": "class S(SystemExit):\n    code = property(lambda self: 1 / 0)\n"
    "def tool():\n    raise S(1)\n",
    "it deletes its streams": "import sys\ndef tool():\n    del sys.stdout, sys.stderr\n    raise SystemExit(1)\n",
    "its streams raise": "import sys\nclass F:\n    def flush(self): raise SystemExit\n    write = flush\n"
    "def tool():\n    sys.stdout = sys.stderr = F()\n    raise SystemExit('x')\n",
}


@pytest.mark.parametrize("source", HOSTILE_ENDINGS.values(), ids=HOSTILE_ENDINGS)
def test_an_exit_is_reported_in_spite_of_leftovers(source: str, tmp_path: Path) -> None:
    with start_runner(plain_plan(tmp_path)) as runner:
        runner.hear()
        assert runner.run(source).reply == ExitedReply(kind="exited", code=1)


def test_a_value_of_a_raised_recursion_limit_is_noted_and_not_followed(runner: Runner) -> None:
    source = (
        "import sys\ndef tool():\n    sys.setrecursionlimit(10**6)\n    value = []\n"
        "    for _ in range(10**5): value = [value]\n    return value\n"
    )
    reply = runner.run(source).reply
    assert isinstance(reply, ValueReply)
    assert reply.warnings == ["the value nests deeper than 198; what is below is left out"]


@pytest.mark.parametrize(
    "source",
    [
        "async def tool():\n    return [1]\n",
        "def tool():\n    yield 1\n",
        "async def tool():\n    yield 1\n",
        "class Anything(list):\n    def __getattr__(self, name): return self\ndef tool():\n    return Anything([1])\n",
    ],
    ids=["a coroutine", "a generator", "an asynchronous generator", "what has every attribute"],
)
def test_coroutines_and_generators_are_finished(runner: Runner, source: str) -> None:
    assert _value(runner.run(source).reply) == [1]


def test_a_call_has_a_folder_and_an_environment_of_its_own(runner: Runner, tmp_path: Path) -> None:
    source = (
        "import os, tempfile\ndef tool():\n    open('left', 'w').close()\n"
        "    return [os.getcwd(), dict(os.environ), tempfile.mkstemp()[1], os.stat('.').st_mode & 0o777]\n"
    )
    first, second = (_value(runner.run(source, environment={"A": "1"}).reply) for _ in range(2))
    assert first[0] != second[0]
    assert Path(first[0]).parent == tmp_path
    assert first[1] == {"A": "1", "HOME": first[0], "TMPDIR": f"{first[0]}/.tmp"}
    assert (Path(first[2]).parent, first[3]) == (Path(first[0], ".tmp"), 0o700)


def test_two_calls_run_at_once(runner: Runner, tmp_path: Path) -> None:
    meeting = tmp_path / "meeting"
    os.mkfifo(meeting)
    runner.call(1, "def tool(path):\n    return open(path).read()\n", arguments={"path": str(meeting)})
    runner.call(2, "def tool(path):\n    open(path, 'w').write('met')\n", arguments={"path": str(meeting)})
    assert [_value(runner.wait(id).reply) for id in (1, 2)] == ["met", None]
    meeting.unlink()


def test_output_printed_before_a_kill_arrives(runner: Runner) -> None:
    runner.call(1, LIVELY)
    runner.wait_for(1, Stream.STDOUT, b"\n")
    runner.say({"type": "kill", "id": 1})
    ended = runner.wait(1).ended
    assert ended is not None
    assert (ended.signal, ended.killed_by) == (signal.SIGKILL, "engine")
    assert not psutil.pid_exists(int(runner.calls[1].stdout))


def test_a_kill_of_a_call_that_has_ended_changes_nothing(runner: Runner) -> None:
    runner.run("def tool(): pass\n")
    runner.say({"type": "kill", "id": 1})
    assert _value(runner.run("def tool():\n    return 1\n").reply) == 1


@pytest.mark.parametrize("ahead", [0, 1])
def test_no_tool_runs_before_its_call_is_reported_as_started(python: str, ahead: int, tmp_path: Path) -> None:
    """Without isolation the tool can kill the processes that report."""
    with start_runner(plain_plan(tmp_path, ahead=ahead), python=python) as runner:
        runner.hear()
        runner.run("def tool():\n    pass\n")
        assert wait_until(lambda: len(psutil.Process(runner.pid).children()) == ahead)
        runner.call(2, f"import os\nos.kill({runner.pid}, 9)\ndef tool():\n    pass\n")
        with pytest.raises(AssertionError, match="the runner is gone"):
            runner.wait(2)
        assert runner.calls[2].started is not None


@pytest.mark.parametrize("ahead", [0, 2])
def test_everything_ends_when_the_channel_closes(python: str, ahead: int, tmp_path: Path) -> None:
    with start_runner(plain_plan(tmp_path, ahead=ahead), python=python) as runner:
        runner.hear()
        runner.call(1, "import os\nos.fork()\n" + LIVELY)
        runner.wait_for(1, Stream.STDOUT, b"\n")
        below = psutil.Process(runner.pid).children(recursive=True)
        assert runner.hang_up() == 0
    assert [process for process in below if process.is_running()] == []
    assert list(tmp_path.iterdir()) == []


def test_sigterm_to_the_runner_ends_all_processes(python: str, tmp_path: Path) -> None:
    with start_runner(plain_plan(tmp_path, ahead=1), python=python) as runner:
        runner.hear()
        runner.call(1, LIVELY)
        runner.wait_for(1, Stream.STDOUT, b"\n")
        below = psutil.Process(runner.pid).children(recursive=True)
        os.kill(runner.pid, signal.SIGTERM)
        psutil.wait_procs(below, timeout=30)
    assert [process for process in below if process.is_running()] == []
    assert list(tmp_path.iterdir()) == []


ESCAPES: Final = {
    "a child that stays": "    if not os.fork(): time.sleep(600)\n",
    "a session of its own": "    if not os.fork():\n        os.setsid()\n        if not os.fork(): time.sleep(600)\n",
    "the guard is killed": "    if not os.fork():\n        os.setsid()\n        time.sleep(600)\n"
    "    os.kill(os.getppid(), 9)\n",
    "signals are ignored": "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    if not os.fork(): time.sleep(600)\n",
}


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
def test_nothing_that_a_tool_started_outlives_it(runner: Runner, escape: str) -> None:
    ended = runner.run("import os, signal, time\ndef tool():\n" + escape).ended
    assert ended is not None
    _, alive = psutil.wait_procs(psutil.Process(runner.pid).children(recursive=True), timeout=30)
    assert alive == []


def test_a_folder_is_removed_whatever_the_tool_made_of_it(runner: Runner, tmp_path: Path) -> None:
    source = (
        "import os\ndef tool(outside):\n    os.symlink(outside, 'link')\n    os.mkdir('closed')\n"
        "    open('closed/file', 'w').close()\n    os.chmod('closed', 0)\n    os.mkfifo('fifo')\n"
        "    for _ in range(3000):\n        os.mkdir('d')\n        os.chdir('d')\n"
    )
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    runner.run(source, arguments={"outside": str(outside)})
    assert wait_until(lambda: [path.name for path in tmp_path.iterdir()] == ["outside"])  # slow removals come last
    assert (outside / "kept").exists()
    (outside / "kept").unlink()
    outside.rmdir()


def test_the_zygote_imports_from_the_standard_library_only(python: str, tmp_path: Path) -> None:
    folder, ran = tmp_path / "calls", tmp_path / "ran"
    folder.mkdir()
    leave_pid = f"import os\nwith open({str(ran)!r}, 'a') as file:\n    print(os.getpid(), file=file)\n"
    (tmp_path / "foreign.py").write_text(leave_pid)
    (tmp_path / "hook.pth").write_text("import foreign\n")
    modules = ["colorsys", "foreign", "nowhere"]
    plan = plain_plan(folder, installed=["/environment", str(tmp_path)], preload=modules)
    with start_runner(plan, python=python) as runner:
        hello = runner.hear()
        assert isinstance(hello, Hello)
        assert not ran.exists()
        source = (
            "import os, sys\ndef tool():\n    return os.getpid(), 'foreign' in sys.modules, 'colorsys' in sys.modules\n"
        )
        process, *found = _value(runner.run(source).reply)
        assert found == [True, True]
        assert ran.read_text().split() == [str(process)]
        assert process != runner.pid


def test_a_process_that_waits_for_its_call_imports_packages_itself(python: str, tmp_path: Path) -> None:
    folder = tmp_path / "calls"
    folder.mkdir()
    (tmp_path / "slow.py").write_text("import os\nPROCESS = os.getpid()\n")
    places = {"installed": ["/environment", str(tmp_path)], "imports_ahead": True, "import_s": 30}
    plan = plain_plan(folder, preload=["slow"], ahead=1, **places)
    with start_runner(plan, python=python) as runner:
        assert isinstance(runner.hear(), Hello)
        source = (
            "import os, sys\nknown = 'slow' in sys.modules\nimport slow\n"
            "def tool():\n    return known, slow.PROCESS == os.getpid()\n"
        )
        _await_a_stopped_process(runner.pid)
        assert _value(runner.run(source).reply) == [True, True]


def _await_a_stopped_process(runner: int) -> None:
    """Wait until a process has imported everything, and its guard has stopped it until a call comes."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        children = psutil.Process(runner).children(recursive=True)
        if any(_status(child) == psutil.STATUS_STOPPED for child in children):
            return
        time.sleep(0.01)
    raise AssertionError("no process waits for a call")


def _status(process: psutil.Process) -> str | None:
    try:
        return process.status()
    except psutil.NoSuchProcess:
        return None


def test_a_tool_meets_nothing_of_the_runner(runner: Runner) -> None:
    source = (
        "import sys, os\n"
        "def tool(ours):\n"
        "    import __main__\n"
        "    known = [name for name in ours if name in sys.modules]\n"
        "    left = [name for name in vars(__main__) if not name.startswith('__')]\n"
        "    return known + left + [path for path in sys.path if 'runners' in path]\n"
    )
    runner_folder = ROOT / "runners" / "python"
    folders = [path.parent.name for path in runner_folder.glob("*/__init__.py")]
    ours = folders + [f"{path.parent.name}.{path.stem}" for path in runner_folder.glob("[a-z]*/[a-z]*.py")]
    assert len(ours) > 40
    assert _value(runner.run(source, arguments={"ours": ours}, filename="asked.py").reply) == []


def test_a_tool_holds_no_descriptors_but_its_own(runner: Runner) -> None:
    source = "import os\ndef tool():\n    return sorted(map(int, os.listdir('/proc/self/fd')))\n"
    assert _value(runner.run(source).reply) == [0, 1, 2, 3, 252]


def test_a_missing_required_layer_ends_the_call_before_it_runs(tmp_path: Path) -> None:
    required = {"required": ["rlimits", "pid_namespace", "seccomp"]}
    with start_runner(plain_plan(tmp_path, call=required)) as runner:
        runner.hear()
        seen = runner.run("def tool():\n    print('ran')\n")
        assert seen.walls["fault"]["layer"] == "pid_namespace"
        assert (seen.stdout, bytes(seen.streams[Stream.VALUE]), seen.returned) == (b"", b"", None)


def test_a_folder_that_cannot_be_made_is_a_fault(tmp_path: Path) -> None:
    with start_runner(plain_plan(tmp_path / "nowhere")) as runner:
        runner.hear()
        assert runner.run("def tool(): pass\n").walls["fault"]["layer"] == "workplace"


def test_a_runner_of_another_protocol_says_so(tmp_path: Path) -> None:
    with start_runner(plain_plan(tmp_path, protocol=99)) as runner:
        fault = runner.hear()
        assert isinstance(fault, BoxFault)
        assert fault.layer == "protocol"


def test_a_runner_with_unread_output_ends_when_the_engine_leaves(tmp_path: Path) -> None:
    with start_runner_on_a_socket(plain_plan(tmp_path)) as runner:
        runner.leave_unread()
        assert runner.hang_up() == 0


def test_output_waits_for_a_reader_that_grants_it(runner: Runner) -> None:
    runner.call(1, "def tool():\n    print('x' * 10_000_000)\n", credit=1000)
    granted = 1000
    while runner.calls[1].ended is None:
        runner.take()
        printed = len(runner.calls[1].stdout)
        if printed >= granted:
            assert printed < granted + (1 << 17)
            runner.say({"type": "grant", "id": 1, "bytes": 3_000_000})
            granted += 3_000_000
    assert len(runner.calls[1].stdout) == 10_000_001


def test_a_request_larger_than_any_pipe_arrives_whole(runner: Runner) -> None:
    text = "x" * 5_000_000
    assert _value(runner.run("def tool(text):\n    return len(text)\n", arguments={"text": text}).reply) == 5_000_000


def test_items_precede_the_reply_and_only_if_requested(runner: Runner) -> None:
    source = "def tool():\n    for n in range(3): yield 'x' * n\n"
    assert _value(runner.run(source).reply) == ["", "x", "xx"]
    seen = runner.run(source, streams=True)
    sent = bytes(seen.streams[Stream.VALUE])
    items = b"".join((1 << 31 | len(text)).to_bytes(4, "big") + text for text in (b'""', b'"x"', b'"xx"'))
    assert sent.startswith(items)
    assert _value(parse_reply(sent[len(items) + 4 :])) == ["", "x", "xx"]
    assert seen.returned is not None


def test_a_reply_is_found_whole_behind_items_in_any_pieces(runner: Runner) -> None:
    source = (
        "import os, time\n"
        "def tool(pieces):\n"
        "    for piece in pieces:\n"
        "        os.write(252, bytes.fromhex(piece))\n"
        "        time.sleep(0.01)\n"
        "    time.sleep(60)\n"
    )
    records = bytes.fromhex("8000000231318000000000000003616263")
    pieces = [records[number : number + 1].hex() for number in range(len(records))]
    runner.call(1, source, arguments={"pieces": pieces})
    while runner.calls[1].returned is None:
        runner.take()
    assert bytes(runner.calls[1].streams[Stream.VALUE]) == records
    runner.say({"type": "kill", "id": 1})
    assert runner.wait(1).ended is not None
