"""A backend that is lent to an engine of the checkup's own, which keeps nothing and leaves the backend open."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Unpack

from sandbox.backends.base import Backend
from sandbox.backends.forwarding import ForwardingBackend
from sandbox.doctor.probe import Run
from sandbox.engine.engine import Engine, EngineSettings
from sandbox.outcome import Outcome
from sandbox.outputs.artifacts.store import ArtifactStore
from sandbox.spec import CallFields, call_spec


@asynccontextmanager
async def calls_that_leave_nothing(backend: Backend) -> AsyncIterator[Run]:
    """Runs calls in the backend's boxes, until the end of the block."""
    with TemporaryDirectory(prefix="sandbox-") as folder:
        engine = Engine(ForwardingBackend(backend), EngineSettings(artifacts=ArtifactStore(Path(folder))))

        async def run(source: str, args: Mapping[str, Any] | None = None, **fields: Unpack[CallFields]) -> Outcome:
            return await engine.run(call_spec({**fields, "source": source, "args": args}))

        try:
            yield run
        finally:
            await engine.close()
