"""How boxes are opened and closed: each is walled as its plan says and has said hello, and each is closed once.

Whoever asks for a box and goes away leaves nothing: what is half open is closed, and `all_closed` waits for it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from sandbox.backends.base import Backend, Box, BoxPlan
from sandbox.backends.hints import missing_walls, refuse_weaker
from sandbox.errors import BoxLost, CallNotStarted
from sandbox.policy import Policy, ReuseMode
from sandbox.pool.box import PooledBox
from sandbox.protocol.messages import Hello, LayerFailure
from sandbox.protocol.session import RunnerSession

_WALLS: Final = ("user_namespace", "mount_namespace", "pid_namespace", "network_namespace")
_OPENING_S: Final = 60.0
_LEAST_FOR_OPENING_S: Final = 10.0
_BEYOND_IMPORT_S: Final = 5.0
_TRIES: Final = 2
CALL_AGAIN: Final = "call again; if it happens every time, see what kills processes here, such as a lack of memory"
_MOST_WORDS: Final = 500


class BoxOpener:
    """Opens the boxes of one engine, and knows all that are open."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._closing: set[asyncio.Task[str]] = set()
        self.open_boxes: set[PooledBox] = set()

    async def open(self, plan: BoxPlan, *, preloads: bool = True) -> PooledBox:
        """Open a box that imports what it can ahead of calls; without `preloads`, every call imports for itself.

        Packages that end their box while they are imported ahead, where the host cannot prevent that, do so again in a
        call, which ends as that. One death may be chance.
        """
        if preloads and (plan.preload or plan.has_template):
            for _ in range(_TRIES):
                try:
                    return await self._open_with(plan)
                except CallNotStarted:
                    continue
                except BoxLost:
                    break
            preloads = False
        if preloads:
            return await self._open_with(plan)
        return await self._open_with(replace(plan, preload=(), imports_ahead=False), preloaded=False)

    def close_soon(self, pooled: PooledBox) -> None:
        """Close it, whether or not anybody waits for that."""
        if not pooled.is_closing:
            pooled.is_closing = True
            self.open_boxes.discard(pooled)
            self._closed(pooled.box, pooled.session)

    async def close(self, pooled: PooledBox) -> None:
        """Close it now: it is gone when this ends."""
        if not pooled.is_closing:
            pooled.is_closing = True
            self.open_boxes.discard(pooled)
            await asyncio.shield(self._closed(pooled.box, pooled.session))

    async def all_closed(self) -> None:
        """Wait for the end of every box that is being closed."""
        while self._closing:
            await self.these_closed()

    async def these_closed(self) -> None:
        """Wait for the end of those that are being closed by now."""
        await asyncio.gather(*map(asyncio.shield, self._closing), return_exceptions=True)

    async def _open_with(self, plan: BoxPlan, *, preloaded: bool = True) -> PooledBox:
        box = await self._backend.open(plan)
        session = RunnerSession(box)
        reuse = plan.policy.reuse
        is_single_use = reuse.mode is ReuseMode.NEVER
        ahead = min(reuse.ahead, 1 if is_single_use else box.capacity)
        try:
            refuse_weaker(box.protection, policy=plan.policy)
            async with asyncio.timeout(_patience(plan.policy)):
                hello = await session.open(
                    box.walls,
                    preload=plan.preload,
                    environment=plan.environment,
                    ahead=ahead,
                    outputs={"files": plan.policy.limits.artifacts, "bytes": plan.policy.limits.artifact_bytes},
                    is_single_use=is_single_use,
                    is_one_at_a_time=box.capacity == 1,
                )
            if not plan.is_plain:
                _refuse_without_walls(hello, policy=plan.policy)
        except BaseException as error:
            last_words = await asyncio.shield(self._closed(box, session))
            raise _explained(error, plan, last_words=last_words) from None
        is_preloaded = preloaded and not hello.unfit
        pooled = PooledBox(box, session, plan.policy, hello, is_preloaded, imported=set(plan.preload))
        self.open_boxes.add(pooled)
        return pooled

    def _closed(self, box: Box, session: RunnerSession) -> asyncio.Task[str]:
        """Being closed, whether or not anybody waits for it."""
        task = asyncio.create_task(_close(box, session))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task


async def _close(box: Box, session: RunnerSession) -> str:
    last_words = await box.close()
    session.close()
    return last_words


def _refuse_without_walls(hello: Hello, *, policy: Policy) -> None:
    """A box that was to be walled and is not must not pass for one, whatever its policy requires."""
    missing: list[str] = [layer for layer in _WALLS if layer in hello.refused]
    if missing:
        raise missing_walls(missing, policy=policy, reason=hello.refused[missing[0]])


def _patience(policy: Policy) -> float:
    """How long a box may take to open: longer than its packages may take to be imported ahead."""
    return min(max(policy.limits.wall, _LEAST_FOR_OPENING_S), _OPENING_S) + _BEYOND_IMPORT_S


def _explained(error: BaseException, plan: BoxPlan, *, last_words: str) -> BaseException:
    """Why a box did not open, in the engine's words."""
    if isinstance(error, LayerFailure):
        return missing_walls([error.layer], policy=plan.policy, reason=error.reason)
    said = _last_lines(last_words)
    if isinstance(error, TimeoutError):
        seconds = _patience(plan.policy)
        return BoxLost(
            f"a box did not open within {seconds:.0f} s; its runner said: {said or 'nothing'}", remedy=CALL_AGAIN
        )
    if type(error) is BoxLost:
        return CallNotStarted(f"{error.message}{f'; its runner said: {said}' if said else ''}", remedy=CALL_AGAIN)
    return error


def _last_lines(text: str) -> str:
    """As many as are read at a glance; of a line that is longer, its end."""
    end = text[-_MOST_WORDS:]
    return ((end.partition("\n")[2] if len(text) > len(end) else end) or end).strip()
