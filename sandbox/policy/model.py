"""What a policy is: the limits and walls of one box, as a frozen value that can be compared, printed and hashed.

Every field has a default that is safe to run a stranger's code under, and a description that `policy explain` prints.
A policy is written by the operator; a call or a tool can only ask for less (see `tighten`). A new kind of permission
is a new field here, strict by default: `tighten` refuses to compare a field that it has no rule for.

Two policies that grant the same have the same `digest`, whatever they are called: it keys warm boxes, and a receipt
carries it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BeforeValidator, Field

from sandbox.policy.base_model import Section, WhenEmpty
from sandbox.policy.hosts import host_pattern
from sandbox.policy.ordered_enum import Rank
from sandbox.policy.paths import readable_path, sorted_once
from sandbox.policy.quantities import (
    MIB,
    MOST_PROCESSES,
    Bytes,
    Count,
    CountOrZero,
    Seconds,
    WrongEntry,
    format_bytes,
    parse_count_or_zero,
)
from sandbox.policy.supply import Environments, Supply

MOST_READABLE: Final = 64
MOST_AHEAD: Final = 16
MOST_HOSTS: Final = 1000
MOST_CONNECTIONS: Final = 256
LEAST_INODES: Final = 16
"""A call begins with some already: its folders, and its source."""
LEAST_MEMORY: Final = 4 * MIB
"""A call begins with more than half of that, and its group has as much again for the process that guards it: a smaller
limit would hold nothing."""
LEAST_OPEN_FILES: Final = 9
"""A call begins with some already: its pipes, and what its walls are put up with."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_OUTPUT_TYPE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class NetworkMode(Rank):
    """How far a box can reach, from the least permissive on."""

    NONE = "none"
    PUBLIC = "public"
    INDEX = "index"
    HOST = "host"


class Strength(Rank):
    """What walls a box, from the weakest on."""

    PLAIN = "plain"
    PROCESS = "process"
    CONTAINER = "container"
    MACHINE = "machine"


class Layer(StrEnum):
    """One wall of the kernel, which a host may have or lack."""

    USER_NAMESPACE = "user_namespace"
    MOUNT_NAMESPACE = "mount_namespace"
    PID_NAMESPACE = "pid_namespace"
    NETWORK_NAMESPACE = "network_namespace"
    IPC_NAMESPACE = "ipc_namespace"
    UTS_NAMESPACE = "uts_namespace"
    CGROUP_NAMESPACE = "cgroup_namespace"
    SECCOMP = "seccomp"
    LANDLOCK = "landlock"
    NO_NEW_PRIVS = "no_new_privs"
    CAPABILITIES = "capabilities"
    RLIMITS = "rlimits"
    CGROUP = "cgroup"
    OWN_UID = "own_uid"


class Excess(Rank):
    """What becomes of a call that prints more than is taken, from the mildest on."""

    TRUNCATE = "truncate"
    KILL = "kill"


class SlowReader(Rank):
    """What becomes of a call whose reader does not keep up, from the most patient on."""

    WAIT = "wait"
    SKIP = "skip"


class ReuseMode(Rank):
    """Who may get a box that has run a call, from the most generous on."""

    BOX = "box"
    NEVER = "never"


DEFAULT_LAYERS: Final = (
    Layer.USER_NAMESPACE,
    Layer.MOUNT_NAMESPACE,
    Layer.PID_NAMESPACE,
    Layer.NETWORK_NAMESPACE,
    Layer.IPC_NAMESPACE,
    Layer.SECCOMP,
    Layer.NO_NEW_PRIVS,
    Layer.CAPABILITIES,
    Layer.RLIMITS,
)


