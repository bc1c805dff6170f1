"""A user's install from a release and a developer's editable install run calls."""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.checkout import ROOT
from tests.packaging.builds import Built

pytestmark = pytest.mark.slow


README_COMMAND: Final = r"^python3 -m venv .*$"


@pytest.fixture(scope="module")
def installed_wheel(built: Built, make_environment: Callable[..., Path]) -> Path:
    return make_environment("bare-wheel", "--no-deps", str(built.wheel))


def test_the_first_command_of_the_readme_works_in_an_unpacked_release(built: Built, tmp_path: Path) -> None:
    with tarfile.open(built.sdist) as sdist:
        sdist.extractall(tmp_path, filter="data")
    (checkout,) = tmp_path.iterdir()
    readme = (checkout / "README.md").read_text()
    (command,) = re.findall(README_COMMAND, readme, flags=re.MULTILINE)
    answer = subprocess.run(["bash", "-c", command], cwd=checkout, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert '"words": 6' in answer.stdout


def test_an_editable_install_runs_a_call(make_environment: Callable[..., Path], tmp_path: Path) -> None:
    programs = make_environment("editable", "--editable", str(ROOT))
    tool = ROOT / "examples" / "word_count.py"
    command = [str(programs / "sandbox"), "run", str(tool), "-a", "text=to be", "--json"]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["status"] == "ok"


def test_the_data_folders_of_a_wheel_are_no_packages(installed_wheel: Path, tmp_path: Path) -> None:
    script = "import importlib.util as u; print([n for n in ('runners', 'policies', 'images') if u.find_spec(n)])"
    answer = subprocess.run(
        [installed_wheel / "python", "-I", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"
