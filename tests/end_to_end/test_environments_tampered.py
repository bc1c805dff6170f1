"""Engines notice changes to a store where they look, use no changed environment, and build it again when asked."""

from __future__ import annotations

import importlib.util
import json
import marshal
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox import Sandbox
from sandbox.errors import EnvironmentTampered
from tests.end_to_end.command_line import sandbox as command
from tests.end_to_end.packages import publish, version_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("index")]

EVIL: Final = "evil"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the packages in the index of this module."""
    folder = tmp_path_factory.mktemp("wheels")
    publish(folder, "left", "1.0")
    publish(folder, "right", "1.0")
    publish(folder, "crowd", "1.0")
    return folder


@pytest.fixture
def verifying(tmp_path: Path) -> str:
    """The path of a policy that has every environment looked at."""
    file = tmp_path / "verified.toml"
    file.write_text('description = "for tests"\nextends = "default"\n[environment]\nverify = true\n')
    return str(file)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """With two environments that share a package's tree."""
    store = tmp_path / "store"
    with Sandbox(store=store) as engine:
        engine.build(requirements=["left"])
        engine.build(requirements=["left", "right"])
    return store


def _bytecode(source: str) -> bytes:
    """Return bytecode that an interpreter runs without a look at any source."""
    code = compile(source, "left.py", "exec")
    return importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8) + marshal.dumps(code)


def _tamper_in_trees(store: Path) -> None:
    """Rewrite the file itself: every environment that links to it has it."""
    (file,) = store.glob("packages/*/content/__pycache__/left.*.pyc")
    file.chmod(0o644)
    file.write_bytes(_bytecode(f"VERSION = {EVIL!r}"))
    file.chmod(0o444)


def _value(engine: Sandbox, *requirements: str) -> Any:
    return engine.run(version_of("left", *requirements)).value


def _run_json(*words: object, code: int = 0) -> Any:
    answer = command(*words[:2], "--json", *words[2:])
    assert (answer.returncode, answer.stderr) == (code, ""), answer
    return json.loads(answer.stdout)


def test_a_tampered_tree_gets_into_nothing_new_where_the_policy_verifies(store: Path, verifying: str) -> None:
    _tamper_in_trees(store)
    with Sandbox(store=store, policy=verifying) as engine:
        assert _value(engine, "left", "crowd") == "1.0"


def test_what_was_refused_as_tampered_is_pruned_and_built_again_as_it_was(store: Path, verifying: str) -> None:
    _tamper_in_trees(store)
    with Sandbox(store=store, policy=verifying) as engine, pytest.raises(EnvironmentTampered) as refused:
        _value(engine, "left")
    assert refused.value.remedy is not None
    key = refused.value.remedy.partition("env prune ")[2].partition("`")[0]
    assert _run_json("env", "prune", key, "--store", store)["environments"]
    with Sandbox(store=store, policy=verifying) as engine:
        assert _value(engine, "left") == "1.0"


def test_what_was_found_by_hand_gets_into_nothing_new_under_any_policy(store: Path) -> None:
    _tamper_in_trees(store)
    assert not any(each["is_intact"] for each in _run_json("env", "verify", "--store", store, code=4))
    with Sandbox(store=store) as engine:
        assert _value(engine, "left", "crowd") == "1.0"


def _remove_environment(home: Path) -> None:
    shutil.rmtree(home / "environment")


def _remove_marker(home: Path) -> None:
    (home / "complete").unlink()


@pytest.mark.parametrize("spoil", [_remove_environment, _remove_marker], ids=lambda spoil: spoil.__name__)
def test_an_environment_that_is_not_whole_is_named_and_built_again(spoil: Callable[[Path], None], store: Path) -> None:
    keys = [each["key"] for each in _run_json("env", "list", "--store", store)]
    spoil(store / "envs" / "1" / keys[0])
    told = {each["key"]: each["is_whole"] for each in _run_json("env", "verify", "--store", store, code=4)}
    assert told == {keys[0]: False, keys[1]: True}
    assert _run_json("env", "verify", keys[0][:12], "--store", store, code=4)[0]["is_whole"] is False
    with Sandbox(store=store) as engine:
        assert (_value(engine, "left"), _value(engine, "left", "right")) == ("1.0", "1.0")
    assert all(each["is_intact"] for each in _run_json("env", "verify", "--store", store))


def test_an_environment_without_its_packages_is_refused_by_name(store: Path) -> None:
    home = next(path for path in store.glob("envs/1/*") if not list(path.glob("**/right.py")))
    os.chmod(home / "environment", 0o755)
    shutil.rmtree(home / "environment" / "lib")
    with Sandbox(store=store) as engine, pytest.raises(EnvironmentTampered, match=r"missing: .*left") as refused:
        _value(engine, "left")
    assert "env prune" in str(refused.value.remedy)
