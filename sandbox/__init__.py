"""Sandbox runs tools, pieces of Python source, in boxes.

The public names, nothing else. Each lives in the module that `_HOMES` gives it and is imported when it is first asked
for, so that `import sandbox` costs a program nothing it does not use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

__all__: list[str] = []

_HOMES: Final[dict[str, str]] = {}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
