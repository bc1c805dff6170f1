"""The system calls of a container, as the JSON that Docker and Podman take in `security_opt`.

The daemon's own profile lets through what a box must not have: AF_VSOCK, which reaches the hypervisor whatever the
network namespace says, io_uring, ptrace. So every container gets one of ours, made from the same files as the filters
of the subprocess backend:

    runner    for containers whose runner walls in every call: it may make namespaces, and mount inside its own
    strict    for containers that are the wall themselves: nobody in them may do either

A runtime installs the profile before the container's first program, and it cannot be taken off again. What a runner
puts on top for a tool (the filter `tool`) adds up with it. The differences to the files:

- Nothing is killed. Whoever the tool's own filter does not hold, such as the container's init, is told EPERM.
- Arguments can only be *allowed* here: libseccomp knows no order of rules, and what none of them allows gets the
  default. A rule "not these values" therefore becomes tests of single bits, of which exactly one holds for each other
  value. What the file looks at is looked at, no more: the kernel, too, ignores the upper half of a C int.
- The default is ENOSYS, with which every libc knows what to do, and which is right for calls newer than our table.
  Docker before 23 takes no number for its default, and answers EPERM.

Calls of the machine's other personalities (i386, x32) kill: that is the runtime's doing, and right.

gVisor (runsc) ignores all this. It answers system calls itself, passes none on to the host, and makes its own filter;
under it, this profile must not be named as a wall.
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
"""An argument's place, what of it is looked at, and what has to be there."""


@cache
def docker_profile(name: ProfileName, *, machine: str) -> str:
    """What to put behind `seccomp=`; `machine` is the daemon's `Architecture`, since it may not be ours.

    Raises `IsolationUnavailable` for machines whose system calls we have no numbers of.
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
    """Return whether the rule depends on nothing but arguments. The tool's own filter, on top, adds the others."""
    return rule.sockets is None and rule.box is None


def _ways(profile: Profile, call: str) -> Iterator[tuple[Test, ...]]:
    """Each way for the call's arguments to pass all of the rules about them."""
    rules = [rule for rule in profile.when if rule.call == call and _is_for_all_boxes(rule)]
    places = [rule.argument for rule in rules]
    if len(set(places)) < len(places) or any(rule.also or rule.answer == "allow" for rule in rules):
        raise ValueError(f"the rules about {call} cannot be told to libseccomp: one refusal for each argument, no more")
    return product(*map(_passing, rules))


def _passing(rule: When) -> list[Test]:
    """The tests of which one holds exactly when the rule does not."""
    if rule.none_of:
        return [(rule.argument, rule.mask, value) for value in rule.none_of]
    bits = [1 << place for place in reversed(range(64)) if rule.mask >> place & 1]
    return [(rule.argument, mask, value) for mask, value in _others(frozenset(rule.one_of), bits)]


def _others(values: frozenset[int], bits: Sequence[int], *, mask: int = 0, value: int = 0) -> Iterator[tuple[int, int]]:
    """All values but these, as the branches of a tree of their bits at which none of these is left."""
    if not values:
        yield mask, value
    elif bits:
        for bit in (0, bits[0]):
            here = frozenset(each for each in values if each & bits[0] == bit)
            yield from _others(here, bits[1:], mask=mask | bits[0], value=value | bit)
