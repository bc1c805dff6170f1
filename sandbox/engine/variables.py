"""The variables of a call's environment, in layers of which the later wins.

    the host's own, as far as the policy names them  ·  the catalog's  ·  the tenant's  ·  the tool's  ·  the call's

On top of these the engine puts its own, which nobody can hide (see `request`). None in a layer takes away what those
below it set. The host's environment is never inherited: a variable of it is seen where the policy has its name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from sandbox.policy import Policy

Layer = Mapping[str, str | None]


def merged(*layers: Layer) -> dict[str, str]:
    """All of them as one."""
    variables: dict[str, str | None] = {}
    for layer in layers:
        variables.update(layer)
    return {name: text for name, text in variables.items() if text is not None}


def passed_through(policy: Policy) -> dict[str, str]:
    """What the policy shows of the host's environment; what the host does not have, or not as text, is not there."""
    named = ((name, os.environ.get(name)) for name in policy.variables.passed)
    return {name: text for name, text in named if text is not None and _is_text(text)}


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes that are none
        return False
    return True
