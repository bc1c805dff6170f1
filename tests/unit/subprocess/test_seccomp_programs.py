"""Every compiled filter, run over every call, answers as its profile promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kernel import calls as runner_calls
from sandbox.backends.seccomp import compile_profile
from sandbox.backends.seccomp_profiles import (
    MACHINES,
    ArgumentTest,
    Condition,
    Machine,
    Profile,
    Sockets,
    When,
    load_profile,
    load_table,
)
from tests.unit.subprocess.bpf_machine import Run, run

PROFILES: Final = ("tool", "runner", "template")
LONGS: Final = st.integers(min_value=0, max_value=2**64 - 1)
# Small numbers are where the interesting values lie, with and without something in the upper half.
LIKELY: Final = st.one_of(
    LONGS, st.builds(lambda low, high: low | high << 32, st.integers(0, 300), st.sampled_from([0, 1, 2**31, 2**32 - 1]))
)
MACHINE_NAMES: Final = st.sampled_from(MACHINES)

NAMESPACE_FLAGS: Final = {
    "mount": 0x00020000,
    "cgroup": 0x02000000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "network": 0x40000000,
}


def names(text: str) -> list[str]:
    return text.split()


# Written out a second time: no edit of a profile lets one of these through unnoticed.
KILLED: Final = names("""
    acct add_key bpf create_module delete_module finit_module fsconfig fsmount fsopen fspick init_module ioperm iopl
    kexec_file_load kexec_load keyctl mount mount_setattr move_mount open_by_handle_at open_tree open_tree_attr
    pivot_root process_vm_writev ptrace reboot request_key setns swapoff swapon umount2 unshare userfaultfd
""")
REFUSED: Final = names("""
    adjtimex chroot clock_adjtime clock_settime fanotify_init fanotify_mark kcmp memfd_secret migrate_pages modify_ldt
    move_pages name_to_handle_at perf_event_open pidfd_getfd process_madvise process_mrelease process_vm_readv quotactl
    quotactl_fd setdomainname sethostname settimeofday sysfs syslog vhangup
""")
ABSENT: Final = names("""
    _sysctl afs_syscall clone3 epoll_ctl_old epoll_wait_old get_kernel_syms get_thread_area getpmsg io_cancel io_destroy
    io_getevents io_pgetevents io_setup io_submit io_uring_enter io_uring_register io_uring_setup listmount
    lookup_dcookie lsm_get_self_attr lsm_list_modules lsm_set_self_attr nfsservctl putpmsg query_module security
    set_thread_area statmount tuxcall uselib vmsplice vserver
""")
RUNNER_MAY: Final = names("""
    chroot clone3 fsconfig fsmount fsopen mount mount_setattr move_mount open_tree pivot_root setdomainname sethostname
    setns umount2 unshare
