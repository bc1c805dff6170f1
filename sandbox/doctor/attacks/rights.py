"""Attacks on rights: more of them, new namespaces, mounts, and the kernel's dangerous interfaces.

The arguments of the system calls change nothing even if the kernel lets a call through. A complaint about the arguments
counts as a hole, because the kernel got as far as reading them.
"""

from __future__ import annotations

from typing import Final

from sandbox.doctor.attacks.attack import TRYING, Attack, Program

_RIGHTS: Final = f"""{TRYING}
STATUS = {{line.partition(":")[0]: line.partition(":")[2].strip() for line in open("/proc/self/status")}}

def have(field) -> None:
    if not STATUS.get(field, "").strip("0"):
        raise OSError(errno.EPERM, "as it should be")

def may_gain() -> None:
    if libc.prctl(39, 0, 0, 0, 0) == 1:
        raise OSError(errno.EPERM, "as it should be")

def prctl(*arguments) -> None:
    failed(libc.prctl(*[ctypes.c_ulong(each) for each in arguments], *[ctypes.c_ulong(0)] * (5 - len(arguments))))

def set_capabilities() -> None:
    head, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6)
    failed(libc.capset(head, data))

def be_root() -> None:
    if os.geteuid() == 0 and STATUS.get("CapEff", "0").strip("0"):
        return
    os.setresuid(0, 0, 0)

def attack() -> dict:
    attempt("being root", be_root)
    attempt("groups", os.setgroups, [0])
    attempt("capabilities", set_capabilities)
    for kind in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
        attempt("has " + kind, have, kind)
    attempt("may gain by setuid programs", may_gain)
    attempt("an ambient capability", prctl, 47, 2, 21)
    attempt("filter off", prctl, 22, 0)
    attempt("new privileges", prctl, 38, 0)
    return report()
"""
_KERNEL: Final = f"""{TRYING}
def attack(numbers: dict) -> dict:
    numbers = numbers[os.uname().machine]
    buffer = ctypes.create_string_buffer(4096)
    must(attempt_apart("getpid", system_call, numbers["getpid"]))
    for what, call, arguments in QUESTIONS:
        if call in numbers:
            given = [buffer if each == "buffer" else each.encode() if isinstance(each, str) else each
                     for each in arguments]
            attempt_apart(what, system_call, numbers[call], *given)
    return report(REFUSALS)
"""
_EXECUTE: Final = f"""{TRYING}
import shutil, subprocess

def run(path) -> None:
    subprocess.run([path], check=False, stdout=subprocess.DEVNULL)

def attack() -> dict:
    program = shutil.which("true")
    if program:
        must(attempt("a program that is there", run, program))
    for place in ("/work", "/tmp", "/dev/shm"):
        script = place + "/attack.sh"
        with open(script, "w") as file:
            file.write("#!/bin/sh\\n")
        os.chmod(script, 0o4777)
        attempt("a script in " + place, run, script)
        if program:
            shutil.copy(program, place + "/attack")
            os.chmod(place + "/attack", 0o6777)
            attempt("a program in " + place, run, place + "/attack")
    return report()
"""
Question = tuple[str, str, list[int | str]]
_NAMESPACE_FLAGS: Final = {
    "mount": 0x20000,
    "cgroup": 0x2000000,
    "uts": 0x4000000,
    "ipc": 0x8000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "network": 0x40000000,
}
_SIGCHLD: Final = 17
_HERE: Final = -100
_NO_PROCESS: Final = 0x3FFFFFFF
"""A process id that no process has."""


def _of_every_kind(call: str, flags: int, *arguments: int) -> list[Question]:
    return [(f"{call} {kind}", call, [flags | flag, *arguments]) for kind, flag in _NAMESPACE_FLAGS.items()]


