"""Tools: from the source of a tool to its signature, its schemas, and arguments that fit it.

This room reads text and syntax trees only. A source is untrusted until a box holds it, so nothing of it is executed,
imported or evaluated here, not even an annotation, and reading a source takes bounded time and memory.

    bytes ─ syntax ─ source ─ dialects ─ signature ─ ToolDefinition       the callable of a source    (reading)
    annotations ─ types ─ description, metadata ─ CheckReport             what models and people see  (check)
    syntax ─ RiskReport                                                   what a source may do        (risk)
    types, plain_json ─ Binding                                           arguments, or problems      (arguments)
    schemas                                                               any JSON schema, for every provider
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
