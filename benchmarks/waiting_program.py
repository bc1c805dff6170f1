"""The floor of a call whose process exists before the call: `python -I -S waiting_program.py RUNNER PLAN REQUEST`.

The program makes one measurement for each line that it reads. The runner's own modules fork an isolated process ahead,
and an event loop sends the process a request and waits for the whole reply. So the floor has the share of the kernel,
of asyncio and of the tool's own process; no code checks, counts, limits or shapes anything, and no guard watches the
process.
"""

from __future__ import annotations

import asyncio
import os
import sys
from time import perf_counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RUNNER, PLAN, REQUEST = sys.argv[1:]
sys.path.insert(0, RUNNER)

from box import call_isolation, fast_json, isolation, pipes
from call import call, compiled, preloading

_HEAD = 4


class Waiting:
    """The process that waits for the next call, and this program's ends of its pipes."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan
        call_isolation.prepare(plan)
        self.fork()

    def fork(self) -> None:
        """Fork a new process after the last one has ended."""
        plan = self._plan
        handed = plan["handed"]
        theirs, self._request = os.pipe()
        self._value, replies = os.pipe()
        ready, announced = os.pipe()
        for end, number in ((theirs, handed[0]), (os.open(os.devnull, os.O_RDWR), handed[1]), (replies, handed[3])):
            pipes.hand(end, number)
        pipes.hand(announced, handed[4])
        if not isolation.fork(plan):
            try:
                self._be_called()
            finally:
                os._exit(1)
        pipes.take_back(handed)
        os.set_blocking(self._value, False)
        if os.read(ready, 1) != b"r":
            raise OSError("a wall could not be put up")
        os.close(ready)

    def _be_called(self) -> None:
        call_isolation.set_up(self._plan)
        call.rehearse("f")
        home = call.prepare()
        os.write(pipes.STATUS, b"r")
        _, request = pipes.receive()
        isolation.own_its_files()
        call.run(request, pipes.VALUE, home=home, gives_way=True)

    def attend(self) -> None:
        """Read the process's readiness, before the call."""
        loop = asyncio.get_running_loop()
        self._reply = bytearray()
        self._is_whole = loop.create_future()
        loop.add_reader(self._value, self._hear)

    async def answer(self, request: bytes) -> bytes:
        """Send the call, and return the whole reply."""
        os.write(self._request, request)
        await self._is_whole
        return bytes(self._reply)

    def _hear(self) -> None:
        self._reply += os.read(self._value, 1 << 16)
        if len(self._reply) >= _HEAD + int.from_bytes(self._reply[:_HEAD], "big") and not self._is_whole.done():
            self._is_whole.set_result(None)

    def let_go(self) -> None:
        """Wait until the process has ended."""
        asyncio.get_running_loop().remove_reader(self._value)
        os.wait()
        os.close(self._request)
        os.close(self._value)


async def _measure(waiting: Waiting, request: bytes) -> float:
    waiting.attend()
    await asyncio.sleep(0)
    begun = perf_counter()
    reply = await waiting.answer(request)
    taken = perf_counter() - begun
    waiting.let_go()
    if b'"value": 5' not in reply:
        raise RuntimeError(f"the measured call went wrong: {reply!r}")
    return taken * 1000


def main() -> None:
    """Measure once for every line of standard input."""
    plan = fast_json.read(PLAN)
    plan["filter"] = bytes.fromhex(plan["filter"])
    call.open_streams()
    for _ in range(12):
        call.rehearse()
    fields = fast_json.read(REQUEST)
    compiled.keep(fields["source"], os.path.join(plan["workplace"]["path"], fields["filename"]))
    preloading.freeze()
    waiting = Waiting(plan)
    request = pipes.pack_json({}) + pipes.pack_json(fields)
    with asyncio.Runner() as runner:
        for _ in sys.stdin:
            print(runner.run(_measure(waiting, request)), flush=True)
            waiting.fork()


if __name__ == "__main__":
    main()
