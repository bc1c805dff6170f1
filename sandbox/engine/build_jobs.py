"""Build jobs: the engine's own programs, each one call in a box of its own, that build environments.

A job is a call like any other, with the same isolation, limits and verdict. Its program is the engine's own, and its
box shows some folders besides the interpreter. The box is gone before the job is over: the engine reads what a job left
in its folder, and nothing may change that meanwhile.
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
from sandbox.engine.receipts import read_layers
from sandbox.engine.request import box_environment, build_request
from sandbox.engine.result import CallResult
from sandbox.engine.streams import StreamListener
from sandbox.engine.supervisor import CallSupervisor
from sandbox.engine.verdict import judge
from sandbox.environments.build_jobs import BUILD, Job, JobEnd
from sandbox.errors import StoreUnwritable
from sandbox.outcome import Status
from sandbox.outputs.budgets import Budgets, DeclaredOutputs
from sandbox.outputs.shapes import STDERR_TYPE
from sandbox.policy import Output, ReuseMode, format_bytes
from sandbox.pool.box import Lease
from sandbox.pool.pool import Pool
from sandbox.protocol.frames import Stream
from sandbox.resources import find_folder
from sandbox.spec import CallSpec
from sandbox.threads import Threads, in_own_thread
from sandbox.tools import ToolDefinition, read_tool

_MAX_STDERR: Final = 16384
_MAX_LINE: Final = 1000
_POLICY_FIELDS: Final = {"disk": "build_disk", "wall": "build_time", "cpu": "build_time", "memory": "build_memory"}
"""The field of a policy that grants each limit to builds."""
_CHECK_S: Final = 0.05
_MAX_BETWEEN_SCANS_S: Final = 0.5
_SUDDEN_SHARE: Final = 8
_KEPT_FREE: Final = 1 << 30
_PAUSE_FACTOR: Final = 4
"""The pause before the next scan, as a multiple of the time that the last one took."""


class BoxJobRunner:
    """Runs jobs in boxes of the pool's backend."""

    def __init__(self, pool: Pool, threads: Threads) -> None:
        self._pool = pool
        self._threads = threads

    async def run(self, job: Job) -> JobEnd:
        """Run the job to its end. No process of it runs any more when this returns."""
        tool = _program(job.program, job.entry)
        spec = CallSpec(source=tool.text, policy=job.policy, tenant=job.tenant)
        request = build_request(spec, tool, job.arguments, job.policy)
        async with self._pool.lease_exclusively(_plan(job)) as lease:
            return await _run_on_lease(job, lease, request, self._threads)


async def _run_on_lease(job: Job, lease: Lease, request: bytes, threads: Threads) -> JobEnd:
    listener = StreamListener(_LineSplitter(job.on_line)) if job.on_line else None
    supervisor = CallSupervisor(lease, policy=job.policy, threads=threads, budgets=_budgets(), listener=listener)
    running = supervisor.run(request, limits={}, value_limit=job.policy.limits.value)
    result = await _within_disk(job, asyncio.ensure_future(running))
    if isinstance(result, str):
        return JobEnd(problem=result)
    verdict = judge(result.end)
    said = "" if result.stderr is None else result.stderr.capture.text()
    if verdict.status is Status.OK:
        read_layers(result.layers, policy=job.policy)
        limit = f"limit (memory){_set_by('memory')}" if result.end.reading.out_of_memory_kills else ""
        return JobEnd(value=verdict.value, limit=limit, said=said)
    if lease.pooled.session.fault is not None:
        return JobEnd(problem=str(lease.pooled.session.fault), is_lost=True, said=said)
    limit = f" ({verdict.limit_name})" if verdict.limit_name else ""
    message = verdict.error.message if verdict.error else ""
    return JobEnd(
        problem=f"{verdict.status.value}{limit}: {message}{_set_by(verdict.limit_name)}",
        is_late=verdict.status is Status.TIMEOUT,
        is_lost=result.end.was_lost and verdict.status is Status.CRASHED,
        said=said,
    )


def _set_by(limit: str | None) -> str:
    """Return where a user finds the limit: a job has the limits that a policy grants to builds."""
    name = _POLICY_FIELDS.get(limit or "")
    return f", as environment.{name} in the policy says" if name else ""


