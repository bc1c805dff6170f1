"""Patterns of hosts in a policy: their meaning, and which pattern contains another."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.errors import PolicyError
from sandbox.policy import Network, Policy, find_widenings
from sandbox.policy.hosts import admits_host, is_covered, parse_host_pattern
from sandbox.policy.load import load


@pytest.mark.parametrize(
    ("pattern", "host", "port", "means"),
    [
        ("a.example", "a.example", 443, True),
        ("a.example", "a.example", 80, True),
        ("a.example", "a.example", 8080, False),
        ("a.example:8080", "a.example", 8080, True),
        ("a.example:8080", "a.example", 443, False),
        ("a.example", "b.a.example", 443, False),
        ("*.a.example", "b.a.example", 443, True),
        ("*.a.example", "c.b.a.example", 443, True),
        ("*.a.example", "a.example", 443, False),
        ("*.a.example", "notа.example", 443, False),  # noqa: RUF001
        ("*.a.example", "bad-a.example", 443, False),
        ("*.a.example", ".a.example", 443, False),
        ("*", "anything.example", 80, True),
        ("*:8443", "anything.example", 80, False),
        ("*:8443", "anything.example", 8443, True),
    ],
)
def test_a_pattern_matches_its_hosts(pattern: str, host: str, port: int, means: bool) -> None:
    assert admits_host(parse_host_pattern(pattern), host, port) is means


@pytest.mark.parametrize(
    ("pattern", "wider", "is_within"),
    [
        ("a.example", "a.example", True),
        ("a.example:443", "a.example", True),
        ("a.example", "a.example:443", False),
        ("b.a.example", "*.a.example", True),
        ("*.b.a.example", "*.a.example", True),
        ("*.a.example", "*.b.a.example", False),
        ("*.a.example", "a.example", False),
        ("a.example", "*.a.example", False),
        ("a.example", "*", True),
        ("*", "a.example", False),
        ("*", "*.example", False),
        ("*:8443", "*", False),
        ("*", "*", True),
    ],
)
def test_one_pattern_is_within_another(pattern: str, wider: str, is_within: bool) -> None:
    assert is_covered(pattern, by=wider) is is_within


@pytest.mark.parametrize(
    "text",
    ["", "https://a.example", "a.example/path", "a b", "a..example", ".a", "a.", "*a.example", "a.*", "a:0", "a:65536",
     "a:b", "user@a.example", "[::1]", "-a.example", "a-.example", "x" * 64 + ".example", "a\n", "ä.example"],
)  # fmt: skip
def test_an_invalid_host_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no host"):
        parse_host_pattern(text)


def _policy(**network: object) -> Policy:
    return Policy(name="granted", description="for tests", network=Network.model_validate(network))


def test_a_policy_keeps_hosts_in_one_form() -> None:
    assert _policy(hosts=["B.example", "a.example", "b.example"]).network.hosts == ("a.example", "b.example")


@pytest.mark.parametrize(
    ("granted", "asked", "complaint"),
    [
        ([], ["a.example"], None),
        (["a.example"], [], "any public one is more than those granted by 'granted'"),
        (["*.example"], ["a.example", "b.example"], None),
        (["*.example"], ["a.example", "a.other"], "a.other is not among what is granted by 'granted'"),
    ],
)
def test_hosts_are_only_ever_narrowed(granted: list[str], asked: list[str], complaint: str | None) -> None:
    found = find_widenings(_policy(hosts=granted), _policy(hosts=asked))
    assert found == ([] if complaint is None else [f"network.hosts: {complaint}"])


@pytest.mark.parametrize("key", ["connections", "connections_in_all", "sent", "received", "idle"])
def test_permissions_for_the_network_are_only_ever_lowered(key: str) -> None:
    assert find_widenings(_policy(**{key: 10}), _policy(**{key: 9})) == []
    assert len(find_widenings(_policy(**{key: 10}), _policy(**{key: 11}))) == 1


def test_the_shipped_policy_names_no_hosts() -> None:
    assert load("network").network.hosts == ()


def test_a_policy_file_with_an_invalid_host_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('description = "for tests"\n[network]\nmode = "public"\nhosts = ["https://a.example/"]\n')
    with pytest.raises(PolicyError, match=r"network\.hosts"):
        load(str(file))
