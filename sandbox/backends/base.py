"""What every backend gives the engine: boxes that carry bytes, and meters that measure from outside.

A backend decides what walls there are and says so; it never reads what goes through. Writing one means these few
methods, a line in the table of backends, and passing the contract suite.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, Self, TypeVar

from pydantic import JsonValue

from sandbox.config import Configuration
from sandbox.egress.traffic import Ledger
from sandbox.errors import BackendUnavailable
from sandbox.outcome import EnforcedBy, Isolation, LayerState, LimitState
from sandbox.policy import Limits, Policy
from sandbox.protocols import BoxImage, DirectPipes, Reading, Receiver, Slot

Result = TypeVar("Result")

ENVIRONMENT: Final = "/environment"
"""Where every box shows what is installed for its interpreter, wherever the host keeps it."""
GATEWAY: Final = "/gateway"
"""Where a box that may reach package indexes finds the socket behind which they are."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Something of the host that a box sees at a place of its own; with `is_writable`, what it writes there stays."""

    source: Path
    target: str
    is_writable: bool = False


@dataclass(frozen=True, slots=True)
class Protection:
    """What a box says of itself, before any call: the receipt is this and what the call's child measured."""

    backend: str
    isolation: Isolation
    layers: Mapping[str, LayerState]
    limits: Mapping[str, LimitState]
    network: str
    user: str
    runtime: str | None = None
    notes: tuple[str, ...] = ()
    """What a user should be warned of."""
    details: Mapping[str, str] = field(default_factory=dict)
    """What there is to add to the layers that a call's own process measures."""
    loose: Mapping[str, str] = field(default_factory=dict)
    """Limits that were set and found not to hold, each with what was seen."""


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
        """Which environment this is."""

    @property
    def python(self) -> Path:
        """The interpreter's own file, links resolved."""

    @property
    def folders(self) -> Sequence[Path]:
        """Host folders the interpreter reads."""

    @property
    def hidden(self) -> Sequence[Path]:
        """Folders below those that are not shown."""

    @property
    def installed(self) -> Path | None:
        """The folder with what is installed for it, shown at `ENVIRONMENT`; None where nothing is."""

    @property
    def site(self) -> str:
        """Where in that folder its packages are."""

    @property
    def image(self) -> BoxImage | None:
        """What containers for it are made from; backends without containers need none."""


@dataclass(frozen=True, slots=True)
class BoxPlan:
    """What a box is opened for: its walls come from the policy, its inside from the interpreter."""

    policy: Policy
    interpreter: Interpreter
    preload: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """The variables that every call in it has."""
    is_plain: bool = False
    """Without namespaces: limits and filters only, for policies that accept it on hosts that have no more."""
    imports_ahead: bool = True
    """Whether a process of the box may import packages ahead of calls, where the policy allows that."""
    shown: tuple[Shown, ...] = ()
    """What else it sees of the host."""
    gateway: Path | None = None
    """The socket behind which package indexes are: all of the network there is for a policy of mode `index`."""

    def places(self) -> tuple[Shown, ...]:
        """All that is shown at a place of its own."""
        installed, gateway = self.interpreter.installed, self.gateway
        return (
            *([Shown(installed, ENVIRONMENT)] if installed else ()),
            *([Shown(gateway, GATEWAY)] if gateway else ()),
            *self.shown,
        )

    @property
    def has_template(self) -> bool:
        """Whether a template imports the environment's packages, for calls with namespaces of their own."""
        is_wanted = self.imports_ahead and self.policy.environment.preload
        return is_wanted and not self.is_plain and self.interpreter.installed is not None

    @property
    def prefix(self) -> str | None:
        """Where its runner finds what is installed; in the plain form a box has no places of its own."""
        installed = self.interpreter.installed
        if installed is None:
            return None
        return str(installed) if self.is_plain else ENVIRONMENT


class Box(ABC):
    """One isolated place, from open to gone."""

    protection: Protection
    capacity: int
    """How many calls may run in it at once."""
    good_for_s: float | None = None
    """For how long after it was opened calls may come; as long as it lives, where nobody else would remove it."""

    @property
    @abstractmethod
    def walls(self) -> Mapping[str, JsonValue]:
        """What the runner is told to put up: the `box`, `call`, `slots` and `lines` of its first message."""

    @abstractmethod
    def listen(self, receiver: Receiver) -> None:
        """Hand everything that comes to `receiver`, from now on; called once."""

    @abstractmethod
    def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        """Queue `data` for the runner; does not wait, and drops it when the box is gone. Closes the descriptors."""

    @abstractmethod
    def add_slots(self, count: int) -> Sequence[Slot]:
        """New slots for calls; none where the backend does not meter calls one by one."""

    def count_from_now(self) -> bool:
        """A call is about to be sent. Whether the slot it gets counts only what is used from now on: False where slots
        are its child's own, also while that waits for its call."""
        return False

    async def all_sent(self) -> None:
        """Wait until nothing of what was sent is queued here any more; at once where nothing ever is."""
        return

    def open_pipes(self) -> DirectPipes | None:
        """A way to one call's process that does not lead through the runner; none where no descriptor can be sent."""
        return None

    def books(self, _: str) -> Ledger | None:
        """What went over the network of the call whose walls have this label; asked once. None where none goes by way
        of the engine."""
        return None

    def last_words(self) -> str:
        """What its runner last wrote for people to read."""
        return ""

    async def last_reading(self) -> Reading:
        """What is known of it once it has died with a call in it; nothing where nobody can be asked."""
        return Reading()

    @abstractmethod
    def memory_bytes(self) -> int:
        """The memory it holds now, about; for deciding what to keep warm."""

    @abstractmethod
    async def close(self) -> str:
        """Kill everything in it, wait until it is gone, leave nothing behind. Returns what it last wrote to stderr."""


class Daemon(Protocol):
    """The link of a backend that opens containers to who makes them."""

    @property
    def sees_our_files(self) -> bool:
        """Whether a folder of ours can be shown to its containers."""

    async def ask(self, doing: str, question: Callable[[Any], Result]) -> Result:
        """Ask its client, in a thread; errors are `BackendUnavailable`, with `doing` as in "making an image"."""


class ImageGone(BackendUnavailable):
    """What a box should be made from was removed since it was found."""


class Backend(ABC):
    """Opens boxes."""

    name: str
    needs_images: bool = False
    """Whether its boxes are made from images, so that every environment needs one."""
    needs_environments: bool = True
    """Whether what tools require has to be there; not where no tool is run."""
    capacity: int | None = None
    """How many calls each of its boxes runs at once, where that is known before one is open."""

    @classmethod
    def configured(cls, _: Configuration) -> Self:
        """One as the user's configuration says."""
        return cls()

    @abstractmethod
    async def open(self, plan: BoxPlan) -> Box:
        """A box whose runner has been started but not spoken to; raises `BackendUnavailable` and its kinds."""

    def tightened(self, policy: Policy) -> Policy:
        """What a policy comes to in boxes of this backend: the same, or stricter where they cannot do otherwise."""
        return policy

    async def daemon(self) -> Daemon | None:
        """Where its images are; None for backends that need none."""
        return None

    async def close(self) -> None:
        """Give back what the backend itself holds; its boxes are closed already."""
        return
