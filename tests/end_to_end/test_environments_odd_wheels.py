"""Wheels that are unusual and right: what can be had of them is had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from sandbox import Sandbox
from tests.end_to_end.packages import publish_files, requiring
from tests.indexes import LocalIndex, make_wheel

pytestmark = pytest.mark.slow

LONG: Final = "m" * 247
"""A module of this name has a file of 250 characters; its bytecode would have one that no file system takes."""
BINNED: Final = ("bin/__init__.py", "bin/inner.py")
READS: Final = """
from importlib.metadata import files
def tool() -> str:
    (lock,) = [each for each in files("locking") if str(each) == ".lock"]
    return lock.read_text()
"""
RUNS: Final = """
import subprocess
from importlib.resources import files
def tool() -> str:
    program = files("carrying") / "bin" / "hello"
    return subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the packages in the index of this module."""
    folder = tmp_path_factory.mktemp("wheels")
    publish_files(folder, "lengthy", {"lengthy.py": f"from {LONG} import VERSION\n", f"{LONG}.py": "VERSION = '1.0'\n"})
    publish_files(folder, "locking", {"locking.py": "VERSION = '1.0'\n", ".lock": "the package's own"})
    carried = {"carrying/__init__.py": "", "carrying/bin/hello": "#!/bin/sh\necho hello\n"}
    make_wheel(folder, "carrying", "1.0", carried, programs=["carrying/bin/hello"])
    make_wheel(folder, "binned", "1.0", dict.fromkeys(BINNED, "VERSION = '1.0'\n"), programs=BINNED)
    return folder


@pytest.fixture(scope="module")
def sandbox(index: LocalIndex, store: Path) -> Iterator[Sandbox]:
    """Open an engine whose store is the module's own."""
    with Sandbox(store=store) as engine:
        yield engine


def test_a_module_with_too_long_a_name_for_bytecode_is_imported(sandbox: Sandbox) -> None:
    source = requiring(("lengthy",), "import lengthy\ndef tool() -> str:\n    return lengthy.VERSION\n")
    assert sandbox.run(source).value == "1.0"


def test_a_file_that_is_called_like_the_installers_lock_is_the_packages(sandbox: Sandbox) -> None:
    assert sandbox.run(requiring(("locking",), READS)).value == "the package's own"


def test_a_program_inside_a_package_runs(sandbox: Sandbox) -> None:
    assert sandbox.run(requiring(("carrying",), RUNS)).value == "hello\n"


def test_a_package_called_bin_is_imported(sandbox: Sandbox) -> None:
    source = requiring(("binned",), "from bin.inner import VERSION\ndef tool() -> str:\n    return VERSION\n")
    assert sandbox.run(source).value == "1.0"
