"""The policy model: the limits and isolation of a box, as a frozen value that can be compared, printed and hashed.

Every field has a default that is safe for unknown code, and a description that `policy explain` prints. The operator
writes policies; a call or a tool can only ask for less (see `tighten`). A new permission is a new field here, strict by
default: `tighten` raises for a field without a rule.

Policies that grant the same have the same `digest`, whatever their names are. The digest is part of the key of warm
boxes, and receipts carry it.
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

from sandbox.policy.base_model import EmptyMeaning, Section
from sandbox.policy.hosts import parse_host_pattern
from sandbox.policy.ordered_enum import OrderedEnum
from sandbox.policy.paths import check_readable_path, sort_unique
from sandbox.policy.quantities import (
    MAX_PROCESSES,
    MIB,
    Bytes,
    Count,
    CountOrZero,
    EntryError,
    Seconds,
    format_bytes,
    parse_count_or_zero,
)
from sandbox.policy.supply import Environments, Supply

MAX_READABLE: Final = 64
MAX_AHEAD: Final = 16
MAX_HOSTS: Final = 1000
MAX_CONNECTIONS: Final = 256
MIN_INODES: Final = 16
"""The folders and the source of a call need several inodes before the tool starts."""
MIN_MEMORY: Final = 4 * MIB
"""A call starts with more than half of that, and its control group also holds the guard process, which needs as much
again. A smaller limit would stop every call."""
MIN_OPEN_FILES: Final = 9
"""A call starts with its pipes and with the descriptors that set up its isolation."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_OUTPUT_TYPE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class NetworkMode(OrderedEnum):
    """How far a box can reach, least permissive first."""

    NONE = "none"
    PUBLIC = "public"
    INDEX = "index"
    HOST = "host"


class Strength(OrderedEnum):
    """The kind of boundary around a box, weakest first."""

    PLAIN = "plain"
    PROCESS = "process"
    CONTAINER = "container"
    MACHINE = "machine"


class Layer(StrEnum):
    """A layer of isolation that a kernel may offer."""

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


class OverflowAction(OrderedEnum):
    """The reaction to a call that prints more than `limits.output`, mildest first."""

    TRUNCATE = "truncate"
    KILL = "kill"


class SlowReader(OrderedEnum):
    """The reaction to a caller that reads output too slowly, most patient first."""

    WAIT = "wait"
    SKIP = "skip"


class ReuseMode(OrderedEnum):
    """Whether a box that has run a call may run another, most permissive first."""

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


