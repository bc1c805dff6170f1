"""The schemas handed to us, copied into plain values before anything looks at them.

Two shapes are taken: a tool's schema `{"name", "description", "parameters"}`, and the JSON schema of its parameters
alone. The copy shares nothing with the caller, is a tree whatever it was made from, and is bounded in size and depth:
at most a hundred levels of JSON, so that everything may walk over it recursively.
"""

from __future__ import annotations

from typing import Final

from sandbox.tools.plain_json import MAX_DEPTH, NotPlain, PlainCopy
from sandbox.tools.schemas.issues import ROOT, Finding, path_of
from sandbox.tools.schemas.nodes import Schema

MOST_LEVELS: Final = 100


class Unreadable(Exception):
    """What was given is no JSON object that could be a schema; `finding` says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


def plain_schema(schema: object) -> Schema:
    """A copy as plain JSON values, or `Unreadable`."""
    try:
        plain = PlainCopy().copy(schema, depth=MAX_DEPTH - MOST_LEVELS)
    except NotPlain as fault:
        raise Unreadable(Finding(path_of(fault.path[:MOST_LEVELS]), _of_schemas(fault.message))) from None
    except Exception as fault:  # an object may answer its reader with anything
        raise Unreadable(Finding(ROOT, f"cannot be read: {type(fault).__name__}")) from None
    if not isinstance(plain, dict):
        raise Unreadable(Finding(ROOT, "is not an object: a schema is a dict"))
    return plain


def is_tool(schema: Schema) -> bool:
    """Whether this is a tool's schema, and not that of its parameters."""
    return "parameters" in schema and "type" not in schema


def parameters_of(schema: Schema) -> Schema:
    """The schema of the parameters."""
    if not is_tool(schema):
        return schema
    parameters = schema["parameters"]
    if not isinstance(parameters, dict):
        raise Unreadable(Finding(ROOT, "`parameters` is not an object: a schema is a dict"))
    return parameters


def _of_schemas(message: str) -> str:
    return message.replace("the arguments", "the schema").replace(f"{MAX_DEPTH} levels", f"{MOST_LEVELS} levels")
