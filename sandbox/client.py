"""What users hold: `AsyncSandbox`, and `Sandbox`, the same for programs without an event loop. No logic.

`Sandbox` drives one `AsyncSandbox` on an event loop of its own, in one background thread. So both have the same
methods, the same engine and the same behaviour, and a `Sandbox` may be used from any number of threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from sandbox.backends import open_backend
from sandbox.backends.base import Backend
from sandbox.background import BackgroundLoop
from sandbox.configuration import load_configuration
from sandbox.engine import DEFAULT_CONCURRENCY, DEFAULT_WARM_MEMORY, Engine, Settings
from sandbox.environments import Environment
from sandbox.environments.progress import OnProgress, nobody
from sandbox.errors import EngineClosed, SpecError
from sandbox.outcome import Outcome
from sandbox.outputs.artifacts.store import ArtifactStore
from sandbox.outputs.tokens import Tokenizer
from sandbox.policy import Policy
from sandbox.pool import PoolStatistics
from sandbox.spec import CallSpec, EnvironmentSpec, call_spec, environment_spec, plain_spec, reading_spec

if TYPE_CHECKING:
    from sandbox.environments.lock import Lock
    from sandbox.outputs.artifacts.reading import Artifacts, AsyncArtifacts
    from sandbox.streaming import Event
    from sandbox.tools.check import CheckReport
    from sandbox.tools.metadata import ToolRecord
    from sandbox.tools.schemas import Export

_MOST_SOURCE_FILE: Final = 6 << 20


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
        policy: str | Policy = "default",
        concurrency: int = DEFAULT_CONCURRENCY,
        warm_memory: int = DEFAULT_WARM_MEMORY,
        store: str | Path | None = None,
        artifact_store: str | Path | ArtifactStore | None = None,
        tokenizer: Tokenizer | None = None,
        offline: bool = False,
        on_progress: OnProgress = nobody,
    ) -> None:
        if concurrency < 1 or warm_memory < 0:
            raise SpecError("concurrency is at least 1, and warm_memory not negative")
        self._backend = backend
        self._policy = policy
        self._settings = Settings(
            concurrency=concurrency,
            warm_memory=warm_memory,
            store=None if store is None else _store_place(store),
            artifacts=_artifact_store(artifact_store),
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

    async def run(self, source: str | bytes | Path, args: Mapping[str, Any] | None = None, **fields: Any) -> Outcome:
        """Run one call. `source` is a tool's text or the path of its file; `fields` are those of `CallSpec`:
        entry, requirements, policy, limits, env, state, agent_id, ctx, client, permitted, files, return_char_limit,
        outputs, tokens, strict_return, tenant, filename, call_id, trace_id."""
        return await self._opened().run(self._spec(source, args, fields))

    def stream(
        self, source: str | bytes | Path, args: Mapping[str, Any] | None = None, **fields: Any
    ) -> AsyncGenerator[Event]:
        """Run one call and give what it prints (`Printed`) and, if it is a generator, what it gives (`Progress`) as it
        comes; the last event is `Finished` with the outcome."""
        from sandbox.streaming import stream_call

        return stream_call(lambda: (self._opened(), self._spec(source, args, fields)))

    async def map(self, source: str | bytes | Path, args: Iterable[Mapping[str, Any]], **fields: Any) -> list[Outcome]:
        """Run one tool with many arguments, as many at once as the engine takes; outcomes in the order given."""
        engine = self._opened()
        specs = [self._spec(source, each, fields) for each in args]
        calls = [asyncio.create_task(engine.run(spec)) for spec in specs]
        try:
            return await asyncio.gather(*calls)
        finally:
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    async def prepare(self, source: str | bytes | Path, **fields: Any) -> None:
        """Have the environment and a warm box for this tool ready before its first call."""
        await self._opened().prepare(self._spec(source, None, fields))

    async def lock(self, source: str | bytes | Path | None = None, *, refresh: bool = False, **fields: Any) -> Lock:
        """What a tool's requirements come to, package by package. `fields`: requirements, requires_python, policy,
        tenant, filename. What was found before is told again, unless `refresh` asks the indexes."""
        return await self._opened().lock(self._environment(source, fields), refresh=refresh)

    async def build(
        self, source: str | bytes | Path | None = None, *, lock: Lock | None = None, **fields: Any
    ) -> Environment:
        """Have an environment in the store; of a `lock`, if one is given. `fields` are those of `lock`."""
        return await self._opened().build(self._environment(source, fields), lock=lock)

    async def statistics(self) -> PoolStatistics:
        """What boxes there are now, and how calls came by theirs: found warm, opened ahead, or waited for."""
        return await self._opened().statistics()

    async def check(self, source: str | bytes | Path, **fields: Any) -> CheckReport:
        """Everything that is wrong with a source, everything it can be called as, and what models are told of it.
        `fields`: entry, filename. Nothing of it is executed, and no box is opened."""
        from sandbox.tools.check import check_source

        spec = reading_spec({**_text_of(source), **fields})
        report = await asyncio.to_thread(check_source, spec.source, filename=spec.filename, entry=spec.entry)
        return report.model_copy(deep=True)  # the caller's own: what is remembered serves others, too

    async def schema(
        self, source: str | bytes | Path, *, format: str | None = None, strict: bool = False, **fields: Any
    ) -> Export:
        """The tool's schema, `{"name", "description", "parameters"}`, or in the shape `format`: openai,
        openai-responses, anthropic, mcp or json; and what that shape could not say. `fields` are those of `check`."""
        from sandbox.tools.schema import exported_schema

        report = await self.check(source, **fields)
        return exported_schema(report, shape=format, strict=strict)

    async def metadata(self, source: str | bytes | Path, **fields: Any) -> tuple[ToolRecord, ...]:
        """What people are shown of each tool that a source defines: names, weights, methods. `fields` as in `check`."""
        return (await self.check(source, **fields)).metadata

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
            self._engine = Engine(_backend(self._backend), self._settings)
        self._refuse_elsewhere()
        return self._engine

    def _refuse_elsewhere(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise EngineClosed(
                "the engine was opened on another event loop",
                remedy="open one on each event loop, or use Sandbox, which has a loop of its own and serves any thread",
            )

    def _environment(self, source: str | bytes | Path | None, fields: Mapping[str, Any]) -> EnvironmentSpec:
        return environment_spec({"policy": self._policy, **fields, **_text_of(source)})

    def _spec(self, source: str | bytes | Path, args: Mapping[str, Any] | None, fields: Mapping[str, Any]) -> CallSpec:
        """A call for which nothing else is said needs no second look once one under our policy was in order."""
        if not fields and type(source) is str and type(args) is dict and self._has_fitting_policy:
            return plain_spec(source, args, self._policy)
        spec = call_spec({"policy": self._policy, **_text_of(source), **fields, "args": args})
        self._has_fitting_policy = self._has_fitting_policy or "policy" not in fields
        return spec


class Sandbox:
    """The same for programs without an event loop; close it, or use it in a `with`."""

    def __init__(  # noqa: PLR0913  (each is one thing to be chosen)
        self,
        *,
        backend: str | Backend | None = None,
        policy: str | Policy = "default",
        concurrency: int = DEFAULT_CONCURRENCY,
        warm_memory: int = DEFAULT_WARM_MEMORY,
        store: str | Path | None = None,
        artifact_store: str | Path | ArtifactStore | None = None,
        tokenizer: Tokenizer | None = None,
        offline: bool = False,
        on_progress: OnProgress = nobody,
    ) -> None:
        self._store_of_artifacts = _artifact_store(artifact_store)
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

    def run(self, source: str | bytes | Path, args: Mapping[str, Any] | None = None, **fields: Any) -> Outcome:
        """Run one call; see `AsyncSandbox.run`."""
        return self._background.wait(lambda: self._inner.run(source, args, **fields))

    def stream(
        self, source: str | bytes | Path, args: Mapping[str, Any] | None = None, **fields: Any
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

    def map(self, source: str | bytes | Path, args: Iterable[Mapping[str, Any]], **fields: Any) -> list[Outcome]:
        """Run one tool with many arguments; see `AsyncSandbox.map`."""
        return self._background.wait(lambda: self._inner.map(source, args, **fields))

    def prepare(self, source: str | bytes | Path, **fields: Any) -> None:
        """Have a warm box for this tool ready; see `AsyncSandbox.prepare`."""
        self._background.wait(lambda: self._inner.prepare(source, **fields))

    def lock(self, source: str | bytes | Path | None = None, *, refresh: bool = False, **fields: Any) -> Lock:
        """What a tool's requirements come to; see `AsyncSandbox.lock`."""
        return self._background.wait(lambda: self._inner.lock(source, refresh=refresh, **fields))

    def build(
        self, source: str | bytes | Path | None = None, *, lock: Lock | None = None, **fields: Any
    ) -> Environment:
        """Have an environment in the store; see `AsyncSandbox.build`."""
        return self._background.wait(lambda: self._inner.build(source, lock=lock, **fields))

    def statistics(self) -> PoolStatistics:
        """What boxes there are now, and how calls came by theirs; see `AsyncSandbox.statistics`."""
        return self._background.wait(self._inner.statistics)

    def check(self, source: str | bytes | Path, **fields: Any) -> CheckReport:
        """Everything that is wrong with a source, and what it can be called as; see `AsyncSandbox.check`."""
        return self._background.wait(lambda: self._inner.check(source, **fields))

    def schema(
        self, source: str | bytes | Path, *, format: str | None = None, strict: bool = False, **fields: Any
    ) -> Export:
        """The tool's schema in a shape of your choice; see `AsyncSandbox.schema`."""
        return self._background.wait(lambda: self._inner.schema(source, format=format, strict=strict, **fields))

    def metadata(self, source: str | bytes | Path, **fields: Any) -> tuple[ToolRecord, ...]:
        """What people are shown of each tool that a source defines; see `AsyncSandbox.metadata`."""
        return self._background.wait(lambda: self._inner.metadata(source, **fields))

    def close(self) -> None:
        """End every call, close every box, and end the background thread."""
        self._background.close(self._inner.close)


