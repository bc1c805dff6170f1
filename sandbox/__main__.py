"""`python -m sandbox`: the same as the console script, which has not got the current folder on its path.

Python puts that folder there for a module that it runs, before all others. Tools lie in it, and one that is called like
a module of ours or of the standard library would be imported here, outside of any box.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]

    from sandbox.cli import main

    main()
