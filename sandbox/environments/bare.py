"""The bare environment: the engine's own interpreter with its standard library and nothing installed.

The interpreter is the *base* one, also when the engine itself runs in a virtual environment, and what is installed for
it on the host (`site-packages`) is neither on the tool's path nor visible in its box.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Final

from sandbox.environments.interpreters.host import own_interpreter
from sandbox.environments.model import Environment

_FORMAT: Final = "2"
_EMPTY_LOCK: Final = hashlib.sha256(b"").hexdigest()


@cache
def bare_environment() -> Environment:
    """The environment of a tool that requires nothing."""
    own = own_interpreter()
    return Environment(
        key=hashlib.sha256("\0".join((_FORMAT, own.digest, _EMPTY_LOCK)).encode()).hexdigest(),
        lock_digest=_EMPTY_LOCK,
        python=own.python,
        version=own.version,
        folders=own.folders,
        hidden=own.hidden,
    )
