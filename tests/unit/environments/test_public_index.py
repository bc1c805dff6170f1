"""What uv says of its default index is asked for once per uv, and remembered only where nobody else can write."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.environments.indexes.public_index import index_of
from sandbox.errors import EnvironmentUnavailable


def _uv(folder: Path, says: str) -> Path:
    """A program that notes each time it is asked."""
    program = folder / "uv"
    program.write_text(f"#!/bin/sh\necho >> {folder}/asked\ncat <<END\n--default-index <URL>\n  {says}\nEND\n")
    program.chmod(0o755)
    return program


def _asked(folder: Path) -> int:
    return len((folder / "asked").read_text())


def test_a_uv_is_asked_once(tmp_path: Path) -> None:
    program = _uv(tmp_path, "by default: <https://one.test/simple>")
    found = {index_of(program, remembered_in=tmp_path / "store") for _ in range(3)}
    assert (found, _asked(tmp_path)) == ({"https://one.test/simple"}, 1)


def test_another_uv_is_asked_itself(tmp_path: Path) -> None:
    index_of(_uv(tmp_path, "by default: <https://one.test/simple>"), remembered_in=tmp_path / "store")
    other = _uv(tmp_path, "by default: <https://other.test/simple>")
    assert index_of(other, remembered_in=tmp_path / "store") == "https://other.test/simple"


def test_a_folder_that_others_can_write_to_is_not_believed(tmp_path: Path) -> None:
    program, folder = _uv(tmp_path, "by default: <https://one.test/simple>"), tmp_path / "store"
    index_of(program, remembered_in=folder)
    note = folder / "public-index"
    note.write_text(note.read_text().replace("one.test", "evil.test"))
    folder.chmod(0o777)
    assert index_of(program, remembered_in=folder) == "https://one.test/simple"


def test_where_nothing_can_be_remembered_uv_is_asked_again(tmp_path: Path) -> None:
    program = _uv(tmp_path, "by default: <https://one.test/simple>")
    (tmp_path / "file").touch()
    found = {index_of(program, remembered_in=tmp_path / "file") for _ in range(2)}
    assert (found, _asked(tmp_path)) == ({"https://one.test/simple"}, 2)


def test_a_uv_that_does_not_say_it_is_no_index(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnavailable, match="does not say"):
        index_of(_uv(tmp_path, "nothing"), remembered_in=tmp_path / "store")
