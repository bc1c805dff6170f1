"""Interpreters of this host: real and broken ones, and the choice for a tool."""

from __future__ import annotations

import ast
import inspect
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import psutil
import pytest
from packaging.specifiers import SpecifierSet
from packaging.tags import sys_tags

from sandbox.environments import bare_environment
from sandbox.environments.interpreters import facts as interpreter_facts
from sandbox.environments.interpreters.host import (
    OLDEST,
    HostInterpreter,
    _interpreter,
    _own_facts,
    _short_name,
    _unusable,
    best_of,
    find_interpreters,
    own_interpreter,
    pick_interpreter,
)
from sandbox.environments.interpreters.search import Facts, Mute, ask, candidates, run, why_not_to_run
from sandbox.environments.lock import Lock
from sandbox.errors import EnvironmentUnavailable, RequirementRefused

FAR_FUTURE: Final = ">=3.98,<3.99"


def like(version: str, *, flags: str = "", python: str | None = None) -> HostInterpreter:
    """Describe an interpreter that does not exist."""
    short = "".join(version.split(".")[:2])
    return replace(
        own_interpreter(),
        python=Path(python or f"/opt/{version}{flags}/bin/python"),
        version=version,
        tag=f"cp{short}{flags}-linux_x86_64-glibc2.36",
    )


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def interpreter_that_starts_with(folder: Path, text: str) -> Path:
    """Copy the real interpreter next to a standard library whose first module is this text."""
    python = folder / "bin" / f"python{sysconfig.get_python_version()}"
    python.parent.mkdir(parents=True)
    shutil.copy(own_interpreter().python, python)
    stdlib = folder / "lib" / f"python{sysconfig.get_python_version()}"
    (stdlib / "encodings").mkdir(parents=True)
    (stdlib / "lib-dynload").mkdir()
    (stdlib / "os.py").touch()
    (stdlib / "encodings" / "__init__.py").write_text(text)
    return python


