"""The machine's own proxy: which proxy serves which hosts, and with which login."""

from __future__ import annotations

import pytest

from sandbox.egress.host_proxies import HostProxies, HostProxy, UnknownProxy

SET = {"http": "http://plain.proxy:3128", "https": "http://user:p%40ss@secure.proxy:8080/", "no": "direct.example"}


def test_each_kind_of_request_has_its_proxy() -> None:
    proxies = HostProxies(SET)
    assert proxies.way_to("a.example", 80, is_tunnel=False) == HostProxy("plain.proxy", 3128)
    assert proxies.way_to("a.example", 443, is_tunnel=True) == HostProxy("secure.proxy", 8080, "user:p@ss")


def test_some_hosts_are_reached_directly() -> None:
    for host in ("direct.example", "below.direct.example"):
        assert HostProxies(SET).way_to(host, 443, is_tunnel=True) is None
    assert HostProxies({}).way_to("a.example", 443, is_tunnel=True) is None


def test_a_single_proxy_may_serve_all_kinds() -> None:
    assert HostProxies({"all": "proxy:1"}).way_to("a.example", 80, is_tunnel=False) == HostProxy("proxy", 1)


def test_a_login_is_sent_and_never_shown() -> None:
    proxy = HostProxy("proxy", 1, "user:secret")
    assert proxy.authorization == b"Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n"
    assert "secret" not in repr(proxy)


@pytest.mark.parametrize("url", ["socks5://proxy:1080", "https://proxy:443", "http://proxy:port", "http://"])
def test_an_unsupported_proxy_is_reported_without_its_login(url: str) -> None:
    with pytest.raises(UnknownProxy) as unknown:
        HostProxies({"all": url}).way_to("a.example", 443, is_tunnel=True)
    assert "proxy:1" not in str(unknown.value)
