"""Engines on the near side of an outside of the tests' own (see `tests.outside`), as root and without root."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.checkout import ROOT
from tests.escape.engines import Engine, engine_of
from tests.outside import Outside, outside
from tests.unprivileged import NOBODY

DESCRIBED: Final = 'description = "for tests of what calls reach"\n'


@pytest.fixture(scope="module")
def world() -> Iterator[Outside]:
    """Both sides; what is in its folder can be read by everybody."""
    with tempfile.TemporaryDirectory(prefix="sandbox-outside-") as folder:
        Path(folder).chmod(0o755)
        with outside(Path(folder)) as world:
            yield world


@pytest.fixture(scope="module")
def engine_of_root(world: Outside) -> Iterator[Engine]:
    with engine_of(*world.inside(), sys.executable, cwd=ROOT) as (engine, _):
        yield engine


@pytest.fixture(scope="module")
def engine_without_root(world: Outside, unprivileged_python: Path) -> Iterator[Engine]:
    command = (*world.inside("--setuid", str(NOBODY), "--setgid", str(NOBODY)), str(unprivileged_python), "-I")
    with engine_of(*command, cwd="/") as (engine, _):
        yield engine


@pytest.fixture(params=["engine_of_root", "engine_without_root"])
def engine(request: pytest.FixtureRequest, engine_of_root: Engine) -> Engine:
    """Each of the two in turn."""
    found: Engine = (
        engine_of_root if request.param == "engine_of_root" else request.getfixturevalue("engine_without_root")
    )
    return found


def policy(world: Outside, name: str, **settings: Any) -> str:
    """The path of a policy whose network is public, with these settings of it."""
    lines = [f"{key} = {value!r}" for key, value in {"mode": "public", **settings}.items()]
    file = world.authority.parent / f"{name}.toml"
    file.write_text(DESCRIBED + "[network]\n" + "\n".join(lines) + "\n")
    file.chmod(0o644)
    return str(file)
