"""A call may ask for less, never for more, in any order."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.errors import PolicyError
from sandbox.policy import Limits, Policy, find_widenings, tighten
from sandbox.policy.base_model import Section
from sandbox.policy.model import MIN_INODES, MIN_MEMORY, MIN_OPEN_FILES
from sandbox.policy.quantities import MIB
from sandbox.policy.tighten import _RULES, SETTINGS

GRANTED = Policy(name="granted", description="for tests")
FIELDS = sorted(Limits.model_fields)
LEAST = {"inodes": MIN_INODES, "memory": MIN_MEMORY, "open_files": MIN_OPEN_FILES}


def policy(**sections: Mapping[str, object]) -> Policy:
    return Policy.model_validate({"name": "asked", "description": "for tests", **sections})


def smaller(field: str) -> st.SearchStrategy[float]:
    most = getattr(GRANTED.limits, field)
    if isinstance(most, float):
        return st.floats(min_value=0.001, max_value=most)
    return st.integers(min_value=LEAST.get(field, 1), max_value=most)


def any_size(field: str) -> st.SearchStrategy[float]:
    most = getattr(GRANTED.limits, field)
    if isinstance(most, float):
        return st.floats(min_value=0.001, max_value=2 * most)
    return st.integers(min_value=LEAST.get(field, 1), max_value=2 * most)


less = st.fixed_dictionaries({}, optional={field: smaller(field) for field in FIELDS})
anything = st.fixed_dictionaries({}, optional={field: any_size(field) for field in FIELDS})


def test_asking_for_nothing_returns_the_very_same_policy() -> None:
    assert tighten(GRANTED, {}) is GRANTED
    assert tighten(GRANTED, None) is GRANTED
    assert tighten(GRANTED) is GRANTED
    assert tighten(GRANTED, {"wall": "30s"}) is GRANTED


def test_asking_for_less_changes_that_limit_alone() -> None:
    tightened = tighten(GRANTED, {"wall": "2s", "memory": "64MiB"})
    assert (tightened.limits.wall, tightened.limits.memory) == (2.0, 64 * MIB)
    assert tightened.limits.model_copy(update={"wall": 30.0, "memory": 512 * MIB}) == GRANTED.limits
    assert tightened.digest != GRANTED.digest
    assert tightened.name == GRANTED.name


def test_asking_for_more_names_every_field_with_bound_and_remedy() -> None:
    with pytest.raises(PolicyError) as refused:
        tighten(GRANTED, {"wall": "60s", "memory": "1GiB", "cpu": 1})
    assert "limits.wall: 60 s is more than 30 s granted by 'granted'" in refused.value.message
    assert "limits.memory: 1 GiB is more than 512 MiB granted by 'granted'" in refused.value.message
    assert "limits.cpu" not in refused.value.message
    assert refused.value.remedy is not None
    assert "choose a policy that grants more" in refused.value.remedy


@pytest.mark.parametrize("field", FIELDS)
def test_no_limit_can_be_raised(field: str) -> None:
    with pytest.raises(PolicyError, match=rf"limits\.{field}: .* is more than "):
        tighten(GRANTED, {field: getattr(GRANTED.limits, field) + 1})


@pytest.mark.parametrize("name", ["wal", "WALL", "limits.wall", "network", "", "x" * 100_000, "a\nb"])
def test_an_unknown_limit_is_answered_with_the_names_there_are(name: str) -> None:
    with pytest.raises(PolicyError) as refused:
        tighten(GRANTED, {name: 1})
    assert f"there are: {', '.join(FIELDS)}" in refused.value.message
    assert len(refused.value.message) < 1000


@pytest.mark.parametrize("value", [None, True, 0, -1, "", "soon", float("nan"), float("inf"), [], {}, "9" * 100_000])
def test_an_invalid_limit_is_refused_by_name(value: object) -> None:
    with pytest.raises(PolicyError, match=r"limits\.wall: must be") as refused:
        tighten(GRANTED, {"wall": value})
    assert len(refused.value.message) < 1000


@pytest.mark.parametrize(("field", "least"), LEAST.items())
def test_too_little_to_begin_with_is_refused_by_name(field: str, least: int) -> None:
    spelled = tighten(GRANTED, {field: least}).limits.format_field(field)
    with pytest.raises(PolicyError, match=rf"limits\.{field}: must be at least {spelled}$"):
        tighten(GRANTED, {field: least - 1})


@given(anything)
def test_nothing_ever_exceeds_the_permissions(limits: dict[str, float]) -> None:
    try:
        tightened = tighten(GRANTED, limits)
    except PolicyError:
        assert any(limits[field] > getattr(GRANTED.limits, field) for field in limits)
        return
    assert all(getattr(tightened.limits, field) <= getattr(GRANTED.limits, field) for field in FIELDS)
    assert all(getattr(tightened.limits, field) == value for field, value in limits.items())
    assert find_widenings(GRANTED, tightened) == []


@given(less)
def test_asking_twice_equals_asking_once(limits: dict[str, object]) -> None:
    once = tighten(GRANTED, limits)
    assert tighten(once, limits) is once


@given(less, st.data())
def test_the_order_of_asking_does_not_matter(limits: dict[str, object], data: st.DataObject) -> None:
    shuffled = dict(data.draw(st.permutations(sorted(limits.items()))))
    half = set(data.draw(st.lists(st.sampled_from(FIELDS), unique=True)))
    first = {field: value for field, value in limits.items() if field in half}
    second = {field: value for field, value in limits.items() if field not in half}
    expected = tighten(GRANTED, limits)
    assert tighten(GRANTED, shuffled) == expected
    assert tighten(tighten(GRANTED, first), second) == tighten(tighten(GRANTED, second), first) == expected


def test_every_field_of_a_policy_has_a_rule() -> None:
    fields = {f"{name}.{key}" for name, part in GRANTED.sections().items() for key in type(part).model_fields}
    assert set(_RULES) | SETTINGS == fields
    assert not set(_RULES) & SETTINGS


def test_settings_are_free_and_every_other_field_of_the_supply_tightens() -> None:
    ours = {"indexes": ["https://a.b"], "wheelhouse": ["/wheels"], "offline": True}
    others = {"indexes": ["https://c.d", "https://a.b"], "wheelhouse": [], "offline": False}
    nothing: dict[str, object] = {}
    for granted in (nothing, ours, others):
        for asked in (nothing, ours, others):
            assert find_widenings(policy(supply=granted), policy(supply=asked)) == []


def test_a_policy_is_no_wider_than_itself() -> None:
    assert find_widenings(GRANTED, GRANTED) == []


def test_the_strictest_of_everything_is_no_widening() -> None:
    asked = policy(
        isolation={"minimum": "machine", "require": [*GRANTED.isolation.require, "landlock"]},
        environment={
            "verify": True,
            "build_time": 1,
            "build_memory": 1,
            "build_disk": 1,
            "packages": 1,
            "preload": False,
        },
        supply={"offline": True, "exclude_newer": "7d", "allow": ["numpy"], "deny": ["pandas"]},
        output={"shown": 10, "over": "kill"},
        reuse={"mode": "never", "idle": 1, "ahead": 0},
    )
    assert find_widenings(GRANTED, asked) == []
    assert len(find_widenings(asked, GRANTED)) == 16


@pytest.mark.parametrize(
    ("section", "key", "value", "complaint"),
    [
        ("limits", "wall", "60s", "60 s is more than 30 s granted by 'granted'"),
        ("network", "mode", "public", "public is more than none granted by 'granted'"),
        ("filesystem", "readable", ["/opt/data"], "/opt/data is not within what is granted by 'granted'"),
        ("isolation", "minimum", "plain", "plain is weaker than process demanded by 'granted'"),
        ("environment", "build_time", "1h", "60 min is more than 15 min granted by 'granted'"),
        ("environment", "build_memory", "8GiB", "8 GiB is more than 4 GiB granted by 'granted'"),
        ("environment", "packages", 501, "501 is more than 500 granted by 'granted'"),
        ("supply", "sdists", True, "true is more than false granted by 'granted'"),
        ("supply", "direct_references", True, "true is more than false granted by 'granted'"),
        ("supply", "require_hashes", False, "false is weaker than true demanded by 'granted'"),
        ("supply", "prereleases", True, "true is more than false granted by 'granted'"),
        ("output", "shown", "2MiB", "2 MiB is more than 1 MiB granted by 'granted'"),
        ("reuse", "idle", "10m", "10 min is more than 5 min granted by 'granted'"),
        ("reuse", "ahead", 3, "3 is more than 2 granted by 'granted'"),
    ],
)
def test_each_widening_is_named(section: str, key: str, value: object, complaint: str) -> None:
    assert find_widenings(GRANTED, policy(**{section: {key: value}})) == [f"{section}.{key}: {complaint}"]


@pytest.mark.parametrize(
    ("granted", "asked", "complaint"),
    [
        ({"output": {"over": "kill"}}, {}, "output.over: truncate is weaker than kill demanded by 'asked'"),
        (
            {"output": {"budgets": {"table": 500}}},
            {"output": {"budgets": {"table": 501, "json_data": 9}}},
            "output.budgets: table 501 is more than 500 granted by 'asked'",
        ),
        (
            {"output": {"budgets": {"table": 500}}},
            {},
            "output.budgets: table of its own is more than 500 granted by 'asked'",
        ),
        ({"reuse": {"mode": "never"}}, {}, "reuse.mode: box is weaker than never demanded by 'asked'"),
        (
            {"isolation": {"require": ["seccomp", "landlock", "rlimits"]}},
            {"isolation": {"require": ["seccomp"]}},
            "isolation.require: leaves out landlock, rlimits demanded by 'asked'",
        ),
        ({"environment": {"verify": True}}, {}, "environment.verify: false is weaker than true demanded by 'asked'"),
        ({"environment": {"preload": False}}, {}, "environment.preload: true is more than false granted by 'asked'"),
        ({"supply": {"exclude_newer": "7d"}}, {}, "supply.exclude_newer: 0 s is weaker than 7 d demanded by 'asked'"),
        ({"supply": {"allow": ["numpy"]}}, {}, "supply.allow: any is more than those granted by 'asked'"),
        (
            {"supply": {"allow": ["numpy"]}},
            {"supply": {"allow": ["numpy", "pandas"]}},
            "supply.allow: pandas is not among what is granted by 'asked'",
        ),
        (
            {"supply": {"deny": ["a", "b"]}},
            {"supply": {"deny": ["B"]}},
            "supply.deny: leaves out a demanded by 'asked'",
        ),
    ],
)
def test_a_demand_cannot_be_dropped(
    granted: dict[str, Mapping[str, object]], asked: dict[str, Mapping[str, object]], complaint: str
) -> None:
    assert find_widenings(policy(**granted), policy(**asked)) == [complaint]


@pytest.mark.parametrize(
    ("granted", "asked"),
    [
        ({"allow": ["numpy", "pandas"]}, {"allow": ["Pandas"]}),
        ({}, {"allow": ["numpy"]}),
        ({"deny": ["numpy"]}, {"deny": ["pandas", "NumPy"]}),
        ({"exclude_newer": "7d"}, {"exclude_newer": "8d"}),
    ],
)
def test_fewer_packages_from_fewer_places_are_no_widening(
    granted: Mapping[str, object], asked: Mapping[str, object]
) -> None:
    assert find_widenings(policy(supply=granted), policy(supply=asked)) == []


def test_a_call_cannot_bring_its_own_supplies() -> None:
    with pytest.raises(PolicyError, match="there is no such key"):
        tighten(GRANTED, {"supply.offline": True})


def test_a_folder_within_a_readable_one_is_no_widening() -> None:
    granted = policy(filesystem={"readable": ["/opt/data"]})
    inside = policy(filesystem={"readable": ["/opt/data", "/opt/data/maps"]})
    beside = policy(filesystem={"readable": ["/opt/database", "/opt"]})
    assert find_widenings(granted, inside) == []
    assert len(find_widenings(granted, beside)) == 2


def test_a_field_without_a_rule_cannot_be_compared() -> None:
    class Freedom(Section):
        fly: bool = False

    class Bird(Policy):
        freedom: Freedom = Freedom()

    bird = Bird(name="bird", description="for tests")
    with pytest.raises(KeyError, match=r"freedom\.fly"):
        find_widenings(bird, bird)
