"""The zygote's control of a template: wait for its imports, have it fork, check that nothing else runs, or end it.

The template is foreign (see zygote/template.py), so nothing it says is believed: its messages only tell when to look.
The zygote looks through /proc, whose numbers come from the kernel:

* After an import, whatever the template started is killed. If something stays, the template goes.
* After each order the template must be stopped, with one thread and without children. The only new process must be the
  one that the guard has verified, and the zygote must have no child that it did not fork. So nothing of the environment
  runs but verified processes of calls.
* An order that takes too long, or a template that ends, is the end of the template.

When a template goes, the zygote kills everything that it started. Calls then import for themselves, each inside its own
isolation.

Orders are carried out one at a time, because the check concerns all processes of the box. Guards set up their isolation
meanwhile, and wait for their turn.
"""

from __future__ import annotations

import _socket as socket
import os
import select
import time

from box import fast_json, processes, verification
from call import guard
from kernel.signals import signal
from zygote.template_view import TemplateLost, TemplateView

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from box.processes import LimitWatch
    from zygote.child import Child
    from zygote.poll_loop import PollLoop
    from zygote.template import TemplateProcess

_MAX_MESSAGE = 1 << 18
_MAX_SAID = 2048
_MAX_AT_ONCE = 16
_LOOK_S = 0.02
_ORDER_S = 10.0
"""How long a fork may take; a fork takes milliseconds, except on an overloaded machine."""
_SETTLE_ROUNDS = 5
_HANGUP = select.POLLHUP | getattr(select, "POLLRDHUP", 0)


