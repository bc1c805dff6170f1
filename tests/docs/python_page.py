"""The reference of the Python names: signatures and docstrings of `sandbox.__all__`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, is_typeddict

from pydantic import BaseModel

import sandbox
from sandbox.errors import SandboxError
from sandbox.spec import CallSpec
from tests.docs.fields import descriptions, fields, members
from tests.docs.layout import MAX_LINE, code, item, paragraphs

_OWN_PAGES: Final = {"Outcome": "outcome.md", "Policy": "policy.md", "Status": "outcome.md#status"}
_INHERITED: Final = frozenset(dir(BaseModel))


def python_page() -> list[str]:
    """Write the page."""
    objects = {name: getattr(sandbox, name) for name in sandbox.__all__}
    errors = {name: each for name, each in objects.items() if _is_error(each)}
    lines = ["# Python", ""]
    lines += paragraphs("The module `sandbox` has these names; every other name is internal and may change.")
    lines += [line for name, each in objects.items() if name not in errors for line in _object(name, each)]
    return [*lines, "## Errors", "", *_error_list(errors)]


def _is_error(each: object) -> bool:
    return isinstance(each, type) and issubclass(each, BaseException)


def _object(name: str, each: Any) -> list[str]:
    lines = [f"## `{name}`", ""]
    if inspect.isfunction(each):
        return [*lines, *_signature(name, each), *paragraphs(each.__doc__ or "")]
    if not isinstance(each, type):
        parts = " | ".join(f"`{part.__name__}`" for part in each.__args__)
        return [*lines, *paragraphs(f"Any of {parts}.")]
    lines += paragraphs(each.__doc__ or "") + _content(name, each)
    return lines + _methods(each)


def _content(name: str, each: type) -> list[str]:
    if name in _OWN_PAGES:
        return [f"See [its fields]({_OWN_PAGES[name]}).", ""]
    if issubclass(each, Enum):
        return members(each)
    if is_typeddict(each):
        # The typed dictionary only repeats the names of the model's fields.
        return [*fields(each, descriptions(CallSpec)), ""]
    if issubclass(each, BaseModel):
        return [*fields(each), ""]
    return _signature(name, each) if "__init__" in vars(each) else []


def _signature(name: str, each: Callable[..., Any], *, start: str = "") -> list[str]:
    """Format a signature, with a parameter per line if it is long; `self` and `cls` are left out."""
    signature = inspect.signature(each)
    shown = [value for key, value in signature.parameters.items() if key not in ("self", "cls")]
    parameters: list[str] = []
    for number, parameter in enumerate(shown):
        before = {each.kind for each in shown[:number]}
        is_first_keyword = inspect.Parameter.KEYWORD_ONLY not in before
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and is_first_keyword:
            parameters.append("*")
        parameters.append(_parameter(parameter))
    returns = signature.return_annotation
    arrow = "" if returns in (inspect.Signature.empty, None, "None") else f" -> {returns}"
    line = f"{start}{name}({', '.join(parameters)}){arrow}"
    if len(line) > MAX_LINE:
        line = "\n".join([f"{start}{name}(", *(f"    {each}," for each in parameters), f"){arrow}"])
    return [*code(line), ""]


def _parameter(parameter: inspect.Parameter) -> str:
    stars = "**" if parameter.kind is inspect.Parameter.VAR_KEYWORD else ""
    kind = "" if parameter.annotation is inspect.Parameter.empty else f": {parameter.annotation}"
    if parameter.default is inspect.Parameter.empty:
        return f"{stars}{parameter.name}{kind}"
    default = getattr(parameter.default, "__name__", None) or repr(parameter.default)
    return f"{parameter.name}{kind} = {default}"


def _methods(each: type) -> list[str]:
    lines: list[str] = []
    for name, member in vars(each).items():
        function = _function_of(member)
        if function is None or name.startswith("_") or (issubclass(each, BaseModel) and name in _INHERITED):
            continue
        lines += [f"### `{each.__name__}.{name}`", ""]
        if function is member or isinstance(member, classmethod | staticmethod):
            lines += _signature(name, function, start="async " if inspect.iscoroutinefunction(function) else "")
        lines += paragraphs(function.__doc__) if function.__doc__ else []
    return lines


def _function_of(member: Any) -> Any:
    """Return the function behind a method or a computed attribute, or None."""
    for name in ("fget", "func", "__func__"):
        member = getattr(member, name, member)
    return member if inspect.isfunction(member) else None


def _error_list(errors: Mapping[str, type[SandboxError]]) -> list[str]:
    """List the errors as a tree: each below the error that it derives from."""
    return _errors_below(SandboxError, [*errors.values()], depth=0)


def _errors_below(base: type[SandboxError], errors: list[type[SandboxError]], *, depth: int) -> list[str]:
    details = f"exit code {base.exit_code}" + (", retryable" if base.retryable else "")
    summary = inspect.cleandoc(base.__doc__ or "").partition("\n\n")[0]
    lines = item(f"`{base.__name__}`", details, summary, depth=depth)
    for each in errors:
        if each.__base__ is base:
            lines += _errors_below(each, errors, depth=depth + 1)
    return lines