def _sort_layers(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    return tuple(layer for layer in Layer if layer in layers)


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(
            "the file's name must be 1 to 64 letters, digits, '.', '_' or '-', and start with a letter or digit"
        )
    return name


def _check_variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is not the name of an environment variable")
    return name


def _check_output_type(name: str) -> str:
    if not _OUTPUT_TYPE.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is not the name of an output type")
    return name


def _sort_pairs(given: object) -> object:
    """Convert a table into sorted pairs, which can be compared and cannot change."""
    if not isinstance(given, Mapping):
        return given
    for name, most in given.items():
        try:
            _check_output_type(str(name))
            parse_count_or_zero(most)
        except ValueError as error:
            raise EntryError(str(name), str(error)) from None
    return tuple(sorted(given.items(), key=repr))


def _check_description(text: str) -> str:
    if not text.strip():
        raise ValueError("must say who should choose this policy, and for what")
    return text


def _check_memory(size: int) -> int:
    if size < MIN_MEMORY:
        raise ValueError(f"must be at least {format_bytes(MIN_MEMORY)}")
    return size


_OutputType = Annotated[str, AfterValidator(_check_output_type)]


class Limits(Section):
    """Limits of one call, each counted over the call's whole process tree."""

    wall: Seconds = Field(default=30.0, description="time on the clock until the engine kills the call")
    cpu: Seconds = Field(default=30.0, description="processor time of all processes together")
    memory: Annotated[Bytes, AfterValidator(_check_memory)] = Field(
        default=512 * MIB, description="memory of all processes and private files together"
    )
    processes: Count = Field(default=64, le=MAX_PROCESSES, description="processes and threads alive at once")
    open_files: Count = Field(
        default=256,
        ge=MIN_OPEN_FILES,
        description="files that one process may hold open, including those that a call starts with",
    )
    file_size: Bytes = Field(default=128 * MIB, description="size of one file that the tool writes")
    disk: Bytes = Field(default=256 * MIB, description="bytes of all files in the private folders")
    inodes: Count = Field(
        default=16384,
        ge=MIN_INODES,
        description="files and folders in the private folders, including the source",
    )
    output: Bytes = Field(default=64 * MIB, description="bytes accepted from stdout, and as many from stderr")
    output_rate: Bytes = Field(
        default=64 * MIB, description="bytes per stream and second; a faster tool is slowed down"
    )
    value: Bytes = Field(
        default=8 * MIB, description="bytes of the serialised return value, which may also have at most 250 000 parts"
    )
    arguments: Bytes = Field(default=10 * MIB, description="bytes of the serialised arguments")
    artifacts: CountOrZero = Field(default=100, description="files that a call may leave for the caller")
    artifact_bytes: Bytes = Field(
        default=64 * MIB, description="bytes of all files that the call leaves for the caller"
    )
    inputs: Bytes = Field(default=64 * MIB, description="bytes of all input files of a call")
    cpus: Count = Field(default=2, description="processors that the call may use and sees")


_Host = Annotated[str, AfterValidator(parse_host_pattern)]


class Network(Section):
    """Network access of a box. All fields except `mode` apply to the mode `public`."""

    mode: NetworkMode = Field(
        default=NetworkMode.NONE,
        description="none: nowhere; public: public addresses, never private, loopback or metadata ones; "
        "index: package indexes too; host: wherever the host can",
    )
    hosts: Annotated[tuple[_Host, ...], AfterValidator(sort_unique), EmptyMeaning("any public one")] = Field(
        default=(),
        max_length=MAX_HOSTS,
        description="the only hosts that can be reached, each at its port or at 80 and 443",
    )
    connections: Count = Field(default=32, le=MAX_CONNECTIONS, description="connections open at once; more wait")
    connections_in_all: Count = Field(default=1000, description="connections that a call opens in total")
    sent: Bytes = Field(default=64 * MIB, description="bytes that a call sends over all connections")
    received: Bytes = Field(default=512 * MIB, description="bytes that a call receives over all connections")
    idle: Seconds = Field(default=60.0, description="time after which an unused connection is closed")


_ReadablePath = Annotated[str, AfterValidator(check_readable_path)]


class Filesystem(Section):
    """Files of the host that a box sees in addition to its interpreter and environment."""

    readable: Annotated[tuple[_ReadablePath, ...], AfterValidator(sort_unique)] = Field(
        default=(),
        max_length=MAX_READABLE,
        description="paths of the host that the box shows read-only at the same place",
    )


class Isolation(Section):
    """The isolation without which the engine refuses a call."""

    minimum: Strength = Field(
        default=Strength.PROCESS,
        description="the weakest accepted box; plain: limits only; process: isolated by this host's kernel; "
        "container: a container; machine: its own kernel, such as gVisor or Kata",
    )
    prefer: Strength = Field(default=Strength.PLAIN, description="a stronger box, used if the host has it")
    require: Annotated[tuple[Layer, ...], AfterValidator(_sort_layers)] = Field(
        default=DEFAULT_LAYERS,
        description="layers that must be in force; own_uid applies only to an engine that runs as root",
    )


class Variables(Section):
    """Environment variables of the host that a tool sees."""

    passed: Annotated[tuple[Annotated[str, AfterValidator(_check_variable)], ...], AfterValidator(sort_unique)] = Field(
        default=(), max_length=MAX_READABLE, description="names of the host's variables that every call gets"
    )


class Output(Section):
    """How printed output reaches the caller."""

    shown: Bytes = Field(default=1 * MIB, description="maximum number of characters that the caller sees of one output")
    budgets: Annotated[tuple[tuple[_OutputType, CountOrZero], ...], BeforeValidator(_sort_pairs)] = Field(
        default=(),
        max_length=MAX_READABLE,
        description="characters shown of outputs of a type, instead of the default; 0: the notice only",
    )
    tokens: Annotated[tuple[tuple[_OutputType, CountOrZero], ...], BeforeValidator(_sort_pairs)] = Field(
        default=(),
        max_length=MAX_READABLE,
        description="tokens shown of outputs of a type, if the engine has a tokenizer",
    )
    over: OverflowAction = Field(
        default=OverflowAction.TRUNCATE,
        description="beyond limits.output; truncate: count and drop the rest; kill: end the call",
    )
    slow_reader: SlowReader = Field(
        default=SlowReader.WAIT,
        description="when the caller reads the stream of a call too slowly; wait: the tool waits; skip: the tool goes "
        "on, and the stream skips what was not read in time and says so",
    )


class Reuse(Section):
    """Whether a box serves more than one call."""

    mode: ReuseMode = Field(
        default=ReuseMode.BOX,
        description="box: keep the box warm for later calls of the same kind; never: one call per box",
    )
    idle: Seconds = Field(default=300.0, description="time after which an unused box is closed")
    ahead: CountOrZero = Field(
        default=2,
        le=MAX_AHEAD,
        description="kept ready for the next calls; box: forked children; never: open boxes, each for one call",
    )


class Policy(Section):
    """All permissions, limits and isolation requirements of a box."""

    name: Annotated[str, AfterValidator(_check_name)] = Field(description="from the policy file's own name")
    description: Annotated[str, AfterValidator(_check_description)] = Field(
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
        """Return the sections by name, in the order in which they are shown."""
        return {name: part for name, part in self if isinstance(part, Section)}

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of everything except name and description. All processes compute the same digest."""
        grants = self.model_dump(mode="json", exclude={"name", "description"})
        return hashlib.sha256(json.dumps(grants, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a changed copy without the cached digest, which pydantic would copy from the original."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("digest", None)
        return copied
