"""What regular expressions of a stranger may cost before they are matched with anything.

Whoever matches in linear time makes a machine of a pattern first, and that takes the longer the more often its parts
repeat: `\\w{1,64}` is 64 times a class of a thousand letters and takes 20 ms, one that would be too large is given up
after some 100 ms. So the states are estimated, and there is a bound on those of all patterns of one source.
"""

from __future__ import annotations

import re
from typing import Final

MOST_EFFORT: Final = 1_000_000
"""Of all that is looked at together: half a second."""
_OF_ONE: Final = 100
_AT_MOST: Final = 250_000
_UNICODE: Final = 1_000
_PIECE = re.compile(r"\\[wWdDsSpP]|\\.|\[\^?\]?(?:[^\\\]]|\\.)*\]|\{(\d{1,6})(?:,(\d{0,6}))?\}|.", re.DOTALL)


def effort_of(pattern: str) -> int:
    """About how many states a regular expression has; classes such as `\\w` have a thousand."""
    sums, last = [0], 0
    for piece in _PIECE.finditer(pattern):
        text = piece[0]
        if text == "(":
            sums.append(0)
            last = 0
        elif text == ")":
            last = sums.pop() if len(sums) > 1 else 0
            sums[-1] += last
        elif piece[1] is not None:
            repeated = last * max(int(piece[1]), int(piece[2] or 0), 1)
            sums[-1] += repeated - last
            last = repeated
        else:
            last = _UNICODE if _is_of_unicode(text) else 1
            sums[-1] += last
    return _OF_ONE + min(sum(sums), _AT_MOST)


def _is_of_unicode(piece: str) -> bool:
    return piece.startswith("[^") or any(
        escape in piece for escape in ("\\w", "\\W", "\\d", "\\D", "\\s", "\\S", "\\p")
    )
