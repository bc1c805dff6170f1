"""A sandbox for commands that probe this host: the user's artifact store stays untouched."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from tempfile import TemporaryDirectory

from sandbox.client.client import AsyncSandbox


@asynccontextmanager
async def temporary_sandbox(backend: str | None) -> AsyncIterator[AsyncSandbox]:
    """Yield a sandbox that deletes what its calls leave."""
    with TemporaryDirectory(prefix="sandbox-") as folder:
        async with AsyncSandbox(backend=backend, artifact_store=folder) as box:
            yield box
