"""The front door of the tests: its options, the packages it installs, and the leftovers of killed runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.__main__ import pytest_options
from tests.checkout import ROOT
from tests.provision import ProvisionError, debian, earlier_runs

ENDLESS: Final = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
HELD: Final = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 1 (apt-get)"
INTERRUPTED: Final = "E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem."
ABSENT: Final = "E: Unable to locate package crun"


def test_the_help_lists_each_option() -> None:
    command = [sys.executable, "-m", "tests", "--help"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for words in ("--quick", "--no-install", "--help", "UNSTEADY"):
        assert words in answer.stdout


def test_a_run_of_all_tests_is_shared_and_one_of_named_tests_is_not() -> None:
    assert [word for word in pytest_options(["-m", "not slow"]) if word.startswith("--numprocesses=")] != []
    assert not [word for word in pytest_options([f"{__file__}::test_it"]) if word.startswith("--numprocesses=")]


def test_pytest_gets_no_option_of_the_front_door() -> None:
    assert not {"--quick", "--no-install"} & {*pytest_options(["--quick", "--no-install", "-x"])}
    assert pytest_options(["-x"])[-1] == "-x"


def test_a_quick_run_leaves_out_slow_tests_and_containers() -> None:
    chosen = pytest_options(["--quick"])
    assert chosen[chosen.index("-m") + 1] == "not slow and not containers"


@pytest.mark.parametrize(("descriptor", "closing"), [(0, "<&-"), (1, ">&-"), (2, "2>&-")])
def test_a_stream_that_the_caller_closed_is_open(descriptor: int, closing: str, tmp_path: Path) -> None:
    script = "import os, sys; from tests.__main__ import _forget_the_caller as forget; forget(); "
    look = f"open({str(tmp_path / 'found')!r}, 'w').write(os.readlink('/proc/self/fd/{descriptor}'))"
    subprocess.run(
        ["bash", "-c", f'exec "$@" {closing}', "bash", sys.executable, "-c", script + look],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    assert (tmp_path / "found").read_text() == os.devnull


class Machine:
    """A Debian machine whose package commands print what the test says, and fail as long as they print."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.services = folder / "policy-rc.d"
        for program in ("apt-get", "dpkg"):
            (folder / program).write_text(f"#!/bin/sh\ncd {folder}\n{SCRIPT}")
            (folder / program).chmod(0o755)

    def answers(self, *lines: str) -> None:
        """Have `apt-get install` fail with these lines, one after the other, and then succeed."""
        for number, line in enumerate(lines, start=1):
            (self.folder / f"answer-{number}").write_text(line)

    def calls(self) -> list[str]:
        """Return the commands that were run."""
        return (self.folder / "calls").read_text().split()


