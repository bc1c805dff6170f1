"""Attack: ask the kernel, past libc and Python, for what leads out of a box: new namespaces, mounts, other processes'
memory, programs and modules in the kernel, keys, rings that pass by filters.

Each is asked for in a process of its own and with arguments with which an unfiltered kernel would look further: had the
filter let it pass, the answer would be "done", or a complaint about the arguments, and both count as a hole.
"""

from __future__ import annotations

import os
from typing import Any, Final

import pytest

from sandbox.backends.seccomp_profiles import load_table
from tests.escape.attempts import ATTEMPT
from tests.escape.engines import Engine
from tests.provision.absent import not_tested

MACHINE: Final[Any] = os.uname().machine
NUMBERS: Final = load_table()[MACHINE]
REFUSALS: Final = {"SIGSYS", "EPERM", "ENOSYS"}
ASK: Final = f"""{ATTEMPT}
def tool(asked: list) -> dict:
    buffer = ctypes.create_string_buffer(4096)
    answers = {{}}
    for name, number, arguments in asked:
        given = [buffer if argument == "buffer" else argument.encode() if isinstance(argument, str) else argument
                 for argument in arguments]
        answers[name] = attempt_apart(system_call, number, *given)
    return answers
"""
Question = tuple[str, str, list[int | str]]

_NAMESPACES: Final = {
    "time": 0x80,
    "mount": 0x20000,
    "cgroup": 0x2000000,
    "uts": 0x4000000,
    "ipc": 0x8000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "network": 0x40000000,
}
_SIGCHLD: Final = 17
_AT_FDCWD: Final = -100
_BPF_MAP_CREATE: Final = 0


def _of_all_namespaces(call: str, arguments: list[int | str]) -> list[Question]:
    """The call for each kind. A time namespace is not made by clone, whose flag of that number is another's."""
    kinds = [kind for kind in _NAMESPACES if (call, kind) != ("clone", "time")]
    return [(f"{call} {kind}", call, [_NAMESPACES[kind] | int(arguments[0]), *arguments[1:]]) for kind in kinds]


FORBIDDEN: Final[tuple[Question, ...]] = (
    *_of_all_namespaces("unshare", [0]),
    *_of_all_namespaces("clone", [_SIGCHLD, 0, 0, 0, 0]),
    ("clone3", "clone3", ["buffer", 88]),
    ("setns", "setns", [0, 0]),
    ("mount a file system", "mount", ["none", "/tmp", "tmpfs", 0, ""]),
    ("mount again for writing", "mount", ["none", "/", "", 32, ""]),
    ("umount", "umount2", ["/proc", 2]),
    ("pivot_root", "pivot_root", [".", "."]),
    ("chroot", "chroot", ["."]),
    ("fsopen", "fsopen", ["tmpfs", 0]),
    ("fsmount", "fsmount", [0, 0, 0]),
    ("move_mount", "move_mount", [_AT_FDCWD, "/proc", _AT_FDCWD, "/tmp", 0]),
    ("open_tree", "open_tree", [_AT_FDCWD, "/", 1]),
    ("mount_setattr", "mount_setattr", [_AT_FDCWD, "/", 0, "buffer", 32]),
    ("open_by_handle_at", "open_by_handle_at", [_AT_FDCWD, "buffer", 0]),
    ("name_to_handle_at", "name_to_handle_at", [_AT_FDCWD, "/", "buffer", "buffer", 0]),
    ("bpf", "bpf", [_BPF_MAP_CREATE, "buffer", 72]),
    ("keyctl", "keyctl", [0, -3, 1]),
    ("add_key", "add_key", ["user", "attack", "x", 1, -4]),
    ("request_key", "request_key", ["user", "attack", 0, -4]),
    ("userfaultfd", "userfaultfd", [1]),
    ("perf_event_open", "perf_event_open", ["buffer", 0, -1, -1, 0]),
    ("kexec_load", "kexec_load", [0, 0, 0, 0]),
    ("kexec_file_load", "kexec_file_load", [-1, -1, 0, 0, 4]),
    ("init_module", "init_module", ["buffer", 16, ""]),
    ("finit_module", "finit_module", [0, "", 0]),
    ("delete_module", "delete_module", ["sandbox_attack", 2048]),
    ("io_uring_setup", "io_uring_setup", [1, "buffer"]),
    ("io_uring_enter", "io_uring_enter", [0, 0, 0, 0, 0, 0]),
    ("io_uring_register", "io_uring_register", [0, 0, 0, 0]),
    ("io_setup", "io_setup", [1, "buffer"]),
    ("ptrace own parent", "ptrace", [16, 1, 0, 0]),
    ("ptrace be traced", "ptrace", [0, 0, 0, 0]),
    ("process_vm_readv", "process_vm_readv", [1, "buffer", 1, "buffer", 1, 0]),
    ("process_vm_writev", "process_vm_writev", [1, "buffer", 1, "buffer", 1, 0]),
    ("process_madvise", "process_madvise", [0, "buffer", 1, 4, 0]),
    ("pidfd_getfd", "pidfd_getfd", [0, 0, 0]),
    ("kcmp", "kcmp", [1, 1, 0, 0, 0]),
    ("personality without random addresses", "personality", [0x0040000]),
    ("personality that reads all as code", "personality", [0x0400000]),
    ("swapon", "swapon", ["/work/tool.py", 0]),
    ("acct", "acct", ["/work/tool.py"]),
    ("quotactl", "quotactl", [0, 0, 0, 0]),
    ("syslog", "syslog", [3, "buffer", 4096]),
    ("sethostname", "sethostname", ["attack", 6]),
    ("setdomainname", "setdomainname", ["attack", 6]),
    ("clock_settime", "clock_settime", [0, "buffer"]),
    ("settimeofday", "settimeofday", ["buffer", 0]),
    ("adjtimex", "adjtimex", ["buffer"]),
    ("fanotify_init", "fanotify_init", [0, 0]),
    ("memfd_secret", "memfd_secret", [0]),
    ("vhangup", "vhangup", []),
)
# Never asked for with arguments that would be obeyed: the first is a wrong magic number.
RESTART: Final[Question] = ("reboot", "reboot", [0, 0, 0, 0])


