"""`sandbox artifact`, and files into and out of `sandbox run`."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.command_line import sandbox

pytestmark = pytest.mark.slow

PNG: Final = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 640, 480)
TOOL: Final = f"""
import os
def tool(lines: int = 0) -> str:
    for number in range(lines):
        print("line", number)
    os.makedirs("outputs/sub")
    open("outputs/sub/plot.png", "wb").write({PNG!r})
    open("outputs/\\u202etxt.a", "w").write("x")
    os.symlink("/etc/passwd", "outputs/link\\u200b")
    return open("inputs/data/a.txt").read() if os.path.exists("inputs") else "none"
"""


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    path = tmp_path / "tool.py"
    path.write_text(TOOL)
    return path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def ids(store: Path, *, tenant: str = "") -> dict[str, str]:
    """Return the kept files by name."""
    listed = sandbox("artifact", "list", "--artifacts", store, "--tenant", tenant, "--json")
    assert listed.returncode == 0
    return {each["name"]: each["id"] for each in json.loads(listed.stdout)}


def test_a_file_is_given_and_files_left_are_reported(tool: Path, store: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("what it holds")
    answer = sandbox("run", tool, "--file", f"data/a.txt={tmp_path / 'a.txt'}", "--artifacts", store)
    assert (answer.returncode, answer.stdout) == (0, "what it holds\n")
    assert "sub/plot.png · image/png · 24 B · 640 × 480" in answer.stderr  # noqa: RUF001
    assert "not taken: link\\u200b: it is a symbolic link" in answer.stderr
    assert "\u202e" not in answer.stderr
    assert set(ids(store)) == {"sub/plot.png", "\u202etxt.a"}


def test_what_is_left_is_saved_below_a_folder(tool: Path, store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    answer = sandbox("run", tool, "--save-artifacts", folder, "--artifacts", store, "-a", "lines=2000")
    assert answer.returncode == 0
    assert (folder / "sub" / "plot.png").read_bytes() == PNG
    assert (folder / "stdout.txt").read_text().count("\n") == 2000


def test_what_cannot_be_saved_is_a_warning_and_no_success(tool: Path, store: Path, tmp_path: Path) -> None:
    words = ("run", tool, "--save-artifacts", tmp_path / "saved", "--artifacts", store)
    plot = tmp_path / "saved" / "sub" / "plot.png"
    plot.parent.mkdir(parents=True)
    plot.write_text("of an earlier call")
    told = sandbox(*words)
    assert (told.returncode, "warning: not saved: sub/plot.png: " in told.stderr) == (2, True)
    document = sandbox(*words, "--json")
    assert document.returncode == 2
    assert [each.partition(": /")[0] for each in json.loads(document.stdout)["warnings"]] == [
        "not saved: sub/plot.png",
        "not saved: \\u202etxt.a",
    ]
    assert plot.read_text() == "of an earlier call"
    assert sandbox(*words, "--replace").returncode == 0
    assert plot.read_bytes() == PNG


def test_a_call_that_fails_keeps_its_exit_code_whatever_is_saved(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "tool.py"
    path.write_text("def tool():\n    open('outputs/a', 'w').write('x')\n    raise ValueError\n")
    (tmp_path / "a").write_text("here")
    answer = sandbox("run", path, "--save-artifacts", tmp_path, "--artifacts", store)
    assert (answer.returncode, "not saved: a: " in answer.stderr) == (1, True)


def test_what_the_store_could_not_keep_is_named_and_no_success(tool: Path, tmp_path: Path) -> None:
    words = ("run", tool, "--save-artifacts", tmp_path / "saved")
    answer = sandbox(*words, "--artifacts", "/proc/nowhere")
    assert answer.returncode == 5
    assert "not taken: sub/plot.png: the store takes nothing" in answer.stderr
    assert "not taken: \\u202etxt.a: the store takes nothing" in answer.stderr
    path = tmp_path / "printing.py"
    path.write_text("def tool():\n    print('line\\n' * 9000)\n")
    answer = sandbox("run", path, "--save-artifacts", tmp_path / "saved", "--artifacts", "/proc/nowhere")
    assert (answer.returncode, "could not be kept" in answer.stderr) == (5, True)


@pytest.mark.parametrize("place", ["tool.py", "tool.py/below", "/proc/saved"])
def test_a_folder_that_takes_no_files_is_refused_before_the_call(tool: Path, store: Path, place: str) -> None:
    answer = sandbox("run", tool, "--save-artifacts", tool.parent / place, "--artifacts", store)
    assert answer.returncode == 2
    assert "nothing can be saved there" in answer.stderr
    assert ids(store) == {}


def test_nothing_is_replaced_where_nothing_is_saved(tool: Path) -> None:
    answer = sandbox("run", tool, "--replace")
    assert (answer.returncode, "it goes with --save-artifacts" in answer.stderr) == (2, True)


def test_a_file_named_like_the_kept_stdout_is_saved_next_to_it(tmp_path: Path, store: Path) -> None:
    path = tmp_path / "tool.py"
    path.write_text("def tool():\n    open('outputs/stdout.txt', 'w').write('mine')\n    print('line\\n' * 9000)\n")
    answer = sandbox("run", path, "--save-artifacts", tmp_path / "saved", "--artifacts", store)
    assert "not saved" not in answer.stderr
    saved = {each.name: each.read_text() for each in (tmp_path / "saved").iterdir()}
    assert saved.pop("stdout.txt") == "mine"
    assert [(name[:7], text.count("line")) for name, text in saved.items()] == [("stdout-", 9000)]


def test_a_link_in_the_way_is_not_followed(tool: Path, store: Path, tmp_path: Path) -> None:
    folder, outside = tmp_path / "saved", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (folder / "sub").symlink_to(outside)
    answer = sandbox("run", tool, "--save-artifacts", folder, "--artifacts", store)
    assert "leads elsewhere" in answer.stderr
    assert list(outside.iterdir()) == []


def test_what_was_cut_is_read_page_by_page(tool: Path, store: Path) -> None:
    answer = sandbox("run", tool, "-a", "lines=5000", "--artifacts", store, "--json")
    stdout = json.loads(answer.stdout)["stdout"]
    assert stdout["truncated"]
    assert f"artifact {stdout['artifact']}" in stdout["text"]
    id = stdout["artifact"][:12]
    shown = sandbox("artifact", "show", id, "--lines", "3001:3002", "--artifacts", store)
    assert (shown.returncode, shown.stdout) == (0, "line 3000\nline 3001\n")
    assert "go on with --bytes" in shown.stderr
    assert sandbox("artifact", "show", id, "--bytes", "0:6", "--artifacts", store).stdout == "line 0"
    assert sandbox("artifact", "show", id, "--artifacts", store).stdout.count("\n") == 5000
    found = sandbox("artifact", "grep", id, "LINE 300[01]$", "-i", "--artifacts", store)
    assert (found.returncode, found.stdout) == (0, "3001: line 3000\n3002: line 3001\n")
    assert sandbox("artifact", "grep", id, "nothing", "--artifacts", store).returncode == 1
    document = json.loads(sandbox("artifact", "grep", id, "line 7$", "--artifacts", store, "--json").stdout)
    assert document == {"found": [{"line": 8, "text": "line 7", "start": 0}], "is_whole": True}
    page = json.loads(sandbox("artifact", "show", id, "--lines", "2:2", "--artifacts", store, "--json").stdout)
    told = {"name": "stdout.txt", "start": 7, "end": 14, "total": stdout["characters"], "first_line": 2}
    assert {name: page[name] for name in told} == told
    assert (page["id"], page["text"], page["is_cut"]) == (stdout["artifact"], "line 1\n", False)
    assert "base64" not in page


def test_what_is_no_text_is_described_or_given_as_it_is(tool: Path, store: Path, tmp_path: Path) -> None:
    sandbox("run", tool, "--artifacts", store)
    id = ids(store)["sub/plot.png"]
    shown = sandbox("artifact", "show", id, "--artifacts", store)
    assert shown.stdout == "sub/plot.png · image/png · 24 B · 640 × 480\n"  # noqa: RUF001
    part = sandbox("artifact", "show", id, "--bytes", "1:4", "--artifacts", store)
    assert part.stdout == "PNG"
    page = json.loads(sandbox("artifact", "show", id, "--bytes", "0:4", "--artifacts", store, "--json").stdout)
    assert (page["base64"], page["width"], "text" in page) == ("iVBORw==", 640, False)
    saved = sandbox("artifact", "save", id, tmp_path / "copy.png", "--artifacts", store, "--json")
    assert (saved.returncode, (tmp_path / "copy.png").read_bytes()) == (0, PNG)
    assert json.loads(saved.stdout) == {"id": id, "saved": str(tmp_path / "copy.png")}
    assert sandbox("artifact", "save", id, tmp_path / "copy.png", "--artifacts", store).returncode == 2


def test_tenants_see_only_their_own(tool: Path, store: Path) -> None:
    sandbox("run", tool, "--artifacts", store, "--tenant", "one")
    assert ids(store) == {}
    id = ids(store, tenant="one")["sub/plot.png"]
    assert sandbox("artifact", "show", id, "--artifacts", store).returncode == 2
    assert sandbox("artifact", "show", id, "--artifacts", store, "--tenant", "one").returncode == 0


@pytest.mark.parametrize(
    "words", [("show", "0" * 12), ("grep", "0" * 12, "x"), ("save", "0" * 12, "x"), ("show", "../x"), ("show", "")]
)
def test_what_is_not_kept_is_a_mistake_of_the_caller(store: Path, words: tuple[str, ...]) -> None:
    answer = sandbox("artifact", *words, "--artifacts", store)
    assert answer.returncode == 2
    assert "no artifact" in answer.stderr


def test_a_list_leaves_room_for_names_and_names_ids_that_can_be_given_back(tool: Path, store: Path) -> None:
    sandbox("run", tool, "--artifacts", store)
    listed = sandbox("artifact", "list", "--artifacts", store, env={"COLUMNS": "70"}).stdout.splitlines()
    rows = {line.split()[1]: line.split() for line in listed[2:]}
    assert rows["sub/plot.png"][2:6] == ["image/png", "24", "B", "just"]
    shown = sandbox("artifact", "show", rows["sub/plot.png"][0], "--artifacts", store)
    assert shown.stdout.startswith("sub/plot.png")


def test_an_empty_store_says_so(store: Path) -> None:
    assert sandbox("artifact", "list", "--artifacts", store).stdout == "no artifact is kept\n"


@pytest.mark.parametrize("given", ["../a=/etc/hosts", "a=/no/such/file", "a=/dev/zero", "a"])
def test_what_cannot_be_given_is_refused(tool: Path, given: str) -> None:
    answer = sandbox("run", tool, "--file", given)
    assert answer.returncode == 2
    assert answer.stdout == ""
