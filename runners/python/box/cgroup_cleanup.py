"""What a box leaves on the host when its engine is not there any more to remove it: control groups."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def remove_groups(groups: Iterable[str]) -> None:
    """Remove control groups, children first; the engine may have been quicker."""
    for group in groups:
        for folder, _, _ in sorted(os.walk(group), reverse=True):
            try:
                os.rmdir(folder)
            except OSError:
                pass
    for owner in {os.path.dirname(group) for group in groups}:
        try:
            os.rmdir(owner)
        except OSError:  # the owner has other boxes
            pass
