"""`python -m sandbox.cli`: the same as the console script."""

from __future__ import annotations

from sandbox.cli import main

if __name__ == "__main__":
    main()
