"""Jobs of the engine's own, each one call in a box of its own: how environments get built.

A job is a call like any other: the same walls, limits and verdict. It differs in who wrote the program (we did), in
what its box sees beside the interpreter, and in that its box is gone before the job is over: what a job leaves in its
folder is looked at by the engine, and nothing may change it under its eyes.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable
from functools import cache
from typing import Final

from sandbox.backends.base import BoxPlan, Shown
from sandbox.engine.receipts import read_walls
from sandbox.engine.request import box_environment, build_request
from sandbox.engine.streams import StreamListener
from sandbox.engine.supervisor import CallSupervisor
from sandbox.engine.verdict import CallEnd, judge
from sandbox.environments.build_jobs import BUILD, Job, JobEnd
from sandbox.errors import StoreUnwritable
from sandbox.outcome import Status
from sandbox.outputs.budgets import Budgets, DeclaredOutputs
from sandbox.outputs.shapes import STDERR_TYPE
from sandbox.policy import Output, ReuseMode, format_bytes
from sandbox.pool.pool import Lease, Pool
from sandbox.protocol.frames import Stream
from sandbox.resources import find_folder
from sandbox.spec import CallSpec
from sandbox.threads import Threads, in_own_thread
from sandbox.tools import ToolDefinition, read_tool

_SAID: Final = 16384
_FIELDS: Final = {"disk": "build_disk", "wall": "build_time", "cpu": "build_time", "memory": "build_memory"}
_GLANCE_S: Final = 0.05
_LOOK_S: Final = 0.5
_STARTLING_PART: Final = 8
_KEPT_FREE: Final = 1 << 30
_LOOKS_AT_MOST: Final = 4
"""How many times as long as a look took to wait before the next."""


class BoxJobRunner:
    """Runs jobs in boxes of the pool's backend."""

    def __init__(self, pool: Pool, threads: Threads) -> None:
        self._pool = pool
        self._threads = threads

    async def run(self, job: Job) -> JobEnd:
        """Run it to its end; nothing of it runs any more when this returns."""
        tool = _program(job.program, job.entry)
        spec = CallSpec(source=tool.text, policy=job.policy, tenant=job.tenant)
        request = build_request(spec, tool, job.arguments, job.policy)
        async with self._pool.alone(_plan(job)) as lease:
            return await _end_of(job, lease, request, self._threads)


async def _end_of(job: Job, lease: Lease, request: bytes, threads: Threads) -> JobEnd:
    reader = StreamListener(_Lines(job.on_line)) if job.on_line else None
    watcher = CallSupervisor(lease.pooled, policy=job.policy, threads=threads, budgets=_budgets(), reader=reader)
    lease.call = watcher.start(request, limits={}, value_limit=job.policy.limits.value)
    ending = await _within_disk(job, asyncio.ensure_future(watcher.watch()))
    if isinstance(ending, str):
        return JobEnd(problem=ending)
    verdict = judge(ending)
    said = watcher.shown(Stream.STDERR).text
    if verdict.status is Status.OK:
        read_walls(bytes(watcher.call.walls), policy=job.policy)
        limit = f"limit (memory){_set_by('memory')}" if ending.reading.out_of_memory_kills else ""
        return JobEnd(value=verdict.value, limit=limit, said=said)
    if lease.pooled.session.fault is not None:
        return JobEnd(problem=str(lease.pooled.session.fault), is_lost=True, said=said)
    limit = f" ({verdict.limit_name})" if verdict.limit_name else ""
    message = verdict.error.message if verdict.error else ""
    return JobEnd(
        problem=f"{verdict.status.value}{limit}: {message}{_set_by(verdict.limit_name)}",
        is_late=verdict.status is Status.TIMEOUT,
        is_lost=ending.was_lost and verdict.status is Status.CRASHED,
        said=said,
    )


def _set_by(limit: str | None) -> str:
    """Where people find the limit: a job has those that a policy grants to builds."""
    field = _FIELDS.get(limit or "")
    return f", as environment.{field} in the policy says" if field else ""


@cache
def _budgets() -> Budgets:
    """Who builds an environment wants to see more of what went wrong."""
    return Budgets(DeclaredOutputs(), Output(budgets=((STDERR_TYPE, _SAID),)))