""")
TEMPLATE_MAY: Final = ("setns",)

# Arguments with which an honest program makes the calls whose answer depends on their arguments.
HONEST: Final[dict[str, tuple[int, ...]]] = {"socket": (1, 1, 0), "socketpair": (1, 1, 0)}


@cache
def compiled(
    profile: str, machine: Machine, sockets: Sockets = Sockets.INTERNET, conditions: frozenset[Condition] = frozenset()
) -> bytes:
    return compile_profile(load_profile(profile), machine=machine, sockets=sockets, conditions=conditions)


def tool_answer(name: str) -> str:
    for answer, names in (("kill", KILLED), ("EPERM", REFUSED), ("ENOSYS", ABSENT)):
        if name in names:
            return answer
    return "allow"


def runner_answer(name: str) -> str:
    return "allow" if name in RUNNER_MAY else tool_answer(name)


def template_answer(name: str) -> str:
    return "allow" if name in TEMPLATE_MAY else tool_answer(name)


ANSWERS: Final[dict[str, Callable[[str], str]]] = {
    "tool": tool_answer,
    "runner": runner_answer,
    "template": template_answer,
}


@pytest.mark.parametrize(("profile", "machine", "sockets"), list(product(PROFILES, MACHINES, Sockets)))
def test_every_known_call_is_answered_as_promised(profile: str, machine: Machine, sockets: Sockets) -> None:
    program = compiled(profile, machine, sockets)
    wrong = {
        name: answer
        for name, number in load_table()[machine].items()
        if (answer := run(program, number, HONEST.get(name, ()), architecture=machine).verdict)
        != ANSWERS[profile](name)
    }
    assert wrong == {}


@pytest.mark.parametrize(("profile", "machine"), list(product(PROFILES, MACHINES)))
def test_every_unknown_number_is_answered_as_unimplemented(profile: str, machine: Machine) -> None:
    known = set(load_table()[machine].values())
    unknown = [*(set(range(2000)) - known), 0x3FFFFFFF, 0x80000000, 0xFFFFFFFF]
    program = compiled(profile, machine)
    assert {run(program, number, architecture=machine).verdict for number in unknown} == {"ENOSYS"}


@pytest.mark.parametrize(("profile", "machine"), list(product(PROFILES, MACHINES)))
def test_calls_of_another_architecture_kill(profile: str, machine: Machine) -> None:
    program = compiled(profile, machine)
    others = [other for other in ("x86_64", "aarch64", "i386", "arm") if other != machine]
    answers = {run(program, number, architecture=other).verdict for number in range(500) for other in others}
    assert answers == {"kill"}


@pytest.mark.parametrize("profile", PROFILES)
def test_x32_numbers_kill(profile: str) -> None:
    program = compiled(profile, "x86_64")
    numbers = [*range(0x40000000, 0x40000400), 0x7FFFFFFF]
    assert {run(program, number, architecture="x86_64").verdict for number in numbers} == {"kill"}


@pytest.mark.parametrize(("profile", "machine", "sockets"), list(product(PROFILES, MACHINES, Sockets)))
def test_a_call_without_conditions_is_answered_without_its_arguments(
    profile: str, machine: Machine, sockets: Sockets
) -> None:
    """The kernel skips the filter for such calls if possible; otherwise the path is short."""
    program = compiled(profile, machine, sockets)
    asked = {rule.call for rule in load_profile(profile).when}
    for name, number in load_table()[machine].items():
        found = run(program, number, architecture=machine)
        if name not in asked:
            assert found.looked_at <= {0, 4}, name
            assert found.steps <= 14, name


@pytest.mark.parametrize(("profile", "machine", "sockets"), list(product(PROFILES, MACHINES, Sockets)))
def test_a_filter_is_small(profile: str, machine: Machine, sockets: Sockets) -> None:
    assert len(compiled(profile, machine, sockets)) // 8 <= 300
    assert len(compiled(profile, machine, sockets, frozenset(Condition))) // 8 <= 350


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("namespace", NAMESPACE_FLAGS)
def test_only_the_runner_makes_namespaces_by_clone(machine: Machine, namespace: str) -> None:
    flags = NAMESPACE_FLAGS[namespace] | 17
    assert answer_to("tool", "clone", [flags], machine=machine) == "kill"
    assert answer_to("runner", "clone", [flags], machine=machine) == "allow"


@pytest.mark.parametrize("machine", MACHINES)
def test_threads_and_forks_are_allowed(machine: Machine) -> None:
    as_glibc_makes_a_thread, as_it_forks, as_it_spawns = 0x003D0F00, 0x01200011, 0x4111
    for flags in (as_glibc_makes_a_thread, as_it_forks, as_it_spawns):
        assert answer_to("tool", "clone", [flags], machine=machine) == "allow"


@given(machine=MACHINE_NAMES, arguments=st.lists(LIKELY, min_size=6, max_size=6))
@example(machine="x86_64", arguments=[1 << 32 | 0x10000000, 0, 0, 0, 0, 0])
@example(machine="x86_64", arguments=[1 << 32, 0, 0, 0, 0, 0])
def test_clone_is_judged_by_the_flags_that_the_kernel_reads(machine: Machine, arguments: list[int]) -> None:
    makes_namespace = any(arguments[0] & flag for flag in NAMESPACE_FLAGS.values())
    assert answer_to("tool", "clone", arguments, machine=machine) == ("kill" if makes_namespace else "allow")
    assert answer_to("runner", "clone", arguments, machine=machine) == "allow"


@given(
    profile=st.sampled_from(PROFILES),
    machine=MACHINE_NAMES,
    sockets=st.sampled_from(Sockets),
    arguments=st.lists(LIKELY, min_size=6, max_size=6),
)
@example(profile="tool", machine="x86_64", sockets=Sockets.INTERNET, arguments=[40, 1, 0, 0, 0, 0])
@example(profile="tool", machine="x86_64", sockets=Sockets.INTERNET, arguments=[1 << 32 | 40, 1, 0, 0, 0, 0])
@example(profile="tool", machine="x86_64", sockets=Sockets.INTERNET, arguments=[2, 0o2004001, 6, 0, 0, 0])
@example(profile="tool", machine="x86_64", sockets=Sockets.INTERNET, arguments=[2, 3, 1, 0, 0, 0])
@example(profile="tool", machine="x86_64", sockets=Sockets.INTERNET, arguments=[2, 1, 132, 0, 0, 0])
@example(profile="tool", machine="x86_64", sockets=Sockets.UNIX, arguments=[2, 1, 0, 0, 0, 0])
@example(profile="tool", machine="x86_64", sockets=Sockets.UNIX, arguments=[1, 0o2000002, 0, 0, 0, 0])
def test_sockets_are_judged_by_family_type_and_protocol(
    profile: str, machine: Machine, sockets: Sockets, arguments: list[int]
) -> None:
    family, kind, protocol = (argument & 0xFFFFFFFF for argument in arguments[:3])
    if family not in {Sockets.UNIX: {1}, Sockets.INTERNET: {1, 2, 10}}[sockets]:
        expected = "EAFNOSUPPORT"
    elif kind & 0xF not in {1, 2, 5}:
        expected = "EPERM"
    else:
        expected = "allow" if protocol in {0, 1, 6, 17, 58} else "EPROTONOSUPPORT"
    assert answer_to(profile, "socket", arguments, machine=machine, sockets=sockets) == expected


@given(profile=st.sampled_from(PROFILES), machine=MACHINE_NAMES, arguments=st.lists(LIKELY, min_size=6, max_size=6))
@example(profile="tool", machine="x86_64", arguments=[1, 0x5412, 0, 0, 0, 0])
@example(profile="tool", machine="x86_64", arguments=[0x28, 0x7F00_0000_541C, 0, 0, 0, 0])
@example(profile="tool", machine="aarch64", arguments=[0xFFFFFFFF, 0xFFFFFFFF, 0, 0, 0, 0])
@example(profile="tool", machine="aarch64", arguments=[0x0040000, 0, 0, 0, 0, 0])
@example(profile="tool", machine="aarch64", arguments=[16, 0, 0, 0, 0, 0])
@example(profile="tool", machine="x86_64", arguments=[0, 1 << 32 | 1024, 0, 0, 0, 0])
@example(profile="tool", machine="x86_64", arguments=[0, 1040, 0, 0, 0, 0])
def test_the_other_calls_are_judged_by_the_low_half_of_their_argument(
    profile: str, machine: Machine, arguments: list[int]
) -> None:
    low = [argument & 0xFFFFFFFF for argument in arguments]
    expected = {
        "ioctl": "EPERM" if low[1] in {0x5412, 0x541C} else "allow",
        "fcntl": "EPERM" if low[1] in {1024, 1026, 1031, 1040} else "allow",
        "personality": "allow" if low[0] in {0, 0xFFFFFFFF} else "EPERM",
        "socketpair": "allow" if low[0] == 1 else "EAFNOSUPPORT",
    }
    assert {name: answer_to(profile, name, arguments, machine=machine) for name in expected} == expected


PRIVATE, SHARED, SHARED_AND_CHECKED, ANONYMOUS, WITHOUT_RESERVE = 2, 1, 3, 0x20, 0x4000
# Calls whose answer a condition makes stricter, with arguments and that answer; and similar calls that stay allowed.
STRICTER: Final[dict[Condition, list[tuple[str, list[int], str]]]] = {
    Condition.UNCOUNTED_MEMORY: [
        ("memfd_create", [0, 0], "ENOSYS"),
        ("shmget", [0, 1 << 20, 0o600], "ENOSYS"),
        ("msgget", [0, 0o600], "ENOSYS"),
        ("semget", [0, 1, 0o600], "ENOSYS"),
        ("landlock_add_rule", [3, 1, 0, 0], "EPERM"),
        ("mmap", [0, 4096, 3, SHARED | ANONYMOUS], "EPERM"),
        ("mmap", [0, 4096, 3, 1 << 32 | SHARED_AND_CHECKED | ANONYMOUS | WITHOUT_RESERVE], "EPERM"),
        *[("setsockopt", [3, 1, option], "EPERM") for option in (7, 8, 32, 33)],
        ("setsockopt", [3, 1 << 32 | 1, 1 << 32 | 7], "EPERM"),
    ],
    Condition.SHOWN_FOLDERS: [
        ("socket", [1, 1, 0], "EPERM"),
        ("socket", [1 << 32 | 1, 1, 0], "EPERM"),
        ("socketpair", [1, 2, 0], "EPERM"),
        ("socketpair", [1, 0o2004002, 0], "EPERM"),
    ],
}
AS_EVER: Final = [
    ("mmap", [0, 4096, 3, PRIVATE | ANONYMOUS]),
    ("mmap", [0, 4096, 3, SHARED]),
    ("setsockopt", [3, 6, 7]),
    ("setsockopt", [3, 1, 2]),
    ("socket", [2, 1, 6]),
    ("socketpair", [1, 0o2004001, 0]),
    ("socketpair", [1, 5, 0]),
]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("condition", Condition)
def test_a_condition_makes_its_answers_stricter_and_no_others(condition: Condition, machine: Machine) -> None:
    def answers(conditions: frozenset[Condition], calls: Sequence[tuple[str, list[int]]]) -> list[str]:
        program, numbers = compiled("tool", machine, conditions=conditions), load_table()[machine]
        return [run(program, numbers[name], given, architecture=machine).verdict for name, given in calls]

    strict = STRICTER[condition]
    calls = [(name, given) for name, given, _ in strict]
    assert answers(frozenset({condition}), calls) == [answer for _, _, answer in strict]
    assert set(answers(frozenset(Condition) - {condition}, calls)) == {"allow"}
    assert set(answers(frozenset(Condition), AS_EVER)) == {"allow"}


@st.composite
def argument_tests(draw: st.DrawFn) -> ArgumentTest:
    mask = draw(st.sampled_from([0xFFFFFFFF, 2**64 - 1, 0xFFFFFFFF << 32, 0xF0_0000_00F0]) | st.integers(1, 2**64 - 1))
    values = draw(st.lists(st.one_of(st.integers(0, 7), LONGS).map(lambda value: value & mask), min_size=1, max_size=9))
    kind = draw(st.sampled_from(["one_of", "none_of"]))
    return ArgumentTest(argument=draw(st.integers(0, 5)), mask=mask, **{kind: tuple(values)})


@st.composite
def rules(draw: st.DrawFn) -> When:
    return When(
        call="read",
        answer=draw(st.sampled_from(["allow", "kill", "EACCES", "EINVAL"])),
        also=draw(st.none() | argument_tests()),
        **draw(argument_tests()).model_dump(exclude_defaults=True),
    )


@pytest.mark.slow
@given(
    first=rules(),
    second=rules(),
    arguments=st.lists(LIKELY, min_size=6, max_size=6),
    chosen=st.integers(0, 8),
    aim=st.sampled_from(["anywhere", "at a value", "next to a value"]),
    bit=st.integers(0, 63),
)
def test_the_first_matching_rule_answers(
    first: When, second: When, arguments: list[int], chosen: int, aim: str, bit: int
) -> None:
    if aim != "anywhere":  # chance alone would hardly ever come near a value
        values = first.one_of or first.none_of
        arguments[first.argument] = values[chosen % len(values)] | arguments[first.argument] & ~first.mask
    if aim == "next to a value":
        arguments[first.argument] ^= 1 << bit
    profile = Profile(description="two rules", absent=("read",), when=(first, second))
    program = compile_profile(profile, machine="x86_64", sockets=Sockets.UNIX)
    expected = next((rule.answer for rule in (first, second) if holds(rule, arguments)), "ENOSYS")
    assert run(program, 0, arguments, architecture="x86_64").verdict == expected


@pytest.mark.parametrize(
    ("argument", "verdict"),
    [
        (7 << 32 | 5, "kill"),
        (5, "EPERM"),
        (7 << 32, "EPERM"),
        (6 << 32 | 5, "EPERM"),
        (9, "kill"),
        (7 << 32 | 9, "EPERM"),
    ],
)
def test_both_halves_of_an_argument_count_if_the_mask_has_them(argument: int, verdict: str) -> None:
    rule = When(call="read", argument=3, mask=2**64 - 1, one_of=(7 << 32 | 5, 9), answer="kill")
    program = compile_profile(Profile(description="long", when=(rule,)), machine="x86_64", sockets=Sockets.UNIX)
    assert run(program, 0, [0, 0, 0, argument], architecture="x86_64").verdict == verdict


def holds(test: ArgumentTest, arguments: Sequence[int]) -> bool:
    value = arguments[test.argument] & test.mask
    does = value in test.one_of if test.one_of else value not in test.none_of
    return does and (not isinstance(test, When) or test.also is None or holds(test.also, arguments))


def test_a_tree_with_far_branches_finds_its_leaves() -> None:
    """More than 255 instructions below one branch need a longer jump."""
    table = load_table()["x86_64"]
    many = tuple(
        When(call=name, argument=0, one_of=tuple(range(number, number + 20)), answer="kill")
        for name, number in table.items()
    )[:60]
    program = compile_profile(Profile(description="wide", when=many), machine="x86_64", sockets=Sockets.UNIX)
    for rule in many:
        number = table[rule.call]
        assert run(program, number, [number + 19], architecture="x86_64").verdict == "kill"
        assert run(program, number, [number + 20], architecture="x86_64").verdict == "EPERM"


def test_a_filter_too_long_for_the_kernel_is_refused() -> None:
    many = tuple(
        When(call=name, argument=0, one_of=tuple(range(number, number + 30)), answer="kill")
        for name, number in load_table()["x86_64"].items()
    )
    with pytest.raises(ValueError, match="4096"):
        compile_profile(Profile(description="endless", when=many), machine="x86_64", sockets=Sockets.UNIX)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_runner_uses_the_numbers_of_the_table(machine: Machine) -> None:
    table = load_table()[machine]
    assert {name: table[name] for name in runner_calls.NUMBERS[machine]} == runner_calls.NUMBERS[machine]


@pytest.mark.parametrize("machine", MACHINES)
def test_no_two_names_share_a_number(machine: Machine) -> None:
    numbers = load_table()[machine].values()
    assert len(set(numbers)) == len(numbers)


def answer_to(
    profile: str, name: str, arguments: Sequence[int], *, machine: Machine, sockets: Sockets = Sockets.INTERNET
) -> str:
    found: Run = run(compiled(profile, machine, sockets), load_table()[machine][name], arguments, architecture=machine)
    return found.verdict
