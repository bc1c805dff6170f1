"""Which references of a schema describe values that contain others of their own kind, to any depth.

References are the nodes of a graph, with an arrow to every reference that stands in what they refer to. Taking away
what leads nowhere, and what nothing leads to, again and again leaves the cycles and what lies between them.
"""

from __future__ import annotations

from sandbox.tools.schemas.issues import ROOT
from sandbox.tools.schemas.nodes import Schema, walk
from sandbox.tools.schemas.references import referred

_Arrows = dict[str, set[str]]


def recursive_references(root: Schema) -> frozenset[str]:
    """The references that can be followed without end."""
    arrows = _arrows(root)
    return frozenset(_without_ends(_reversed(_without_ends(arrows))))


def _arrows(root: Schema) -> _Arrows:
    arrows: _Arrows = {}
    waiting = list(_references_in(root))
    while waiting:
        reference = waiting.pop()
        if reference not in arrows:
            found = referred(root, reference)
            arrows[reference] = _references_in(found) if isinstance(found, dict) else set()
            waiting.extend(arrows[reference])
    return arrows


def _references_in(schema: Schema) -> set[str]:
    found = (node.get("$ref") for _, node in walk(schema, ROOT))
    return {reference for reference in found if isinstance(reference, str)}


def _without_ends(arrows: _Arrows) -> _Arrows:
    """What is left when everything without an arrow that goes on is taken away, and then again."""
    leading_to = _reversed(arrows)
    left = {name: len(targets) for name, targets in arrows.items()}
    ends = [name for name, count in left.items() if count == 0]
    gone = set(ends)
    while ends:
        for name in leading_to[ends.pop()]:
            left[name] -= 1
            if left[name] == 0:
                ends.append(name)
                gone.add(name)
    return {name: targets - gone for name, targets in arrows.items() if name not in gone}


def _reversed(arrows: _Arrows) -> _Arrows:
    turned: _Arrows = {name: set() for name in arrows}
    for name, targets in arrows.items():
        for reached in targets:
            turned[reached].add(name)
    return turned
