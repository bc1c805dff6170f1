"""A batch: one tool called with many arguments, which are asked for as calls come to their turns.

Only so many calls are under way at once, however many are to come: a batch of any length takes no more of its engine
than that, and leaves other callers their turns. What there is to tell when it is cut short, it knows at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from sandbox.errors import SpecError
from sandbox.outcome import Outcome


class Batch:
    """Its calls; used on one event loop."""

    def __init__(self, call: Callable[[Mapping[str, Any]], Coroutine[Any, Any, Outcome]], *, most: int) -> None:
        self._call = call
        self._room = asyncio.Semaphore(most)
        self._under_way: set[asyncio.Task[Outcome]] = set()
        self._failure: BaseException | None = None
        self._so_far: list[Outcome | None] = []

    @property
    def so_far(self) -> list[Outcome | None]:
        """What came of each call, in the order given; None where nothing did yet."""
        return [*self._so_far]

    async def add(self, args: Mapping[str, Any]) -> None:
        """Begin another call once there is room for it; raises what one before it failed with."""
        place = len(self._so_far)
        if not isinstance(args, Mapping):
            raise SpecError(f"args[{place}] must be a mapping of names to values, not {type(args).__name__}")
        await self._room.acquire()
        self._raise_failure()
        task = asyncio.create_task(self._call(args))
        self._so_far.append(None)
        self._under_way.add(task)
        task.add_done_callback(partial(self._note_end, place))
        await asyncio.sleep(0)

    async def outcomes(self) -> list[Outcome]:
        """Those of all calls, when they have ended; raises what the first failed with that did."""
        while self._under_way and self._failure is None:
            await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
        self._raise_failure()
        return [outcome for outcome in self._so_far if outcome is not None]

    async def end(self) -> None:
        """Cancel what is under way, and wait for its end."""
        for task in self._under_way:
            task.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _note_end(self, place: int, task: asyncio.Task[Outcome]) -> None:
        self._under_way.discard(task)
        self._room.release()
        try:
            self._so_far[place] = task.result()
        except BaseException as error:
            self._so_far[place] = vars(error).get("outcome")
            self._failure = self._failure or error
