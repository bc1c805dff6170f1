"""The opener: each box is open once its isolation is up and its runner has said hello, and each is closed once.

A caller that goes away while its box opens leaves nothing behind: a half-open box is closed, and `all_closed` waits for
that.
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

_NAMESPACES: Final = ("user_namespace", "mount_namespace", "pid_namespace", "network_namespace")
_MAX_OPENING_S: Final = 60.0
_MIN_OPENING_S: Final = 10.0
_BEYOND_IMPORT_S: Final = 5.0
_TRIES: Final = 2
CALL_AGAIN: Final = "call again; if it happens every time, see what kills processes here, such as a lack of memory"
_MAX_WORDS: Final = 500


class BoxOpener:
    """Opens the boxes of one engine, and knows all that are open."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._closing: set[asyncio.Task[str]] = set()
        self.open_boxes: set[PooledBox] = set()

    async def open(self, plan: BoxPlan, *, preloads: bool = True) -> PooledBox:
        """Open a box that imports modules ahead of calls. Without `preloads`, every call imports for itself.

        A package may end its box while it is imported ahead, if the host cannot prevent that. Without preloading, only
        the call that imports the package ends. A single death may be chance, so the opener tries twice.
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
        """Close a box without waiting for that."""
        if not pooled.is_closing:
            pooled.is_closing = True
            self.open_boxes.discard(pooled)
            self._closed(pooled.box, pooled.session)

    async def close(self, pooled: PooledBox) -> None:
        """Close a box, and wait until it is gone."""
        if not pooled.is_closing:
            pooled.is_closing = True
            self.open_boxes.discard(pooled)
            await asyncio.shield(self._closed(pooled.box, pooled.session))

    async def all_closed(self) -> None:
        """Wait until no box is being closed."""
        while self._closing:
            await self.these_closed()

    async def these_closed(self) -> None:
        """Wait for the end of the boxes that are being closed now."""
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
                _refuse_without_namespaces(hello, policy=plan.policy)
        except BaseException as error:
            last_words = await asyncio.shield(self._closed(box, session))
            raise _explained(error, plan, last_words=last_words) from None
        is_preloaded = preloaded and not hello.unfit
        pooled = PooledBox(box, session, plan.policy, hello, is_preloaded, imported=set(plan.preload))
        self.open_boxes.add(pooled)
        return pooled

    def _closed(self, box: Box, session: RunnerSession) -> asyncio.Task[str]:
        task = asyncio.create_task(_close(box, session))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task


async def _close(box: Box, session: RunnerSession) -> str:
    last_words = await box.close()
    session.close()
    return last_words


def _refuse_without_namespaces(hello: Hello, *, policy: Policy) -> None:
    """Refuse a box that lacks namespaces and was planned with them, even if its policy does not require them."""
    missing: list[str] = [layer for layer in _NAMESPACES if layer in hello.refused]
    if missing:
        raise missing_walls(missing, policy=policy, reason=hello.refused[missing[0]])


def _patience(policy: Policy) -> float:
    """Return how long a box may take to open: longer than the import of its packages may take."""
    return min(max(policy.limits.wall, _MIN_OPENING_S), _MAX_OPENING_S) + _BEYOND_IMPORT_S


def _explained(error: BaseException, plan: BoxPlan, *, last_words: str) -> BaseException:
    """Return the error of an opening in the engine's terms."""
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
    """Return the last whole lines of a text, or the end of a line that is longer."""
    end = text[-_MAX_WORDS:]
    return ((end.partition("\n")[2] if len(text) > len(end) else end) or end).strip()
