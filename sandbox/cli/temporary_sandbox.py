"""A sandbox for commands that test this host: the engine's own calls must not leave artifacts in the user's store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from tempfile import TemporaryDirectory

from sandbox.client.client import AsyncSandbox


@asynccontextmanager
async def forgetful_sandbox(backend: str | None) -> AsyncIterator[AsyncSandbox]:
    """Open a sandbox with a temporary artifact store."""
    with TemporaryDirectory(prefix="sandbox-") as folder:
        async with AsyncSandbox(backend=backend, artifact_store=folder) as box:
            yield box