def is_running(word: str) -> bool:
    listed = (process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"]))
    return any(word in " ".join(command) for command in listed)


def test_our_own_is_the_base_interpreter_of_a_virtual_environment() -> None:
    own = own_interpreter()
    assert own.python == Path(os.path.realpath(sys._base_executable))  # type: ignore[attr-defined]
    assert own.version == "{}.{}.{}".format(*sys.version_info[:3])
    assert Path(os.path.realpath(sys.base_prefix)) in own.folders


def test_our_own_facts_agree_from_within_and_from_outside() -> None:
    assert ask(own_interpreter().python) == _own_facts()


def test_the_bare_environment_is_our_own_interpreter() -> None:
    bare, own = bare_environment(), own_interpreter()
    assert (bare.python, bare.version, bare.folders, bare.hidden) == (own.python, own.version, own.folders, own.hidden)


def test_our_own_accepts_the_wheels_that_installers_choose_for_it() -> None:
    assert own_interpreter().wheel_tags == tuple(map(str, sys_tags()))


def test_folders_of_installed_packages_are_hidden() -> None:
    variables = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    installed = Path(os.path.realpath(sysconfig.get_path("purelib", vars=variables)))
    assert not installed.is_dir() or installed in own_interpreter().hidden


@pytest.mark.parametrize(
    "which", find_interpreters(), ids=lambda which: f"{which.version}-{which.python.parent.parent.name}"
)
class TestEachFound:
    def test_an_interpreter_describes_itself(self, which: HostInterpreter) -> None:
        answer = subprocess.run([which.python, "-I", "-V"], capture_output=True, text=True, check=True, env={})
        assert which.version in answer.stdout

    def test_the_path_is_real_and_in_its_folders(self, which: HostInterpreter) -> None:
        assert which.python == Path(os.path.realpath(which.python))
        assert any(which.python.is_relative_to(folder) for folder in which.folders)

    def test_a_lock_can_name_an_interpreter(self, which: HostInterpreter) -> None:
        assert Lock(requirements=(), interpreter=which.tag, packages=()).interpreter == which.tag

    def test_wheels_of_its_own_version_come_first_and_pure_ones_last(self, which: HostInterpreter) -> None:
        own = f"cp{''.join(which.version.split('.')[:2])}"
        assert which.wheel_tags[0].startswith(own)
        assert "py3-none-any" in which.wheel_tags
        assert len(set(which.wheel_tags)) == len(which.wheel_tags)

    def test_it_can_be_picked_by_its_version(self, which: HostInterpreter) -> None:
        assert pick_interpreter(f"=={which.version}").version == which.version

    def test_the_markers_are_those_the_interpreter_computes(self, which: HostInterpreter) -> None:
        said = subprocess.run(
            [
                which.python,
                "-I",
                "-S",
                "-c",
                "import platform as p; print(p.python_version(), p.machine(), p.system())",
            ],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        names = ("python_full_version", "platform_machine", "platform_system")
        assert [which.markers[name] for name in names] == said


def test_no_two_found_interpreters_are_the_same() -> None:
    found = find_interpreters()
    assert len({each.python for each in found}) == len({each.digest for each in found}) == len(found)
    assert own_interpreter() in found


def test_no_interpreter_that_is_too_old_is_found() -> None:
    versions = [tuple(map(int, each.version.split(".")[:2])) for each in find_interpreters()]
    assert min(versions) >= OLDEST


def test_newest_interpreters_come_first() -> None:
    ordinary = [each for each in find_interpreters() if each.tag.partition("-")[0][-1].isdigit()]
    versions = [tuple(map(int, each.version.split("."))) for each in ordinary]
    assert versions == sorted(versions, reverse=True)


def test_a_changed_file_is_another_interpreter() -> None:
    rebuilt = _own_facts().model_copy(update={"build": "rebuilt"})
    python = own_interpreter().python
    assert _interpreter(python, rebuilt).digest != _interpreter(python, _own_facts()).digest


@pytest.mark.parametrize(
    "requires", [None, "", ">=3.8", ">=3.11", f"=={sysconfig.get_python_version()}.*", "<4", "!=2.7"]
)
def test_a_tool_that_our_own_suits_gets_our_own(requires: str | None) -> None:
    assert pick_interpreter(requires) == own_interpreter()


@pytest.mark.parametrize(
    ("requires", "picked"),
    [
        (">=3.8", "3.13.1"),
        ("<3.13", "3.12.9"),
        ("==3.9.*", "3.9.21"),
        ("~=3.9", "3.13.1"),
        ("~=3.9.0", "3.9.21"),
        (">=3.9,<3.12,!=3.11.*", "3.9.21"),
        ("==3.12.1", "3.12.1"),
        (">=3.14", None),
        (">=3.14.0rc1", "3.14.0rc1"),
        (">=3.15", None),
        ("<3.8", None),
        ("==3.10.*", None),
        (">=3.12,<3.9", None),
    ],
)
def test_the_newest_fitting_interpreter_is_chosen(requires: str, picked: str | None) -> None:
    versions = ("3.9.21", "3.12.9", "3.13.1", "3.14.0rc1", "3.12.1", "3.11.2", "3.9.3")
    best = best_of(map(like, versions), SpecifierSet(requires))
    assert (best and best.version) == picked


def test_a_special_build_is_chosen_only_when_no_other_fits() -> None:
    special, ordinary = like("3.13.1", flags="t"), like("3.12.1")
    assert best_of((special, ordinary), SpecifierSet(">=3.8")) == ordinary
    assert best_of((special, ordinary), SpecifierSet(">=3.13")) == special


def test_our_own_is_chosen_among_equals() -> None:
    own = own_interpreter()
    others = [replace(own, python=Path(path)) for path in ("/a/python", "/zz/python")]
    assert best_of((others[0], own, others[1]), SpecifierSet("")) == own


def test_a_free_threaded_build_takes_no_wheels_of_the_ordinary_build() -> None:
    tags = like("3.13.1", flags="t").wheel_tags
    assert tags[0].startswith("cp313-cp313t-")
    assert not any("-cp313-" in tag or "-abi3-" in tag for tag in tags)


def test_a_debug_build_prefers_its_own_wheels_to_ordinary_ones() -> None:
    abis = list(dict.fromkeys(tag.split("-")[1] for tag in like("3.12.1", flags="d").wheel_tags))
    assert abis[:3] == ["cp312d", "cp312", "abi3"]


def test_without_a_fitting_interpreter_all_are_listed() -> None:
    with pytest.raises(EnvironmentUnavailable) as refused:
        pick_interpreter(FAR_FUTURE)
    assert "3.98" in refused.value.message
    for each in find_interpreters():
        assert f"{each.version} ({each.python})" in refused.value.message
    assert refused.value.remedy


@pytest.mark.parametrize(
    "requires", ["3.11", "^3.9", "python>=3.9", ">=3.8.*", ">=", "latest", "\x1b[2J", ">=3.8 " * 100, ">=3;", "\0"]
)
def test_an_invalid_version_range_is_refused(requires: str) -> None:
    with pytest.raises(RequirementRefused) as refused:
        pick_interpreter(requires)
    assert "\x1b" not in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"implementation": "pypy"}, "pypy"),
        ({"version": "3.7.16"}, "too old"),
        ({"version": "2.7.18"}, "too old"),
        ({"libc": "musl"}, "musl"),
        ({"bits": 32}, "32 bits"),
        ({"machine": "riscv64"}, "riscv64"),
    ],
)
def test_an_interpreter_of_another_kind_is_not_usable(changed: dict[str, object], reason: str) -> None:
    assert reason in str(_unusable(_own_facts().model_copy(update=changed)))


