"""A name in a folder is opened, and nothing that leads elsewhere, with `openat2` and without."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Final

import pytest

from kernel.beneath import open_beneath
from tests.runners.isolated_program import A_USER, ask, folder_of

_OPENAT2: Final = 437
_LOAD, _JUMP_IF, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


def forbidding(error: int) -> str:
    """Return a filter under which only `openat2` fails, with that error."""
    steps = [(_LOAD, 0, 0, 0), (_JUMP_IF, 0, 1, _OPENAT2), (_RETURN, 0, 0, _ERRNO | error), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps).hex()


WAYS: Final = {"openat2": "", "a kernel without it": forbidding(38), "a filter that forbids it": forbidding(1)}
TRY: Final = """
from kernel.beneath import open_beneath
if given["filter"]:
    capabilities.forbid_new_privileges()
    seccomp.install(bytes.fromhex(given["filter"]))
found = {}
folder = os.open(given["folder"], os.O_RDONLY)
for name in given["names"]:
    try:
        opened = open_beneath(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, folder=folder)
        found[name] = "folder" if os.path.isdir("/proc/self/fd/%d" % opened) else os.read(opened, 99).decode()
    except OSError as error:
        found[name] = errno.errorcode[error.errno]
try:
    calls.syscall("openat2", folder, b"file", bytes(24), 24)
    is_there = True
except OSError:
    is_there = False
answer([found, is_there])
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_single_name_is_opened_and_no_link(way: str) -> None:
    user = A_USER if os.geteuid() == 0 else os.geteuid()
    with folder_of(user) as place:
        _fill(place / "folder")
        (place / "secret").write_text("secret")
        names = ["file", "inner", "link", "near", "self", "missing", "..", "../secret", "inner/../file", "/etc/passwd"]
        found, is_there = ask(TRY, user=user, folder=str(place / "folder"), names=names, filter=WAYS[way])
    assert found == {
        "file": "mine",
        "inner": "folder",
        "missing": "ENOENT",
        **dict.fromkeys(("link", "near", "self"), "ELOOP"),
        **dict.fromkeys(("..", "../secret", "inner/../file", "/etc/passwd"), "EINVAL"),
    }
    assert is_there == (way == "openat2")


def _fill(folder: Path) -> None:
    (folder / "inner").mkdir(parents=True)
    (folder / "file").write_text("mine")
    (folder / "link").symlink_to("../secret")
    (folder / "near").symlink_to("file")
    (folder / "self").symlink_to("/proc/self/exe")


def test_a_large_file_is_opened(tmp_path: Path) -> None:
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 1 << 40)
    folder = os.open(tmp_path, os.O_RDONLY)
    opened = open_beneath("large", os.O_RDONLY, folder=folder)
    try:
        assert os.fstat(opened).st_size == 1 << 40
    finally:
        os.close(opened)
        os.close(folder)
