"""The proxy that this machine itself has to take to the outside, as all its programs are told it: `HTTPS_PROXY`,
`HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY` of the engine's own environment. A tool never sees it or its login.

What is lost there: the other proxy is told a name, because many let only names pass, and looks it up again. A name that
meant a public address when we looked may lead that proxy elsewhere a moment later. It stands where its owner put it,
and what it lets through to private addresses is then up to its rules alone. A name that this machine cannot look up at
all goes there only if the policy names its host.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from urllib.parse import unquote, urlsplit

_STANDARD_PORT = 80


@dataclass(frozen=True, slots=True)
class HostProxy:
    """Where it is, and the login that it wants."""

    host: str
    port: int
    login: str | None = field(default=None, repr=False)

    @property
    def authorization(self) -> bytes:
        """The field of a head that says who we are."""
        if self.login is None:
            return b""
        return b"Proxy-Authorization: Basic " + base64.b64encode(self.login.encode()) + b"\r\n"


class UnknownProxy(Exception):
    """The machine is set up for a proxy that we cannot speak to; the text says why."""


class HostProxies:
    """All that the environment names, read once."""

    def __init__(self, proxies: Mapping[str, str] | None = None) -> None:
        from urllib.request import getproxies_environment

        self._proxies = dict(getproxies_environment() if proxies is None else proxies)

    def way_to(self, host: str, port: int, *, is_tunnel: bool) -> HostProxy | None:
        """The proxy for that host, none where it is reached directly; `UnknownProxy`."""
        from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # not in the stubs

        url = self._proxies.get("https" if is_tunnel else "http") or self._proxies.get("all")
        if not url or proxy_bypass_environment(f"{host}:{port}", self._proxies) or self._is_in_excepted_network(host):
            return None
        return _read(url)

    def _is_in_excepted_network(self, host: str) -> bool:
        """Whether `NO_PROXY` names a network, such as `10.0.0.0/8`, that this address is in."""
        for text in self._proxies.get("no", "").split(","):
            try:
                if "/" in text and ip_address(host) in ip_network(text.strip(), strict=False):
                    return True
            except ValueError:
                continue
        return False


def _read(url: str) -> HostProxy:
    """The address is not repeated in errors: it may hold a login."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port or _STANDARD_PORT
    except ValueError:
        raise UnknownProxy("the address of this machine's own proxy cannot be read") from None
    if parts.scheme != "http" or not host:
        raise UnknownProxy(f"this machine's own proxy speaks {parts.scheme[:20]}, and only http is known here")
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else None
    return HostProxy(host, port, login)