SCRIPT: Final = f"""
[ -n "${earlier_runs.MARK}" ] && echo marked >> calls
[ -e policy-rc.d ] || echo services >> calls
case "$*" in *update*) echo update >> calls; exit 0;; *--configure*) echo configure >> calls; exit 0;; esac
echo install >> calls
answer=answer-$(grep -c install calls)
[ -e $answer ] || exit 0
cat $answer >&2
exit 100
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv(debian.ALLOWED, "yes")
    monkeypatch.setenv(earlier_runs.MARK, "0-0-0")
    monkeypatch.setattr(debian, "can_install", lambda: True)
    monkeypatch.setattr(debian, "_LOCK", str(tmp_path))
    monkeypatch.setattr(debian, "_SERVICES", made.services)
    monkeypatch.setattr(debian, "_PAUSE_SECONDS", 0.0)
    return made


def test_packages_are_installed_without_starting_services(machine: Machine) -> None:
    debian.install("crun", instead="")
    assert machine.calls() == ["update", "install"]
    assert not machine.services.exists()


def test_a_rule_of_the_machine_about_services_is_kept(machine: Machine) -> None:
    machine.services.write_text("the machine's own")
    debian.install("crun", instead="")
    assert machine.services.read_text() == "the machine's own"


def test_a_lock_that_another_process_holds_is_waited_for(machine: Machine) -> None:
    machine.answers(*[HELD] * 9)
    debian.install("crun", instead="")
    assert machine.calls() == ["update", *["install"] * 10]


def test_an_installation_that_was_interrupted_is_finished(machine: Machine) -> None:
    machine.answers(INTERRUPTED)
    debian.install("crun", instead="")
    assert machine.calls() == ["update", "install", "configure", "install"]


def test_a_package_that_cannot_be_had_is_an_error_with_its_reason(machine: Machine) -> None:
    machine.answers(*[ABSENT] * 9)
    with pytest.raises(ProvisionError, match=r"install .*Unable to locate package crun"):
        debian.install("crun", instead="")


def test_nothing_is_installed_unless_the_front_door_allows_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in ("no", ""):
        monkeypatch.setenv(debian.ALLOWED, value)
        with pytest.raises(ProvisionError, match="Missing on this machine: crun; install it"):
            debian.install("crun", instead="install it")
    assert not (machine.folder / "calls").exists()


def test_only_programs_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(debian, "_HIDDEN_FOLDERS", ())
    (tmp_path / "crun").touch(mode=0o755)
    assert debian.missing("crun", "dockerd") == ["docker.io"]


@pytest.mark.parametrize(
    ("release", "is_debian"),
    [("ID=debian\n", True), ('ID=other\nID_LIKE="ubuntu debian"\n', True), ("ID=fedora\n", False), (None, False)],
)
def test_a_debian_machine_is_known_by_its_release_file(
    release: str | None, is_debian: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "apt-get").touch(mode=0o755)
    if release is not None:
        (tmp_path / "os-release").write_text(release)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(debian, "_RELEASE", tmp_path / "os-release")
    assert debian._is_debian() == is_debian


def mark_of(process: int, started: str) -> dict[str, str]:
    """Return the environment of a process of the run whose front door is that process."""
    namespace = earlier_runs._pid_namespace()
    return {**os.environ, earlier_runs.MARK: f"{namespace}-{process}-{started}"}


@contextmanager
def running(environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(ENDLESS, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_processes_of_a_killed_run_are_ended_and_others_are_not() -> None:
    started = earlier_runs.start_time(os.getpid())
    with running(mark_of(os.getpid(), started)) as ours, running(mark_of(os.getpid(), "1")) as leftover:
        ended = earlier_runs.end_earlier_runs()
        assert any(line.startswith(f"{leftover.pid} ") for line in ended)
        assert leftover.wait() < 0
        assert ours.poll() is None


def test_a_folder_is_a_leftover_once_its_maker_unlocks_it(tmp_path: Path) -> None:
    within = str(tmp_path)
    folder, descriptor = earlier_runs.make_folder("a-", within=within)
    other, other_descriptor = earlier_runs.make_folder("b-", within=within)
    remove = earlier_runs.remove_folder
    assert earlier_runs.remove_leftovers("a-", within=within, remove=remove) == []
    assert folder.exists()
    os.close(descriptor)
    os.close(other_descriptor)
    assert earlier_runs.remove_leftovers("a-", within=within, remove=remove) == []
    assert (folder.exists(), other.exists()) == (False, True)


def test_a_leftover_that_cannot_be_removed_is_named(tmp_path: Path) -> None:
    folder, descriptor = earlier_runs.make_folder(within=str(tmp_path))
    os.close(descriptor)

    def fail(_: Path) -> None:
        raise ProvisionError("it is in use")

    assert earlier_runs.remove_leftovers(within=str(tmp_path), remove=fail) == [folder]


@pytest.mark.root
def test_what_is_mounted_in_a_leftover_is_kept(tmp_path: Path) -> None:
    kept, folder = tmp_path / "kept", tmp_path / "folder"
    for path in (kept, folder / "mounted"):
        path.mkdir(parents=True)
    (kept / "file").touch()
    subprocess.run(["mount", "--bind", str(kept), str(folder / "mounted")], check=True)
    earlier_runs.remove_folder(folder)
    assert not folder.exists()
    assert (kept / "file").exists()
