"""Host patterns of a policy: `api.example.com`, `*.example.com` for every name below a domain, `*` for any host.

A pattern may end in a port, such as `api.example.com:8443`. A pattern without a port allows the web's ports, 80 and
443. Names are compared as text, in lower case and without the trailing dot of the root, so a policy that names a host
does not allow the host's addresses.
"""

from __future__ import annotations

import re
from typing import Final

WEB_PORTS: Final = (80, 443)
_ANY: Final = "*"
_MAX_NAME: Final = 253
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_PATTERN: Final = re.compile(rf"(\*|(?:\*\.)?{_LABEL}(?:\.{_LABEL})*)(?::([1-9][0-9]{{0,4}}))?")
_MAX_PORT: Final = 65535


def parse_host_pattern(text: str) -> str:
    """Return the pattern in its normal form. Raise `ValueError` if the pattern is malformed."""
    found = _PATTERN.fullmatch(text.lower())
    if found is None or len(found[1]) > _MAX_NAME or int(found[2] or 1) > _MAX_PORT:
        raise ValueError(
            f"{text[:80]!r} is no host; write a name such as 'api.example.com', '*.example.com' or "
            "'api.example.com:8443', without a scheme or a path"
        )
    return found[0]


def admits_host(pattern: str, host: str, port: int) -> bool:
    """Return True if the pattern allows this host, a name in lower case, at this port."""
    name, ports = _split(pattern)
    return port in ports and _matches(name, host)


def is_covered(pattern: str, *, by: str) -> bool:
    """Return True if the other pattern allows everything that this pattern allows."""
    name, ports = _split(pattern)
    wider, wider_ports = _split(by)
    return set(ports) <= set(wider_ports) and (wider in (_ANY, name) or (name != _ANY and _matches(wider, name)))


def _split(pattern: str) -> tuple[str, tuple[int, ...]]:
    name, _, port = pattern.partition(":")
    return name, (int(port),) if port else WEB_PORTS


def _matches(name: str, host: str) -> bool:
    if name.startswith("*."):
        return host.endswith(name[1:]) and len(host) > len(name) - 1
    return name in (_ANY, host)
