"""What users hold: `AsyncSandbox`, and `Sandbox`, the same for programs without an event loop. No logic.

`Sandbox` drives one `AsyncSandbox` on an event loop of its own, in one background thread. So both have the same
methods, the same engine and the same behaviour, and a `Sandbox` may be used from any number of threads.
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
from sandbox.environments.progress import OnProgress, nobody
from sandbox.errors import EngineClosed, SpecError
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
"""Calls of a batch for each that the engine lets run at once: when one ends, the next is at hand."""


class AsyncSandbox:
    """An engine to run tools with; close it, or use it in an `async with`.

    `backend` is a name or a `Backend`, otherwise what is configured (see `configuration`); `policy` is what calls run
    under that name none. Environments are kept in the folder `store`; `offline` asks no package index for them;
    `on_progress` is told how building them goes. Artifacts are kept in the folder `artifact_store`, or in
    that very store. `tokenizer` gives the tokens of a text, or their number, for budgets in tokens.
    """

    def __init__(  # noqa: PLR0913  (each is one thing to be chosen)
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
        on_progress: OnProgress = nobody,
    ) -> None:
        for name, number, least in (("concurrency", concurrency, 1), ("warm_memory", warm_memory, 0)):
            if type(number) is not int or number < least:
                raise SpecError(f"{name} is a whole number, {least} or more, not {number!r:.80}")
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
        """What calls left, and what was too long to show: to be listed, shown, searched and saved."""
        from sandbox.outputs.artifacts.reading import AsyncArtifacts

        return AsyncArtifacts(self._settings.artifacts)

    async def __aenter__(self) -> Self:
        self._opened()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(self, source: Source, args: Mapping[str, Any] | None = None, **fields: Unpack[CallFields]) -> Outcome:
        """Run one call. `source` is a tool's text or the path of its file; `fields` are what else can be said of it,
        such as policy, limits, requirements, files or tenant: see `CallFields`."""
        return await self._opened().run(self._spec(source, args, fields))

    def stream(
        self, source: Source, args: Mapping[str, Any] | None = None, **fields: Unpack[CallFields]
    ) -> AsyncGenerator[Event]:
        """Run one call and give what it prints (`Printed`) and, if it is a generator, what it gives (`Progress`) as it
        comes; the last event is `Finished` with the outcome."""
        from sandbox.client.stream import stream_call

        return stream_call(lambda: (self._opened(), self._spec(source, args, fields)))

    async def map(
        self, source: Source, args: Iterable[Mapping[str, Any]], **fields: Unpack[CallFields]
    ) -> list[Outcome]:
        """Run one tool with many arguments, as many at once as the engine takes; outcomes in the order given.

        Arguments are asked for as calls come to their turns. What ends it early, be it an error or a cancellation, has
        what came of each call until then as its `outcomes`, with None for a call of which nothing did."""
        batch = await self._batch(source, fields)
        try:
            for each in args:
                await batch.add(each)
            return await batch.outcomes()
        except BaseException as error:
            await batch.end()
            vars(error)["outcomes"] = batch.so_far
            raise

    async def _batch(self, source: Source, fields: CallFields) -> Batch:
        """Calls of one tool, to be added one by one."""
        engine = self._opened()
        most = _UNDER_WAY_PER_TURN * self._settings.concurrency
        return Batch(lambda args: engine.run(self._spec(source, args, fields)), most=most)

    async def prepare(self, source: Source, **fields: Unpack[CallFields]) -> None:
        """Have the environment and a warm box for this tool ready before its first call."""
        await self._opened().prepare(self._spec(source, None, fields))

    async def lock(
        self, source: Source | None = None, *, refresh: bool = False, **fields: Unpack[EnvironmentFields]
    ) -> Lock:
        """What a tool's requirements come to, package by package. What was found before is told again, unless `refresh`
        asks the indexes."""
        return await self._opened().lock(self._environment(source, fields), refresh=refresh)

    async def build(
        self, source: Source | None = None, *, lock: Lock | None = None, **fields: Unpack[EnvironmentFields]
    ) -> Environment:
        """Have an environment in the store; of a `lock`, if one is given."""
        return await self._opened().build(self._environment(source, fields), lock=lock_of(lock))

    async def statistics(self) -> PoolStatistics:
        """What boxes there are now, and how calls came by theirs: found warm, opened ahead, or waited for."""
        return await self._opened().statistics()

    async def check(self, source: Source, **fields: Unpack[ReadingFields]) -> CheckReport:
        """Everything that is wrong with a source, everything it can be called as, and what models are told of it.
        Nothing of it is executed, and no box is opened."""
        from sandbox.tools.check import check_source

        spec = reading_spec({**source_fields(source), **fields})
        reading = partial(check_source, spec.source, filename=spec.filename, entry=spec.entry)
        report = await in_own_thread(reading)
        return report.model_copy(deep=True)  # the caller's own: what is remembered serves others, too

    async def schema(
        self,
        source: Source,
        *,
        format: str | None = None,
        strict: bool = False,
        **fields: Unpack[ReadingFields],
    ) -> Export:
        """The tool's schema, `{"name", "description", "parameters"}`, or in the shape `format`: openai,
        openai-responses, anthropic, mcp or json; and what that shape could not say."""
        from sandbox.tools.tool_schema import exported_schema

        report = await self.check(source, **fields)
        return exported_schema(report, shape=format, strict=strict)

    async def metadata(self, source: Source, **fields: Unpack[ReadingFields]) -> tuple[ToolRecord, ...]:
        """What people are shown of each tool that a source defines: names, weights, methods."""
        return (await self.check(source, **fields)).metadata

    async def doctor(self) -> Checkup:
        """What this host can do, found out by real calls: which walls are up, which policies run, which limits bite."""
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
        """A call for which nothing else is said needs no second look once one under our policy was in order."""
        if not fields and type(source) is str and type(args) is dict and self._has_fitting_policy:
            return plain_spec(source, args, self._policy)
        spec = call_spec({**source_fields(source), **self._under_policy(fields), "args": args})
        self._has_fitting_policy = self._has_fitting_policy or fields.get("policy") is None
        return spec

    def _under_policy(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The engine's own policy, where these fields name none; None is none."""
        policy = fields.get("policy")
        return {**fields, "policy": self._policy if policy is None else policy}


