"""uv's program, which resolves and unpacks: the one that came with the engine, not any that is on the PATH."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from sandbox.errors import EnvironmentUnavailable


@cache
def uv_program() -> Path:
    """Where it is; raises `EnvironmentUnavailable` where its package was installed without it."""
    try:
        import uv

        return Path(os.path.realpath(uv.find_uv_bin()))
    except (ImportError, FileNotFoundError):
        raise EnvironmentUnavailable(
            "uv, which resolves and unpacks packages, is not installed next to the engine, or not with its program",
            remedy="install it again: `python -m pip install --force-reinstall uv`, with the Python the engine runs on",
        ) from None
