"""Folders are shown under their names, also names that are not text."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from kernel import mounts

_SHOWING: Final = """
import os, sys
sys.path.insert(0, sys.argv[1])
from kernel import mounts
mounts.isolate_propagation()
mounts.bind(sys.argv[2], sys.argv[3])
print(os.listdir(sys.argv[3]))
"""


@pytest.mark.root
def test_a_folder_whose_name_is_no_text_is_shown_and_can_be_shown_at(tmp_path: Path) -> None:
    source, target = (tmp_path / os.fsdecode(name) for name in (b"source\xff", b"target\xfe"))
    source.mkdir()
    target.mkdir()
    (source / "shown").touch()
    runner = str(Path(str(mounts.__file__)).parents[1])
    command = ["unshare", "-m", sys.executable, "-I", "-c", _SHOWING, runner, str(source), str(target)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout) == (0, "['shown']\n"), answer.stderr
