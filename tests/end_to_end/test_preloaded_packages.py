"""The imports of a tool run once for all of its calls, parts of packages too, and no call sees traces of another.

A package that draws a random mark when it is imported tells which calls have it from one import.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox import Outcome, Sandbox, Status
from sandbox.backends import isolation
from tests.end_to_end.packages import publish_files, requiring
from tests.indexes import LocalIndex

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("harmless")]

MARK: Final = "import os\nMARK = os.urandom(8).hex()\n"
DRAWS: Final = """
import os, pathlib, tempfile
cache = pathlib.Path.home() / ".cache" / "draws"
cache.mkdir(parents=True)
(cache / "fonts").write_text("slowly found")
with tempfile.NamedTemporaryFile(delete=False) as left:
    left.write(b"temporary")
MARK = os.urandom(8).hex()
"""
SHOWS_WHAT_IS_LEFT: Final = """
import os, tempfile
from draws import simple
def tool():
    found = [os.path.join(folder, name) for folder, _, names in os.walk(os.path.expanduser("~")) for name in names]
    return simple.MARK, sorted(found), os.listdir(tempfile.gettempdir())
"""
FILLS: Final = """
import os, pathlib
MARK = os.urandom(8).hex()
try:
    with open(pathlib.Path.home() / "much", "wb") as file:
        for _ in range(1024):
            file.write(bytes(1 << 20))
    REFUSED = None
except OSError as error:
    REFUSED = error.strerror
"""
SAD: Final = MARK + "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"

KEEPS: Final = MARK + "import tempfile\nKEPT = tempfile.TemporaryFile()\nKEPT.write(b'kept')\nKEPT.flush()\n"
USES_WHAT_IS_KEPT: Final = """
from keeps import files
def tool():
    with open("other", "wb+") as other:
        other.write(b"its own")
        files.KEPT.write(b" and used")
        files.KEPT.seek(0)
        other.seek(0)
        return files.MARK, files.KEPT.read().decode(), other.read().decode()
"""

DEADLY: Final = {
    "leaves": "import os\nos._exit(3)\n",
    "breaks": "import ctypes\nctypes.string_at(0)\n",
    "takes": "held = bytearray(3 << 30)\nfor at in range(0, len(held), 4096): held[at] = 1\n",
    "stays": "while True: pass\n",
}
"""The damage that packages may do to the process that imports them."""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the packages in the index of this module."""
    folder = tmp_path_factory.mktemp("wheels")
    files = {"whole/__init__.py": "", "whole/part.py": MARK, "whole/inner/__init__.py": "", "whole/inner/deep.py": MARK}
    publish_files(folder, "whole", files)
    publish_files(folder, "draws", {"draws/__init__.py": "", "draws/simple.py": DRAWS})
    publish_files(folder, "fills", {"fills.py": FILLS})
    publish_files(folder, "sad", {"sad/__init__.py": "", "sad/threads.py": SAD})
    publish_files(folder, "asks", {"asks.py": "import os\nTOLD = os.environ.get('TOLD')\n"})
    for name, deed in DEADLY.items():
        publish_files(folder, name, {f"{name}.py": deed})
    publish_files(folder, "keeps", {"keeps/__init__.py": "", "keeps/files.py": KEEPS})
    return folder


@pytest.fixture(scope="module")
def sandbox(index: LocalIndex, store: Path) -> Iterator[Sandbox]:
    """Open an engine whose store is the module's own."""
    with Sandbox(store=store) as engine:
        yield engine


def _values(sandbox: Sandbox, source: str, *, calls: int = 3) -> list[Any]:
    return [_ok(sandbox.run(source)).value for _ in range(calls)]


def _ok(outcome: Outcome) -> Outcome:
    assert outcome.status == "ok", outcome.to_json()
    return outcome


