"""System call filters: from a profile (seccomp_profiles.py) to the bytes that a box hands to its kernel.

A profile is compiled here, on the host, and the box gets bytes only: the program that installs them needs neither the
files nor the names.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from sandbox.backends import bpf
from sandbox.backends.seccomp_profiles import Answer, ArgumentTest, Condition, Machine, Profile, Sockets, load_table

# The machines' numbers in the kernel's audit system, without their other personalities (i386, arm).
ARCHITECTURES: Final[dict[Machine, int]] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_X32, _NEGATIVE = 0x40000000, 0x80000000

# Linux' own error numbers: those of the system we run on may be another's.
_ACTIONS: Final[dict[Answer, int]] = {
    "allow": bpf.ALLOW,
    "kill": bpf.KILL,
    "EPERM": bpf.ERRNO | 1,
    "EACCES": bpf.ERRNO | 13,
    "EINVAL": bpf.ERRNO | 22,
    "ENOSYS": bpf.ERRNO | 38,
    "EPROTONOSUPPORT": bpf.ERRNO | 93,
    "EAFNOSUPPORT": bpf.ERRNO | 97,
}


def compile_profile(
    profile: Profile, *, machine: Machine, sockets: Sockets, conditions: Collection[Condition] = ()
) -> bytes:
    """The filter for one machine and one kind of box, an array of struct sock_filter."""
    numbers = load_table()[machine]
    rules = [rule for rule in profile.when if rule.holds_for(sockets, conditions)]
    profile = profile.model_copy(update={"when": tuple(rules)})
    by_number = {number: _block(profile, call) for call, number in numbers.items()}
    return bpf.encode(bpf.only_on(ARCHITECTURES[machine], bpf.dispatch(_ranges(by_number, machine=machine))))


def _block(profile: Profile, call: str) -> bpf.Block:
    """The rules about the call's arguments in their order, then its list."""
    block = bpf.answer(_ACTIONS[_listed_answer(profile, call)])
    for rule in reversed(profile.when):
        if rule.call == call:
            answer = bpf.answer(_ACTIONS[rule.answer])
            then = answer if rule.also is None else _if(rule.also, then=answer, otherwise=block)
            block = _if(rule, then=then, otherwise=block)
    return block


def _if(test: ArgumentTest, *, then: bpf.Block, otherwise: bpf.Block) -> bpf.Block:
    choose = bpf.if_member if test.one_of else bpf.if_not_member
    values = test.one_of or test.none_of
    return choose(test.argument, mask=test.mask, values=values, then=then, otherwise=otherwise)


def _listed_answer(profile: Profile, call: str) -> Answer:
    if call in profile.allow:
        return "allow"
    if call in profile.kill:
        return "kill"
    return "ENOSYS" if call in profile.absent else "EPERM"


def _ranges(by_number: dict[int, bpf.Block], *, machine: Machine) -> list[tuple[int, bpf.Block]]:
    """Where each new block begins, over all 32-bit numbers.

    x86-64 kernels may also know x32: the same calls again, under numbers that no list names, with bit 30 set.
    """
    unknown = bpf.answer(_ACTIONS["ENOSYS"])
    starts = [(0, by_number.get(0, unknown))]
    for number in range(1, max(by_number) + 2):
        block = by_number.get(number, unknown)
        if block != starts[-1][1]:
            starts.append((number, block))
    if machine == "x86_64":
        starts += [(_X32, bpf.answer(bpf.KILL)), (_NEGATIVE, unknown)]
    return starts
