"""What all calls of a box share because their processes are forked: imported modules and compiled tools.

The process that calls are forked from imports and compiles: the template where there is one, and otherwise the zygote,
which imports from the standard library only.
"""

from __future__ import annotations

import os

from box import verification
from call import compiled
from zygote.preloading import is_foreign, keep_as_is, preload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from zygote.template_children import Births


class Shared:
    """The shared part of one box."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan

    def preload(self, modules: list[str], births: Births | None) -> bool:
        """Import these; whether processes that are there already lack some of them."""
        if births:
            births.order({"preload": modules}, within_s=self._plan["template"]["wall_s"])
            return False
        new = preload([name for name in modules if not is_foreign(name)])[0]
        self.note_held(births)
        return bool(new)

    def compile(self, source: str, filename: str, births: Births | None) -> None:
        """Compile a tool; only where all calls have their file at one place, which is part of what is compiled."""
        place = self._plan["call"]["workplace"]
        if not place:
            return
        path = os.path.join(place["path"], filename)
        if births:
            births.order({"compile": source, "path": path})
            return
        compiled.keep(source, path)
        keep_as_is()
        self.note_held(births)

    def note_held(self, births: Births | None) -> None:
        """Note how much memory is not a call's; where the kernel cannot be asked, for want of descriptors, it is what
        it was."""
        number = births.number if births else verification.OWN
        self._plan["call"]["held"] = verification.data_bytes(number) or self._plan["call"]["held"]
