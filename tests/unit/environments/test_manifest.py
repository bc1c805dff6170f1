"""Manifests read back unchanged, keys tell all inputs apart, and malformed manifests are refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from sandbox.environments.key import environment_key, tree_key
from sandbox.environments.lock import Lock, LockedPackage
from sandbox.environments.store.manifest import Manifest
from tests.unit.environments.made_wheels import INTERPRETER, key_of, manifest_of

PACKAGE = LockedPackage(name="gadget", version="1.0", wheel="gadget-1.0-py3-none-any.whl", sha256="a" * 64)
LOCK = Lock(requirements=("gadget",), interpreter=INTERPRETER, packages=(PACKAGE,))


def test_a_manifest_reads_back_unchanged() -> None:
    manifest = manifest_of(key_of(1), lock=LOCK, trees=(key_of(2),), modules=("gadget",), pth=True, bytes_total=7)
    assert Manifest.model_validate_json(manifest.model_dump_json()) == manifest


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"key": "../../etc"},
        {"key": "A" * 64},
        {"files": "x"},
        {"trees": ("x",)},
        {"bytes_own": -1},
        {"created": datetime(2026, 1, 1)},  # noqa: DTZ001
        {"unknown": 1},
    ],
)
def test_a_malformed_manifest_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        manifest_of(key_of(1), **change)


def test_equal_locks_have_one_key() -> None:
    other = LOCK.model_copy(update={"requirements": ("gadget>=1",)})
    assert environment_key(LOCK, "python", builder_digest="b") == environment_key(other, "python", builder_digest="b")


def test_a_key_depends_on_every_input() -> None:
    changed = PACKAGE.model_copy(update={"sha256": "b" * 64})
    other = Lock(requirements=("gadget",), interpreter=INTERPRETER, packages=(changed,))
    keys = {
        environment_key(LOCK, "python", builder_digest="b"),
        environment_key(other, "python", builder_digest="b"),
        environment_key(LOCK, "another", builder_digest="b"),
        environment_key(LOCK, "python", builder_digest="c"),
        tree_key(PACKAGE, INTERPRETER, "b"),
        tree_key(changed, INTERPRETER, "b"),
        tree_key(PACKAGE, "cp312", "b"),
        tree_key(PACKAGE, INTERPRETER, "c"),
    }
    assert len(keys) == 8
    assert all(len(key) == 64 and int(key, 16) for key in keys)


def test_parts_of_a_key_do_not_run_into_each_other() -> None:
    first = environment_key(LOCK, "ab", builder_digest="c")
    assert first != environment_key(LOCK, "a", builder_digest="bc")


def test_times_are_written_with_their_zone() -> None:
    assert manifest_of(key_of(1)).created == datetime(2026, 1, 2, tzinfo=UTC)