@cache
def _budgets() -> Budgets:
    """Show more of stderr than a call does, for a user who looks for the fault in a build."""
    return Budgets(DeclaredOutputs(), Output(budgets=((STDERR_TYPE, _MAX_STDERR),)))


async def _within_disk(job: Job, running: asyncio.Task[CallResult]) -> CallResult | str:
    """Return the job's result, or what it left too much of in its folder. No control of the kernel counts that."""
    watch = _DiskWatch(job)
    try:
        while not (await asyncio.wait({running}, timeout=_CHECK_S))[0]:
            excess = await in_own_thread(watch.scan) if watch.is_due() else None
            if excess is not None:
                return excess
        return running.result()
    finally:
        if not running.done():
            running.cancel()
            await asyncio.wait({running})


class _DiskWatch:
    """Decides when to scan a job's folder, which takes a while: now and then, and at once if the disk suddenly has much
    less room. Asking for that room is cheap."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._min_free = _min_free(job)
        self._sudden = (job.disk or 0) // _SUDDEN_SHARE
        self._earliest = time.monotonic()
        self._latest = self._earliest + _MAX_BETWEEN_SCANS_S
        self._free = self._free_now()

    def is_due(self) -> bool:
        """Return whether to scan now."""
        now, free = time.monotonic(), self._free_now()
        self._free = max(self._free, free)
        is_sudden = self._free - free > self._sudden or free < self._min_free
        return now >= self._latest or (is_sudden and now >= self._earliest)

    def scan(self) -> str | None:
        """Return what is too much in the folder, or None."""
        begun, self._free = time.monotonic(), self._free_now()
        excess = _excess(self._job, self._min_free)
        now = time.monotonic()
        self._earliest = now + _PAUSE_FACTOR * (now - begun)
        self._latest = max(self._earliest, now + _MAX_BETWEEN_SCANS_S)
        return excess

    def _free_now(self) -> int:
        return 0 if self._job.folder is None else shutil.disk_usage(self._job.folder).free


def _min_free(job: Job) -> int:
    """Return how much must stay free on the disk of the folder. Files without a name show up nowhere else."""
    return 0 if job.folder is None else min(_KEPT_FREE, shutil.disk_usage(job.folder).free // 2)


def _excess(job: Job, min_free: int) -> str | None:
    """Return what is too much below the job's folder, roughly, because the folder changes meanwhile.

    Raise `StoreUnwritable` if the disk itself runs full.
    """
    if job.folder is None or job.disk is None:
        return None
    if shutil.disk_usage(job.folder).free < min_free:
        raise StoreUnwritable(
            f"the disk that builds write to is nearly full: less than {format_bytes(min_free)} is left",
            remedy="free some space, for example with `sandbox env prune`",
        )
    max_files, size, count, hidden = job.policy.limits.inodes, 0, 0, _HiddenFolders()
    for parent, folders, names in os.walk(job.folder, onerror=hidden):
        count += len(folders) + len(names)
        size += sum(_bytes_of(os.path.join(parent, name)) for name in (*folders, *names))
        if count > max_files:
            return f"limit (inodes): it left more than {max_files} files"
        if size > job.disk:
            return f"limit (disk): it left more than {format_bytes(job.disk)}{_set_by('disk')}"
    return "limit (disk): it left a folder that cannot be listed, so its size is unknown" if hidden.any else None


def _bytes_of(path: str) -> int:
    """Return the bytes that are allocated for a file."""
    try:
        return os.lstat(path).st_blocks * 512
    except OSError:
        return 0


class _HiddenFolders:
    """Notes a folder that may not be listed. Without root, a job runs as the engine's own user."""

    any = False

    def __call__(self, error: OSError) -> None:
        self.any = self.any or isinstance(error, PermissionError)


def _plan(job: Job) -> BoxPlan:
    """Return the plan of a single-use box that shows the job's folders."""
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


class _LineSplitter:
    """Passes each whole line of stdout on, and grants at once what it takes."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._rest = b""

    def __call__(self, stream: Stream, data: bytes, grant: Callable[[int], None]) -> None:
        grant(len(data))
        if stream is not Stream.STDOUT:
            return
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-_MAX_STDERR:]
        for line in lines:
            self._on_line(line.decode("utf-8", "replace")[:_MAX_LINE])
