"""A backend that asks another for everything; what is to be different is said by who derives from it."""

from __future__ import annotations

from sandbox.backends.base import Backend, Box, BoxPlan, Daemon
from sandbox.policy import Policy


class ForwardingBackend(Backend):
    """Whoever opened the other one closes it."""

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