def _in_order(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    return tuple(layer for layer in Layer if layer in layers)


def _plain_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(
            "the file's name must be 1 to 64 letters, digits, '.', '_' or '-', and start with a letter or digit"
        )
    return name


def _variable_name(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is not the name of an environment variable")
    return name


def _output_type(name: str) -> str:
    if not _OUTPUT_TYPE.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is not the name of an output type")
    return name


def _pairs(given: object) -> object:
    """A table of a file as what compares and cannot change."""
    if not isinstance(given, Mapping):
        return given
    for name, most in given.items():
        try:
            _output_type(str(name))
            parse_count_or_zero(most)
        except ValueError as error:
            raise WrongEntry(str(name), str(error)) from None
    return tuple(sorted(given.items(), key=repr))


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must say who should choose this policy, and for what")
    return text


def _enough_memory(size: int) -> int:
    if size < LEAST_MEMORY:
        raise ValueError(f"must be at least {format_bytes(LEAST_MEMORY)}")
    return size


_OutputType = Annotated[str, AfterValidator(_output_type)]


class Limits(Section):
    """What one call may use; always counted over its whole tree of processes."""

    wall: Seconds = Field(default=30.0, description="time on the clock from the call's start until it is killed")
    cpu: Seconds = Field(default=30.0, description="processor time, of all its processes together")
    memory: Annotated[Bytes, AfterValidator(_enough_memory)] = Field(
        default=512 * MIB, description="memory, of all its processes and its private files together"
    )
    processes: Count = Field(default=64, le=MOST_PROCESSES, description="processes and threads alive at once")
    open_files: Count = Field(
        default=256,
        ge=LEAST_OPEN_FILES,
        description="files that one process may hold open, those that a call begins with among them",
    )
    file_size: Bytes = Field(default=128 * MIB, description="size of one file it writes")
    disk: Bytes = Field(default=256 * MIB, description="bytes of all files in its private folders")
    inodes: Count = Field(
        default=16384,
        ge=LEAST_INODES,
        description="files and folders in its private folders, its own source among them",
    )
    output: Bytes = Field(default=64 * MIB, description="bytes taken from stdout, and as many from stderr")
    output_rate: Bytes = Field(default=64 * MIB, description="bytes per stream and second; a faster tool is slowed")
    value: Bytes = Field(
        default=8 * MIB, description="bytes of the returned value, serialised; with 250 000 parts at most, always"
    )
    arguments: Bytes = Field(default=10 * MIB, description="bytes of the call's arguments, serialised")
    artifacts: CountOrZero = Field(default=100, description="files that a call may leave for its caller")
    artifact_bytes: Bytes = Field(default=64 * MIB, description="bytes of all files that it leaves for its caller")
    inputs: Bytes = Field(default=64 * MIB, description="bytes of all files that a call is given")
    cpus: Count = Field(default=2, description="processors it may use, and is told that there are")


_Host = Annotated[str, AfterValidator(host_pattern)]


class Network(Section):
    """Where a box can connect to; all but `mode` is for calls that reach public addresses."""

    mode: NetworkMode = Field(
        default=NetworkMode.NONE,
        description="none: nowhere; public: public addresses, never private, loopback or metadata ones; "
        "index: package indexes too; host: wherever the host can",
    )
    hosts: Annotated[tuple[_Host, ...], AfterValidator(sorted_once), WhenEmpty("any public one")] = Field(
        default=(), max_length=MOST_HOSTS, description="the only hosts reached, each at its port or at 80 and 443"
    )
    connections: Count = Field(default=32, le=MOST_CONNECTIONS, description="connections open at once; more wait")
    connections_in_all: Count = Field(default=1000, description="connections that a call opens, one after the other")
    sent: Bytes = Field(default=64 * MIB, description="bytes that a call sends over all of its connections")
    received: Bytes = Field(default=512 * MIB, description="bytes that it receives over all of them")
    idle: Seconds = Field(default=60.0, description="a connection over which nothing goes for that long is closed")


class Filesystem(Section):
    """What of the host's files a box sees, beside its interpreter and environment."""

    readable: Annotated[tuple[Annotated[str, AfterValidator(readable_path)], ...], AfterValidator(sorted_once)] = Field(
        default=(), max_length=MOST_READABLE, description="paths of the host shown at the same place, read-only"
    )


class Isolation(Section):
    """The walls without which a call is refused."""

    minimum: Strength = Field(
        default=Strength.PROCESS,
        description="the weakest box accepted; plain: no walls but limits; process: walled by this host's kernel; "
        "container: a container; machine: a kernel of its own, such as gVisor or Kata",
    )
    prefer: Strength = Field(
        default=Strength.PLAIN, description="stronger walls that are taken where the host has them"
    )
    require: Annotated[tuple[Layer, ...], AfterValidator(_in_order)] = Field(
        default=DEFAULT_LAYERS, description="layers that must be in force; own_uid only means something under root"
    )


class Variables(Section):
    """What of the host's environment variables a tool sees."""

    passed: Annotated[tuple[Annotated[str, AfterValidator(_variable_name)], ...], AfterValidator(sorted_once)] = Field(
        default=(), max_length=MOST_READABLE, description="names of variables of the host that every call is given"
    )


class Output(Section):
    """How what a tool prints reaches the caller."""

    shown: Bytes = Field(default=1 * MIB, description="characters of one output that a caller sees at most")
    budgets: Annotated[tuple[tuple[_OutputType, CountOrZero], ...], BeforeValidator(_pairs)] = Field(
        default=(),
        max_length=MOST_READABLE,
        description="characters shown of outputs of a type, where not as many as usual; 0: the notice only",
    )
    tokens: Annotated[tuple[tuple[_OutputType, CountOrZero], ...], BeforeValidator(_pairs)] = Field(
        default=(),
        max_length=MOST_READABLE,
        description="tokens shown of outputs of a type, by engines that were given a tokenizer",
    )
    over: Excess = Field(
        default=Excess.TRUNCATE,
        description="past limits.output; truncate: the rest is counted and dropped; kill: the call ends",
    )
    slow_reader: SlowReader = Field(
        default=SlowReader.WAIT,
        description="who follows a call and falls behind; wait: the tool waits; skip: it goes on, and what was not "
        "read in time is passed over, which is told",
    )


class Reuse(Section):
    """Whether a box serves more than one call."""

    mode: ReuseMode = Field(
        default=ReuseMode.BOX, description="box: kept warm for later calls of the same kind; never: one box, one call"
    )
    idle: Seconds = Field(default=300.0, description="a box unused for that long is closed")
    ahead: CountOrZero = Field(
        default=2,
        le=MOST_AHEAD,
        description="kept ahead of the next calls; box: children forked; never: boxes opened, each for one call",
    )


class Policy(Section):
    """Everything that one box may do and must be walled by."""

    name: Annotated[str, AfterValidator(_plain_name)] = Field(description="from the policy file's own name")
    description: Annotated[str, AfterValidator(_not_blank)] = Field(
        max_length=2000, description="who should choose this policy, and for what"
    )
    limits: Limits = Limits()
    network: Network = Network()
    filesystem: Filesystem = Filesystem()
    isolation: Isolation = Isolation()
    environment: Environments = Environments()
    supply: Supply = Supply()
    variables: Variables = Variables()
    output: Output = Output()
    reuse: Reuse = Reuse()

    def sections(self) -> dict[str, Section]:
        """Its parts by name, in the order in which they are shown."""
        return {name: part for name, part in self if isinstance(part, Section)}

    @cached_property
    def digest(self) -> str:
        """SHA-256 over all that it grants and demands, without what it is called; the same in every process."""
        grants = self.model_dump(mode="json", exclude={"name", "description"})
        return hashlib.sha256(json.dumps(grants, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A changed copy; pydantic would hand it the cached digest of the original."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("digest", None)
        return copied
