"""Classic BPF for seccomp: a program that inspects one system call and returns the answer to it.

A `Block` is a run of instructions that ends only through a return, so blocks can follow each other, and a jump only
skips forward over whole blocks. The assembler needs nothing else: no labels, no patching.

The input of the program (struct seccomp_data; both machines are little-endian)::

    0 number    4 architecture    8 instruction pointer    16 + 8 * n  argument n: low word, then high word

The kernel (since 5.11) evaluates a new program for each number, and never runs the program again for calls that it
allows without inspecting their arguments. That evaluation follows only jumps, returns and loads of number and
architecture, so `dispatch` uses nothing else.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass

NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000

MAX_PROGRAM = 4096
_MAX_BRANCH = 255

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_JUMP, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST = 0x05, 0x15, 0x35

_WORD = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Instruction:
    """struct sock_filter; the two distances count from the next instruction on."""

    code: int
    value: int
    if_true: int = 0
    if_false: int = 0


Block = tuple[Instruction, ...]


def answer(action: int) -> Block:
    """Answer and end."""
    return (Instruction(_RETURN, action),)


def only_on(architecture: int, block: Block) -> Block:
    """`block` with the number loaded; calls made for any other architecture kill, their numbers mean something else."""
    return (
        Instruction(_LOAD, ARCHITECTURE),
        Instruction(_JUMP_IF_EQUAL, architecture, 1, 0),
        *answer(KILL),
        Instruction(_LOAD, NUMBER),
        *block,
    )


def dispatch(starts: Sequence[tuple[int, Block]]) -> Block:
    """A balanced tree over the loaded number: each block serves from its start up to the next one's."""
    if len(starts) == 1:
        return starts[0][1]
    middle = len(starts) // 2
    lower, upper = dispatch(starts[:middle]), dispatch(starts[middle:])
    first = starts[middle][0]
    if len(lower) <= _MAX_BRANCH:
        return (Instruction(_JUMP_IF_AT_LEAST, first, len(lower), 0), *lower, *upper)
    return (
        Instruction(_JUMP_IF_AT_LEAST, first, 0, 1),
        Instruction(_JUMP, len(lower)),
        *lower,
        *upper,
    )


def if_member(argument: int, *, mask: int, values: Collection[int], then: Block, otherwise: Block) -> Block:
    """Go on with `then` when the masked argument is one of the values, else with `otherwise`."""
    return (*_tests(argument, mask, values), Instruction(_JUMP, len(then)), *then, *otherwise)


def if_not_member(argument: int, *, mask: int, values: Collection[int], then: Block, otherwise: Block) -> Block:
    """Go on with `then` unless the masked argument is one of the values, else with `otherwise`."""
    if len(then) == 1:
        return (*_tests(argument, mask, values), *then, *otherwise)
    return if_member(argument, mask=mask, values=values, then=otherwise, otherwise=then)


def encode(block: Block) -> bytes:
    """The bytes the kernel reads; ValueError when the program is longer than it takes."""
    if len(block) > MAX_PROGRAM:
        raise ValueError(f"a filter of {len(block)} instructions is more than the kernel's {MAX_PROGRAM}")
    return b"".join(struct.pack("<HBBI", step.code, step.if_true, step.if_false, step.value) for step in block)


def _tests(argument: int, mask: int, values: Collection[int]) -> Block:
    """A match jumps over the one instruction that follows the tests; no match falls out onto it."""
    block: Block = ()
    for value in sorted(values, reverse=True):
        block = (*_test(argument, mask, value, distance=len(block) + 1), *block)
    return block


def _test(argument: int, mask: int, value: int, *, distance: int) -> Block:
    """The high word is looked at only where the mask has a part in it."""
    low, high = ARGUMENTS + 8 * argument, ARGUMENTS + 8 * argument + 4
    test = (*_load(low, mask & _WORD), Instruction(_JUMP_IF_EQUAL, value & _WORD, distance, 0))
    if mask >> 32 == 0:
        return test
    return (*_load(high, mask >> 32), Instruction(_JUMP_IF_EQUAL, value >> 32, 0, len(test)), *test)


def _load(offset: int, mask: int) -> Block:
    load = Instruction(_LOAD, offset)
    return (load,) if mask == _WORD else (load, Instruction(_AND, mask))
