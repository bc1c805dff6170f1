"""The bare environment: the engine's own interpreter with its standard library and nothing installed.

The interpreter is the *base* one, also when the engine itself runs in a virtual environment, and what is installed for
it on the host (`site-packages`) is neither on the tool's path nor visible in its box.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import sysconfig
from functools import cache
from pathlib import Path

from sandbox.environments.model import Environment

_FORMAT = "1"
_EMPTY_LOCK = hashlib.sha256(b"").hexdigest()


@cache
def bare_environment() -> Environment:
    """The environment of a tool that requires nothing."""
    python = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
    what = "\0".join((_FORMAT, sys.implementation.name, sys.version, platform.machine(), str(python), _EMPTY_LOCK))
    return Environment(
        key=hashlib.sha256(what.encode()).hexdigest(),
        lock_digest=_EMPTY_LOCK,
        python=python,
        version=platform.python_version(),
        folders=_folders(),
        hidden=_hidden(),
    )


def _folders() -> tuple[Path, ...]:
    """The prefixes of the base interpreter, each once, links resolved."""
    prefixes = (sys.base_prefix, sys.base_exec_prefix, str(Path(sysconfig.get_path("stdlib")).parent.parent))
    return tuple(sorted({Path(os.path.realpath(prefix)) for prefix in prefixes}))


def _hidden() -> tuple[Path, ...]:
    """Where the base interpreter keeps the host's packages."""
    variables = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    named = {sysconfig.get_path(name, vars=variables) for name in ("purelib", "platlib")}
    debian = {f"{sys.base_prefix}/lib/python3/dist-packages"}
    return tuple(sorted(Path(os.path.realpath(path)) for path in named | debian if os.path.isdir(path)))
