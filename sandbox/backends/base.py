"""The interface between the engine and its backends: boxes that carry bytes, and meters that measure from outside.

A backend isolates boxes and describes their isolation; it never reads the bytes that it carries. A new backend needs
these few methods and a line in the table of backends, and must pass the contract suite.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, Self, TypeVar

from pydantic import JsonValue

from sandbox.config import Configuration
from sandbox.egress.traffic import CallTraffic
from sandbox.errors import BackendUnavailable
from sandbox.outcome import EnforcedBy, Isolation, LayerState, LimitState
from sandbox.policy import Limits, Policy
from sandbox.protocols import BoxImage, DirectPipes, Reading, Receiver, Slot

Result = TypeVar("Result")

ENVIRONMENT: Final = "/environment"
"""The folder of the installed packages in every box."""
GATEWAY: Final = "/gateway"
"""The socket that leads to package indexes, in a box that may reach them."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A file or folder of the host that a box sees at `target`; with `is_writable`, changes stay on the host."""

    source: Path
    target: str
    is_writable: bool = False


@dataclass(frozen=True, slots=True)
class Protection:
    """The backend's description of a box, before any call: the outer half of a receipt."""

    backend: str
    isolation: Isolation
    layers: Mapping[str, LayerState]
    limits: Mapping[str, LimitState]
    network: str
    user: str
    runtime: str | None = None
    notes: tuple[str, ...] = ()
    """Warnings for the user."""
    details: Mapping[str, str] = field(default_factory=dict)
    """Additions to the layers that a call's own process measures."""
    loose: Mapping[str, str] = field(default_factory=dict)
    """Limits that a probe found not to hold, each with the evidence."""


def engine_limits(limits: Limits) -> dict[str, LimitState]:
    """Return the limits that the engine enforces itself, whatever the backend."""
    return {
        "wall": LimitState(value=limits.wall, enforced_by=EnforcedBy.WATCHER, note="the engine's clock"),
        "output": LimitState(value=limits.output, enforced_by=EnforcedBy.WATCHER, note="the engine counts the bytes"),
        "value": LimitState(value=limits.value, enforced_by=EnforcedBy.WATCHER, note="the engine counts the bytes"),
    }


class Interpreter(Protocol):
    """The part of an environment that a box needs to know."""

    @property
    def key(self) -> str:
        """Return the key of the environment."""

    @property
    def python(self) -> Path:
        """Return the interpreter's file, without symbolic links."""

    @property
    def folders(self) -> Sequence[Path]:
        """Return the host folders that the interpreter reads."""

    @property
    def hidden(self) -> Sequence[Path]:
        """Return the folders below those that a box hides."""

    @property
    def installed(self) -> Path | None:
        """Return the folder of its packages, shown at `ENVIRONMENT`; None without packages."""

    @property
    def site(self) -> str:
        """Return the path of the packages in that folder."""

    @property
    def image(self) -> BoxImage | None:
        """Return the image of its containers; None for backends without containers."""


@dataclass(frozen=True, slots=True)
class BoxPlan:
    """The description of a box to open: the policy decides its isolation, the interpreter its contents."""

    policy: Policy
    interpreter: Interpreter
    preload: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """The environment variables of every call."""
    is_plain: bool = False
    """True for a box with limits and filters only, on a host without namespaces whose policy allows that."""
    imports_ahead: bool = True
    """Whether a process of the box may import packages ahead of calls, if the policy allows that."""
    shown: tuple[Shown, ...] = ()
    """Other files and folders of the host that the box sees."""
    gateway: Path | None = None
    """The socket that leads to package indexes: the whole network for a policy of mode `index`."""

    def places(self) -> tuple[Shown, ...]:
        """Return everything of the host that the box sees at a place of its own."""
        installed, gateway = self.interpreter.installed, self.gateway
        return (
            *([Shown(installed, ENVIRONMENT)] if installed else ()),
            *([Shown(gateway, GATEWAY)] if gateway else ()),
            *self.shown,
        )

    @property
    def has_template(self) -> bool:
        """Return whether a template imports the environment's packages, for calls with namespaces of their own."""
        is_wanted = self.imports_ahead and self.policy.environment.preload
        return is_wanted and not self.is_plain and self.interpreter.installed is not None

    @property
    def prefix(self) -> str | None:
        """Return the folder of the installed packages, as the runner sees it."""
        installed = self.interpreter.installed
        if installed is None:
            return None
        return str(installed) if self.is_plain else ENVIRONMENT


