"""The system-call profile of a container, as the JSON that Docker and Podman take in `security_opt`.

The daemon's own profile allows calls that a box must not have: AF_VSOCK, which reaches the hypervisor despite the
network namespace, io_uring, ptrace. So every container gets a profile of ours, made from the same files as the filters
of the subprocess backend:

    runner    for containers whose runner isolates every call: it may make namespaces, and mount inside its own
    strict    for containers that are the isolation themselves: no process may do either

A runtime installs the profile before the container's first program, and no process can remove it. The filter `tool`,
which a runner installs for a tool, adds to the profile. The profile differs from the files:

- No call is killed. A process without the filter `tool`, such as the container's init, gets EPERM.
- A profile can only *allow* arguments: libseccomp knows no order of rules, and a call that no rule allows gets the
  default. So a rule "not these values" becomes tests of single bits, of which exactly one holds for each other value.
  The tests cover the bits in the file's mask only: the kernel, too, ignores the upper half of a C int.
- The default is ENOSYS, which every libc handles, and which suits calls newer than our table. Docker before 23 takes no
  number for its default, and answers EPERM.

Calls of the machine's other personalities (i386, x32) kill the process: the runtime adds that rule, rightly.

gVisor (runsc) ignores the profile. gVisor answers system calls itself, passes none on to the host, and installs its own
filter; a receipt must not name this profile as a layer there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import product
from typing import Any, Final, Literal, get_args

from sandbox.backends.seccomp_profiles import MACHINES, Machine, Profile, When, load_profile, load_table
from sandbox.errors import IsolationUnavailable

ProfileName = Literal["runner", "strict"]

PROFILE_NAMES: Final[tuple[ProfileName, ...]] = get_args(ProfileName)

_FILES: Final[dict[ProfileName, str]] = {"runner": "runner", "strict": "tool"}
_ARCHITECTURES: Final[dict[Machine, str]] = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}
_ALLOW: Final = "SCMP_ACT_ALLOW"
_REFUSE: Final = "SCMP_ACT_ERRNO"
_EPERM, _ENOSYS = 1, 38

Test = tuple[int, int, int]
"""A test of an argument: its place, a mask, and the expected value."""


@cache
def docker_profile(name: ProfileName, *, machine: str) -> str:
    """Return the value for `seccomp=`; `machine` is the daemon's `Architecture`, which may differ from ours.

    Raises `IsolationUnavailable` for machines without a table of system calls.
    """
    for known in MACHINES:
        if machine == known:
            return json.dumps(_document(load_profile(_FILES[name]), known), separators=(",", ":"))
    raise IsolationUnavailable(
        f"there is no system call profile for the daemon's machine, {machine[:40]!r}",
        missing=("seccomp",),
        remedy=f"use a daemon on one of: {', '.join(MACHINES)}",
    )


def _document(profile: Profile, machine: Machine) -> dict[str, Any]:
    known = load_table()[machine]
    judged = {rule.call for rule in profile.when if _is_for_all_boxes(rule)}
    allowed = sorted({*profile.allow} & known.keys())
    absent = sorted({*profile.absent} & known.keys())
    refused = sorted(known.keys() - {*allowed, *absent})
    return {
        "defaultAction": _REFUSE,
        "defaultErrnoRet": _ENOSYS,
        "architectures": [_ARCHITECTURES[machine]],
        "syscalls": [
            {"names": [call for call in allowed if call not in judged], "action": _ALLOW},
            *(_allowed_if(call, tests) for call in allowed if call in judged for tests in _ways(profile, call)),
            {"names": refused, "action": _REFUSE, "errnoRet": _EPERM},
            {"names": absent, "action": _REFUSE, "errnoRet": _ENOSYS},
        ],
    }


def _allowed_if(call: str, tests: Iterable[Test]) -> dict[str, Any]:
    arguments = [
        {"index": place, "op": "SCMP_CMP_MASKED_EQ", "value": mask, "valueTwo": value} for place, mask, value in tests
    ]
    return {"names": [call], "action": _ALLOW, "args": arguments}


def _is_for_all_boxes(rule: When) -> bool:
    """Return whether the rule depends on arguments only. The filter `tool` adds the other rules."""
    return rule.sockets is None and rule.box is None


def _ways(profile: Profile, call: str) -> Iterator[tuple[Test, ...]]:
    """Yield each combination of tests with which the call's arguments pass all rules about them."""
    rules = [rule for rule in profile.when if rule.call == call and _is_for_all_boxes(rule)]
    places = [rule.argument for rule in rules]
    if len(set(places)) < len(places) or any(rule.also or rule.answer == "allow" for rule in rules):
        raise ValueError(
            f"the rules about {call} cannot be expressed for libseccomp: it takes one refusal per argument"
        )
    return product(*map(_passing, rules))


def _passing(rule: When) -> list[Test]:
    """Return tests, one of which holds exactly when the rule does not."""
    if rule.none_of:
        return [(rule.argument, rule.mask, value) for value in rule.none_of]
    bits = [1 << place for place in reversed(range(64)) if rule.mask >> place & 1]
    return [(rule.argument, mask, value) for mask, value in _others(frozenset(rule.one_of), bits)]


def _others(values: frozenset[int], bits: Sequence[int], *, mask: int = 0, value: int = 0) -> Iterator[tuple[int, int]]:
    """Yield masks and values that together cover all values except for these."""
    if not values:
        yield mask, value
    elif bits:
        for bit in (0, bits[0]):
            here = frozenset(each for each in values if each & bits[0] == bit)
            yield from _others(here, bits[1:], mask=mask | bits[0], value=value | bit)
