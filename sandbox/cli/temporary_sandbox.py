"""A sandbox for the commands that try out this host: their calls are ours, and the store of artifacts is the user's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from tempfile import TemporaryDirectory

from sandbox.client.client import AsyncSandbox


@asynccontextmanager
async def forgetful_sandbox(backend: str | None) -> AsyncIterator[AsyncSandbox]:
    """One that keeps nothing of what its calls leave."""
    with TemporaryDirectory(prefix="sandbox-") as folder:
        async with AsyncSandbox(backend=backend, artifact_store=folder) as box:
            yield box