def test_flags_are_part_of_the_tag() -> None:
    facts = _own_facts().model_copy(update={"version": "3.13.2", "flags": "t"})
    assert _short_name(facts) == "cp313t"


def test_the_probe_keeps_to_the_grammar_of_old_interpreters() -> None:
    tree = ast.parse(inspect.getsource(interpreter_facts), feature_version=OLDEST)
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert imported <= sys.stdlib_module_names


def test_an_interpreter_on_the_path_is_found_by_its_real_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "python3").symlink_to(own_interpreter().python)
    (tmp_path / "python3-config").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert own_interpreter().python in candidates()
    assert not any(path.is_relative_to(tmp_path) for path in candidates())


def test_the_target_of_a_shim_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "shims" / "python3", "exit 1")
    python = tmp_path / "versions" / "3.x" / "bin" / "python3"
    python.parent.mkdir(parents=True)
    shutil.copy("/bin/true", python)
    monkeypatch.setenv("PATH", str(tmp_path / "shims"))
    assert python in candidates()


@pytest.mark.parametrize("path", ["", ".", "bin", ":", "/nowhere", "/dev/null", "/etc/passwd:\udcff"])
def test_an_odd_search_path_is_harmless(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", path)
    assert own_interpreter() in find_interpreters()


def test_without_a_home_or_a_path_ours_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PATH")
    monkeypatch.setenv("HOME", "/nowhere")
    assert own_interpreter() in find_interpreters()


def test_a_script_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "python3.12", f"touch {tmp_path}/was-run")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_interpreters()
    assert not (tmp_path / "was-run").exists()


def test_a_broken_interpreter_on_the_path_is_named_and_harmless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "python3.12"
    broken.write_bytes(b"\x7fELF is not enough")
    broken.chmod(0o755)
    os.mkfifo(tmp_path / "python3.13")
    (tmp_path / "python3.9").symlink_to(tmp_path / "python3.9")
    (tmp_path / "python3.10").mkdir()
    shutil.copy("/bin/true", tmp_path / "python3.11")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentUnavailable) as refused:
        pick_interpreter(FAR_FUTURE)
    for name in ("python3.9", "python3.10", "python3.11", "python3.12", "python3.13"):
        assert f"{tmp_path / name}: " in refused.value.message
    assert own_interpreter() in find_interpreters()


@pytest.mark.slow
def test_a_hanging_interpreter_on_the_path_costs_a_moment_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = interpreter_that_starts_with(tmp_path, "while True: pass")
    monkeypatch.setattr("sandbox.environments.interpreters.search.PATIENCE_SECONDS", 0.5)
    monkeypatch.setenv("PATH", str(hanging.parent))
    with pytest.raises(EnvironmentUnavailable, match="did not answer in time"):
        pick_interpreter(FAR_FUTURE)
    monkeypatch.setattr("sandbox.environments.interpreters.search.PATIENCE_SECONDS", 60.0)
    with pytest.raises(EnvironmentUnavailable, match="did not answer in time"):
        pick_interpreter(FAR_FUTURE)
    assert not is_running(str(hanging))


