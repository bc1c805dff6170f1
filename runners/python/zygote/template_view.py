"""The zygote's view of a template: whether it rests, and whether its environment runs anything else.

All facts come from the kernel, through /proc. The template itself is never asked.
"""

from __future__ import annotations

import os
import time

from box import processes, verification

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from zygote.child import Child

_STOP_S = 10.0


class TemplateLost(Exception):
    """The template cannot be used any more; the text says why."""


class TemplateView:
    """A template, seen from outside."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.known: Callable[[], set[int]] = set
        """The guards that the zygote has forked and not reaped."""
        self._own = verification.own_number()
        self._descriptors = self._threads = 0

    @property
    def rests(self) -> bool:
        """Whether the template is stopped."""
        return verification.state_of(self.pid)[0] == verification.STOPPED

    def used_since(self, begun: float) -> dict[str, Any]:
        """Return the usage since then: `wall_s`, `cpu_s` and `memory`."""
        peak = verification.field_of(self.pid, "VmHWM").split()
        return {
            "wall_s": round(time.monotonic() - begun, 6),
            "cpu_s": round(verification.cpu_seconds(self.pid) + processes.children_seconds(self.pid), 6),
            "memory": int(peak[0]) * 1024 if peak else None,
        }

    def await_stop(self) -> None:
        """Wait until the template has stopped itself.

        A signal from here could stop it earlier, and its own stop would then follow the next order.
        """
        until, pause = time.monotonic() + _STOP_S, 0.0
        while self._state() != verification.STOPPED:
            if time.monotonic() > until:
                raise TemplateLost("the process that imports its packages does not stop")
            time.sleep(pause)
            pause = min(pause + 0.00005, 0.001)

    def _state(self) -> str:
        state, self._threads = verification.state_of(self.pid)
        if state in ("", "Z", "X"):
            raise TemplateLost("its packages ended the process that imports them")
        return state

    def strangers(self) -> list[int]:
        """Return the processes that the template started: all that are neither ours nor a call's."""
        found = [*processes.children(self.pid)]
        for pid in found:
            found += processes.children(pid)
        return found + [pid for pid in processes.children(int(self._own)) if not self._is_known(pid)]

    def _is_known(self, pid: int) -> bool:
        """Whether a process is ours; reap it if it has ended."""
        return pid == self.pid or pid in self.known() or processes.is_reaped(pid)

    def check_threads(self) -> None:
        """Make sure that the template had one thread when it stopped."""
        if self._threads != 1:
            raise TemplateLost("its packages leave threads, so no fork of them is safe")

    def note_descriptors(self) -> None:
        """Allow the template no more descriptors than it has now."""
        self._descriptors = self._count_descriptors()

    def _count_descriptors(self) -> int:
        try:
            return len(os.listdir("/proc/%d/fd" % self.pid))
        except OSError as error:
            raise TemplateLost("its packages keep the zygote from looking: %s" % error.strerror) from error

    def check_alone(self, child: Child | None) -> None:
        """Make sure that the environment runs nothing but processes of calls, each verified, and this new one."""
        self.check_threads()
        if self.strangers():
            raise TemplateLost("its packages start processes of their own")
        if self._count_descriptors() > self._descriptors:
            raise TemplateLost("its packages keep descriptors of calls")
        if child is None:
            return
        born = processes.children(child.pid)
        if len(born) != 1 or processes.children(born[0]):
            raise TemplateLost("its packages start processes in a call")
        child.tool = born[0]


def check_groups(pid: int, *, like: int) -> None:
    """Make sure that a process is in the control groups of its guard; TemplateLost if not."""
    if verification.read_file("/proc/%d/cgroup" % pid) != verification.read_file("/proc/%d/cgroup" % like):
        raise TemplateLost("the call's process is not in its control group")
