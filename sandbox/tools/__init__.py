"""From a tool's source to what can be called: its signature, and arguments that fit it.

Everything here looks at text and at its syntax tree. Source is hostile until a box holds it, so it is never executed,
imported or evaluated on this side, not even an annotation, and reading it takes bounded time and memory.

    bytes ─ decoding ─ text ─ parsing ─ syntax tree ─ source, scope     what there is, what its names stand for
    source ─ dialects ─ entry, signature, script_block ─ Tool           what is called, and how           (reading)
    annotations, class_fields, declared ─ composing, value_types        what its annotations mean
    value_types, docstrings ─ described, metadata ─ CheckReport         what models and people are told   (check)
    value_types, plain_json ─ Binding                                   arguments, or problems            (arguments)
    schemas                                                             what any JSON schema is fit for, in all shapes
"""

from sandbox.tools.arguments import ArgumentProblem, Binding, bind
from sandbox.tools.reading import read_requirements_of, read_tool
from sandbox.tools.tool import CallForm, Parameter, ParameterKind, ToolDefinition

__all__ = [
    "ArgumentProblem",
    "Binding",
    "CallForm",
    "Parameter",
    "ParameterKind",
    "ToolDefinition",
    "bind",
    "read_requirements_of",
    "read_tool",
]