def test_a_failing_start_is_distinguished_from_a_hanging_one(tmp_path: Path) -> None:
    with pytest.raises(Mute, match="fails at once"):
        run(interpreter_that_starts_with(tmp_path, "raise SystemExit"), patience_seconds=30)


@pytest.mark.slow
def test_processes_left_by_an_interpreter_are_killed(tmp_path: Path) -> None:
    leaving = program(tmp_path / "python3", "sleep 77.125 & echo '{}'; exit 0")
    with pytest.raises(Mute):
        run(leaving, patience_seconds=0.5)
    deadline = time.monotonic() + 60
    while is_running("sleep 77.125"):
        assert time.monotonic() < deadline


def test_endless_output_of_an_interpreter_is_cut_off(tmp_path: Path) -> None:
    with pytest.raises(Mute, match="more than was asked"):
        run(program(tmp_path / "python3", "exec yes"), patience_seconds=30)


@pytest.mark.parametrize("said", ["", "{}", "[]", "nonsense", '{"implementation": 1}', "\\377"])
def test_an_invalid_answer_is_refused(said: str, tmp_path: Path) -> None:
    with pytest.raises(Mute):
        run(program(tmp_path / "python3", f"printf '{said}'"), patience_seconds=30)


@pytest.mark.parametrize(
    "changed", [{"platform": "../x"}, {"version": "3.12"}, {"flags": "T"}, {"folders": ["usr"]}, {"more": 1}]
)
def test_an_answer_with_odd_parts_is_refused(changed: dict[str, object], tmp_path: Path) -> None:
    said = json.dumps(_own_facts().model_dump() | changed)
    (tmp_path / "said").write_text(said)
    with pytest.raises(Mute, match="does not answer"):
        run(program(tmp_path / "python3", f"cat {tmp_path}/said"), patience_seconds=30)


def test_an_interpreter_runs_without_our_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "json.py").write_text("raise SystemExit")
    assert isinstance(run(own_interpreter().python, patience_seconds=30), Facts)
    with pytest.raises(Mute):
        run(program(tmp_path / "python3", f"env > {tmp_path}/seen"), patience_seconds=30)
    assert "hunter2" not in (tmp_path / "seen").read_text()


def test_an_interpreter_runs_once_until_its_file_changes(tmp_path: Path) -> None:
    python = program(tmp_path / "python3", f"echo run >> {tmp_path}/runs; cat {tmp_path}/said")
    (tmp_path / "said").write_text(_own_facts().model_dump_json())
    assert ask(python) == ask(python) == _own_facts()
    os.utime(python, (1, 1))
    assert ask(python) == _own_facts()
    assert (tmp_path / "runs").read_text() == "run\nrun\n"


def test_a_file_that_others_can_write_is_not_run(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    shutil.copy("/bin/true", python)
    assert why_not_to_run(python) is None
    python.chmod(0o757)
    assert "by others" in str(why_not_to_run(python))
    python.chmod(0o755)
    python.parent.chmod(0o777)
    assert "by others" in str(why_not_to_run(python))
    python.parent.chmod(0o1777)
    assert why_not_to_run(python) is None


@pytest.mark.root
@pytest.mark.parametrize("place", ["bin/python3", "bin", "."])
def test_a_file_of_another_user_is_not_run(place: str, tmp_path: Path) -> None:
    python = tmp_path / "own" / "bin" / "python3"
    python.parent.mkdir(parents=True)
    shutil.copy("/bin/true", python)
    os.chown(tmp_path / "own" / place, 12345, 12345)
    assert "by others" in str(why_not_to_run(python))


def test_a_file_without_execute_permission_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "python3").touch(mode=0o644)
    assert "executable" in str(why_not_to_run(tmp_path / "python3"))
    assert why_not_to_run(tmp_path / "none")
