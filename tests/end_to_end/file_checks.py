"""Checks of files for every kind of box. Boxes of processes and containers both try each check."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final

from sandbox import Outcome, Sandbox
from sandbox.outputs.artifacts.store import ArtifactStore

KIB, MIB = 1 << 10, 1 << 20
READ: Final = """
import hashlib, os
def tool() -> dict:
    found = {}
    for folder, _, names in os.walk("inputs"):
        for name in names:
            path = os.path.join(folder, name)
            found[path] = hashlib.sha256(open(path, "rb").read()).hexdigest()
    return found
"""
WRITE: Final = """
import os
def tool(sizes: dict) -> int:
    for name, size in sizes.items():
        os.makedirs(os.path.dirname("outputs/" + name), exist_ok=True)
        with open("outputs/" + name, "wb") as file:
            file.write(name[-1:].encode() * size)
    return len(sizes)
"""

Check = Callable[[Sandbox, ArtifactStore], None]


def content(store: ArtifactStore, outcome: Outcome, name: str) -> bytes:
    """Return the kept content of that file."""
    found = next(each for each in outcome.artifacts if each.name == name)
    with store.shelf().open(found.id) as file:
        return file.read()


def check_what_a_tool_writes_comes_back(sandbox: Sandbox, store: ArtifactStore) -> None:
    sizes = {"empty": 0, "a.txt": 3, "deep/er/b": 70 * KIB, "c": 3 * MIB}
    outcome = sandbox.run(WRITE, {"sizes": sizes})
    assert (outcome.status, outcome.value, outcome.refused) == ("ok", 4, ())
    assert {each.name: each.bytes for each in outcome.artifacts} == sizes
    for name, size in sizes.items():
        assert content(store, outcome, name) == name[-1:].encode() * size


def check_a_call_is_given_files(sandbox: Sandbox, store: ArtifactStore) -> None:
    with NamedTemporaryFile() as file:
        file.write(os.urandom(9 * MIB))
        file.flush()
        _check_given(sandbox, Path(file.name))


def _check_given(sandbox: Sandbox, large: Path) -> None:
    given: dict[str, Any] = {"large": large, "a/b.txt": b"text", "a/empty": b"", "other": str(large)}
    outcome = sandbox.run(READ, files=given)
    digest = hashlib.sha256(large.read_bytes()).hexdigest()
    assert outcome.value == {
        "inputs/large": digest,
        "inputs/a/b.txt": hashlib.sha256(b"text").hexdigest(),
        "inputs/a/empty": hashlib.sha256(b"").hexdigest(),
        "inputs/other": digest,
    }


def check_what_it_is_given_can_be_left_for_the_caller(sandbox: Sandbox, store: ArtifactStore) -> None:
    copy = "import shutil\ndef tool(): shutil.copy('inputs/a', 'outputs/b')"
    outcome = sandbox.run(copy, files={"a": b"as it was"})
    assert content(store, outcome, "b") == b"as it was"


def check_what_a_call_left_is_not_there_for_the_next(sandbox: Sandbox, store: ArtifactStore) -> None:
    sandbox.run(WRITE, {"sizes": {"a": 1}}, files={"b": b""})
    outcome = sandbox.run("import os\ndef tool(): return os.listdir('outputs') + [os.path.exists('inputs')]")
    assert (outcome.value, outcome.artifacts) == ([False], ())


def check_what_a_call_left_that_raised_comes_back(sandbox: Sandbox, store: ArtifactStore) -> None:
    raises = "def tool():\n    open('outputs/half', 'w').write('done')\n    raise ValueError"
    outcome = sandbox.run(raises)
    assert (outcome.status, [each.name for each in outcome.artifacts]) == ("exception", ["half"])


def check_what_a_call_left_that_went_without_a_word_comes_back(sandbox: Sandbox, store: ArtifactStore) -> None:
    goes = "import os\ndef tool():\n    open('outputs/half', 'w').write('done')\n    os._exit(3)"
    outcome = sandbox.run(goes)
    assert (outcome.status, [each.name for each in outcome.artifacts]) == ("exited", ["half"])


def check_what_a_tool_that_goes_on_writes_later_does_not(sandbox: Sandbox, store: ArtifactStore) -> None:
    goes_on = """
import os, time
def tool():
    open("outputs/now", "w").close()
    if not os.fork():
        time.sleep(3600)
        open("outputs/later", "w").close()
"""
    outcome = sandbox.run(goes_on)
    assert [each.name for each in outcome.artifacts] == ["now"]


def check_a_tool_that_went_elsewhere_left_its_files_where_they_are(sandbox: Sandbox, store: ArtifactStore) -> None:
    outcome = sandbox.run("import os\ndef tool():\n    open('outputs/a', 'w').close()\n    os.chdir('/')")
    assert [each.name for each in outcome.artifacts] == ["a"]


def check_folders_without_files_are_not_reported(sandbox: Sandbox, store: ArtifactStore) -> None:
    makes = "import os, sys, time\ndef tool():\n    os.makedirs('outputs/plots/small')\n    "
    ends = {"return": "ok", "raise ValueError": "exception", "sys.exit()": "exited", "os._exit(3)": "exited"}
    for end, status in ends.items():
        outcome = sandbox.run(makes + end)
        assert (outcome.status, outcome.artifacts, outcome.refused) == (status, (), ()), end
    outcome = sandbox.run(makes + "time.sleep(3600)", limits={"wall": 2})
    assert (outcome.status, outcome.artifacts, outcome.refused) == ("timeout", (), ())


CHECKS: Final[tuple[Check, ...]] = (
    check_what_a_tool_writes_comes_back,
    check_a_call_is_given_files,
    check_what_it_is_given_can_be_left_for_the_caller,
    check_what_a_call_left_is_not_there_for_the_next,
    check_what_a_call_left_that_raised_comes_back,
    check_what_a_call_left_that_went_without_a_word_comes_back,
    check_what_a_tool_that_goes_on_writes_later_does_not,
    check_a_tool_that_went_elsewhere_left_its_files_where_they_are,
    check_folders_without_files_are_not_reported,
)
