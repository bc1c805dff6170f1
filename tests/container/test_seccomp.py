"""System-call profiles in hardened containers: the refused calls, the allowed calls, and the proof of the cause.

gVisor is missing here, because it answers system calls itself and ignores profiles.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pytest

from sandbox.backends.container.seccomp import PROFILE_NAMES, ProfileName, docker_profile
from sandbox.backends.seccomp_profiles import load_table
from sandbox.images import BaseImage
from tests.daemons import HARDENED

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = [pytest.mark.slow, pytest.mark.root]

RUNTIMES: Final = ("runc", "crun")
MACHINE: Final[Any] = os.uname().machine
REFUSALS: Final = {"EPERM", "ENOSYS"}
Question = tuple[str, str, list[int | str]]
Answers = dict[str, str]

# Each call is made in a process of its own. `buffer` is memory full of zeros.
ASK: Final = """
import ctypes, errno, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
buffer = ctypes.create_string_buffer(4096)

def answer(number, arguments):
    given = [buffer if each == "buffer" else each.encode() if isinstance(each, str) else ctypes.c_long(each)
             for each in arguments]
    result = libc.syscall(ctypes.c_long(number), *given)
    if number == int(sys.argv[2]) and result == 0:
        os._exit(0)  # clone has made this process
    return "done" if result >= 0 else errno.errorcode.get(ctypes.get_errno(), "?")

def answer_apart(number, arguments):
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, answer(number, arguments).encode())
        os._exit(0)
    os.close(writing)
    said = os.read(reading, 100).decode()
    os.close(reading)
    _, status = os.waitpid(child, 0)
    return said or "ended with %d" % status

questions = json.loads(sys.argv[1])
print(json.dumps({name: answer_apart(number, arguments) for name, number, arguments in questions}))
"""

# The walls of one call, as the runner puts them up: all namespaces, a private tmpfs, a root of its own.
WALL_IN: Final = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def must(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), what + ": " + os.strerror(ctypes.get_errno()))
def write(path, text):
    with open(path, "w") as file:
        file.write(text)
user, group = os.getuid(), os.getgid()
must(libc.unshare(0x10000000 | 0x20000000 | 0x20000 | 0x8000000 | 0x4000000 | 0x40000000), "unshare")
write("/proc/self/setgroups", "deny")
write("/proc/self/uid_map", "1000 %d 1" % user)
write("/proc/self/gid_map", "1000 %d 1" % group)
must(libc.sethostname(b"walled", 6), "sethostname")
must(libc.mount(b"none", b"/tmp", b"tmpfs", 14, b"size=1m"), "mount")
must(libc.mount(b"none", b"/dev/shm", b"tmpfs", 14, b"size=1m"), "mount")
must(libc.umount2(b"/dev/shm", 2), "umount2")
os.chdir("/tmp")
must(libc.syscall(%(pivot_root)d, b".", b"."), "pivot_root")
must(libc.umount2(b".", 2), "umount2 of the old root")
child = os.fork()
if not child:
    print(os.getpid(), os.getuid(), os.uname().nodename, os.listdir("/"), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""

HONEST: Final = """
import asyncio, concurrent.futures, json, multiprocessing, os, signal, socket, sqlite3, ssl, subprocess, sys, tempfile
import threading, time

def in_threads():
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return sum(pool.map(lambda number: number * 2, range(100)))

def in_processes():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(abs, [-1, -2])

def by_programs():
    shell = subprocess.run("echo $((6 * 7)) | cat", shell=True, capture_output=True, text=True, check=True).stdout
    _, status = os.waitpid(os.posix_spawn(sys.executable, ["python3", "-I", "-c", ""], {}), 0)
    return [shell, status]

async def talk():
    async def echo(reader, writer):
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()
    said = []
    for server, connect in (
        (await asyncio.start_unix_server(echo, "/tmp/socket"), lambda: asyncio.open_unix_connection("/tmp/socket")),
        (await asyncio.start_server(echo, "127.0.0.1", 4321), lambda: asyncio.open_connection("localhost", 4321)),
    ):
        async with server:
            reader, writer = await connect()
            writer.write(b"hello\\n")
            said.append((await reader.readline()).decode())
            writer.close()
    program = await asyncio.create_subprocess_exec(sys.executable, "-I", "-c", "print(1)", stdout=subprocess.PIPE)
    said.append((await program.communicate())[0].decode())
    return said

def on_files():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "database")
        with sqlite3.connect(path) as database:
            database.execute("create table numbers (number)")
        os.chmod(path, 0o600)
        os.utime(path)
        os.mkfifo(os.path.join(folder, "fifo"))
        return sorted(os.listdir(folder))

def by_signal():
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    return time.sleep(0.05)

ssl.create_default_context()
ends = socket.socketpair()
print(json.dumps([in_threads(), in_processes(), by_programs(), asyncio.run(talk()), on_files(), by_signal(),
                  os.getppid(), open("/proc/1/comm").read().strip(), len(ends), os.sched_getaffinity(0) != set()]))
