"""An internet for tests: every address, in a network namespace that no packet leaves.

    with outside(tmp_path) as world:
        subprocess.run([*world.inside(), sys.executable, "-c", PROGRAM])   # `inside` is where the engine runs
        assert world.heard() == [Heard("93.184.216.34", 80, "GET /hello HTTP/1.1")]

A virtual cable connects two namespaces. On the near side the engine runs, with an address, a default route, a name
server and a hosts file, as on any machine. On the far side every address belongs to the machine, including private and
metadata addresses, and a server answers there and records its clients: a leak is recorded there, and no packet leaves
the machine. `near.py` and `far.py` run in the two namespaces.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.provision import debian
from tests.provision.certificates import make_authority, make_certificate

HERE: Final = Path(__file__).parent
PUBLIC: Final = "93.184.216.34"
PUBLIC_6: Final = "2606:2800:220:1::248"
OWN_PUBLIC: Final = "93.184.216.99"
"""An address of the engine's own machine that looks public."""


class Heard(NamedTuple):
    """A connection to the outside, or to the engine's own machine."""

    address: str
    port: int
    said: str


@dataclass(frozen=True, slots=True)
class Outside:
    """The running near side, which also answers for the far side."""

    process: int
    authority: Path
    _near: subprocess.Popen[str]

    def inside(self, *options: str) -> Sequence[str]:
        """Return the prefix of a command that runs on the near side, with these options of nsenter."""
        where = (f"--net=/proc/{self.process}/ns/net", f"--mount=/proc/{self.process}/ns/mnt")
        return ["nsenter", *where, *options, "--"]

    def heard(self) -> list[Heard]:
        """Return the connections since the last question. Name look-ups do not count."""
        return [Heard(str(address), int(str(port)), str(said)) for address, port, said in self._ask("heard")]

    def asked_names(self) -> list[str]:
        """Return the names that were looked up since the last question."""
        return [str(each) for each in self._ask("names")]

    def _ask(self, question: str) -> Any:
        assert self._near.stdin is not None
        assert self._near.stdout is not None
        self._near.stdin.write(question + "\n")
        self._near.stdin.flush()
        line = self._near.stdout.readline()
        assert line, "the outside has ended; why is on standard error"
        return json.loads(line)


@contextmanager
def outside(folder: Path) -> Iterator[Outside]:
    """Run both sides until the block ends."""
    debian.require("ip")
    authority = folder / "authority"
    make_authority(authority)
    make_certificate(authority, "server", host="DNS:public.example,DNS:*.public.example")
    given = [PUBLIC, PUBLIC_6, OWN_PUBLIC, str(authority), str(folder)]
    command = ["unshare", "--net", "--mount", sys.executable, "-I", str(HERE / "near.py"), *given]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/") as near:
        try:
            assert near.stdout is not None
            assert near.stdout.readline() == "up\n"
            yield Outside(near.pid, authority, near)
        finally:
            assert near.stdin is not None
            near.stdin.close()
            near.wait(10)
