"""The names that authors of tools import: base classes, decorators, `ToolResult` and `OutputType`.

    from sandbox import BaseTool, ToolResult

On the host the engine exports these names. A box has no engine: the engine sends this file, and the box's module
`sandbox` is this file alone, whatever other module of that name is installed. So the file uses only the standard
library of Python 3.8 and later, imports quickly, and does not depend on where it runs.

The names do nothing to a tool. The engine reads all of them from the text of the source, without running it; in a box
the decorators only store their arguments in `__tool__`, where a tool's own tests can find them. A tool has one of four
forms:

    @tool                                   a function; the decorator is optional
    def word_count(text: str) -> int: ...

    @tool_metadata(display_name="Files")    a class of methods; each decorated method can be called
    class FilesTool(Tool):
        @method_metadata(is_core=True)
        def read(self, path: str) -> str: ...

    class Lint(BaseTool):                   a class with `execute`
        name = "lint"
        description = "Checks a file."
        def execute(self, args: dict) -> ToolResult: ...

    TOOL_NAME = "greet"                     a module with `run`, which needs no name of this file
    async def run(**kwargs): ...
"""

from __future__ import annotations

import enum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar, overload

    _Function = TypeVar("_Function", bound=Callable[..., Any])
    _Class = TypeVar("_Class", bound=type)
else:

    def overload(function):
        """Return the function. Importing `typing` takes longer than importing all of this file."""
        return function


__all__ = [
    "BaseTool",
    "OutputType",
    "Tool",
    "ToolResult",
    "method_metadata",
    "openapi_schema",
    "tool",
    "tool_metadata",
]


class OutputType(str, enum.Enum):
    """The type of an output, which decides how much of the output is shown and how it is cut."""

    KNOWLEDGE_CONTENT = "knowledge_content"
    FILE_CONTENT = "file_content"
    FILE_VIEW_RESULT = "file_view_result"
    EXECUTION_RESULT = "execution_result"
    ERROR_MESSAGE = "error_message"
    STATUS_MESSAGE = "status_message"
    JSON_DATA = "json_data"
    TABLE = "table"
    IMAGE = "image"
    BINARY = "binary"
    FILE = "file"

    def __str__(self) -> str:
        return str(self.value)


