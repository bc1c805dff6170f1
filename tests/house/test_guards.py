"""The guards around the tests find leaks, slow tests and orphans."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.checkout import ROOT
from tests.house.nested_runs import ALONE, SHARED, run_tests
from tests.leaks import Watch, descriptors, processes, shared_scope, temporary_directories

ENDLESS: Final = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]


@contextmanager
def _running(command: list[str]) -> Iterator[int]:
    with subprocess.Popen(command) as process:
        yield process.pid
        process.kill()


def test_a_process_left_running_is_named() -> None:
    watch = Watch(processes)
    with _running(ENDLESS) as process:
        (name,) = watch.leftovers(within=0).values()
    assert str(process) in name
    assert watch.leftovers() == {}


def test_a_descriptor_left_open_is_named(tmp_path: Path) -> None:
    watch = Watch(descriptors)
    with (tmp_path / "forgotten").open("w"):
        (name,) = watch.leftovers(within=0).values()
    assert name.endswith("forgotten")
    assert watch.leftovers() == {}


def test_a_temporary_directory_left_is_named() -> None:
    watch = Watch(temporary_directories)
    with tempfile.TemporaryDirectory(prefix="sandbox-forgotten-"):
        (name,) = watch.leftovers(within=0).values()
    assert "sandbox-forgotten-" in name
    assert watch.leftovers() == {}


def test_the_engines_temporary_files_go_where_the_run_looks() -> None:
    assert os.environ["TMPDIR"] == tempfile.gettempdir()


def test_a_test_without_shared_fixtures_is_watched_alone(request: pytest.FixtureRequest) -> None:
    # A fixture that every test uses must not widen the scope that the guard watches.
    assert shared_scope(request.node) == "function"


LEAKS: Final = {
    # The process ends with its pipe, so that the run that this test watches outlives it.
    "process": "import subprocess; globals()['kept'] = subprocess.Popen('cat', stdin=subprocess.PIPE)",
    "descriptor": "import os; os.open('/dev/null', os.O_RDONLY)",
    "temporary": "import tempfile; tempfile.mkdtemp(prefix='sandbox-')",
}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "options"), [*((kind, ALONE) for kind in LEAKS), ("temporary", SHARED)])
def test_a_run_with_leftovers_fails_and_names_them(kind: str, options: tuple[str, ...], tmp_path: Path) -> None:
    answer = run_tests(tmp_path, f"def test_that_leaks():\n    {LEAKS[kind]}\n", *options)
    assert answer.returncode == 1
    # Where the module left more than its test, pytest indents both failures as parts of a group.
    assert re.search(rf"left behind:\n[ |]*{kind} ", answer.stdout), answer.stdout


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.parametrize("options", [ALONE, SHARED], ids=["alone", "shared"])
def test_a_control_group_of_an_engine_that_died_fails_the_run(options: tuple[str, ...], tmp_path: Path) -> None:
    with _control_group() as folder:
        leak = f"import os; os.mkdir({str(folder)!r} + f'/sandbox-{_dead()}-0-engine')"
        answer = run_tests(tmp_path, f"def test_that_leaks():\n    {leak}\n", *options, groups=folder)
        assert answer.returncode == 1
        assert f"cgroup {folder}/sandbox-" in answer.stdout


@contextmanager
def _control_group() -> Iterator[Path]:
    """Yield a control group that no engine looks into; remove it and all groups in it."""
    hierarchy = next(path for path in (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")) if path.is_dir())
    folder = Path(tempfile.mkdtemp(prefix="tests-", dir=hierarchy))
    try:
        yield folder
    finally:
        for below in (*folder.glob("*/"), folder):
            below.rmdir()


def _dead() -> int:
    with subprocess.Popen("true") as process:
        return process.pid


@pytest.mark.slow
@pytest.mark.root
def test_a_mount_of_a_worker_is_named_and_stays_private(tmp_path: Path) -> None:
    mount = f"import subprocess; subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', {str(tmp_path)!r}], check=True)"
    answer = run_tests(tmp_path, f"def test_that_mounts():\n    {mount}\n", *SHARED)
    assert answer.returncode == 1
    assert f"left behind:\n  mount {tmp_path}" in answer.stdout
    assert not tmp_path.is_mount()


@pytest.mark.slow
def test_a_slow_test_without_its_mark_fails(tmp_path: Path) -> None:
    strict = "import tests.pace as pace; pace.TOO_SLOW_SECONDS = pace.SLOW_SECONDS = 0.1\n"
    answer = run_tests(tmp_path, f"{strict}def test_that_dawdles():\n    import time; time.sleep(0.2)\n")
    assert answer.returncode == 1
    assert "add @pytest.mark.slow" in answer.stdout


@pytest.mark.slow
def test_orphans_of_the_tests_are_named_and_ended(tmp_path: Path) -> None:
    orphan = f"import subprocess; subprocess.Popen({ENDLESS!r}, start_new_session=True)"
    script = (
        "from tests.provision import offspring\n"
        "offspring._GRACE_SECONDS = 0.5\n"
        f"ending = offspring.run([{sys.executable!r}, '-c', {orphan!r}])\n"
        "print(ending.exit_code, *ending.left_running)\n"
    )
    answer = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    exit_code, orphan_id, name = answer.stdout.split(maxsplit=2)
    assert (exit_code, "time.sleep(600)" in name) == ("1", True)
    assert not Path("/proc", orphan_id).exists()


SHARING: Final = """
import os
from pathlib import Path
from tests.workers import folder_of_the_run, made_once

def test_it(folder_of_the_run):
    made = made_once(folder_of_the_run / "made", lambda folder: (folder / str(os.getpid())).touch())
    Path(__file__).with_suffix(".seen").write_text(f"{os.getpid()} {made} {os.listdir(made)}")
"""


@pytest.mark.slow
def test_one_worker_makes_what_all_share_and_the_run_removes_it(tmp_path: Path) -> None:
    (tmp_path / "test_again.py").write_text(SHARING)
    answer = run_tests(tmp_path, SHARING, *SHARED)
    assert answer.returncode == 0, answer.stdout
    seen = [file.read_text().split(maxsplit=2) for file in tmp_path.glob("*.seen")]
    processes, folders, makers = (set(each) for each in zip(*seen, strict=True))
    assert (len(processes), len(folders), len(makers)) == (2, 1, 1)
    assert not Path(folders.pop()).parent.exists()


INTERRUPTING: Final = """
import os, signal, tempfile

def test_that_interrupts_the_run():
    tempfile.mkdtemp()
    os.kill(os.getppid(), signal.SIGINT)
    try:
        signal.pause()
    finally:
        signal.pause()  # it does not end by itself, and is killed
"""


@pytest.mark.slow
def test_an_interrupted_run_leaves_no_temporary_directory(tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    answer = run_tests(tmp_path, INTERRUPTING, *SHARED, TMPDIR=str(temporary))
    assert answer.returncode == pytest.ExitCode.INTERRUPTED, answer.stdout
    assert list(temporary.iterdir()) == []
