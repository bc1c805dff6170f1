"""Broken settings of pip, uv and netrc on the command line: an error that names the file, or nothing at all."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.command_line import sandbox
from tests.indexes import LocalIndex

pytestmark = pytest.mark.slow

BROKEN: Final = {
    ".config/pip/pip.conf": "[global",
    ".config/uv/uv.toml": "index-url = " + "[" * 100_000,
}


def _machine(home: Path, index: LocalIndex) -> dict[str, str]:
    return {
        "HOME": str(home),
        "PIP_CONFIG_FILE": "",
        "PIP_INDEX_URL": index.url,
        "UV_CONFIG_FILE": "",
        "XDG_CONFIG_HOME": "",
        "NETRC": "",
    }


@pytest.mark.parametrize("file", BROKEN)
@pytest.mark.parametrize("command", ["lock", "build", "run"])
def test_broken_settings_are_an_error_that_names_the_file(file: str, command: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(BROKEN[file])
    tool = tmp_path / "tool.py"
    tool.write_text("# /// script\n# dependencies = ['small']\n# ///\ndef run() -> int:\n    return 1\n")
    words = ("run", tool) if command == "run" else ("env", command, "small")
    with LocalIndex(tmp_path / "index") as index:
        answer = sandbox(*words, "--store", tmp_path / "store", env=_machine(tmp_path, index))
    assert answer.returncode == 4
    assert answer.stderr.startswith("error: ")
    assert f"{path} cannot be read" in answer.stderr
    assert index.asked == []


def test_a_broken_netrc_does_not_matter_to_an_open_index(tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 password")
    with LocalIndex(tmp_path / "index") as index:
        index.add("small", "1.0")
        words = ("env", "lock", "small", "--store", tmp_path / "store")
        answer = sandbox(*words, env=_machine(tmp_path, index))
    assert answer.returncode == 0, answer
    assert index.authorizations
    assert {*index.authorizations} == {None}
