"""The machine's own proxy to the outside, from the engine's environment.

`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` name it. A tool never sees the proxy or its login.

The engine sends a name to the other proxy, because many proxies accept only names, and the other proxy looks the name
up again. So a name with a public address in the engine's lookup may lead that proxy elsewhere a moment later, and only
the rules of that proxy decide about private addresses then. The engine sends a name that this machine cannot look up
only if the policy names its host.
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
    """The address of a proxy, and the login that it requires."""

    host: str
    port: int
    login: str | None = field(default=None, repr=False)

    @property
    def authorization(self) -> bytes:
        """Return the header field with the login."""
        if self.login is None:
            return b""
        return b"Proxy-Authorization: Basic " + base64.b64encode(self.login.encode()) + b"\r\n"


class UnknownProxy(Exception):
    """The machine has a proxy that the engine cannot use; the text gives the reason."""


class HostProxies:
    """The proxies of the environment, read once."""

    def __init__(self, proxies: Mapping[str, str] | None = None) -> None:
        from urllib.request import getproxies_environment

        self._proxies = dict(getproxies_environment() if proxies is None else proxies)

    def way_to(self, host: str, port: int, *, is_tunnel: bool) -> HostProxy | None:
        """Return the proxy for that host; None for a direct connection; raise `UnknownProxy` if it is unusable."""
        from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # not in the stubs

        url = self._proxies.get("https" if is_tunnel else "http") or self._proxies.get("all")
        if not url or proxy_bypass_environment(f"{host}:{port}", self._proxies) or self._is_in_excepted_network(host):
            return None
        return _read(url)

    def _is_in_excepted_network(self, host: str) -> bool:
        """Return whether `NO_PROXY` names a network with this address, such as `10.0.0.0/8`."""
        for text in self._proxies.get("no", "").split(","):
            try:
                if "/" in text and ip_address(host) in ip_network(text.strip(), strict=False):
                    return True
            except ValueError:
                continue
        return False


def _read(url: str) -> HostProxy:
    # Errors do not repeat the address, because it may contain a login.
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port or _STANDARD_PORT
    except ValueError:
        raise UnknownProxy("the address of this machine's own proxy cannot be read") from None
    if parts.scheme != "http" or not host:
        raise UnknownProxy(f"this machine's own proxy speaks {parts.scheme[:20]}, and only http is known here")
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else None
    return HostProxy(host, port, login)
