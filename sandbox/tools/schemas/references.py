"""Where a `$ref` leads: inside its own document, or nowhere. Nothing is ever fetched.

A chain of references that comes back to itself leads nowhere either, although every step of it does. Nor does one of
more than 64 steps, so that looking references up takes bounded time.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from sandbox.tools.plain_json import JSON
from sandbox.tools.schemas.nodes import Schema

_LONGEST_CHAIN: Final = 64


def is_local(reference: JSON) -> bool:
    """Whether a reference stays inside its document."""
    return isinstance(reference, str) and reference.startswith("#")


def referred(root: Schema, reference: JSON) -> JSON:
    """What a reference points to, which may be another reference; None when it points to nothing."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    place: JSON = root
    for step in reference.split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        place = _entered(place, name)
    return place


def target(root: Schema, node: JSON) -> JSON:
    """The node itself, or the end of the chain of references that starts there; None when it has no end."""
    for _ in range(_LONGEST_CHAIN):
        if not isinstance(node, dict) or "$ref" not in node:
            return node
        node = referred(root, node["$ref"])
    return None


def _entered(place: JSON, name: str) -> JSON:
    if isinstance(place, dict):
        return place.get(name)
    if isinstance(place, list) and name.isascii() and name.isdigit() and len(name) <= 9 and int(name) < len(place):
        return place[int(name)]
    return None
