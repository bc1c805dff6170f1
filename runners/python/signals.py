"""Signals by their numbers: what is behind the public module, which makes enumerations of them.

Those take longer to make than all else that stays outside of a box takes to load, and would be a fifth of its memory.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

signal: Any = sys.modules["_signal"]
