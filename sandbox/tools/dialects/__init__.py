"""Dialects: the ways to write a tool, one reader each, in one table.

A reader gets a source once and returns every callable that it finds there, in the order of the text. A reader knows
nothing of schemas or arguments: a `Candidate` says what is called, how, and what the source declares outside of the
signature.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sandbox.tools.dialects.candidate import Candidate, settings_of
from sandbox.tools.dialects.execute_class import read_execute_classes
from sandbox.tools.dialects.functions import read_functions
from sandbox.tools.dialects.method_class import read_method_classes
from sandbox.tools.dialects.tool_module import read_tool_module
from sandbox.tools.source import Source

__all__ = ["DIALECTS", "Candidate", "read_candidates", "settings_of"]

DIALECTS: Final[dict[str, Callable[[Source], list[Candidate]]]] = {
    "module": read_tool_module,
    "execute": read_execute_classes,
    "methods": read_method_classes,
    "function": read_functions,
}


def read_candidates(source: Source) -> list[Candidate]:
    """Return every callable; a callable that only one dialect can mean comes first."""
    return [candidate for read in DIALECTS.values() for candidate in read(source)]