class Sandbox:
    """The same for programs without an event loop; close it, or use it in a `with`."""

    def __init__(  # noqa: PLR0913  (each is one thing to be chosen)
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
        on_progress: OnProgress = nobody,
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
        """What calls left, and what was too long to show; see `AsyncSandbox.artifacts`."""
        from sandbox.outputs.artifacts.reading import Artifacts

        return Artifacts(self._store_of_artifacts)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, source: Source, args: Mapping[str, Any] | None = None, **fields: Unpack[CallFields]) -> Outcome:
        """Run one call; see `AsyncSandbox.run`."""
        return self._background.wait(lambda: self._inner.run(source, args, **fields))

    def stream(
        self, source: Source, args: Mapping[str, Any] | None = None, **fields: Unpack[CallFields]
    ) -> Generator[Event]:
        """Run one call and give what it prints as it comes; see `AsyncSandbox.stream`."""
        events = self._inner.stream(source, args, **fields)
        try:
            while True:
                try:
                    yield self._background.wait(lambda: _next(events))
                except StopAsyncIteration:
                    return
        except KeyboardInterrupt as interrupt:  # or thrown in by who was interrupted between two events
            if not vars(interrupt):
                vars(interrupt).update(self._background.wait(lambda: _cut_short(events)))
            raise
        finally:
            self._background.leave(events)

    def map(self, source: Source, args: Iterable[Mapping[str, Any]], **fields: Unpack[CallFields]) -> list[Outcome]:
        """Run one tool with many arguments, asked for in the thread of the caller; see `AsyncSandbox.map`."""
        batch = self._background.wait(lambda: self._inner._batch(source, fields))
        try:
            for each in args:
                self._background.wait(partial(batch.add, each))
            return self._background.wait(batch.outcomes)
        except BaseException as error:
            with suppress(EngineClosed):  # then they have ended
                self._background.wait(batch.end)
            vars(error)["outcomes"] = batch.so_far
            raise

    def prepare(self, source: Source, **fields: Unpack[CallFields]) -> None:
        """Have a warm box for this tool ready; see `AsyncSandbox.prepare`."""
        self._background.wait(lambda: self._inner.prepare(source, **fields))

    def lock(self, source: Source | None = None, *, refresh: bool = False, **fields: Unpack[EnvironmentFields]) -> Lock:
        """What a tool's requirements come to; see `AsyncSandbox.lock`."""
        return self._background.wait(lambda: self._inner.lock(source, refresh=refresh, **fields))

    def build(
        self, source: Source | None = None, *, lock: Lock | None = None, **fields: Unpack[EnvironmentFields]
    ) -> Environment:
        """Have an environment in the store; see `AsyncSandbox.build`."""
        return self._background.wait(lambda: self._inner.build(source, lock=lock, **fields))

    def statistics(self) -> PoolStatistics:
        """What boxes there are now, and how calls came by theirs; see `AsyncSandbox.statistics`."""
        return self._background.wait(self._inner.statistics)

    def check(self, source: Source, **fields: Unpack[ReadingFields]) -> CheckReport:
        """Everything that is wrong with a source, and what it can be called as; see `AsyncSandbox.check`."""
        return self._background.wait(lambda: self._inner.check(source, **fields))

    def schema(
        self,
        source: Source,
        *,
        format: str | None = None,
        strict: bool = False,
        **fields: Unpack[ReadingFields],
    ) -> Export:
        """The tool's schema in a shape of your choice; see `AsyncSandbox.schema`."""
        return self._background.wait(lambda: self._inner.schema(source, format=format, strict=strict, **fields))

    def metadata(self, source: Source, **fields: Unpack[ReadingFields]) -> tuple[ToolRecord, ...]:
        """What people are shown of each tool that a source defines; see `AsyncSandbox.metadata`."""
        return self._background.wait(lambda: self._inner.metadata(source, **fields))

    def doctor(self) -> Checkup:
        """What this host can do; see `AsyncSandbox.doctor`."""
        return self._background.wait(self._inner.doctor)

    def close(self) -> None:
        """End every call, close every box, and end the background thread."""
        self._background.close(self._inner.close)


async def _next(events: AsyncGenerator[Event]) -> Event:
    return await anext(events)


async def _cut_short(events: AsyncGenerator[Event]) -> dict[str, Any]:
    """Cancel the call; what that has to tell."""
    try:
        await events.athrow(asyncio.CancelledError())
    except asyncio.CancelledError as cancelled:
        return vars(cancelled)
    except StopAsyncIteration:
        return {}
    return {}
