"""Records of tools for people: names, descriptions, the order of a list, and the methods that may be switched off.

A record comes from `@tool_metadata` and `@method_metadata` if a source has them, and from names and docstrings
otherwise. `enabled_methods` decides which methods are on, by the operator's setting: an unmentioned method is on, a
core method cannot be off.

`detailed_description` brings a docstring into one form for prompts. Authors write the same sections under many headers:
with the colon inside or outside the asterisks, with an emoji or without, on the same line or below.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from sandbox.tools.dialects import Candidate
from sandbox.tools.dialects.method_class import decorated_methods, decorator_values, openapi_description
from sandbox.tools.docstrings import read_docstring
from sandbox.tools.source import Function, Source
from sandbox.tools.syntax.scope import docstring_of
from sandbox.tools.tool import display_name, machine_name

_FROZEN: Final = ConfigDict(frozen=True, extra="forbid")
DEFAULT_WEIGHT: Final = 100


class MethodRecord(BaseModel):
    """A method of a tool."""

    model_config = _FROZEN

    name: str
    display_name: str
    description: str
    is_core: bool = False
    visible: bool = True


class ToolRecord(BaseModel):
    """A tool; lists are sorted by ascending weight: core 10-20, primary 30-50, common 60-80, rare 90+."""

    model_config = _FROZEN

    name: str
    display_name: str
    description: str
    icon: str | None = None
    color: str | None = None
    is_core: bool = False
    weight: int = DEFAULT_WEIGHT
    visible: bool = False
    methods: tuple[MethodRecord, ...] = ()


_TOOL_FIELDS: Final[Mapping[str, Any]] = {
    "display_name": str,
    "description": str,
    "icon": str,
    "color": str,
    "weight": int,
    "is_core": bool,
    "visible": bool,
}
_KINDS: Final[Mapping[type, str]] = {str: "a string", int: "an integer", bool: "True or False"}
_METHOD_FIELDS: Final[Mapping[str, Any]] = {
    "display_name": str,
    "description": str,
    "is_core": bool,
    "visible": bool,
}


def read_records(source: Source, candidates: list[Candidate]) -> list[ToolRecord]:
    """Return one record for each tool, in the order of the candidates; a class is one tool, with all its methods."""
    records: list[ToolRecord] = []
    owners: dict[str, str] = {}
    for candidate in candidates:
        owner = candidate.owner
        if owner is None:
            records.append(_plain_record(source, candidate))
        elif owner.name not in owners.values():
            name = candidate.name if candidate.kind == "execute" else machine_name(owner.name)
            if name in owners:
                source.problems.add(
                    "same_name",
                    f"the classes {owners[name]} and {owner.name} are both known as {name}",
                    at=owner,
                    path=owner.name,
                    remedy="rename one of them",
                )
            owners[name] = owner.name
            records.append(_class_record(source, owner, candidate, name=name))
    return records


def enabled_methods(record: ToolRecord, setting: bool | Mapping[str, Any] | None) -> tuple[str, ...]:  # noqa: FBT001
    """Return the methods that a setting enables: true, false, or `{"enabled": …, "methods": {name: …}}`."""
    is_on, methods = _switches(setting)
    return tuple(
        each.name
        for each in record.methods
        if each.is_core or record.is_core or (is_on and methods.get(each.name, True))
    )


def is_enabled(record: ToolRecord, setting: bool | Mapping[str, Any] | None) -> bool:  # noqa: FBT001
    """Return whether anything of the tool is on."""
    if record.methods:
        return bool(enabled_methods(record, setting))
    return record.is_core or _switches(setting)[0]


def detailed_text(candidate: Candidate) -> str:
    """Return the long description of a tool, for prompts."""
    own = docstring_of(candidate.owner or candidate.function)
    arguments = docstring_of(candidate.function) if candidate.kind == "execute" else None
    unsaid = f"{candidate.names[-1]} function" if candidate.kind == "method" else f"{candidate.name} functionality"
    fallback = candidate.description or unsaid
    return detailed_description(own, arguments=arguments, fallback=fallback)


def _switches(setting: bool | Mapping[str, Any] | None) -> tuple[bool, Mapping[str, bool]]:  # noqa: FBT001
    if setting is None or isinstance(setting, bool):
        return setting is not False, {}
    methods = setting.get("methods", {})
    return setting.get("enabled", True) is not False, methods if isinstance(methods, Mapping) else {}


def _plain_record(source: Source, candidate: Candidate) -> ToolRecord:
    """Return the record of a function, a module or a handler."""
    said = {}
    if candidate.function is not None:
        said = _checked_values(source, candidate.function, "tool_metadata", _TOOL_FIELDS, candidate.entry)
    docstring = docstring_of(candidate.function)
    described = candidate.description or (read_docstring(docstring).description if docstring else None)
    return ToolRecord(
        **{
            "name": candidate.name,
            "display_name": display_name(candidate.name),
            "description": described or f"{candidate.name} functionality",
            **said,
        }
    )


def _class_record(source: Source, owner: ast.ClassDef, candidate: Candidate, *, name: str) -> ToolRecord:
    said = _checked_values(source, owner, "tool_metadata", _TOOL_FIELDS, owner.name)
    docstring = (docstring_of(owner) or "").strip()
    described = candidate.description if candidate.kind == "execute" else None
    methods = decorated_methods(source, owner) if candidate.kind == "method" else []
    return ToolRecord(
        **{
            "name": name,
            "display_name": display_name(owner.name),
            "description": described or docstring or f"{owner.name} functionality",
            "methods": tuple(_method_record(source, owner, each) for each in methods),
            **said,
        }
    )


def _method_record(source: Source, owner: ast.ClassDef, method: Function) -> MethodRecord:
    said = _checked_values(source, method, "method_metadata", _METHOD_FIELDS, f"{owner.name}.{method.name}")
    record = MethodRecord(
        **{
            "name": method.name,
            "display_name": display_name(method.name),
            "description": openapi_description(source, method) or f"{method.name} function",
            **said,
        }
    )
    return record.model_copy(update={"visible": False}) if method.name.startswith("_") else record


def _checked_values(
    source: Source, node: ast.ClassDef | Function, decorator: str, fields: Mapping[str, Any], path: str
) -> dict[str, Any]:
    """Return the values of the decorator that have the right types, without blank text and None."""
    values = decorator_values(source, node, decorator) or {}
    if "" in values:
        values["display_name"] = values.pop("")
    said: dict[str, Any] = {}
    for key, value in values.items():
        if key not in fields:
            source.problems.add(
                "unknown_metadata",
                f"@{decorator} takes no {key}",
                at=node,
                path=path,
                remedy=f"it takes {', '.join(fields)}",
                severity="warning",
            )
        elif value is not None and not (isinstance(value, str) and not value.strip()):
            _take(source, said, key, value, fields[key], node=node, path=path)
    return said


def _take(
    source: Source, said: dict[str, Any], key: str, value: object, kind: type, *, node: ast.AST, path: str
) -> None:
    if type(value) is kind:
        said[key] = value
    else:
        source.problems.add(
            "bad_metadata",
            f"{key} is {_KINDS[kind]}, and this is a value of type {type(value).__name__}",
            at=node,
            path=path,
            remedy=f"write {_KINDS[kind]}",
        )


MAX_CHARACTERS: Final = 64 * 1024
NOTHING_DETAILED: Final = "*No detailed documentation available.*"
_IMPORTANT: Final = ("critical", "important", "warning")
_USES: Final = ("use cases", "when to use", "usage", "why use this tool", "benefits")
_DIFFERENCES: Final = ("key differences", "why use this instead", "when to use vs", "vs")
_ARGUMENTS: Final = ("args", "arguments", "parameters")
_EXAMPLES: Final = ("examples", "example")
_OTHERS: Final = ("returns", "raises", "yields", "note", "notes", "attributes", "keyword args")
_EVERY: Final = (*_IMPORTANT, *_USES, *_DIFFERENCES, *_ARGUMENTS, *_EXAMPLES, *_OTHERS)
# Longer titles first: "when to use vs" is not "when to use" with something behind it.
_TITLES: Final = "|".join(sorted((re.escape(each) for each in _EVERY), key=len, reverse=True))
_HEADER = re.compile(
    rf"^[ \t]*(?:[^\w\s*`]+[ \t]*)?"  # an emoji, a hash or a bullet
    rf"(?:\*\*[ \t]*(?:[^\w\s*`]+[ \t]*)?(?P<bold>{_TITLES})[ \t]*(?::[ \t]*\*\*|\*\*[ \t]*:|\*\*(?=[ \t]*$))"
    rf"|(?P<plain>{_TITLES})[ \t]*:)"
    rf"[ \t]*(?P<rest>.*)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Section:
    """A header, in lower case, and the text that belongs to it."""

    title: str
    text: str


def detailed_description(docstring: str | None, *, arguments: str | None, fallback: str) -> str:
    """Return the long description; `arguments` is the docstring of a separate method that takes the arguments."""
    if docstring is None or not docstring.strip():
        return f"{fallback}\n\n{NOTHING_DETAILED}"
    introduction, sections = _split_sections(docstring[:MAX_CHARACTERS])
    _, inner = _split_sections(arguments[:MAX_CHARACTERS]) if arguments else ("", [])
    parts = [introduction.strip().partition("\n\n")[0].strip()]
    parts += _titled("⚠️ **Important**", _first(sections, _IMPORTANT), separator=": ")
    parts += _titled("**Use cases**", _first(sections, _USES))
    parts += _titled("**Key differences**", _first(sections, _DIFFERENCES))
    parts += _titled("**Parameters**", _first(inner, _ARGUMENTS) or _first(sections, _ARGUMENTS))
    parts += _titled("**Examples**", _first(sections, _EXAMPLES) or _first(inner, _EXAMPLES))
    return "\n\n".join(part for part in parts if part)


def _split_sections(docstring: str) -> tuple[str, list[_Section]]:
    """Return the text before the first header, and the sections in their order."""
    introduction: list[str] = []
    sections: list[_Section] = []
    title, lines = "", introduction
    for line in inspect.cleandoc(docstring).split("\n"):
        header = _HEADER.match(line)
        if header is None:
            lines.append(line)
            continue
        if title:
            sections.append(_Section(title, _join(lines)))
        title, lines = (header["bold"] or header["plain"]).lower(), [header["rest"]]
    if title:
        sections.append(_Section(title, _join(lines)))
    return "\n".join(introduction), sections


def _join(lines: list[str]) -> str:
    return "\n".join([lines[0].strip(), inspect.cleandoc("\n".join(["", *lines[1:]]))]).strip()


def _first(sections: list[_Section], titles: tuple[str, ...]) -> str | None:
    """Return the text under the title that counts most, and is there."""
    found = {section.title: section.text for section in reversed(sections) if section.text}
    return next((found[title] for title in titles if title in found), None)


def _titled(title: str, text: str | None, *, separator: str = ":\n") -> list[str]:
    return [] if text is None else [f"{title}{separator}{text}"]
