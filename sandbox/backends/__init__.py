"""Backends open boxes, and carry bytes without reading them.

The table is written out; a backend is imported when it is opened.
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
    """Return the names of all backends."""
    return tuple(_BACKENDS)


def open_backend(name: str, configuration: Configuration | None = None) -> Backend:
    """Return the configured backend of that name; raise `SpecError` if the name is unknown."""
    if name not in _BACKENDS:
        raise SpecError(f"there is no backend {name!r:.80}", remedy=f"the backends are: {', '.join(_BACKENDS)}")
    module, kind = _BACKENDS[name]
    backend: Backend = getattr(import_module(module), kind).configured(configuration or Configuration())
    return backend
