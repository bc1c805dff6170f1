"""The compiled filters in a real kernel: hostile calls kill, unknown calls fail, honest calls work."""

from __future__ import annotations

import socket
from typing import Final

import pytest

from sandbox.backends.seccomp import compile_profile
from sandbox.backends.seccomp_profiles import Profile, Sockets, load_table
from tests.runners.filters import MACHINE, WITH_THE_FILTER, filter_of
from tests.runners.isolated_program import USERS, ask, start

NUMBERS: Final = load_table()[MACHINE]
CLONE_NEWUSER, SIGCHLD, UPPER_HALF = 0x10000000, 17, 1 << 32


def each(names: list[str], *arguments: int) -> dict[str, tuple[int, ...]]:
    return dict.fromkeys(names, arguments)


# The arguments are such that no attempt does harm, or is answered in the same way, if the filter lets it through.
HOSTILE: Final[dict[str, tuple[int, ...]]] = {
    **each(["ptrace", "process_vm_writev", "unshare", "setns", "mount", "umount2", "pivot_root"], -1, 0, 0),
    **each(["fsopen", "fsconfig", "fsmount", "fspick", "move_mount", "open_tree"], -1, 0, 0),
    **each(["open_tree_attr", "mount_setattr", "open_by_handle_at", "userfaultfd"], -1, 0, 0),
    **each(["kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module"], -1, 0, 0),
    **each(["bpf", "reboot", "add_key", "request_key", "keyctl", "swapon", "swapoff"], -1, 0, 0),
    **({"iopl": (9,), "ioperm": (-1, 0, 0)} if MACHINE == "x86_64" else {}),
    "acct": (-1,),
    "clone": (CLONE_NEWUSER | SIGCHLD,),
    "clone with a lie in the upper half": (UPPER_HALF | CLONE_NEWUSER | SIGCHLD,),
    **({"x32: getpid": ()} if MACHINE == "x86_64" else {}),
}
REFUSED: Final[dict[str, tuple[int, ...]]] = {
    **each(["adjtimex", "perf_event_open", "chroot", "memfd_secret"], -1, -1, -1),
    "name_to_handle_at": (-1, 0, 0, 0, 0),
    "process_vm_readv": (0, 0, 0, 0, 0, 0),
    "pidfd_getfd": (-1, 0, 0),
    "kcmp": (-1, -1, 99, 0, 0),
    "personality": (0x0040000,),
    "personality with a lie in the upper half": (UPPER_HALF | 0x0040000,),
    "ioctl TIOCSTI": (-1, 0x5412, 0),
    "ioctl TIOCLINUX": (-1, 0x541C, 0),
    "ioctl TIOCSTI with a lie in the upper half": (-1, UPPER_HALF | 0x5412, 0),
    "socket of type SOCK_PACKET": (1, 10, 0),
}
ABSENT: Final[dict[str, tuple[int, ...]]] = {
    "clone3": (0, 0),
    "io_uring_setup": (0, 0),
    "io_uring_enter": (-1, 0, 0, 0, 0, 0),
    "io_uring_register": (-1, 0, 0, 0),
    "io_setup": (0, 0),
    "vmsplice": (-1, 0, 0, 0),
}

ALLOW_ALL: Final = bytes.fromhex("060000000000ff7f")

ATTEMPT: Final = """
def attempt(number, arguments):
    process = os.fork()
    if process == 0:
        signal.alarm(10)
        ctypes.set_errno(0)
        result = calls.libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
        os._exit(ctypes.get_errno() if result == -1 else 255)
    ended = os.waitpid(process, 0)[1]
    if os.WIFSIGNALED(ended):
        return signal.Signals(os.WTERMSIG(ended)).name
    return errno.errorcode.get(os.WEXITSTATUS(ended), "done")

if given["filters"]:
    capabilities.forbid_new_privileges()
for program in given["filters"]:
    seccomp.install(bytes.fromhex(program))
answer({name: attempt(*call) for name, call in given["attempts"].items()})
"""


def attempts(named: dict[str, tuple[int, ...]], *filters: str, user: int) -> dict[str, str]:
    numbered = {name: (_number(name), arguments) for name, arguments in named.items()}
    answers: dict[str, str] = ask(ATTEMPT, user=user, filters=filters, attempts=numbered)
    return answers


def _number(name: str) -> int:
    return 0x40000000 | NUMBERS["getpid"] if name.startswith("x32") else NUMBERS[name.split(maxsplit=1)[0]]


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("filters", [("tool",), ("runner", "tool")], ids="+".join)
def test_a_hostile_call_kills_its_caller(filters: tuple[str, ...], user: int) -> None:
    answers = attempts(HOSTILE, *map(filter_of, filters), user=user)
    assert answers == dict.fromkeys(HOSTILE, "SIGSYS")


@pytest.mark.parametrize("user", USERS)
def test_a_call_that_libraries_try_is_refused_politely(user: int) -> None:
    assert attempts(REFUSED, filter_of("tool"), user=user) == dict.fromkeys(REFUSED, "EPERM")


@pytest.mark.parametrize("user", USERS)
def test_a_call_with_a_substitute_is_absent(user: int) -> None:
    assert attempts(ABSENT, filter_of("tool"), user=user) == dict.fromkeys(ABSENT, "ENOSYS")


