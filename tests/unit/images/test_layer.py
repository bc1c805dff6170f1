"""A layer holds an environment's files and nothing of this machine: the same bytes for the same environment."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.environments.disk.file_inventory import list_digest, take_inventory
from sandbox.errors import EnvironmentTampered, EnvironmentUnavailable
from sandbox.images.layer import Layer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "environment"
    (root / "bin").mkdir(parents=True)
    (root / "lib" / "deep").mkdir(parents=True)
    (root / "lib" / "module.py").write_text("answer = 42\n")
    (root / "lib" / "deep" / "größe.bin").write_bytes(bytes(range(256)) * 5000)
    (root / "bin" / "tool").write_text("#!/bin/sh\n")
    (root / "bin" / "tool").chmod(0o6755)
    (root / "bin" / "python").symlink_to("/usr/bin/python3")
    os.utime(root / "lib" / "module.py", (1_000_000_000, 1_000_000_000))
    return root


def layer(folder: Path) -> Iterator[bytes]:
    """Return the layer of an environment whose manifest lists the present files."""
    return iter(Layer(folder, place="environment", files=list_digest(take_inventory(folder).files)))


def members(archive: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as file:
        return {member.name: member for member in file.getmembers()}


def test_a_layer_holds_every_file_with_its_content(folder: Path) -> None:
    archive = b"".join(layer(folder))
    with tarfile.open(fileobj=io.BytesIO(archive)) as file:
        read = {
            name: file.extractfile(name) for name in ("environment/lib/module.py", "environment/lib/deep/größe.bin")
        }
        contents = {name: each.read() for name, each in read.items() if each is not None}
    assert contents == {name: folder.parent.joinpath(name).read_bytes() for name in read}
    assert set(members(archive)) == {
        "environment",
        *(f"environment/{p.relative_to(folder)}" for p in folder.rglob("*")),
    }


def test_every_file_belongs_to_root_and_is_read_only(folder: Path) -> None:
    found = members(b"".join(layer(folder)))
    assert {(each.uid, each.gid, each.uname, each.gname) for each in found.values()} == {(0, 0, "", "")}
    assert found["environment/bin/tool"].mode == 0o555
    assert found["environment/lib/module.py"].mode == 0o444
    assert found["environment/lib"].mode == 0o555
    assert found["environment/bin/python"].linkname == "/usr/bin/python3"


def test_the_modification_time_stays(folder: Path) -> None:
    found = members(b"".join(layer(folder)))
    assert found["environment/lib/module.py"].mtime == 1_000_000_000


def test_a_layer_comes_in_pieces_and_is_reproducible(folder: Path) -> None:
    pieces = list(layer(folder))
    assert max(map(len, pieces)) <= 1 << 20
    assert b"".join(pieces) == b"".join(layer(folder))


def test_a_special_file_is_refused(folder: Path) -> None:
    pieces = layer(folder)
    os.mkfifo(folder / "lib" / "pipe")
    with pytest.raises(EnvironmentUnavailable, match="pipe"):
        list(pieces)


def test_a_file_truncated_during_reading_ends_the_archive(folder: Path) -> None:
    pieces = layer(folder)
    read_to(pieces, "größe.bin".encode())
    (folder / "lib" / "deep" / "größe.bin").write_bytes(b"short")
    with pytest.raises(EnvironmentUnavailable, match="changed its size"):
        list(pieces)


def test_an_environment_removed_during_reading_ends_the_archive(folder: Path) -> None:
    pieces = layer(folder)
    read_to(pieces, b"environment/bin/tool")
    folder.rename(folder.parent / "elsewhere")
    with pytest.raises(EnvironmentUnavailable, match="went away"):
        list(pieces)


@pytest.mark.parametrize("change", ["changed", "gone", "new", "executable"])
def test_files_changed_since_the_build_end_the_archive(folder: Path, change: str) -> None:
    pieces, file = layer(folder), folder / "lib" / "module.py"
    if change == "changed":
        file.write_text("answer = 43\n")
    elif change == "gone":
        file.unlink()
    elif change == "new":
        (folder / "lib" / "other.py").touch()
    else:
        file.chmod(0o755)
    with pytest.raises(EnvironmentTampered, match="not those that were built"):
        list(pieces)


def read_to(pieces: Iterator[bytes], name: bytes) -> None:
    while name not in next(pieces):
        pass
