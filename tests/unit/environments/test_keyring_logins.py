"""A password that only the machine's keyring has is asked of it, where pip or uv are told so, and kept to ourselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.environments.indexes.answers import Fault
from sandbox.environments.indexes.keyring_logins import _password
from sandbox.environments.indexes.settings import IndexSettings, read_index_settings
from sandbox.environments.indexes.upstream import Patience, Upstream
from tests.indexes import LocalIndex

SECRET = "hunter2"
_KEYRING = '#!/bin/sh\necho "$@" >> {asked}\n[ "$1 $3" = "get bob" ] && [ "$2" = "{service}" ] && echo {secret}\n'


@pytest.fixture
def index(tmp_path: Path) -> Iterator[LocalIndex]:
    with LocalIndex(tmp_path / "index", login=("bob", SECRET)) as running:
        running.add("child", "2.0")
        yield running


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of somebody who has a keyring."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    _password.cache_clear()
    yield tmp_path
    _password.cache_clear()


def _keyring(home: Path, *, service: str) -> None:
    program = home / "bin" / "keyring"
    program.write_text(_KEYRING.format(asked=home / "asked", service=service, secret=SECRET))
    program.chmod(0o755)


def _settings(home: Path, index: LocalIndex, provider: str | None, *, user: str = "bob@") -> IndexSettings:
    environ = {"PIP_INDEX_URL": index.url.replace("//", f"//{user}")}
    told = environ | ({"PIP_KEYRING_PROVIDER": provider} if provider else {})
    return read_index_settings(told, home=home, etc=home / "etc", prefix=home / "prefix")


def _found(settings: IndexSettings) -> list[str]:
    upstream = Upstream(settings, patience=Patience(attempts=1))
    try:
        return [file.filename for _ in range(2) for file in upstream.page(settings.indexes[0], "child")]
    finally:
        upstream.close()


@pytest.mark.slow
@pytest.mark.parametrize("service", ["{url}", "127.0.0.1"])
def test_a_password_is_had_from_the_keyring_and_asked_for_once(service: str, home: Path, index: LocalIndex) -> None:
    _keyring(home, service=service.format(url=index.url))
    settings = _settings(home, index, "subprocess")
    assert _found(settings) == ["child-2.0-py3-none-any.whl"] * 2
    asked = (home / "asked").read_text().splitlines()
    assert len(asked) == len(set(asked))
    assert SECRET not in repr(settings)


@pytest.mark.parametrize(("provider", "user"), [(None, "bob@"), ("disabled", "bob@"), ("subprocess", "")])
def test_nobody_is_asked_who_was_not_to_be(provider: str | None, user: str, home: Path, index: LocalIndex) -> None:
    _keyring(home, service=index.url)
    with pytest.raises(Fault, match="it wants a login"):
        _found(_settings(home, index, provider, user=user))
    assert not (home / "asked").exists()


def test_a_machine_without_a_keyring_has_no_password(home: Path, index: LocalIndex) -> None:
    with pytest.raises(Fault, match="it wants a login"):
        _found(_settings(home, index, "subprocess"))


def test_uv_says_so_in_its_own_way(home: Path) -> None:
    told = {"UV_INDEX": "https://bob@ours.test/simple", "UV_KEYRING_PROVIDER": "subprocess"}
    assert read_index_settings(told, home=home, etc=home, prefix=home).asks_keyring
    told["UV_KEYRING_PROVIDER"] = "disabled"
    assert not read_index_settings(told, home=home, etc=home, prefix=home).asks_keyring
