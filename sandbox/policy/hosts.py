"""Hosts that a policy names: `api.example.com`, `*.example.com` for all names below one, `*` for any, each with a port
of its own behind a colon, or without one for those of the web, 80 and 443.

Names are compared as text, in lower case and without the dot of the root, so what an address is written as matters: a
policy that names hosts does not admit their addresses.
"""

from __future__ import annotations

import re
from typing import Final

WEB_PORTS: Final = (80, 443)
_ANY: Final = "*"
_LONGEST_NAME: Final = 253
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_PATTERN: Final = re.compile(rf"(\*|(?:\*\.)?{_LABEL}(?:\.{_LABEL})*)(?::([1-9][0-9]{{0,4}}))?")
_LAST_PORT: Final = 65535


def host_pattern(text: str) -> str:
    """The pattern in the one form that is compared; `ValueError` says what is wrong."""
    found = _PATTERN.fullmatch(text.lower())
    if found is None or len(found[1]) > _LONGEST_NAME or int(found[2] or 1) > _LAST_PORT:
        raise ValueError(
            f"{text[:80]!r} is no host; write a name such as 'api.example.com', '*.example.com' or "
            "'api.example.com:8443', without a scheme or a path"
        )
    return found[0]


def admits(pattern: str, host: str, port: int) -> bool:
    """Whether the pattern means this host, a name in lower case, at this port."""
    name, ports = _split(pattern)
    return port in ports and _means(name, host)


def is_covered(pattern: str, *, by: str) -> bool:
    """Whether all that one pattern means is meant by the other, too."""
    name, ports = _split(pattern)
    wider, wider_ports = _split(by)
    return set(ports) <= set(wider_ports) and (wider in (_ANY, name) or (name != _ANY and _means(wider, name)))


def _split(pattern: str) -> tuple[str, tuple[int, ...]]:
    name, _, port = pattern.partition(":")
    return name, (int(port),) if port else WEB_PORTS


def _means(name: str, host: str) -> bool:
    if name.startswith("*."):
        return host.endswith(name[1:]) and len(host) > len(name) - 1
    return name in (_ANY, host)