def test_without_the_filter_the_kernel_answers_otherwise() -> None:
    """The kernel itself would give none of the answers above."""
    user = USERS[-1]
    assert "SIGSYS" not in attempts(HOSTILE, user=user).values()
    assert [name for name, answer in attempts(ABSENT, user=user).items() if answer == "ENOSYS"] == []
    # The three calls need a right that the user does not have; root has, and is tested above.
    needs_root = {"adjtimex", "perf_event_open", "chroot"}
    refused = {name for name, answer in attempts(REFUSED, user=user).items() if answer == "EPERM"}
    assert refused <= needs_root


@pytest.mark.parametrize("sockets", Sockets)
def test_only_sockets_of_the_allowed_families_are_made(sockets: Sockets) -> None:
    families = {name: int(value) for name, value in socket.AddressFamily.__members__.items()}
    families |= {f"{name} with a lie in the upper half": UPPER_HALF | value for name, value in families.items()}
    named: dict[str, tuple[int, ...]] = {
        f"socket {name}": (family, socket.SOCK_DGRAM, 0) for name, family in families.items()
    }
    answers = attempts(named, filter_of("tool", sockets), user=USERS[-1])
    made = {name.split()[1] for name, answer in answers.items() if answer == "done"}
    assert made == {Sockets.UNIX: {"AF_UNIX"}, Sockets.INTERNET: {"AF_UNIX", "AF_INET", "AF_INET6"}}[sockets]
    assert set(answers.values()) == {"done", "EAFNOSUPPORT"}


def test_pipes_stay_as_large_as_they_are_made() -> None:
    program = (
        WITH_THE_FILTER
        + """
import fcntl
pipe = os.pipe()[1]
fcntl.fcntl(pipe, fcntl.F_SETFL, os.O_NONBLOCK)
made = fcntl.fcntl(pipe, 1032)
answer([error_of(lambda: fcntl.fcntl(pipe, 1031, size)) for size in (4096, 1 << 20)] + [fcntl.fcntl(pipe, 1032) - made])
"""
    )
    assert ask(program, filters=[filter_of("tool")]) == ["EPERM", "EPERM", 0]


if MACHINE == "x86_64":

    def test_a_32_bit_call_kills_who_makes_it() -> None:
        """`int 0x80` reaches the i386 table, where number 20 is getpid and the filter's numbers mean other calls."""
        program = """
import mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes([0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3]))  # mov eax, 20; int 0x80; ret
call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
"""
        assert ask(program + "answer(call() == os.getpid())") in (True, False)
        assert start(program + WITH_THE_FILTER + "call()", filters=[filter_of("tool")]).returncode == -31


def test_the_runner_makes_the_namespaces_that_its_children_may_not() -> None:
    program = (
        WITH_THE_FILTER
        + """
calls.syscall("unshare", 0x10020000)
calls.check(calls.libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None), "mount")
answer([os.listdir("/tmp"), seccomp_filters()])
"""
    )
    assert ask(program, filters=[filter_of("runner")]) == [[], 1]
    assert start(program, filters=[filter_of("runner"), filter_of("tool")]).returncode == -31


def test_the_kernel_counts_the_filters_in_force() -> None:
    program = "before = [seccomp_mode(), seccomp_filters()]" + WITH_THE_FILTER
    report = "answer([before, [seccomp_mode(), seccomp_filters()]])"
    both = [filter_of("runner"), filter_of("tool")]
    assert ask(program + report, filters=both) == [[0, 0], [2, 2]]


def test_a_filter_is_inherited_by_executed_programs() -> None:
    program = WITH_THE_FILTER + "subprocess.run(['/bin/cat', '/proc/self/status'], check=True)"
    ended = start(program, filters=[filter_of("tool")])
    assert "Seccomp:\t2" in ended.stdout
    assert "NoNewPrivs:\t1" in ended.stdout


def test_a_filter_needs_new_privileges_forbidden() -> None:
    program = "answer([error_of(lambda: seccomp.install(bytes.fromhex(given['filters'][0]))), seccomp_mode()])"
    assert ask(program, filters=[filter_of("tool")], user=USERS[-1]) == (["EACCES", 0] if USERS[-1] else ["done", 2])


@pytest.mark.parametrize(
    "program", [b"", b"\0", b"\6\0\0\0", b"\xff" * 8, ALLOW_ALL + b"\0", ALLOW_ALL * 5000], ids=len
)
def test_bytes_that_are_no_filter_are_refused(program: bytes) -> None:
    attempt = """
capabilities.forbid_new_privileges()
answer([error_of(lambda: seccomp.install(bytes.fromhex(given["program"]))), seccomp_mode()])
"""
    assert ask(attempt, program=program.hex()) == ["EINVAL", 0]
    assert ask(attempt, program=ALLOW_ALL.hex()) == ["done", 2]


def walled_by_hiding(*names: str) -> str:
    """Return a filter under which only the named calls are missing."""
    others = tuple(name for name in NUMBERS if name not in names)
    profile = Profile(description="a kernel that is older in one point", allow=others, absent=names)
    return compile_profile(profile, machine=MACHINE, sockets=Sockets.INTERNET).hex()


def test_a_kernel_that_lacks_a_call_says_so_by_its_name() -> None:
    program = (
        WITH_THE_FILTER
        + """
try:
    calls.syscall("capset", None, None)
except OSError as error:
    answer([errno.errorcode[error.errno], str(error)])
"""
    )
    code, message = ask(program, filters=[walled_by_hiding("capset")])
    assert code == "ENOSYS"
    assert "capset" in message