class Box(ABC):
    """An isolated place, from its opening to its end."""

    protection: Protection
    capacity: int
    """How many calls may run in it at once."""
    good_for_s: float | None = None
    """The time after its opening in which it accepts calls; None: as long as it lives."""

    @property
    @abstractmethod
    def walls(self) -> Mapping[str, JsonValue]:
        """Return the isolation in the runner's first message: `box`, `call`, `slots` and `lines`."""

    @abstractmethod
    def listen(self, receiver: Receiver) -> None:
        """Pass all incoming bytes to `receiver`, from now on; called once."""

    @abstractmethod
    def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        """Queue `data` for the runner without waiting, or drop it if the box is gone; close the descriptors."""

    @abstractmethod
    def add_slots(self, count: int) -> Sequence[Slot]:
        """Return new slots for calls; none if the backend does not measure calls one by one."""

    def count_from_now(self) -> bool:
        """Start counting for the next call; return False if its slot counts only the call's child anyway."""
        return False

    async def all_sent(self) -> None:
        """Wait until the queue of sent bytes is empty."""
        return

    def open_pipes(self) -> DirectPipes | None:
        """Return direct pipes to one call's process; None if the channel carries no descriptors."""
        return None

    def traffic(self, _: str) -> CallTraffic | None:
        """Return the network traffic of the call with this label, once; None without egress through the engine."""
        return None

    def last_words(self) -> str:
        """Return the end of the runner's stderr."""
        return ""

    async def last_reading(self) -> Reading:
        """Return the reading of a box that died with a call in it; empty if nothing can be read."""
        return Reading()

    @abstractmethod
    def memory_bytes(self) -> int:
        """Return its approximate memory, for the decision which boxes to keep warm."""

    @abstractmethod
    async def close(self) -> str:
        """Kill all processes in it, remove everything, and return the end of the runner's stderr."""


class Daemon(Protocol):
    """The connection of a backend to the daemon of its containers."""

    @property
    def sees_our_files(self) -> bool:
        """Return whether its containers can mount our folders."""

    async def ask(self, doing: str, question: Callable[[Any], Result]) -> Result:
        """Ask the daemon in a thread; errors become `BackendUnavailable`, with a phrase such as "making an image"."""


class ImageGone(BackendUnavailable):
    """An image disappeared after the engine had found it."""


class Backend(ABC):
    """Open boxes."""

    name: str
    needs_images: bool = False
    """Whether every environment needs an image."""
    needs_environments: bool = True
    """Whether tools need their environments; False for a backend that runs no tools."""
    capacity: int | None = None
    """The number of calls that each box runs at once, if known before a box is open."""

    @classmethod
    def configured(cls, _: Configuration) -> Self:
        """Return a backend with the user's configuration."""
        return cls()

    @abstractmethod
    async def open(self, plan: BoxPlan) -> Box:
        """Return a box with a started runner, before its first message; raise `BackendUnavailable` if that fails."""

    def tightened(self, policy: Policy) -> Policy:
        """Return the policy for this backend's boxes: the same, or a stricter one."""
        return policy

    async def daemon(self) -> Daemon | None:
        """Return the daemon with its images; None for a backend without images."""
        return None

    async def close(self) -> None:
        """Release the backend's own resources, after all its boxes have closed."""
        return


class ForwardingBackend(Backend):
    """A backend that forwards to another one, and never closes it; subclasses change single methods."""

    def __init__(self, inner: Backend) -> None:
        self._inner = inner
        self.name = inner.name
        self.capacity = inner.capacity
        self.needs_images = inner.needs_images
        self.needs_environments = inner.needs_environments

    async def open(self, plan: BoxPlan) -> Box:
        return await self._inner.open(plan)

    def tightened(self, policy: Policy) -> Policy:
        return self._inner.tightened(policy)

    async def daemon(self) -> Daemon | None:
        return await self._inner.daemon()