def _asked(questions: tuple[Question, ...]) -> list[tuple[str, int, list[int | str]]]:
    return [(name, NUMBERS[call], arguments) for name, call, arguments in questions if call in NUMBERS]


@pytest.mark.slow
def test_every_way_out_through_the_kernel_is_refused(engine: Engine) -> None:
    answers = engine.value(ASK, {"asked": _asked((*FORBIDDEN, RESTART))})
    assert len(answers) > 60
    assert {name: answer for name, answer in answers.items() if answer not in REFUSALS} == {}


def test_what_is_clearly_hostile_ends_the_process(engine: Engine) -> None:
    """An attacker continues after a refusal."""
    hostile = {"unshare user", "setns", "mount a file system", "bpf", "keyctl", "userfaultfd", "kexec_load", "reboot"}
    asked = [question for question in (*FORBIDDEN, RESTART) if question[0] in hostile]
    assert engine.value(ASK, {"asked": _asked(tuple(asked))}) == dict.fromkeys(hostile, "SIGSYS")


def test_an_honest_call_is_answered(engine: Engine) -> None:
    """Without which the tests above tell nothing."""
    honest: tuple[Question, ...] = (
        ("getpid", "getpid", []),
        ("personality, which is it", "personality", [0xFFFFFFFF]),
    )
    assert set(engine.value(ASK, {"asked": _asked(honest)}).values()) == {"done"}


HIDDEN: Final = f"""{ATTEMPT}
LARGE = 1 << 32

def tool(numbers: dict) -> dict:
    return {{
        "socket": attempt_apart(system_call, numbers["socket"], LARGE | 40, 1, 0),
        "raw socket": attempt_apart(system_call, numbers["socket"], 2, LARGE | 3, 255),
        "personality": attempt_apart(system_call, numbers["personality"], LARGE | 0x0040000),
        "unshare": attempt_apart(system_call, numbers["unshare"], LARGE | 0x10000000),
        "clone": attempt_apart(system_call, numbers["clone"], LARGE | 0x10000000 | 17, 0, 0, 0, 0),
        "terminal input": attempt_apart(system_call, numbers["ioctl"], 0, LARGE | 0x5412, b"x"),
    }}
"""


def test_bits_that_the_kernel_does_not_read_hide_nothing_from_the_filter(engine: Engine) -> None:
    numbers = {name: NUMBERS[name] for name in ("socket", "personality", "unshare", "clone", "ioctl")}
    answers = engine.value(HIDDEN, {"numbers": numbers})
    assert {name: answer for name, answer in answers.items() if answer not in REFUSALS | {"EAFNOSUPPORT"}} == {}


OTHER_DOORS: Final = f"""{ATTEMPT}
import mmap

X86_BY_INTERRUPT = bytes.fromhex("53 89f8 89f3 cd80 5b c3")  # number and first argument as int 0x80 wants them
X32 = 0x40000000

def interrupt(number: int, argument: int) -> None:
    flags, prot = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    code = mmap.mmap(-1, 4096, flags=flags, prot=prot)
    code.write(X86_BY_INTERRUPT)
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    result = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int)(address)(number, argument)
    if result < 0:
        raise OSError(-result, os.strerror(-result))

def tool() -> dict:
    return {{
        "i386 getpid": attempt_apart(interrupt, 20, 0),
        "i386 unshare": attempt_apart(interrupt, 310, 0x10000000),
        "x32 getpid": attempt_apart(system_call, X32 | 39),
        "x32 unshare": attempt_apart(system_call, X32 | 272, 0x10000000),
        "x32 ptrace": attempt_apart(system_call, X32 | 521, 0, 0, 0, 0),
        "of the future": attempt_apart(system_call, 999),
        "negative": attempt_apart(system_call, -2),
    }}
"""


def test_the_kernels_other_doors_are_closed(engine: Engine) -> None:
    """A kernel for x86-64 takes system calls under two more numberings, in which a filter's numbers mean nothing."""
    if MACHINE != "x86_64":
        not_tested("the other numberings of x86-64", remedy="run the tests on such a machine")
    answers = engine.value(OTHER_DOORS)
    ends = {"SIGSYS", "SIGSEGV", "ENOSYS"}  # a kernel without the old door answers its interrupt with SIGSEGV
    assert {name: answer for name, answer in answers.items() if answer not in ends} == {}


UNDO: Final = f"""{ATTEMPT}
def prctl(*arguments: int) -> None:
    if libc.prctl(*[ctypes.c_ulong(argument) for argument in arguments], *[ctypes.c_ulong(0)] * (5 - len(arguments))):
        raise OSError(ctypes.get_errno(), "")

def tool() -> dict:
    wanted = {{
        "filter off": (22, 0),
        "new privileges": (38, 0),
        "an ambient capability": (47, 2, 21),
        "a bounding capability": (24, 0),
        "securebits": (28, 0),
        "keep capabilities": (8, 1),
        "its own executable": (35, 13, 0),
        "its own arguments": (35, 8, 4096),
    }}
    return {{name: attempt(prctl, *arguments) for name, arguments in wanted.items()}}
"""


def test_no_wall_can_be_taken_down_from_inside(engine: Engine) -> None:
    answers = engine.value(UNDO)
    assert [name for name, answer in answers.items() if answer == "done"] == []