_NAMESPACES: Final[tuple[Question, ...]] = (
    *_of_every_kind("unshare", 0),
    *_of_every_kind("clone", _SIGCHLD, 0, 0, 0, 0),
    ("clone3", "clone3", ["buffer", 88]),
    ("setns", "setns", [-1, 0]),
    ("chroot", "chroot", ["."]),
)
_MOUNTS: Final[tuple[Question, ...]] = (
    ("a new file system", "mount", ["none", "/nowhere", "tmpfs", 0, ""]),
    ("the root writable", "mount", ["none", "/nowhere", "", 32, ""]),
    ("away with one", "umount2", ["/nowhere", 2]),
    ("another root", "pivot_root", ["/nowhere", "/nowhere"]),
    ("fsopen", "fsopen", ["tmpfs", 0]),
    ("move_mount", "move_mount", [_HERE, "/nowhere", _HERE, "/nowhere", 0]),
    ("open_tree", "open_tree", [_HERE, "/nowhere", 1]),
    ("mount_setattr", "mount_setattr", [_HERE, "/nowhere", 0, "buffer", 32]),
    ("a file by its handle", "open_by_handle_at", [_HERE, "buffer", 0]),
    ("a file's handle", "name_to_handle_at", [_HERE, "/", "buffer", "buffer", 0]),
)
MEMORY_OF_OTHERS: Final[tuple[Question, ...]] = (
    ("attach", "ptrace", [16, _NO_PROCESS, 0, 0]),
    ("seize", "ptrace", [0x4206, _NO_PROCESS, 0, 0]),
    ("be traced", "ptrace", [0, 0, 0, 0]),
    ("read memory", "process_vm_readv", [_NO_PROCESS, "buffer", 1, "buffer", 1, 0]),
    ("write memory", "process_vm_writev", [_NO_PROCESS, "buffer", 1, "buffer", 1, 0]),
    ("take a descriptor", "pidfd_getfd", [-1, 0, 0]),
    ("compare", "kcmp", [1, 1, 0, 0, 0]),
)
_CODE: Final[tuple[Question, ...]] = (
    ("bpf", "bpf", [0, "buffer", 72]),
    ("init_module", "init_module", ["buffer", 16, ""]),
    ("finit_module", "finit_module", [-1, "", 0]),
    ("kexec_file_load", "kexec_file_load", [-1, -1, 0, 0, 4]),
    ("perf_event_open", "perf_event_open", ["buffer", 0, -1, -1, 0]),
    ("reboot, by a wrong word", "reboot", [0, 0, 0, 0]),
    ("the kernel's log", "syslog", [3, "buffer", 4096]),
    ("accounting", "acct", ["/nowhere"]),
    ("swap", "swapon", ["/nowhere", 0]),
    ("ports", "iopl", [3]),
)
_KEYS: Final[tuple[Question, ...]] = (
    ("ask for the session's", "keyctl", [0, -3, 0]),
    ("describe the user's", "keyctl", [6, -4, "buffer", 4096]),
    ("add to its own", "add_key", ["user", "sandbox-attack", "x", 1, -2]),
    ("find one", "request_key", ["user", "sandbox-attack", 0, 0]),
)
_DOORS: Final[tuple[Question, ...]] = (
    ("io_uring_setup", "io_uring_setup", [1, "buffer"]),
    ("io_uring_enter", "io_uring_enter", [-1, 0, 0, 0, 0, 0]),
    ("io_uring_register", "io_uring_register", [-1, 0, 0, 0]),
    ("io_setup", "io_setup", [1, "buffer"]),
    ("userfaultfd", "userfaultfd", [1]),
    ("fanotify", "fanotify_init", [0, 0]),
    ("secret memory", "memfd_secret", [0]),
    ("addresses that are not random", "personality", [0x0040000]),
)
_CLOCK: Final = f"""{TRYING}
def attack(numbers: dict) -> dict:
    # what the clock and the name are already: nothing changes where it is allowed
    numbers = numbers[os.uname().machine]
    seconds, rest = divmod(time.time_ns(), 10**9)
    now, now_in_microseconds = (ctypes.c_long * 2)(seconds, rest), (ctypes.c_long * 2)(seconds, rest // 1000)
    name = os.uname().nodename.encode()
    must(attempt_apart("reading the clock", time.clock_gettime, time.CLOCK_REALTIME))
    attempt_apart("clock_settime", system_call, numbers["clock_settime"], 0, now)
    attempt_apart("settimeofday", system_call, numbers["settimeofday"], now_in_microseconds, 0)
    attempt_apart("the host's name", system_call, numbers["sethostname"], name, len(name))
    attempt_apart("the host's domain", system_call, numbers["setdomainname"], b"", 0)
    return report(REFUSALS)
"""


def ask_kernel(name: str, questions: tuple[Question, ...]) -> Program:
    return Program(name, f"QUESTIONS = {list(questions)!r}\n{_KERNEL}", facts=("numbers",))


RIGHTS: Final = (
    Attack(
        "rights",
        "become root, take capabilities, remove its filter, run a setuid file of its own",
        (Program("rights", _RIGHTS), Program("programs of its own", _EXECUTE)),
    ),
    Attack(
        "namespaces and mounts",
        "make or join namespaces, mount, and reach files behind the tree of mounts",
        (ask_kernel("namespaces", _NAMESPACES), ask_kernel("mounts", _MOUNTS)),
    ),
    Attack(
        "interfaces of the kernel",
        "load code into the kernel, reach its keys, pass the filter by io_uring and the like, set the clock",
        (
            ask_kernel("code in the kernel", _CODE),
            ask_kernel("keys", _KEYS),
            ask_kernel("doors past the filter", _DOORS),
            Program("clock and name", _CLOCK, facts=("numbers",)),
        ),
    ),
)
