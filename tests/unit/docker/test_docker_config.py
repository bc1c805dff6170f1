"""A broken Docker configuration file is ignored where it does not matter, and otherwise an error that names it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from sandbox.backends.container.docker.client import connect
from sandbox.backends.container.docker.config import usable_docker_config
from sandbox.backends.container.docker.failures import translate_failures
from sandbox.errors import BackendUnavailable
from tests.end_to_end.command_line import sandbox
from tests.unit.docker.test_daemon import daemon_that_says
from tests.unprivileged import without_privileges

pytestmark = pytest.mark.slow  # the SDK takes half a second to import

SPOKEN: Final = json.dumps({"ApiVersion": "1.43"}).encode()
NOT_JSON: Final[dict[str, bytes]] = {
    "empty": b"",
    "half": b"{",
    "binary": b"\xff\xfe\x00",
    "marked": b"\xef\xbb\xbf{}",
}
WRONG_TYPES: Final[dict[str, str]] = {
    "list": "[]",
    "number": "3",
    "null": "null",
    "auths_list": '{"auths": [1]}',
    "auths_text": '{"auths": "x"}',
    "login_text": '{"auths": {"registry.example.org": "secret"}}',
    "login_null": '{"auths": {"registry.example.org": null}}',
    "login_number": '{"auths": {"registry.example.org": {"auth": 3}}}',
    "login_no_base64": '{"auths": {"registry.example.org": {"auth": "secret"}}}',
    "login_surrogate": '{"auths": {"registry.example.org": {"auth": "\\ud800"}}}',
    "login_not_utf8": '{"auths": {"registry.example.org": {"auth": "//86eA=="}}}',
    "login_of_old_form": '{"registry.example.org": {"auth": "secret"}}',
    "store_number": '{"credsStore": 3}',
    "helpers_list": '{"credHelpers": [1]}',
    "proxies_list": '{"proxies": []}',
    "proxies_null": '{"proxies": null}',
    "proxy_text": '{"proxies": {"default": "x"}}',
    "headers_list": '{"HttpHeaders": [1]}',
    "header_number": '{"HttpHeaders": {"a": 3}}',
    "header_lines": '{"HttpHeaders": {"a": "b\\nsecret"}}',
    "header_name": '{"HttpHeaders": {"a b\\n": "c"}}',
    "nested": "[" * 100_000,
}
USABLE: Final[dict[str, str]] = {
    "empty_object": "{}",
    "no_auths": '{"auths": null}',
    "store_only": '{"auths": {"registry.example.org": {}}, "credsStore": "desktop", "currentContext": "x"}',
    "login": '{"auths": {"registry.example.org": {"auth": "dXNlcjpwYXNz"}}}',
    "proxy": '{"proxies": {"default": {"httpProxy": "http://proxy:1"}}}',
    "headers": '{"HttpHeaders": {"X-Meta": "a b"}}',
}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / ".docker"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("DOCKER_CONFIG", "DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(name, raising=False)
    return folder / "config.json"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with daemon_that_says(SPOKEN) as found:
        yield found


def _refused(url: str, file: Path) -> BackendUnavailable:
    with pytest.raises(BackendUnavailable) as refused:
        connect(url).close()
    assert str(file) in refused.value.message
    assert "secret" not in str(refused.value)
    assert refused.value.remedy
    return refused.value


@pytest.mark.parametrize("content", WRONG_TYPES.values(), ids=[*WRONG_TYPES])
def test_wrong_types_are_an_error_that_names_the_file(content: str, url: str, file: Path) -> None:
    file.write_text(content)
    _refused(url, file)


def test_the_wrong_field_is_named(url: str, file: Path) -> None:
    file.write_text(WRONG_TYPES["login_number"])
    assert "auths.registry.example.org.auth" in _refused(url, file).message


@pytest.mark.parametrize("content", USABLE.values(), ids=[*USABLE])
def test_a_usable_file_is_used(content: str, url: str, file: Path) -> None:
    file.write_text(content)
    connect(url).close()


@pytest.mark.parametrize("content", NOT_JSON.values(), ids=[*NOT_JSON])
def test_a_file_that_is_not_json_is_ignored_to_connect(content: bytes, url: str, file: Path) -> None:
    file.write_bytes(content)
    connect(url).close()


@pytest.mark.parametrize("content", NOT_JSON.values(), ids=[*NOT_JSON])
def test_a_file_that_is_not_json_is_an_error_to_log_in(content: bytes, file: Path) -> None:
    file.write_bytes(content)
    with pytest.raises(BackendUnavailable, match=r"config\.json is broken: it is not valid JSON"):
        usable_docker_config(is_for_login=True).__enter__()


def test_a_folder_is_ignored_to_connect_and_an_error_to_log_in(url: str, file: Path) -> None:
    file.mkdir()
    connect(url).close()
    with pytest.raises(BackendUnavailable, match="Is a directory"):
        usable_docker_config(is_for_login=True).__enter__()


@pytest.mark.root
def test_an_unreadable_file_is_ignored_to_connect(url: str, file: Path) -> None:
    file.write_text("{}")
    file.chmod(0)
    import docker.errors  # noqa: F401 - the user below may be unable to read it

    with without_privileges(file):
        connect(url).close()
        with pytest.raises(BackendUnavailable, match="Permission denied"):
            usable_docker_config(is_for_login=True).__enter__()


def test_a_pipe_is_refused_without_waiting(url: str, file: Path) -> None:
    os.mkfifo(file)
    _refused(url, file)


@pytest.mark.filterwarnings("ignore:docker-credential-missing not installed")
def test_a_missing_credential_helper_is_named(url: str, file: Path) -> None:
    file.write_text('{"credsStore": "missing"}')
    client = connect(url)
    with (
        pytest.raises(BackendUnavailable, match=r"config\.json is broken.*docker-credential-missing"),
        translate_failures("pulling"),
        usable_docker_config(is_for_login=True),
    ):
        client.api.pull("registry.example.org/image", tag="x", stream=True)
    client.close()


@pytest.mark.parametrize("arguments", [("image", "list"), ("image", "bootstrap"), ("doctor", "--backend", "container")])
def test_commands_name_the_file(arguments: tuple[str, ...], url: str, file: Path) -> None:
    file.write_text("[]")
    answer = sandbox(*arguments, env={"DOCKER_HOST": url, "HOME": str(file.parent.parent)})
    assert str(file) in " ".join((answer.stdout + answer.stderr).replace("│", " ").split())
    assert "Traceback" not in answer.stdout + answer.stderr


def test_a_call_names_the_file(url: str, file: Path, tmp_path: Path) -> None:
    file.write_text("[]")
    tool = tmp_path / "tool.py"
    tool.write_text("def run() -> int:\n    return 1\n")
    answer = sandbox(
        "run", str(tool), "--backend", "container", env={"DOCKER_HOST": url, "HOME": str(file.parent.parent)}
    )
    assert str(file) in " ".join((answer.stdout + answer.stderr).split())
    assert "Traceback" not in answer.stdout + answer.stderr