class TemplateControl:
    """A template, as its zygote controls it."""

    def __init__(self, started: TemplateProcess) -> None:
        self.pid = started.pid
        self.used: dict[str, Any] = {}
        """The usage of the import: `wall_s`, `cpu_s` and `memory`."""
        self.restricted: dict[str, object] | None = None
        """The report about its Landlock rules."""
        self._socket = socket.socket(fileno=started.control)
        self._errors: int | None = started.errors
        self._view = TemplateView(started.pid)
        self._loop: PollLoop | None = None
        self._said = b""
        self._waiting: list[tuple[dict[str, Any] | None, Child | None]] = []
        self._child: Child | None = None
        self._is_done = self._is_busy = False
        self._watch: LimitWatch | None = None
        self._ticket = 0
        """The template answers each order with its ticket; an order of a guard that is dead may come late."""
        self._until = self._next_look = 0.0

    @property
    def control(self) -> int:
        """The descriptor by which guards send their orders."""
        return self._socket.fileno()

    @property
    def is_busy(self) -> bool:
        """Whether an order is under way."""
        return self._is_busy

    # Before the first call

    def await_import(self, hangup: Sequence[int], watch: LimitWatch, *, wall_s: float, cpu_s: float) -> dict[str, str]:
        """Wait until the packages are imported; return the modules that could not be, with the reasons.

        Raise TemplateLost if that takes more than a call may, or leaves processes that cannot be ended. The zygote ends
        if one of `hangup` closes.
        """
        begun, has_stood, self._watch = time.monotonic(), False, watch
        poll = select.poll()
        for descriptor in hangup:
            poll.register(descriptor, _HANGUP)
        poll.register(self._socket, select.POLLIN)
        if self._errors is not None:
            poll.register(self._errors, select.POLLIN)
        while True:
            ready = dict(poll.poll(_LOOK_S * 1000))
            if any(ready.get(descriptor, 0) & _HANGUP for descriptor in hangup):
                os._exit(0)
            self._hear_errors()
            for message in self._messages():
                if "standing" in message and not has_stood:
                    has_stood, self.restricted = True, message["standing"]  # before it runs anything foreign
                if "imported" in message:
                    self._end_strangers()
                    self.used = self._view.used_since(begun)
                    return _read_failures(message["imported"])
            self._check_use(watch, begun=begun, wall_s=wall_s, cpu_s=cpu_s)

    def _check_use(self, watch: LimitWatch, *, begun: float, wall_s: float, cpu_s: float) -> None:
        if time.monotonic() - begun > wall_s:
            raise TemplateLost("importing took longer than a call may (%.0f s)" % wall_s)
        if verification.cpu_seconds(self.pid) > cpu_s:
            raise TemplateLost("importing took more processor time than a call may (%.0f s)" % cpu_s)
        passed = watch.passed_by(self.pid) if watch.is_on else None
        if passed:
            raise TemplateLost("importing took more than a call's limit '%s'" % passed)

    # Orders

    def attend(
        self,
        loop: PollLoop,
        *,
        known: Callable[[], set[int]],
        on_born: Callable[[Child], None],
        on_lost: Callable[[str], None],
    ) -> None:
        """Serve from the zygote's loop from now on. `known`: the guards that the zygote has forked and not reaped."""
        self._loop, self._view.known, self._on_born, self._on_lost = loop, known, on_born, on_lost
        loop.on_readable(self._socket.fileno(), self._hear)
        if self._errors is not None:
            loop.on_readable(self._errors, self._hear_errors)

    def order(self, content: dict[str, Any], *, within_s: float = _ORDER_S) -> None:
        """Have the template import or compile something more, in turn."""
        self._waiting.append((dict(content, within_s=within_s), None))
        self._next()

    def order_process(self, child: Child) -> None:
        """Have it fork the process for this child's guard, in turn; a child that a call waits for goes first."""
        first = sum(each is not None and not each.ahead for _, each in self._waiting)
        self._waiting.insert(len(self._waiting) if child.ahead else first, (None, child))
        self._next()

    def forget(self, child: Child) -> None:
        """Forget a child that is dead or no longer wanted.

        If the child had its turn, its guard may have sent its order or not. The template answers in order, so its
        answer to a further question shows that it is through.
        """
        self._waiting = [each for each in self._waiting if each[1] is not child]
        if self._child is not child:
            return
        self._child = None
        if self._is_done:
            self._finish_if_done()
        else:
            self._ticket += 1
            self._send({"reap": True})

    def note_verified(self, child: Child) -> None:
        """Note that the guard has verified the new process."""
        if child is self._child:
            self._finish_if_done()

    def check_time(self) -> None:
        """End a template whose order takes too long or too much; called while an order is under way."""
        now = time.monotonic()
        if not self._is_busy or now < self._next_look:
            return
        self._next_look = now + _LOOK_S
        passed = self._watch.passed_by(self.pid) if self._watch and self._watch.is_on else None
        if passed:
            self._on_lost("its packages took more than a call's limit '%s'" % passed)
        elif now > self._until:
            self._on_lost("an order of the zygote took longer than %.0f s" % _ORDER_S)

    def check_rest(self) -> None:
        """Make sure that it is stopped while it has no order: packages can have a timer wake it."""
        if not self._is_busy and not self._view.rests:
            self._on_lost("its packages run without an order")

    def end(self) -> None:
        """Kill it, and whatever it started."""
        self._waiting.clear()
        self._is_busy, self._child = False, None
        for descriptor in (self._socket.fileno(), self._errors):
            if descriptor is not None and self._loop:
                self._loop.forget(descriptor)
        processes.end_process(self.pid)
        processes.end_descendants(spared=self._view.known())
        self._socket.close()
        if self._errors is not None:
            os.close(self._errors)
            self._errors = None

    def explain(self, reason: str) -> str:
        """Say what the packages did, and what they printed last."""
        said = self._said[-300:].decode("utf-8", "replace").strip()
        return "%s; its packages printed: %s" % (reason, said) if said else reason

    def _next(self) -> None:
        if self._is_busy or not self._waiting:
            return
        content, child = self._waiting.pop(0)
        self._is_busy, self._is_done, self._child = True, False, child
        self._ticket += 1
        self._until = time.monotonic() + (content.pop("within_s") if content else _ORDER_S)
        try:
            os.kill(self.pid, signal.SIGCONT)
            if child is not None:
                os.write(child.status, guard.TURN.pack(self._ticket))
        except BrokenPipeError:  # that guard is dead, which is heard next
            return
        except OSError as error:
            self._on_lost("it does not take orders: %s" % error)
            return
        if content:
            self._send(content)

    def _send(self, content: dict[str, Any]) -> None:
        try:
            data = fast_json.write(dict(content, ticket=self._ticket)).encode("ascii")
            self._socket.send(data, socket.MSG_DONTWAIT)
        except OSError as error:
            self._on_lost("it does not take orders: %s" % error)

    def _hear(self) -> None:
        try:
            messages = self._messages()
        except TemplateLost as lost:
            self._on_lost(str(lost))
            return
        for message in messages:
            if not self._is_busy:
                self._on_lost("its packages write to the zygote's socket")
                return
            if message.get("done") != self._ticket:
                self._continue()
                continue
            self._is_done = True
            if "imported" in message and not self._check_import(message["imported"]):
                return
        self._finish_if_done()

    def _continue(self) -> None:
        """Continue a template that has carried out the order of a dead guard, and stops before the next."""
        try:
            self._view.await_stop()
            os.kill(self.pid, signal.SIGCONT)
        except (TemplateLost, OSError) as error:
            self._on_lost(str(error))

    def _check_import(self, imported: Any) -> bool:
        try:
            self._end_strangers()
            _read_failures(imported)
        except TemplateLost as lost:
            self._on_lost(str(lost))
            return False
        return True

    def _finish_if_done(self) -> None:
        child = self._child
        if not (self._is_busy and self._is_done) or (child is not None and child.isolation is None):
            return
        try:
            self._view.await_stop()
            self._view.check_alone(child)
        except TemplateLost as lost:
            self._on_lost(str(lost))
            return
        self._is_busy, self._child = False, None
        if child is not None:
            self._on_born(child)
        self._next()

    # Hearing

    def _messages(self) -> list[dict[str, Any]]:
        """Return a few messages at most: an honest template answers an order with one."""
        found: list[dict[str, Any]] = []
        while len(found) < _MAX_AT_ONCE:
            try:
                data = self._socket.recv(_MAX_MESSAGE, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return found
            except OSError as error:
                raise TemplateLost("its socket broke: %s" % error) from error
            if not data:
                raise TemplateLost("its packages ended the process that imports them")
            try:
                message = fast_json.read(data.decode("ascii"))
            except (ValueError, RecursionError):
                message = None
            if not isinstance(message, dict):
                raise TemplateLost("its packages write to the zygote's socket")
            found.append(message)
        raise TemplateLost("its packages flood the zygote's socket")

    def _hear_errors(self) -> None:
        if self._errors is None:
            return
        try:
            data = os.read(self._errors, _MAX_SAID)
        except BlockingIOError:
            return
        self._said = (self._said + data)[-_MAX_SAID:]
        if not data:
            if self._loop:
                self._loop.forget(self._errors)
            os.close(self._errors)
            self._errors = None

    def _end_strangers(self) -> None:
        """Kill the processes that the import left, until there are none."""
        for _ in range(_SETTLE_ROUNDS):
            self._view.await_stop()
            left = self._view.strangers()
            if not left:
                break
            for pid in left:
                processes.end_process(pid)
            os.kill(self.pid, signal.SIGCONT)
            self._socket.send(b'{"reap":true,"ticket":0}', socket.MSG_DONTWAIT)
            self._await_done()
        else:
            raise TemplateLost("importing leaves processes that cannot be ended")
        self._view.check_threads()
        self._view.note_descriptors()

    def _await_done(self) -> None:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        until = time.monotonic() + _ORDER_S
        while time.monotonic() < until:
            poll.poll(_LOOK_S * 1000)
            if any("done" in message for message in self._messages()):
                return
        raise TemplateLost("its packages keep it from answering")


def _read_failures(imported: Any) -> dict[str, str]:
    """Return the modules that could not be imported; TemplateLost if what was imported cannot be shared."""
    if not isinstance(imported, dict) or not isinstance(imported.get("failed"), dict):
        raise TemplateLost("its packages write to the zygote's socket")
    if imported.get("left_open"):
        raise TemplateLost("its packages leave open files, which no call has")
    return {str(name)[:200]: str(reason)[:300] for name, reason in [*imported["failed"].items()][:64]}
