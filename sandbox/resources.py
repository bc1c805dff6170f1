"""Find the data folders `runners`, `images` and `policies`, in a checkout and in an installed wheel.

The folders are data, not packages: no module imports them, and each folder has one reader in the engine, which finds it
here::

    checkout, editable install          wheel
    ├── policies/  runners/  images/    └── sandbox/
    └── sandbox/                            ├── resources.py
        └── resources.py                    └── _bundled/policies/  runners/  images/

`_bundled` exists in a wheel only, so its presence decides. Without it the folders next to the package count, but only
if the landmark is there: the parent of an installed package is `site-packages`, where a foreign distribution may have
left a folder called `images`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final, Literal

FolderName = Literal["runners", "policies", "images"]

_PACKAGE: Final = Path(__file__).resolve().parent
_LANDMARK: Final = Path("policies", "default.toml")


def find_folder(name: FolderName) -> Path:
    """Return the path of a data folder. Raise `FileNotFoundError` if the installation is incomplete."""
    root = _root()
    if root is None:
        raise FileNotFoundError(
            f"the data folders of sandbox-engine are neither in {_PACKAGE / '_bundled'} nor in {_PACKAGE.parent}: "
            "the installation is incomplete, install sandbox-engine again"
        )
    if not (root / name).is_dir():
        raise FileNotFoundError(
            f"the data folder {name!r} of sandbox-engine is missing from {root}: "
            "the installation is incomplete, install sandbox-engine again"
        )
    return root / name


@cache
def read_authoring() -> str:
    """Return the source of the module that tools in a box import as `sandbox`."""
    return (_PACKAGE / "authoring.py").read_text(encoding="utf-8")


def _root() -> Path | None:
    bundled = _PACKAGE / "_bundled"
    if bundled.is_dir():
        return bundled
    checkout = _PACKAGE.parent
    return checkout if (checkout / _LANDMARK).is_file() else None
