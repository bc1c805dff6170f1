"""Backends: where boxes are opened. Each carries bytes and never reads them.

The table is written out, and nothing is imported until it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from sandbox.backends.base import Backend
from sandbox.config import Configuration
from sandbox.errors import SpecError

_BACKENDS: Final = {
    "subprocess": ("sandbox.backends.subprocess.backend", "SubprocessBackend"),
    "container": ("sandbox.backends.container.backend", "ContainerBackend"),
}


def backend_names() -> tuple[str, ...]:
    """Every backend there is."""
    return tuple(_BACKENDS)


def open_backend(name: str, configuration: Configuration | None = None) -> Backend:
    """The backend of that name, as it is configured; raises `SpecError` with the names there are."""
    if name not in _BACKENDS:
        raise SpecError(f"there is no backend {name!r:.80}", remedy=f"the backends are: {', '.join(_BACKENDS)}")
    module, kind = _BACKENDS[name]
    backend: Backend = getattr(import_module(module), kind).configured(configuration or Configuration())
    return backend
