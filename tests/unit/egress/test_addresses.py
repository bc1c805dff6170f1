"""Public addresses are recognised, and no other address passes for public."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.egress.addresses import carried_address, read_address, why_not_public

PUBLIC = ("8.8.8.8", "93.184.216.34", "1.1.1.1", "223.255.255.254", "2606:4700::1111", "2a00:1450:4001::1")
NOT_PUBLIC = (
    *("0.0.0.0", "10.0.0.0", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.255"),
    *("169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.255.255"),
    *("198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1"),
    *("255.255.255.255", "168.63.129.16", "::", "::1", "::10.0.0.1", "100::1", "fc00::1", "fd00:ec2::254", "fe80::1"),
    *("fec0::1", "ff02::1", "2001::1", "2001:db8::1", "2001:10::1", "3fff::1", "4000::1", "5f00::1", "64:ff9b:1::1"),
)


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address_is_public(text: str) -> None:
    assert why_not_public(ip_address(text)) is None


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_no_other_address_is_public(text: str) -> None:
    assert why_not_public(ip_address(text))


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_no_address_is_public_against_the_word_of_python(address: IPv4Address) -> None:
    if not address.is_global or address.is_multicast or address.is_reserved:
        assert why_not_public(address)


@given(st.integers(0, 2**32 - 1).map(IPv4Address), st.sampled_from(["::ffff:0:0", "64:ff9b::", "2002::"]))
def test_an_address_carried_in_another_counts_as_itself(address: IPv4Address, carrier: str) -> None:
    shift = 80 if carrier == "2002::" else 0
    whole = IPv6Address(int(IPv6Address(carrier)) | int(address) << shift)
    assert carried_address(whole) == address
    assert why_not_public(whole) == why_not_public(address)


@given(st.integers(0, 2**128 - 1).map(IPv6Address))
def test_only_global_unicast_of_version_6_is_public(address: IPv6Address) -> None:
    if carried_address(address) is None and int(address) >> 125 != 1:
        assert why_not_public(address)


def test_an_address_of_this_machine_is_never_public_in_any_spelling() -> None:
    ours = {ip_address("93.184.216.34")}
    for text in ("93.184.216.34", "::ffff:93.184.216.34", "2002:5db8:d822::", "64:ff9b::5db8:d822"):
        assert why_not_public(ip_address(text), ours=ours) == "this machine's own"


def test_an_address_with_an_interface_is_read() -> None:
    assert read_address("fe80::1%eth0") == ip_address("fe80::1")
