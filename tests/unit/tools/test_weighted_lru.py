"""The cache is bounded by number and by weight."""

from __future__ import annotations

from sandbox.tools.weighted_lru import WeightedLRU


def test_the_least_recently_used_is_evicted_first() -> None:
    recent: WeightedLRU[str, int] = WeightedLRU(most=2, heaviest=100)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1
    recent.put("c", 3)
    assert (recent.get("a"), recent.get("b"), recent.get("c")) == (1, None, 3)


def test_heavy_values_evict_many_light_ones() -> None:
    recent: WeightedLRU[str, int] = WeightedLRU(most=100, heaviest=10)
    for name in "abcde":
        recent.put(name, 0, weight=2)
    recent.put("heavy", 1, weight=7)
    assert len(recent) == 2
    assert (recent.get("e"), recent.get("heavy")) == (0, 1)


def test_a_value_too_heavy_for_the_cache_evicts_nothing() -> None:
    recent: WeightedLRU[str, int] = WeightedLRU(most=100, heaviest=10)
    recent.put("light", 1)
    recent.put("heavy", 2, weight=11)
    assert (recent.get("light"), recent.get("heavy")) == (1, None)


def test_a_repeated_value_counts_once() -> None:
    recent: WeightedLRU[str, int] = WeightedLRU(most=100, heaviest=10)
    for number in range(50):
        recent.put("same", number, weight=6)
    recent.put("other", 1, weight=4)
    assert (recent.get("same"), recent.get("other")) == (49, 1)
