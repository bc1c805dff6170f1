"""Counts the words of a text: the smallest tool worth calling."""

from __future__ import annotations

import re
from collections import Counter

WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")


def word_count(text: str, top: int = 3) -> dict[str, object]:
    """Count the words of a text, whatever their case.

    Args:
        text: The text to look at.
        top: How many of the most common words to name.

    Returns:
        The number of words, the number of different ones, and the most common ones with their counts.
    """
    counts = Counter(word.lower() for word in WORD.findall(text))
    return {
        "words": counts.total(),
        "unique": len(counts),
        "most_common": [{"word": word, "count": count} for word, count in counts.most_common(max(top, 0))],
    }
