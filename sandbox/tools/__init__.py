"""From a tool's source to what can be called: its signature, and arguments that fit it.

Everything here looks at text and at its syntax tree. Source is hostile until a box holds it, so it is never executed,
imported or evaluated on this side, not even an annotation, and reading it takes bounded time and memory.

    bytes ─ decoding ─ text ─ parsing ─ syntax tree ─ entry, signature, module_names, script_block ─ Tool   (reading)
    Tool ─ annotations, value_types ─ pydantic model ─┐
    arguments ─────────────────────── plain_json ─────┴─ Binding: arguments or problems                   (arguments)
"""

from sandbox.tools.arguments import Binding, Problem, bind
from sandbox.tools.reading import read_tool
from sandbox.tools.tool import CallForm, Parameter, ParameterKind, Tool

__all__ = ["Binding", "CallForm", "Parameter", "ParameterKind", "Problem", "Tool", "bind", "read_tool"]
