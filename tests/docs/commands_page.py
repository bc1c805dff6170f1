"""The reference of the command line, from typer's own description of the commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import typer.main
from typer.core import TyperGroup

from sandbox.cli.app import command_line
from tests.docs.layout import code, item, paragraphs

_INTRODUCTION: Final = "`sandbox` and `python -m sandbox` are the same program. Every command has `-h` and `--help`."


def commands_page() -> list[str]:
    """Write the page."""
    group = typer.main.get_group(command_line())
    lines = ["# Command line", "", *paragraphs(_INTRODUCTION), *paragraphs((group.help or "").partition("\n\n")[2])]
    return lines + [line for path, command in _commands("sandbox", group) for line in _command(path, command)]


def _commands(path: str, group: Any) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from _commands(f"{path} {name}", command)
        else:
            yield f"{path} {name}", command


def _command(path: str, command: Any) -> list[str]:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
    lines = [f"## `{path}`", "", *code(" ".join([path, *map(_usage, arguments), "[OPTIONS]"])), ""]
    lines += paragraphs(command.help or "")
    lines += [line for each in arguments for line in item(f"`{_metavar(each)}`", _details(each), each.help or "")]
    lines += [line for each in options for line in item(_spelling(each), _details(each), each.help or "")]
    return [*lines, ""]


def _usage(argument: Any) -> str:
    name = _metavar(argument) + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _spelling(option: Any) -> str:
    value = "" if option.is_flag else f" {_metavar(option)}"
    return ", ".join(f"`{spelling}{value}`" for spelling in option.opts)


def _details(parameter: Any) -> str:
    is_flag = getattr(parameter, "is_flag", False)
    has_default = not is_flag and parameter.default not in (None, "", ()) and not callable(parameter.default)
    variable = f"variable `{parameter.envvar}`" if parameter.envvar else ""
    return ", ".join(filter(None, [variable, f"default `{parameter.default}`" if has_default else ""]))
