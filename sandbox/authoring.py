"""What authors of tools import: base classes, decorators, `ToolResult` and `OutputType`.

    from sandbox import BaseTool, ToolResult

On the host these are the engine's own names. In a box there is no engine: there the module `sandbox` is this one file,
handed over by the engine, whatever else of that name is installed. So it stands alone: the standard library of Python
3.8 and later, nothing that takes long to import, and nothing that knows where it runs.

Nothing here does anything to a tool. The engine reads all of it from the text of the source, without running it; in a
box the decorators only note what they were given (`__tool__`), so that a tool's own tests can look at it. Four ways of
writing a tool are understood:

    @tool                                   a function; the decorator may be left out
    def word_count(text: str) -> int: ...

    @tool_metadata(display_name="Files")    a class of methods, each decorated one a callable of its own
    class FilesTool(Tool):
        @method_metadata(is_core=True)
        def read(self, path: str) -> str: ...

    class Lint(BaseTool):                   a class with `execute`
        name = "lint"
        description = "Checks a file."
        def execute(self, args: dict) -> ToolResult: ...

    TOOL_NAME = "greet"                     a module with `run`, which needs nothing of this file
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
        """Means something to type checkers only; `typing` takes longer to import than all of this."""
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
    """What an output is: it decides how much of it is shown, and how it is cut."""

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
    """What a tool says came of it: whether it did what it was asked, and what there is to read about that.

    A result that is not `ok` makes the call `failed`; `meta` is any JSON, kept beside the texts.
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
        """Short whatever the texts are: results end up in logs."""
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

    The class is made without arguments, anew for every call.
    """

    def success_response(self, data: object = "") -> ToolResult:
        """A result that is ok; what is not text is given as its JSON."""
        return ToolResult(True, stdout=_text(data))

    def fail_response(self, message: object = "") -> ToolResult:
        """A result that is not."""
        return ToolResult(False, stderr=_text(message))


class BaseTool:
    """The base of a tool that is one class: a name, a description, and `execute`.

    The class is made without arguments, anew for every call, and asked in this order: `validate_args`,
    `needs_permission`, `execute`. Each may be `async`.
    """

    name: str = ""
    description: str = ""
    output_semantic_type: OutputType | str | None = None
    stdout_semantic_type: OutputType | str | None = None
    stderr_semantic_type: OutputType | str | None = None

    def validate_args(self, args: dict[str, Any]) -> bool | tuple[bool, str]:  # noqa: ARG002
        """Whether the arguments make sense together, with a text that says why not; types have been checked before."""
        return True

    def needs_permission(self, args: dict[str, Any]) -> bool | str:  # noqa: ARG002
        """Whether somebody must be asked before this is done, or what they must be asked."""
        return False

    def execute(self, args: dict[str, Any]) -> ToolResult:
        """Do it."""
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
    """Mark the function of a source that is the tool: `@tool`, or `@tool(name=…)` with what differs from the source."""
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
    """How a class of methods is shown: the lighter the earlier; a core tool cannot be turned off."""
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
    """How one method is shown; it makes the method one that can be called."""
    said = {"display_name": display_name, "description": description, "is_core": is_core, "visible": visible}
    return lambda marked: _note(marked, said)


def openapi_schema(schema: Mapping[str, Any]) -> Callable[[_Function], _Function]:
    """The schema of a method, where it is not to be read from its signature; it makes the method one that can be
    called. With several, the first describes it."""

    def mark(marked: Any) -> Any:
        before = getattr(marked, "__tool__", {}).get("schemas", [])
        return _note(marked, {"schemas": [dict(schema), *before]})

    return mark


def _note(marked: Any, said: Mapping[str, Any]) -> Any:
    """Add what was said of it; what a base class was told stays the base's."""
    marked.__tool__ = dict(vars(marked).get("__tool__", {}), **said)
    return marked


def _text(data: object) -> str:
    if isinstance(data, str):
        return data
    import json

    return json.dumps(data, ensure_ascii=False, default=str)
