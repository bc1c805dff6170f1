"""A backend under test, and the needs of its checks: boxes, their loss, and processes that outlive a call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import Any, Final

import psutil

from sandbox.backends.base import Backend, Box, BoxPlan, ForwardingBackend
from sandbox.client.client import AsyncSandbox
from sandbox.client.stream import Event, Printed
from sandbox.policy import Policy, load
from sandbox.testing.contract import expect

_PATIENCE_S: Final = 30.0
_PAUSE_S: Final = 0.01
UNTIL_BEGUN_S: Final = (1.0, 4.0, 16.0)
"""How long a call has that is to do something before its time is up: more where it came to nothing, as may be on a
busy machine."""


class WatchedBackend(ForwardingBackend):
    """A backend that remembers its boxes."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.boxes: list[Box] = []

    async def open(self, plan: BoxPlan) -> Box:
        box = await super().open(plan)
        self.boxes.append(box)
        return box

    async def close(self) -> None:
        await self._inner.close()


@dataclass(frozen=True, slots=True)
class CheckedEngine:
    """An engine for a single check, and the boxes that it opened."""

    sandbox: AsyncSandbox
    boxes: list[Box]


@dataclass(slots=True)
class Subject:
    """The backend under test.

    `make_backend` makes one, and each of `losses` takes a box away as a fault would, before it returns.

    Checks that do nothing special share one engine, `sandbox`, open while the subject is.
    """

    make_backend: Callable[[], Backend]
    losses: Sequence[Callable[[Box], None]] = ()
    policy: Policy = field(default_factory=lambda: load("default"))
    many: int = 64
    """How many calls are many; fewer may be enough where each opens a box of its own, and that takes long."""
    _shared: AsyncSandbox | None = None
    _artifacts: TemporaryDirectory[str] | None = None

    @property
    def sandbox(self) -> AsyncSandbox:
        """The shared engine, with a folder for artifacts that the current user may write to."""
        if self._shared is None:
            self._artifacts = TemporaryDirectory(prefix="sandbox-contract-")
            self._shared = AsyncSandbox(
                backend=self.make_backend(), policy=self.policy, artifact_store=self._artifacts.name
            )
        return self._shared

    async def close(self) -> None:
        """Close the shared engine."""
        if self._shared is not None:
            await self._shared.close()
            self._shared = None
        if self._artifacts is not None:
            self._artifacts.cleanup()
            self._artifacts = None

    @asynccontextmanager
    async def engine(self, **settings: Any) -> AsyncIterator[CheckedEngine]:
        """An engine of its own, for what others must not be disturbed by."""
        backend = WatchedBackend(self.make_backend())
        async with AsyncSandbox(backend=backend, **{"policy": self.policy, **settings}) as sandbox:
            yield CheckedEngine(sandbox, backend.boxes)

    def policy_with(self, section: str, **fields: Any) -> Policy:
        """The policy, changed in one section."""
        changed = getattr(self.policy, section).model_copy(update=fields)
        return self.policy.model_copy(update={section: changed})


async def until_printed(events: AsyncGenerator[Event], wanted: str) -> None:
    """Read until the tool has printed this."""
    text = ""
    async for event in events:
        text += event.text if isinstance(event, Printed) else ""
        expect.that(isinstance(event, Printed), f"it ended before it printed {wanted!r}: {event!r:.4000}")
        if wanted in text:
            return


async def until(condition: Callable[[], object], *, message: str) -> None:
    """Wait until it holds, or fail."""
    deadline = asyncio.get_running_loop().time() + _PATIENCE_S
    while not condition():
        expect.that(asyncio.get_running_loop().time() < deadline, message)
        await asyncio.sleep(_PAUSE_S)


def processes_with(marker: str) -> list[int]:
    """The processes of this host that have this among their arguments."""
    found = psutil.process_iter(["cmdline"])
    return [process.pid for process in found if marker in (process.info["cmdline"] or ())]


async def until_gone(marker: str) -> None:
    """Wait for the end of those processes: a killed process is not gone at once."""
    await until(lambda: not processes_with(marker), message=f"processes {processes_with(marker)} outlived their call")
