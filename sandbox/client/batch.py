"""A batch: one tool called with many arguments, which are read as calls get their turns.

Only a bounded number of calls is under way at once, however many are to come. So a batch of any length takes no more of
its engine than that, and leaves other callers their turns. The outcomes so far can be read at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from sandbox.errors import BatchCancelled, CallCancelled, SpecError
from sandbox.outcome import Outcome


class Batch:
    """The calls of one batch; used on one event loop."""

    def __init__(
        self, call: Callable[[Mapping[str, Any]], Coroutine[Any, Any, Outcome]], *, max_under_way: int
    ) -> None:
        self._call = call
        self._room = asyncio.Semaphore(max_under_way)
        self._under_way: set[asyncio.Task[Outcome]] = set()
        self._failure: BaseException | None = None
        self._outcomes: list[Outcome | None] = []

    def cut_short(self) -> BatchCancelled:
        """Return the exception that carries the outcomes so far."""
        ended = sum(outcome is not None for outcome in self._outcomes)
        message = f"the batch was cut short after {ended} outcomes of {len(self._outcomes)} calls"
        return BatchCancelled(message, outcomes=self._outcomes)

    async def add(self, args: Mapping[str, Any]) -> None:
        """Begin another call once there is room for it. Raise the failure of an earlier call."""
        index = len(self._outcomes)
        if not isinstance(args, Mapping):
            raise SpecError(f"args[{index}] must be a mapping of names to values, not {type(args).__name__}")
        await self._room.acquire()
        self._raise_failure()
        task = asyncio.create_task(self._call(args))
        self._outcomes.append(None)
        self._under_way.add(task)
        task.add_done_callback(partial(self._note_end, index))
        await asyncio.sleep(0)

    async def outcomes(self) -> list[Outcome]:
        """Return the outcomes of all calls once they have ended. Raise the first failure at once."""
        while self._under_way and self._failure is None:
            await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
        self._raise_failure()
        return [outcome for outcome in self._outcomes if outcome is not None]

    async def end(self) -> None:
        """Cancel the calls under way, and wait for their end."""
        for task in self._under_way:
            task.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _note_end(self, index: int, task: asyncio.Task[Outcome]) -> None:
        self._under_way.discard(task)
        self._room.release()
        try:
            self._outcomes[index] = task.result()
        except BaseException as error:
            cancelled = CallCancelled.of(error)
            self._outcomes[index] = None if cancelled is None else cancelled.outcome
            self._failure = self._failure or error
