"""`python -m sandbox`: the console script, started as a module.

Python puts the current folder first on the path of a module that it runs. That folder holds tools, and a tool file
named like a module of the engine or of the standard library would be imported outside of any box.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]

    from sandbox.cli import main

    main()
