"""What indexes are asked with: a session of `requests` that believes whom this machine believes, and goes only where it
may.

Certificates are checked, except those of hosts that pip or uv of this machine are told not to check; what comes from
those is still held against its digest. An index that asks who we are by TLS is shown the certificate that pip or uv
have for that. Nobody is there to give a passphrase, so a key that wants one is not used.

A session that is for public addresses only goes to no other, whatever leads there (see `nearby`).

Authorities are read once, which takes longer than most answers (`requests` does so for each connection), and again only
when their files have changed.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

from sandbox.environments.indexes.answers import Fault
from sandbox.environments.indexes.deadlines import watch_connections
from sandbox.environments.indexes.nearby import refuse_near_host, refuse_near_peer
from sandbox.environments.indexes.settings import IndexSettings

if TYPE_CHECKING:
    import ssl

    import requests
    from requests.adapters import HTTPAdapter

_MOST_REDIRECTS: Final = 10
_PORT: Final = 443
_Version = tuple[str, int, int] | None


def open_session(settings: IndexSettings, *, is_public_only: bool) -> requests.Session:
    """One that takes nothing from the process's environment, keeps no cookies, and goes only where it may."""
    from http.cookiejar import DefaultCookiePolicy

    import requests
    from requests.adapters import DEFAULT_CA_BUNDLE_PATH
    from urllib3.util import parse_url

    class Cautious(requests.Session):
        def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
            if is_public_only:
                refuse_near_host(parse_url(request.url or "").host or "")
            return super().send(request, **kwargs)

        def get_redirect_target(self, resp: requests.Response) -> str | None:
            target = super().get_redirect_target(resp)
            scheme = urlsplit(urljoin(resp.url, target)).scheme if target else ""
            if target and scheme != "https" and scheme != urlsplit(resp.url).scheme:
                resp.close()
                raise Fault("it redirects to an address that is not followed")
            return target

    session = Cautious()
    session.trust_env = False
    session.max_redirects = _MOST_REDIRECTS
    session.verify = str(settings.certificates or DEFAULT_CA_BUNDLE_PATH)
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    session.headers["User-Agent"] = "sandbox-engine"
    for scheme in ("http://", "https://"):
        session.mount(scheme, _adapter(settings, is_public_only=is_public_only))
    return session


def missing_file(settings: IndexSettings) -> Path | None:
    """What is named for connections by TLS and is not there."""
    named = (settings.certificates, settings.client_certificate)
    return next((path for path in named if path is not None and not os.path.exists(path)), None)


def _adapter(settings: IndexSettings, *, is_public_only: bool) -> HTTPAdapter:
    from requests.adapters import HTTPAdapter

    class Trusting(HTTPAdapter):
        def build_connection_pool_key_attributes(self, *args: Any, **kwargs: Any) -> Any:
            place, connecting = super().build_connection_pool_key_attributes(*args, **kwargs)
            if place["scheme"] == "https":
                checked = _is_checked(settings, place["host"], place["port"])
                context = _tls_context(settings, checks=checked)
                connecting = {"cert_reqs": "CERT_REQUIRED" if checked else "CERT_NONE", "ssl_context": context}
            return place, connecting

        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            super().init_poolmanager(*args, **kwargs)
            _silence(self.poolmanager, settings)
            if is_public_only:
                _keep_away(self.poolmanager)
            watch_connections(self.poolmanager)

        def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
            is_new = proxy not in self.proxy_manager
            manager = super().proxy_manager_for(proxy, **kwargs)
            if is_new:
                _silence(manager, settings)
                watch_connections(manager)
            return manager

        def cert_verify(self, conn: Any, *args: Any, **kwargs: Any) -> None:
            proxy = conn.proxy.scheme if conn.proxy is not None else "none"
            if proxy == "https" or conn.conn_kw.get("ssl_context") is None:
                super().cert_verify(conn, *args, **kwargs)  # type: ignore[no-untyped-call]

    return Trusting(pool_maxsize=64)


def _silence(manager: Any, settings: IndexSettings) -> Any:
    """Keep urllib3 from warning, on the streams of whoever uses the engine, of what this machine is told to do."""
    from urllib3.connection import HTTPSConnection
    from urllib3.connectionpool import HTTPSConnectionPool

    class Connection(HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            self.is_verified = True

    class Pool(HTTPSConnectionPool):
        ConnectionCls = Connection

    if settings.unchecked_hosts:
        manager.pool_classes_by_scheme = {**manager.pool_classes_by_scheme, "https": Pool}
    return manager


def _keep_away(manager: Any) -> None:
    """Have every connection of its pools end where it leads to a near address, before a request goes over it."""

    def wary(connection: Any) -> Any:
        class Wary(connection):  # type: ignore[misc]  # plain or with TLS, of whatever kind these pools have
            def connect(self) -> None:
                super().connect()
                try:
                    refuse_near_peer(self.sock)
                except BaseException:
                    self.close()
                    raise

        return Wary

    pools = manager.pool_classes_by_scheme.items()
    manager.pool_classes_by_scheme = {
        scheme: type("WaryPool", (pool,), {"ConnectionCls": wary(pool.ConnectionCls)}) for scheme, pool in pools
    }


def _is_checked(settings: IndexSettings, host: str, port: int | None) -> bool:
    """Whether the certificate of that host must be one that is believed."""
    return settings.unchecked_hosts.isdisjoint((host.lower(), f"{host.lower()}:{port or _PORT}"))


def _tls_context(settings: IndexSettings, *, checks: bool) -> ssl.SSLContext:
    from requests.adapters import DEFAULT_CA_BUNDLE_PATH

    named = settings.certificates
    return _context(
        _version(named or Path(DEFAULT_CA_BUNDLE_PATH)) if checks else None,
        _version(settings.client_certificate),
        is_systems_too=named is None,
    )


def _version(path: Path | None) -> _Version:
    """A path, and what its file is like now."""
    if path is None:
        return None
    status = path.stat()
    return str(path), status.st_ino, status.st_mtime_ns


@lru_cache(maxsize=8)
def _context(authorities: _Version, shown: _Version, *, is_systems_too: bool) -> ssl.SSLContext:
    """One that believes those authorities, or, where there are none, everybody."""
    import ssl

    from urllib3.util.ssl_ import create_urllib3_context

    context = create_urllib3_context()
    if shown is not None:
        context.load_cert_chain(shown[0], password=str)
    if authorities is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    place, is_folder = authorities[0], os.path.isdir(authorities[0])
    context.load_verify_locations(cafile=None if is_folder else place, capath=place if is_folder else None)
    if is_systems_too:
        context.load_default_certs()
    return context