def test_parts_of_packages_are_imported_once_for_all_calls(sandbox: Sandbox) -> None:
    code = "import whole.part\nfrom whole.inner import deep\ndef tool():\n    return whole.part.MARK, deep.MARK\n"
    first, *others = _values(sandbox, requiring(("whole",), code))
    assert others == [first, first]


def test_a_package_may_write_when_it_is_imported_and_no_call_sees_it(sandbox: Sandbox) -> None:
    first, *others = _values(sandbox, requiring(("draws",), SHOWS_WHAT_IS_LEFT))
    assert others == [first, first]
    assert first[1:] == [["/work/tool.py"], []]


def test_what_it_may_write_then_is_little(sandbox: Sandbox) -> None:
    code = "import fills\ndef tool():\n    return fills.MARK, fills.REFUSED\n"
    first, second = _values(sandbox, requiring(("fills",), code), calls=2)
    assert first == second
    assert first[1] == "No space left on device"


def test_without_preloading_a_package_sees_a_calls_variables(sandbox: Sandbox, tmp_path: Path) -> None:
    policy = tmp_path / "unpreloaded.toml"
    policy.write_text('description = "for tests"\nextends = "default"\n[environment]\npreload = false\n')
    source = requiring(("asks",), "import asks\ndef tool():\n    return asks.TOLD\n")
    fields: list[dict[str, Any]] = [{}, {"policy": str(policy)}]
    found = [_ok(sandbox.run(source, env={"TOLD": "it"}, **each)).value for each in fields]
    assert found == [None, "it"]


def test_threads_left_by_a_later_import_cost_preloading_and_no_call(sandbox: Sandbox) -> None:
    requirements = ("whole", "sad")
    one = requiring(requirements, "import whole.part\ndef tool():\n    return whole.part.MARK\n")
    assert len(set(_values(sandbox, one, calls=2))) == 1
    other = requiring(requirements, "from sad import threads\ndef tool():\n    return threads.MARK\n")
    assert len(set(_values(sandbox, other, calls=4))) == 4
    outcome = _ok(sandbox.run(other))
    assert outcome.timing is not None
    assert not outcome.timing.preloaded


def test_files_that_a_package_keeps_open_are_each_calls_own(sandbox: Sandbox) -> None:
    found = _values(sandbox, requiring(("keeps",), USES_WHAT_IS_KEPT))
    assert len({mark for mark, *_ in found}) == 3
    assert [read for _, *read in found] == [["kept and used", "its own"]] * 3


def test_files_left_open_by_a_later_import_cost_preloading_and_no_call(sandbox: Sandbox) -> None:
    requirements = ("whole", "keeps")
    one = requiring(requirements, "import whole.part\ndef tool():\n    return whole.part.MARK\n")
    assert len(set(_values(sandbox, one, calls=2))) == 1
    found = _values(sandbox, requiring(requirements, USES_WHAT_IS_KEPT))
    assert [read for _, *read in found] == [["kept and used", "its own"]] * 3


@pytest.mark.parametrize(
    ("name", "status", "evidence"),
    [
        ("leaves", Status.EXITED, {"exit_code": 3}),
        ("breaks", Status.CRASHED, {"signal": "SIGSEGV"}),
        ("takes", Status.MEMORY, {}),
        ("stays", Status.TIMEOUT, {}),
    ],
)
def test_a_package_that_dies_when_imported_ends_the_call_that_imports_it(
    name: str, status: Status, evidence: dict[str, object], sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "_MAX_IMPORT_S", 1.0)  # all of which is waited for
    source = requiring((name,), f"import {name}\ndef tool(): return 1\n")
    outcomes = [sandbox.run(source, limits={"wall": "1s"}) for _ in range(2)]
    assert [outcome.status for outcome in outcomes] == [status] * 2, outcomes
    assert all(outcome.evidence.items() >= evidence.items() for outcome in outcomes)
    assert name == "takes" or not any(outcome.timing.preloaded for outcome in outcomes)  # its import fails
    harmless = sandbox.run(requiring((name,), "def tool(): return 2\n"))
    assert harmless.value == 2
