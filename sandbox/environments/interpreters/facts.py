"""The facts that an interpreter states about itself. This module runs in the engine, and in any other interpreter:
standard library only, in Python 3.8's grammar, importing little.

The base installation is described, also from within a virtual environment, so that both ways tell the same.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig


def facts() -> dict[str, object]:
    """All that is asked, ready for JSON."""
    return {
        "implementation": sys.implementation.name,
        "version": _version(),
        "build": sys.version,
        "flags": getattr(sys, "abiflags", ""),
        "platform": sysconfig.get_platform(),
        "machine": os.uname().machine,
        "bits": sys.maxsize.bit_length() + 1,
        "libc": _libc(),
        "folders": _folders(),
        "hidden": _hidden(),
    }


def _version() -> str:
    """As PEP 440 writes it, which builds between releases do not."""
    major, minor, micro, level, serial = sys.version_info
    letters = {"alpha": "a", "beta": "b", "candidate": "rc"}.get(level, "")
    return f"{major}.{minor}.{micro}" + (f"{letters}{serial}" if letters else "")


def _libc() -> str:
    if not sys.platform.startswith("linux"):
        return ""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "musl").replace(" ", "")
    except (AttributeError, OSError, ValueError):
        return "musl"


def _folders() -> list[str]:
    """The prefixes of the base installation, each once, links resolved."""
    stdlib = os.path.dirname(os.path.dirname(sysconfig.get_path("stdlib")))
    return sorted({os.path.realpath(prefix) for prefix in (sys.base_prefix, sys.base_exec_prefix, stdlib)})


def _hidden() -> list[str]:
    """Where the host's own packages are, under every scheme of installing them; users' own folders lie elsewhere."""
    variables = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    schemes = [scheme for scheme in sysconfig.get_scheme_names() if not scheme.endswith("user")]
    named = {sysconfig.get_path(kind, scheme, variables) for scheme in schemes for kind in ("purelib", "platlib")}
    debian = {sys.base_prefix + "/lib/python3/dist-packages"}
    return sorted({os.path.realpath(path) for path in named | debian if os.path.isdir(path)})


if __name__ == "__main__":
    sys.stdout.write(json.dumps(facts()))
