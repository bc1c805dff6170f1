"""What a user gets from the wheel, and a developer from an editable install, runs a call."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.packaging.builds import Built

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["wheel", "editable"])
def installed(request: pytest.FixtureRequest, built: Built, make_environment: Callable[..., Path]) -> Path:
    """The `bin` of an environment with nothing but Sandbox in it."""
    if request.param == "wheel":
        return make_environment("wheel", str(built.wheel))
    return make_environment("editable", "--editable", str(ROOT))


@pytest.fixture(scope="module")
def installed_wheel(built: Built, make_environment: Callable[..., Path]) -> Path:
    return make_environment("bare-wheel", "--no-deps", str(built.wheel))


def test_a_fresh_install_runs_a_call(installed: Path, tmp_path: Path) -> None:
    command = [str(installed / "sandbox"), "run", str(ROOT / "examples" / "word_count.py")]
    arguments = ["-a", "text=to be or not to be", "--json"]
    answer = subprocess.run([*command, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["status"] == "ok"


def test_the_data_folders_of_a_wheel_are_no_packages(installed_wheel: Path, tmp_path: Path) -> None:
    script = "import importlib.util as u; print([n for n in ('runners', 'policies', 'images') if u.find_spec(n)])"
    answer = subprocess.run(
        [installed_wheel / "python", "-I", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"