"""

_AT_FDCWD: Final = -100
_USER_NAMESPACE: Final = 0x10000000
_NAMESPACES: Final = {
    "mount": 0x20000,
    "cgroup": 0x2000000,
    "uts": 0x4000000,
    "ipc": 0x8000000,
    "user": _USER_NAMESPACE,
    "pid": 0x20000000,
    "network": 0x40000000,
}


def _of_every_namespace(call: str, flags: int, *others: int) -> list[Question]:
    """The call for each kind, in a user namespace of its own, without which it takes rights."""
    return [(f"{call} {kind}", call, [_USER_NAMESPACE | flag | flags, *others]) for kind, flag in _NAMESPACES.items()]


# Each with arguments that a kernel without the filter obeys, or complains about in other words.
NEVER: Final[tuple[Question, ...]] = (
    ("ptrace", "ptrace", [0, 0, 0, 0]),
    ("process_vm_readv", "process_vm_readv", [1 << 30, "buffer", 1, "buffer", 1, 0]),
    ("process_vm_writev", "process_vm_writev", [1 << 30, "buffer", 1, "buffer", 1, 0]),
    ("pidfd_getfd", "pidfd_getfd", [-1, 0, 0]),
    ("keyctl", "keyctl", [0, -3, 1]),
    ("add_key", "add_key", ["user", "attack", "x", 1, -1]),
    ("request_key", "request_key", ["user", "attack", 0, 0]),
    ("io_uring_setup", "io_uring_setup", [1, "buffer"]),
    ("io_uring_register", "io_uring_register", [-1, 0, 0, 0]),
    ("io_setup", "io_setup", [1, "buffer"]),
    ("userfaultfd", "userfaultfd", [1]),
    ("setns", "setns", [-1, 0]),
    ("memfd_secret", "memfd_secret", [0]),
    ("name_to_handle_at", "name_to_handle_at", [_AT_FDCWD, "/", 0, 0, 0]),
    ("kcmp", "kcmp", [1 << 30, 1 << 30, 0, 0, 0]),
    ("personality", "personality", [0x0040000]),
    ("a socket to the hypervisor", "socket", [40, 1, 0]),
    ("the same behind a full register", "socket", [1 << 32 | 40, 1, 0]),
    ("a socket to the kernel", "socket", [16, 3, 0]),
    ("a socket for ciphers", "socket", [38, 5, 0]),
    ("a socket for MPTCP", "socket", [2, 1, 262]),
    ("a pair of sockets of another kind", "socketpair", [40, 1, 0, "buffer"]),
)
# Calls that an unfiltered kernel refuses without privileges, too, also with EPERM.
ROOTS_ONLY: Final[tuple[Question, ...]] = (
    ("bpf", "bpf", [0, "buffer", 72]),
    ("perf_event_open", "perf_event_open", ["buffer", 0, -1, -1, 0]),
    ("kexec_load", "kexec_load", [0, 0, 0, 0]),
    ("kexec_file_load", "kexec_file_load", [-1, -1, 0, 0, 4]),
    ("init_module", "init_module", ["buffer", 16, ""]),
    ("finit_module", "finit_module", [-1, "", 0]),
    ("open_by_handle_at", "open_by_handle_at", [_AT_FDCWD, "buffer", 0]),
    ("reboot", "reboot", [0, 0, 0, 0]),
    ("syslog", "syslog", [3, "buffer", 4096]),
    ("clock_settime", "clock_settime", [0, "buffer"]),
    ("a raw socket", "socket", [2, 3, 1]),
    ("a packet socket", "socket", [17, 3, 0]),
    ("typing into a terminal", "ioctl", [0, 0x5412, "buffer"]),
    ("the same typing behind a full register", "ioctl", [0, 1 << 32 | 0x5412, "buffer"]),
)
WALLS: Final[tuple[Question, ...]] = (
    *_of_every_namespace("unshare", 0),
    *_of_every_namespace("clone", 17, 0, 0, 0, 0),
    ("clone3", "clone3", ["buffer", 88]),
    ("mount_setattr", "mount_setattr", [-1, "/", 0, "buffer", 1]),
    ("fsconfig", "fsconfig", [-1, 100, 0, 0, 0]),
)
NEEDS_RIGHTS: Final[tuple[Question, ...]] = (
    ("mount", "mount", ["none", "/tmp", "tmpfs", 0, ""]),
    ("umount2", "umount2", ["/proc", 2]),
    ("pivot_root", "pivot_root", [".", "."]),
    ("fsopen", "fsopen", ["tmpfs", 0]),
    ("move_mount", "move_mount", [-1, "", -1, "", 0]),
    ("chroot", "chroot", ["/"]),
)
# Calls of libc and of the tool's own isolation.
EVER: Final[tuple[Question, ...]] = (
    ("the answers that seccomp knows", "seccomp", [2, 0, "buffer"]),
    ("the version of Landlock", "landlock_create_ruleset", [0, 0, 1]),
    ("statx", "statx", [_AT_FDCWD, "/", 0, 0, "buffer"]),
    ("faccessat2", "faccessat2", [_AT_FDCWD, "/", 0, 0]),
    ("close_range", "close_range", [900, 1000, 0]),
    ("pidfd_open", "pidfd_open", [1, 0]),
    ("getrandom", "getrandom", ["buffer", 16, 0]),
    ("memfd_create", "memfd_create", ["x", 0]),
    ("a unix socket", "socket", [1, 1, 0]),
    ("a TCP socket", "socket", [2, 0o2004001, 6]),
    ("a UDP socket", "socket", [10, 2, 17]),
    ("prctl", "prctl", [38, 1, 0, 0, 0]),
    ("personality as it is", "personality", [0xFFFFFFFF]),
)
EVERYTHING: Final = (*NEVER, *ROOTS_ONLY, *WALLS, *NEEDS_RIGHTS, *EVER)

Print = Callable[..., str]
AskAll = Callable[[str, ProfileName], Answers]


@pytest.fixture(scope="module")
def printed(docker_client: DockerClient, base_image: BaseImage) -> Print:
    """Return the output of a Python program in a hardened container under this runtime and profile."""

    def run(runtime: str, profile: str, script: str, *arguments: str) -> str:
        options = {
            **HARDENED,
            "security_opt": [*HARDENED["security_opt"], f"seccomp={profile}"],
            "tmpfs": {"/work/.tmp": "rw,nosuid,nodev,size=16m,uid=200001,gid=200001,mode=0700"},
            "init": True,
            "detach": True,
            "runtime": runtime,
        }
        command = ["python3", "-I", "-c", script, *arguments]
        container = docker_client.containers.run(base_image.tag, command, **options)
        try:
            container.wait()
            said: bytes = container.logs()
            return said.decode()
        finally:
            container.remove(force=True)

    return run


def answers(printed: Print, runtime: str, profile: str, *questions: Question) -> Answers:
    numbers = load_table()[MACHINE]
    asked = [(name, numbers[call], arguments) for name, call, arguments in questions if call in numbers]
    read: Answers = json.loads(printed(runtime, profile, ASK, json.dumps(asked), str(numbers["clone"])))
    return read


@pytest.fixture(scope="module")
def ask_all(printed: Print) -> AskAll:
    """Return the answers to all calls under this runtime and profile, asked once."""
    return cache(lambda runtime, profile: answers(printed, runtime, ours(profile), *EVERYTHING))


def among(found: Answers, *questions: Question) -> Answers:
    """The answers to these, as far as this machine knows the calls."""
    return {name: found[name] for name, *_ in questions if name in found}


def ours(name: ProfileName) -> str:
    return docker_profile(name, machine=MACHINE)


@pytest.mark.parametrize("profile", PROFILE_NAMES)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_what_leads_out_of_a_box_is_refused(runtime: str, profile: ProfileName, ask_all: AskAll) -> None:
    found = among(ask_all(runtime, profile), *NEVER, *ROOTS_ONLY)
    if profile == "runner":  # a template's children join the namespaces of their calls
        assert found.pop("setns") == "EBADF"
    assert {name: answer for name, answer in found.items() if answer not in REFUSALS} == {}


@pytest.mark.parametrize("profile", PROFILE_NAMES)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_what_libc_and_further_walls_ask_for_is_done(runtime: str, profile: ProfileName, ask_all: AskAll) -> None:
    found = among(ask_all(runtime, profile), *EVER)
    assert {name: answer for name, answer in found.items() if answer != "done"} == {}


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_under_strict_no_process_makes_namespaces_or_mounts(runtime: str, ask_all: AskAll) -> None:
    found = among(ask_all(runtime, "strict"), *WALLS, *NEEDS_RIGHTS)
    assert {name: answer for name, answer in found.items() if answer not in REFUSALS} == {}
    assert found["clone3"] == "ENOSYS", "libc would not fall back to clone"


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_under_runner_every_kind_of_namespace_is_made(runtime: str, ask_all: AskAll) -> None:
    found = among(ask_all(runtime, "runner"), *WALLS)
    assert {name: answer for name, answer in found.items() if answer in REFUSALS} == {}
    assert {answer for name, answer in found.items() if name.startswith(("unshare", "clone "))} == {"done"}


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_under_runner_a_call_is_walled_in_whole(runtime: str, printed: Print) -> None:
    script = WALL_IN.replace("%(pivot_root)d", str(load_table()[MACHINE]["pivot_root"]))
    assert printed(runtime, ours("runner"), script) == "1 1000 walled []\n"


@pytest.mark.parametrize("profile", PROFILE_NAMES)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_honest_programs_notice_nothing(runtime: str, profile: ProfileName, printed: Print) -> None:
    told = json.loads(printed(runtime, ours(profile), HONEST))
    assert told == [
        9900,
        [1, 2],
        ["42\n", 0],
        ["hello\n", "hello\n", "1\n"],
        ["database", "fifo"],
        None,
        1,
        "docker-init",
        2,
        True,
    ]


def test_it_is_the_profile_that_refuses(printed: Print) -> None:
    told = answers(printed, "runc", "unconfined", *NEVER, *WALLS)
    assert {name: answer for name, answer in told.items() if answer in REFUSALS} == {}