async def _within_disk(job: Job, watching: asyncio.Task[CallEnd]) -> CallEnd | str:
    """Its end; or what it left too much of in its folder, which no control of the kernel counts."""
    looks = _Looks(job)
    try:
        while not (await asyncio.wait({watching}, timeout=_GLANCE_S))[0]:
            excess = await in_own_thread(looks.look) if looks.is_due() else None
            if excess is not None:
                return excess
        return watching.result()
    finally:
        if not watching.done():
            watching.cancel()
            await asyncio.wait({watching})


class _Looks:
    """When to look at all that is in a job's folder, which takes a while: now and then, and at once when the disk has
    lost a good part of what the job may leave. That takes a glance, and is the doing of whoever writes there."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._least_free = _least_free(job)
        self._startling = (job.disk or 0) // _STARTLING_PART
        self._earliest = time.monotonic()
        self._latest = self._earliest + _LOOK_S
        self._free = self._free_now()

    def is_due(self) -> bool:
        """Whether it is time."""
        now, free = time.monotonic(), self._free_now()
        self._free = max(self._free, free)
        is_startling = self._free - free > self._startling or free < self._least_free
        return now >= self._latest or (is_startling and now >= self._earliest)

    def look(self) -> str | None:
        """What is too much, if anything."""
        begun, self._free = time.monotonic(), self._free_now()
        excess = _excess(self._job, self._least_free)
        now = time.monotonic()
        self._earliest = now + _LOOKS_AT_MOST * (now - begun)
        self._latest = max(self._earliest, now + _LOOK_S)
        return excess

    def _free_now(self) -> int:
        return 0 if self._job.folder is None else shutil.disk_usage(self._job.folder).free


def _least_free(job: Job) -> int:
    """What must stay free on the disk that its folder is on: files without a name are seen nowhere else."""
    return 0 if job.folder is None else min(_KEPT_FREE, shutil.disk_usage(job.folder).free // 2)


def _excess(job: Job, least_free: int) -> str | None:
    """What is too much below its folder, if anything, about: it changes while it is looked at. Raises `StoreUnwritable`
    when the disk itself runs full."""
    if job.folder is None or job.disk is None:
        return None
    if shutil.disk_usage(job.folder).free < least_free:
        raise StoreUnwritable(
            f"less than {format_bytes(least_free)} is left on the disk that a build writes to",
            remedy="make room, for example with `sandbox env prune`",
        )
    most_files, size, count, hidden = job.policy.limits.inodes, 0, 0, _Hidden()
    for parent, folders, names in os.walk(job.folder, onerror=hidden):
        count += len(folders) + len(names)
        size += sum(_bytes_of(os.path.join(parent, name)) for name in (*folders, *names))
        if count > most_files:
            return f"limit (inodes): it left more than {most_files} files"
        if size > job.disk:
            return f"limit (disk): it left more than {format_bytes(job.disk)}{_set_by('disk')}"
    return (
        "limit (disk): it left a folder that it closed, so that nobody can tell how much is in it"
        if hidden.any
        else None
    )


def _bytes_of(path: str) -> int:
    """What is allocated for it."""
    try:
        return os.lstat(path).st_blocks * 512
    except OSError:
        return 0


class _Hidden:
    """Notes whether there is a folder that may not be listed; without root a job's user is ours."""

    any = False

    def __call__(self, error: OSError) -> None:
        self.any = self.any or isinstance(error, PermissionError)


def _plan(job: Job) -> BoxPlan:
    """A box for one call, with the places the job is to see."""
    reuse = job.policy.reuse.model_copy(update={"mode": ReuseMode.NEVER})
    shown = [Shown(source, target) for target, source in job.readable.items()]
    if job.folder is not None:
        shown.append(Shown(job.folder, BUILD, is_writable=True))
    policy = job.policy.model_copy(update={"reuse": reuse})
    variables = box_environment(policy)
    return BoxPlan(policy, job.interpreter, environment=variables, shown=tuple(shown), gateway=job.gateway)


@cache
def _program(name: str, entry: str) -> ToolDefinition:
    path = find_folder("runners") / "builder" / f"{name}.py"
    return read_tool(path.read_bytes(), filename=path.name, entry=entry)


class _Lines:
    """Tells each whole line of stdout once; what is taken is granted at once."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._rest = b""

    def __call__(self, stream: Stream, data: bytes, grant: Callable[[int], None]) -> None:
        grant(len(data))
        if stream is not Stream.STDOUT:
            return
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-_SAID:]
        for line in lines:
            self._tell(line.decode("utf-8", "replace")[:1000])