def _text_of(source: str | bytes | Path | None) -> dict[str, Any]:
    """The fields that a source comes to: a file's own name goes with its text."""
    return {"source": _read_file(source), "filename": source.name} if isinstance(source, Path) else {"source": source}


def _read_file(path: Path) -> bytes:
    """The file's bytes; a file that cannot be a tool's source is refused before it is read."""
    try:
        if not path.is_file():
            raise SpecError(f"{path} is not a file" if path.exists() else f"there is no file {path}")
        if path.stat().st_size > _MOST_SOURCE_FILE:
            raise SpecError(f"{path} is {path.stat().st_size} bytes, too large for a tool's source")
        return path.read_bytes()
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error.strerror}") from None


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


def _store_place(chosen: str | Path) -> Path:
    from sandbox.environments.disk.places import named_place

    return named_place(chosen)


def _artifact_store(chosen: str | Path | ArtifactStore | None) -> ArtifactStore:
    """That one; nothing is made before there is something to keep."""
    if isinstance(chosen, ArtifactStore):
        return chosen
    return ArtifactStore(None if chosen is None else Path(chosen))


def _backend(chosen: str | Backend | None) -> Backend:
    """What was said; otherwise what is configured."""
    if isinstance(chosen, Backend):
        return chosen
    configuration = load_configuration()
    return open_backend(configuration.backend if chosen is None else chosen, configuration)
