"""The clients: `AsyncSandbox`, and `Sandbox` for programs without an event loop.

`Sandbox` drives one `AsyncSandbox` on an event loop in a background thread. Both therefore have the same methods, the
same engine and the same behaviour, and any number of threads may use one `Sandbox`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping
from contextlib import suppress
from functools import partial
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from sandbox.backends.base import Backend
from sandbox.client.batch import Batch
from sandbox.client.inputs import Source, backend_of, lock_of, source_fields, store_of_artifacts, store_place
from sandbox.client.loop_thread import BackgroundLoop
from sandbox.engine.engine import DEFAULT_CONCURRENCY, DEFAULT_WARM_MEMORY, Engine, EngineSettings
from sandbox.environments import Environment
from sandbox.environments.progress import OnProgress, ignore_progress
from sandbox.errors import BatchCancelled, CallCancelled, EngineClosed, SpecError
from sandbox.outcome import Outcome
from sandbox.outputs.artifacts.store import ArtifactStore
from sandbox.outputs.tokens import Tokenizer
from sandbox.policy import Policy, resolve_policy_name
from sandbox.pool.pool import PoolStatistics
from sandbox.spec import (
    CallFields,
    CallSpec,
    EnvironmentFields,
    EnvironmentSpec,
    ReadingFields,
    call_spec,
    environment_spec,
    plain_spec,
    reading_spec,
)
from sandbox.threads import in_own_thread

if TYPE_CHECKING:
    from sandbox.client.stream import Event
    from sandbox.doctor import Checkup
    from sandbox.environments.lock import Lock
    from sandbox.outputs.artifacts.reading import Artifacts, AsyncArtifacts
    from sandbox.tools.check import CheckReport
    from sandbox.tools.metadata import ToolRecord
    from sandbox.tools.schemas import Export

_UNDER_WAY_PER_TURN: Final = 2
"""Calls of a batch under way for each that the engine runs at once, so that the next is ready when one ends."""


class AsyncSandbox:
    """An engine that runs tools. Use it in an `async with`, or close it.

    `backend` is a name or a `Backend`; the default comes from the configuration. `policy` applies to calls that name
    none. `store` is the folder for environments, `offline` asks no package index for them, and `on_progress` is called
    with the progress of builds. `artifact_store` is the folder for artifacts, or an `ArtifactStore`. `tokenizer`
    returns the tokens of a text, or their number, for budgets in tokens.
    """

    def __init__(  # noqa: PLR0913  (each is one setting)
        self,
        *,
        backend: str | Backend | None = None,
        policy: str | PathLike[str] | Policy = "default",
        concurrency: int = DEFAULT_CONCURRENCY,
        warm_memory: int = DEFAULT_WARM_MEMORY,
        store: str | Path | None = None,
        artifact_store: str | Path | ArtifactStore | None = None,
        tokenizer: Tokenizer | None = None,
        offline: bool = False,
        on_progress: OnProgress = ignore_progress,
    ) -> None:
        for name, number, least in (("concurrency", concurrency, 1), ("warm_memory", warm_memory, 0)):
            if type(number) is not int or number < least:
                raise SpecError(f"{name} must be a whole number of at least {least}, not {number!r:.80}")
        self._backend = backend
        self._policy = resolve_policy_name(policy) if isinstance(policy, PathLike) else policy
        self._settings = EngineSettings(
            concurrency=concurrency,
            warm_memory=warm_memory,
            store=None if store is None else store_place(store),
            artifacts=store_of_artifacts(artifact_store),
            tokenizer=tokenizer,
            is_offline=offline,
            on_progress=on_progress,
        )
        self._has_fitting_policy = False
        self._engine: Engine | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    @property
    def artifacts(self) -> AsyncArtifacts:
        """The artifacts: files that calls left and outputs too long to show, to list, show, search and save."""
        from sandbox.outputs.artifacts.reading import AsyncArtifacts

        return AsyncArtifacts(self._settings.artifacts)

    async def __aenter__(self) -> Self:
        self._opened()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(self, source: Source, args: Mapping[str, Any] | None = None, **fields: Unpack[CallFields]) -> Outcome:
        """Run one call and return its outcome.

        `source` is a tool's text or the path of its file. `fields` are the further fields of a call, such as policy,
        limits, requirements, files or tenant (see `CallFields`). If the caller is cancelled, `CallCancelled.of` finds
        the outcome until then in the error.
        """
        return await self._opened().run(self._spec(source, args, fields))

    def stream(
        self, source: Source, args: Mapping[str, Any] | None = None, **fields: Unpack[CallFields]
    ) -> AsyncGenerator[Event]:
        """Run one call and yield its output (`Printed`) and the items of a generator (`Progress`) as they come.

        The last event is `Finished` with the outcome.
        """
        from sandbox.client.stream import stream_call

        return stream_call(lambda: (self._opened(), self._spec(source, args, fields)))

    async def map(
        self, source: Source, args: Iterable[Mapping[str, Any]], **fields: Unpack[CallFields]
    ) -> list[Outcome]:
        """Run one tool with many arguments and return the outcomes in their order.

        As many calls run at once as the engine allows, and the arguments are read as calls get their turns. If an error
        or a cancellation ends the batch early, `BatchCancelled.of` finds the outcomes until then in it.
        """
        batch = await self._batch(source, fields)
        try:
            for each in args:
                await batch.add(each)
            return await batch.outcomes()
        except BaseException as error:
            await batch.end()
            raise error from _cut_short(batch, error)

    async def _batch(self, source: Source, fields: CallFields) -> Batch:
        engine = self._opened()
        max_under_way = _UNDER_WAY_PER_TURN * self._settings.concurrency
        return Batch(lambda args: engine.run(self._spec(source, args, fields)), max_under_way=max_under_way)

    async def prepare(self, source: Source, **fields: Unpack[CallFields]) -> None:
        """Make the environment and a warm box for this tool ready before its first call."""
        await self._opened().prepare(self._spec(source, None, fields))

    async def lock(
        self, source: Source | None = None, *, refresh: bool = False, **fields: Unpack[EnvironmentFields]
    ) -> Lock:
        """Resolve a tool's requirements to a lock. An earlier lock is reused, unless `refresh` asks the indexes."""
        return await self._opened().lock(self._environment(source, fields), refresh=refresh)

    async def build(
        self, source: Source | None = None, *, lock: Lock | None = None, **fields: Unpack[EnvironmentFields]
    ) -> Environment:
        """Build an environment into the store, from a `lock` if one is given."""
        return await self._opened().build(self._environment(source, fields), lock=lock_of(lock))

    async def statistics(self) -> PoolStatistics:
        """Return how many boxes there are, and how calls got theirs: warm, opened ahead, or opened for them."""
        return await self._opened().statistics()

    async def check(self, source: Source, **fields: Unpack[ReadingFields]) -> CheckReport:
        """Return every problem of a source, its functions, and their schemas. Nothing is executed, and no box opens."""
        from sandbox.tools.check import check_source

        spec = reading_spec({**source_fields(source), **fields})
        reading = partial(check_source, spec.source, filename=spec.filename, entry=spec.entry)
        report = await in_own_thread(reading)
        return report.model_copy(deep=True)  # the cached report serves other callers too

    async def schema(
        self,
        source: Source,
        *,
        format: str | None = None,
        strict: bool = False,
        **fields: Unpack[ReadingFields],
    ) -> Export:
        """Return the tool's schema, `{"name", "description", "parameters"}`, with the losses of the conversion.

        `format` is another shape: openai, openai-responses, anthropic, mcp or json.
        """
        from sandbox.tools.tool_schema import exported_schema

        report = await self.check(source, **fields)
        return exported_schema(report, shape=format, strict=strict)

    async def metadata(self, source: Source, **fields: Unpack[ReadingFields]) -> tuple[ToolRecord, ...]:
        """Return the record of each tool in a source for people to read: names, weights, methods."""
        return (await self.check(source, **fields)).metadata

    async def doctor(self) -> Checkup:
        """Find out by real calls what this host can do: isolation layers, policies and limits."""
        from sandbox.doctor import examine

        self._opened()
        return await examine(backend_of(self._backend))

    async def close(self) -> None:
        """End every call and close every box."""
        if self._loop is not None and not self._loop.is_closed():
            self._refuse_elsewhere()
        self._is_closed = True
        if self._engine is not None:
            await self._engine.close()

    def _opened(self) -> Engine:
        if self._is_closed:
            raise EngineClosed("the engine is closed", remedy="open a new one")
        if self._engine is None:
            self._loop = asyncio.get_running_loop()
            self._backend = backend_of(self._backend)
            self._engine = Engine(self._backend, self._settings)
        self._refuse_elsewhere()
        return self._engine

    def _refuse_elsewhere(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise EngineClosed(
                "the engine was opened on another event loop",
                remedy="open one on each event loop, or use Sandbox, which has a loop of its own and serves any thread",
            )

    def _environment(self, source: Source | None, fields: Mapping[str, Any]) -> EnvironmentSpec:
        return environment_spec({**self._under_policy(fields), **source_fields(source)})

    def _spec(self, source: Source, args: Mapping[str, Any] | None, fields: Mapping[str, Any]) -> CallSpec:
        # A call without further fields needs no validation once a call under the same policy passed.
        if not fields and type(source) is str and type(args) is dict and self._has_fitting_policy:
            return plain_spec(source, args, self._policy)
        spec = call_spec({**source_fields(source), **self._under_policy(fields), "args": args})
        self._has_fitting_policy = self._has_fitting_policy or fields.get("policy") is None
        return spec

    def _under_policy(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields with the client's policy if they name none."""
        policy = fields.get("policy")
        return {**fields, "policy": self._policy if policy is None else policy}


class Sandbox:
    """The same for programs without an event loop. Use it in a `with`, or close it."""

    def __init__(  # noqa: PLR0913  (each is one setting)
        self,
        *,
        backend: str | Backend | None = None,
        policy: str | PathLike[str] | Policy = "default",
        concurrency: int = DEFAULT_CONCURRENCY,
        warm_memory: int = DEFAULT_WARM_MEMORY,
        store: str | Path | None = None,
        artifact_store: str | Path | ArtifactStore | None = None,
        tokenizer: Tokenizer | None = None,
        offline: bool = False,
        on_progress: OnProgress = ignore_progress,
    ) -> None:
        self._store_of_artifacts = store_of_artifacts(artifact_store)
        self._inner = AsyncSandbox(
            backend=backend,
            policy=policy,
            concurrency=concurrency,
            warm_memory=warm_memory,
            store=store,
            artifact_store=self._store_of_artifacts,
            tokenizer=tokenizer,
            offline=offline,
            on_progress=on_progress,
        )
        self._background = BackgroundLoop()

    @property
    def artifacts(self) -> Artifacts:
        """The artifacts of calls; see `AsyncSandbox.artifacts`."""
        from sandbox.outputs.artifacts.reading import Artifacts

        return Artifacts(self._store_of_artifacts)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, source: Source, args: Mapping[str, Any] | None = None, **fields: Unpack[CallFields]) -> Outcome:
        """Run one call; see `AsyncSandbox.run`. A KeyboardInterrupt cancels the call like a cancellation."""
        return self._background.wait(lambda: self._inner.run(source, args, **fields))

    def stream(
        self, source: Source, args: Mapping[str, Any] | None = None, **fields: Unpack[CallFields]
    ) -> Generator[Event]:
        """Run one call and yield its output as it comes; see `AsyncSandbox.stream`."""
        events = self._inner.stream(source, args, **fields)
        try:
            while True:
                try:
                    yield self._background.wait(lambda: _next(events))
                except StopAsyncIteration:
                    return
        except KeyboardInterrupt as interrupt:
            # A caller that was interrupted between two events throws the interrupt in, and the call still runs.
            cause = CallCancelled.of(interrupt) or self._background.wait(lambda: _cancel(events))
            if cause is None:
                raise
            raise interrupt from cause
        finally:
            self._background.leave(events)

    def map(self, source: Source, args: Iterable[Mapping[str, Any]], **fields: Unpack[CallFields]) -> list[Outcome]:
        """Run one tool with many arguments, read in the caller's thread; see `AsyncSandbox.map`."""
        batch = self._background.wait(lambda: self._inner._batch(source, fields))
        try:
            for each in args:
                self._background.wait(partial(batch.add, each))
            return self._background.wait(batch.outcomes)
        except BaseException as error:
            with suppress(EngineClosed):  # closing the engine ended the calls
                self._background.wait(batch.end)
            raise error from _cut_short(batch, error)

    def prepare(self, source: Source, **fields: Unpack[CallFields]) -> None:
        """Make a warm box for this tool ready; see `AsyncSandbox.prepare`."""
        self._background.wait(lambda: self._inner.prepare(source, **fields))

    def lock(self, source: Source | None = None, *, refresh: bool = False, **fields: Unpack[EnvironmentFields]) -> Lock:
        """Resolve a tool's requirements to a lock; see `AsyncSandbox.lock`."""
        return self._background.wait(lambda: self._inner.lock(source, refresh=refresh, **fields))

    def build(
        self, source: Source | None = None, *, lock: Lock | None = None, **fields: Unpack[EnvironmentFields]
    ) -> Environment:
        """Build an environment into the store; see `AsyncSandbox.build`."""
        return self._background.wait(lambda: self._inner.build(source, lock=lock, **fields))

    def statistics(self) -> PoolStatistics:
        """Return how many boxes there are, and how calls got theirs; see `AsyncSandbox.statistics`."""
        return self._background.wait(self._inner.statistics)

    def check(self, source: Source, **fields: Unpack[ReadingFields]) -> CheckReport:
        """Return every problem of a source, and its functions; see `AsyncSandbox.check`."""
        return self._background.wait(lambda: self._inner.check(source, **fields))

    def schema(
        self,
        source: Source,
        *,
        format: str | None = None,
        strict: bool = False,
        **fields: Unpack[ReadingFields],
    ) -> Export:
        """Return the tool's schema in the shape `format`; see `AsyncSandbox.schema`."""
        return self._background.wait(lambda: self._inner.schema(source, format=format, strict=strict, **fields))

    def metadata(self, source: Source, **fields: Unpack[ReadingFields]) -> tuple[ToolRecord, ...]:
        """Return the record of each tool in a source; see `AsyncSandbox.metadata`."""
        return self._background.wait(lambda: self._inner.metadata(source, **fields))

    def doctor(self) -> Checkup:
        """Find out what this host can do; see `AsyncSandbox.doctor`."""
        return self._background.wait(self._inner.doctor)

    def close(self) -> None:
        """End every call, close every box, and end the background thread."""
        self._background.close(self._inner.close)


async def _next(events: AsyncGenerator[Event]) -> Event:
    return await anext(events)


async def _cancel(events: AsyncGenerator[Event]) -> CallCancelled | None:
    """Cancel the call of a stream and return the outcome that its cancellation carries, if any."""
    try:
        await events.athrow(asyncio.CancelledError())
    except asyncio.CancelledError as cancelled:
        return CallCancelled.of(cancelled)
    except StopAsyncIteration:
        return None
    return None


def _cut_short(batch: Batch, error: BaseException) -> BatchCancelled:
    """Return the outcomes of a batch as the cause of the error that ended it."""
    cut_short = batch.cut_short()
    cut_short.__cause__ = error.__cause__
    return cut_short
