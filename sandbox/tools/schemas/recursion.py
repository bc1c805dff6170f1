"""Whether a schema describes values that contain others of their own kind, to any depth."""

from __future__ import annotations

from sandbox.tools.plain_json import JSON
from sandbox.tools.schemas.findings import ROOT
from sandbox.tools.schemas.nodes import DEFINITIONS, Schema, children
from sandbox.tools.schemas.references import referred


def is_recursive(root: Schema) -> bool:
    """Whether following references from the top leads into a node that is being looked at already."""
    open_nodes: set[int] = set()
    done: set[int] = set()
    waiting: list[tuple[JSON, bool]] = [(root, True)]
    while waiting:
        node, entering = waiting.pop()
        if not isinstance(node, dict) or (entering and id(node) in done):
            continue
        if not entering:
            open_nodes.discard(id(node))
            done.add(id(node))
            continue
        if id(node) in open_nodes:
            return True
        open_nodes.add(id(node))
        waiting.append((node, False))
        waiting.extend((child, True) for child in _below(root, node))
    return False


def _below(root: Schema, node: Schema) -> list[JSON]:
    described = {keyword: value for keyword, value in node.items() if keyword not in DEFINITIONS}
    below = [child for _, child in children(described, ROOT)]
    return [*below, referred(root, node["$ref"])] if "$ref" in node else below
