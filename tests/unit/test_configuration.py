"""Settings for all engines come from a file and the environment, and errors name their source."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox import Sandbox
from sandbox.config import Configuration, load_configuration
from sandbox.errors import SandboxError, SpecError
from tests.unprivileged import NOBODY


def written(folder: Path, text: str) -> dict[str, str]:
    """Return the environment of a user with this configuration file."""
    (folder / "sandbox").mkdir(exist_ok=True)
    (folder / "sandbox" / "config.toml").write_text(text)
    return {"XDG_CONFIG_HOME": str(folder)}


def test_the_default_is_the_subprocess_backend(tmp_path: Path) -> None:
    found = load_configuration({"XDG_CONFIG_HOME": str(tmp_path)})
    assert found == Configuration()
    assert (found.backend, found.container.runtime, found.container.environment) == ("subprocess", None, "auto")


def test_a_file_selects_the_backend_and_its_options(tmp_path: Path) -> None:
    text = 'backend = "container"\n[container]\nhost = "unix:///x"\nruntime = "runsc"\nenvironment = "image"\n'
    found = load_configuration(written(tmp_path, text))
    assert found.backend == "container"
    assert found.container.model_dump() == {"host": "unix:///x", "runtime": "runsc", "environment": "image"}


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    variables = written(tmp_path, 'backend = "container"\n[container]\nhost = "unix:///x"\nruntime = "runsc"\n')
    found = load_configuration({**variables, "SANDBOX_BACKEND": "subprocess", "SANDBOX_RUNTIME": "crun"})
    assert (found.backend, found.container.runtime, found.container.host) == ("subprocess", "crun", "unix:///x")


def test_arguments_override_file_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDBOX_BACKEND", "no-such-backend")
    with Sandbox(backend="subprocess") as sandbox:
        assert sandbox.run("def tool() -> int:\n    return 1\n").value == 1
    with Sandbox() as sandbox, pytest.raises(SpecError, match="no-such-backend"):
        sandbox.run("def tool() -> int:\n    return 1\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('bakend = "container"\n', "bakend: there is no such key; there are: backend, container"),
        ("backend = 3\n", "backend: must be text"),
        ('[container]\nruntim = "crun"\n', "container.runtim: there is no such key; there are: environment, host, run"),
        ('[container]\nenvironment = "copy"\n', 'container.environment: must be "auto", "mount" or "image"'),
        ('container = "runsc"\n', "container: must be a section with keys of its own"),
        ("backend =\n", "not TOML"),
        ('backend = "' + "x" * (1 << 17) + '"\n', "larger"),
    ],
)
def test_an_error_in_a_file_is_reported_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    variables = written(tmp_path, text)
    with pytest.raises(SpecError, match=said) as refusal:
        load_configuration({**variables, "SANDBOX_RUNTIME": "crun"})
    assert str(tmp_path) in refusal.value.message
    assert refusal.value.remedy is not None
    assert len(refusal.value.message) < 2000


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    variables = written(tmp_path, "")
    (tmp_path / "sandbox" / "config.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="not TOML"):
        load_configuration(variables)


def test_a_file_named_by_the_user_must_exist(tmp_path: Path) -> None:
    named = tmp_path / "mine.toml"
    with pytest.raises(SpecError, match="No such file"):
        load_configuration({"SANDBOX_CONFIG": str(named)})
    named.write_text('backend = "container"\n')
    assert load_configuration({"SANDBOX_CONFIG": str(named)}).backend == "container"


@pytest.mark.parametrize("place", ["", "relative/folder"])
def test_only_an_absolute_path_names_the_settings_folder(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    assert load_configuration({"XDG_CONFIG_HOME": place}) == Configuration()


def test_a_folder_in_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "sandbox" / "config.toml").mkdir(parents=True)
    with pytest.raises(SandboxError, match="directory"):
        load_configuration({"XDG_CONFIG_HOME": str(tmp_path)})


def test_an_unreadable_place_has_no_settings(tmp_path: Path) -> None:
    variables = written(tmp_path, "nonsense")
    (tmp_path / "sandbox").chmod(0)
    with as_another_user():
        assert load_configuration(variables) == Configuration()


@contextmanager
def as_another_user() -> Iterator[None]:
    """Drop root's right to look everywhere, for the length of the block."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)
