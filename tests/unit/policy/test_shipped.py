"""Each shipped policy loads, describes its users, and keeps the promise of its name."""

from __future__ import annotations

import pytest

from sandbox.policy import Layer, NetworkMode, Policy, Strength, find_widenings, list_shipped, load

NAMES = ("batch", "default", "network", "offline", "packages", "strict", "trusted")


def test_the_shipped_policies_are_these() -> None:
    assert list_shipped() == NAMES


@pytest.mark.parametrize("name", list_shipped())
def test_every_shipped_policy_loads_and_describes_its_users(name: str) -> None:
    policy = load(name)
    assert policy.name == name
    assert 40 <= len(policy.description) <= 300
    assert policy.description.endswith(".")


@pytest.mark.parametrize("name", list_shipped())
def test_private_files_in_memory_have_room_below_the_memory_limit(name: str) -> None:
    limits = load(name).limits
    assert limits.file_size <= limits.disk < limits.memory


def test_the_default_file_equals_the_defaults_of_the_engine() -> None:
    assert load("default").digest == Policy(name="x", description="y").digest


def test_strict_is_default_tightened_except_for_the_user_namespace() -> None:
    strict = load("strict")
    assert find_widenings(load("default"), strict) == [
        "isolation.require: leaves out user_namespace demanded by 'default'"
    ]
    assert (strict.isolation.minimum, strict.reuse.mode, strict.output.over) == (Strength.CONTAINER, "never", "kill")


@pytest.mark.parametrize("name", list_shipped())
def test_no_shipped_policy_accepts_more_supplies_than_default(name: str) -> None:
    assert load(name).supply == load("default").supply


@pytest.mark.parametrize("name", list_shipped())
def test_only_strict_checks_every_file_of_an_environment_each_time(name: str) -> None:
    assert load(name).environment.verify is (name == "strict")


def test_offline_is_default_without_a_network() -> None:
    offline = load("offline")
    assert offline.network.mode is NetworkMode.NONE
    assert find_widenings(load("default"), offline) == []


def test_network_differs_from_default_in_the_network_alone() -> None:
    default, network = load("default"), load("network")
    assert network.network.mode is NetworkMode.PUBLIC
    assert {**network.sections(), "network": default.network} == default.sections()


def test_trusted_requires_no_isolation_and_still_has_limits() -> None:
    trusted = load("trusted")
    assert (trusted.isolation.minimum, trusted.isolation.require) == (Strength.PLAIN, ())
    assert trusted.network.mode is NetworkMode.HOST
    assert (trusted.limits.wall, trusted.limits.cpu, trusted.limits.memory) == (300.0, 300.0, 2 * 2**30)


@pytest.mark.parametrize("name", ["packages", "batch"])
def test_the_larger_policies_keep_the_isolation_of_default(name: str) -> None:
    assert load(name).isolation == load("default").isolation


def test_packages_reaches_the_index_and_reuses_nothing() -> None:
    packages = load("packages")
    assert (packages.network.mode, packages.reuse.mode) == (NetworkMode.INDEX, "never")


def test_batch_is_larger_than_default_in_every_limit_but_never_smaller() -> None:
    batch = load("batch")
    assert (batch.limits.wall, batch.limits.memory, batch.network.mode) == (3600.0, 4 * 2**30, NetworkMode.NONE)
    assert not [line for line in find_widenings(batch, load("default")) if line.startswith("limits.")]


@pytest.mark.parametrize("name", sorted(set(list_shipped()) - {"trusted", "strict"}))
def test_only_trusted_and_strict_require_other_isolation(name: str) -> None:
    isolation = load(name).isolation
    assert Layer.SECCOMP in isolation.require
    assert isolation == load("default").isolation