class ToolResult:
    """The result of a tool: success or failure, and texts to read.

    A result that is not `ok` makes the call `failed`, or `denied` if its text is a refusal. `meta` holds any JSON, next
    to the texts.
    """

    __slots__ = ("meta", "ok", "stderr", "stdout")

    def __init__(
        self,
        ok: bool,  # noqa: FBT001  (how results are written everywhere)
        stdout: str = "",
        stderr: str = "",
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        for name, text in (("stdout", stdout), ("stderr", stderr)):
            if not isinstance(text, str):
                raise TypeError(f"{name} must be a string, not {type(text).__name__}")
        self.ok = bool(ok)
        self.stdout = stdout
        self.stderr = stderr
        self.meta: dict[str, Any] = dict(meta or {})

    def __repr__(self) -> str:
        """Return a short text, because results end up in logs."""
        mark = "✓" if self.ok else "✗"
        return f"ToolResult({mark}, stdout_len={len(self.stdout)}, stderr_len={len(self.stderr)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ToolResult):
            return NotImplemented
        return self._content() == other._content()

    __hash__ = None  # type: ignore[assignment]

    def _content(self) -> tuple[bool, str, str, dict[str, Any]]:
        return self.ok, self.stdout, self.stderr, self.meta


class Tool:
    """The base of a class of methods: each method with `@openapi_schema` or `@method_metadata` can be called.

    The engine creates a new instance, without arguments, for every call.
    """

    def success_response(self, data: object = "") -> ToolResult:
        """Return a successful result. Data that is not text becomes JSON."""
        return ToolResult(True, stdout=_text(data))

    def fail_response(self, message: object = "") -> ToolResult:
        """Return a failed result. A message that is not text becomes JSON."""
        return ToolResult(False, stderr=_text(message))


class BaseTool:
    """The base of a tool that is one class with a name, a description, and `execute`.

    The engine creates a new instance, without arguments, for every call, and calls `validate_args`, `needs_permission`
    and `execute`, in this order. Each method may be `async`.
    """

    name: str = ""
    description: str = ""
    output_semantic_type: OutputType | str | None = None
    stdout_semantic_type: OutputType | str | None = None
    stderr_semantic_type: OutputType | str | None = None

    def validate_args(self, args: dict[str, Any]) -> bool | tuple[bool, str]:  # noqa: ARG002
        """Return True if the arguments fit together, else False or False with a reason. Their types are already
        checked."""
        return True

    def needs_permission(self, args: dict[str, Any]) -> bool | str:  # noqa: ARG002
        """Return True, or a question for the user, if a person must permit the call."""
        return False

    def execute(self, args: dict[str, Any]) -> ToolResult:
        """Run the tool."""
        raise NotImplementedError(f"{type(self).__name__} does not define execute")


@overload
def tool(function: _Function) -> _Function: ...
@overload
def tool(  # noqa: F811  (ruff does not see that this is `typing.overload`)
    *,
    name: str | None = None,
    description: str | None = None,
    output_type: OutputType | str | None = None,
    return_char_limit: int | None = None,
    return_token_limit: int | None = None,
    enable_parallel_execution: bool | None = None,
) -> Callable[[_Function], _Function]: ...
def tool(  # noqa: F811
    function: Any = None,
    *,
    name: str | None = None,
    description: str | None = None,
    output_type: OutputType | str | None = None,
    return_char_limit: int | None = None,
    return_token_limit: int | None = None,
    enable_parallel_execution: bool | None = None,
) -> Any:
    """Mark a function as the tool: `@tool`, or `@tool(name=…)` with values that replace those of the source."""
    said = {
        "name": name,
        "description": description,
        "output_type": output_type,
        "return_char_limit": return_char_limit,
        "return_token_limit": return_token_limit,
        "enable_parallel_execution": enable_parallel_execution,
    }

    def mark(marked: Any) -> Any:
        return _note(marked, said)

    return mark if function is None else mark(function)


def tool_metadata(
    *,
    display_name: str | None = None,
    description: str | None = None,
    icon: str | None = None,
    color: str | None = None,
    weight: int = 100,
    is_core: bool = False,
    visible: bool = False,
) -> Callable[[_Class], _Class]:
    """Describe how a class of methods is shown. Lighter classes come first; a core tool cannot be turned off."""
    said = {
        "display_name": display_name,
        "description": description,
        "icon": icon,
        "color": color,
        "weight": weight,
        "is_core": is_core,
        "visible": visible,
    }
    return lambda marked: _note(marked, said)


def method_metadata(
    *, display_name: str | None = None, description: str | None = None, is_core: bool = False, visible: bool = True
) -> Callable[[_Function], _Function]:
    """Describe how a method is shown, and make the method callable as a tool."""
    said = {"display_name": display_name, "description": description, "is_core": is_core, "visible": visible}
    return lambda marked: _note(marked, said)


def openapi_schema(schema: Mapping[str, Any]) -> Callable[[_Function], _Function]:
    """Give a method a schema that replaces its signature's, and make the method callable as a tool.

    If a method has several schemas, the first one describes it.
    """

    def mark(marked: Any) -> Any:
        before = getattr(marked, "__tool__", {}).get("schemas", [])
        return _note(marked, {"schemas": [dict(schema), *before]})

    return mark


def _note(marked: Any, said: Mapping[str, Any]) -> Any:
    """Add the arguments of a decorator to a copy, so that a base class keeps its own."""
    marked.__tool__ = dict(vars(marked).get("__tool__", {}), **said)
    return marked


def _text(data: object) -> str:
    if isinstance(data, str):
        return data
    import json

    return json.dumps(data, ensure_ascii=False, default=str)
