"""What is installed for the interpreter: entered as an interpreter that starts in it would, but not before our time.

The runner starts isolated and without `site`, so that nothing foreign runs before the walls stand. Only then the
environment's packages get on the path, after the standard library, with what an ordinary start does for them: `.pth`
files, which may run code, and `sitecustomize`. What fails there, or cannot be read, is told about on the runner's
stderr, as Python itself does of most, and the box goes on; code that ends the process or never ends is the end of the
box, and of nothing else.
"""

from __future__ import annotations

import os
import sys


def enter(prefix: str, packages: str) -> None:
    """Make `prefix` this interpreter's environment, with what is in the folder `packages`."""
    sys.prefix = sys.exec_prefix = prefix
    sys.executable = os.path.join(prefix, "bin", "python")
    names = os.listdir(packages)
    sys.path.append(packages)
    for name in sorted(name for name in names if name.endswith(".pth") and not name.startswith(".")):
        _follow(packages, name)
    for name in ("sitecustomize", "usercustomize"):
        if name in names or name + ".py" in names:
            _customise(name)


def _follow(packages: str, name: str) -> None:
    """A file of further places, and of code."""
    import site

    try:
        site.addpackage(packages, name, None)
    except Exception as error:
        sys.stderr.write("%s cannot be read: %s: %s\n" % (name, type(error).__name__, error))


def _customise(name: str) -> None:
    try:
        __import__(name)
    except Exception as error:
        sys.stderr.write("%s failed: %s: %s\n" % (name, type(error).__name__, error))
