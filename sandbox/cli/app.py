"""All commands. A new command is one file and one line here.

The file of a command is imported when the words name that command, and typer then knows no other command: preparing all
of them takes longer than reading a tool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Final

import typer

from sandbox.cli.terminal import show

_COMMANDS: Final = {
    "run": "run:run",
    "check": "check:check",
    "schema": "check:schema",
    "doctor": "doctor:doctor",
}
"""The module and the function of each command."""
_GROUPS: Final = {
    "policy": {
        "list": "policy:list_policies",
        "show": "policy:show_policy",
        "explain": "policy:explain",
    },
    "env": {
        "lock": "env_build:lock_environment",
        "build": "env_build:build_environment",
        "list": "env:list_environments",
        "show": "env:show_environment",
        "verify": "env:verify_environments",
        "prune": "env:prune_environments",
        "export": "env_bundle:export_environment",
        "import": "env_bundle:import_environment",
    },
    "image": {
        "bootstrap": "image:bootstrap_image",
        "build": "image:build_image",
        "list": "image:list_all_images",
        "prune": "image:prune_images",
        "push": "image:push_image",
        "pull": "image:pull_image",
    },
    "artifact": {
        "list": "artifact:list_artifacts",
        "show": "artifact:show_artifact",
        "grep": "artifact:grep_artifact",
        "save": "artifact:save_artifact",
    },
}
_ABOUT: Final = {
    "policy": "See what policies grant, and what enforces them here.",
    "env": "Lock, build and keep the environments that tools run in.",
    "image": "Make and keep the images that containers start from.",
    "artifact": "Read what calls left, and what was too long to show.",
}
_SETTINGS: Final = {"help_option_names": ["-h", "--help"]}


def command_line(first: str | None = None) -> typer.Typer:
    """Return the command line for words that start with this one: only that command or group, if it exists."""
    app = typer.Typer(
        add_completion=False,
        context_settings=_SETTINGS,
        no_args_is_help=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help takes half the time
    )
    app.callback()(root)
    is_known = first in _COMMANDS or first in _GROUPS
    _add(app, {name: place for name, place in _COMMANDS.items() if name == first or not is_known})
    for name, commands in _GROUPS.items():
        if name == first or not is_known:
            group = typer.Typer(help=_ABOUT[name], no_args_is_help=False)
            _add(group, commands)
            app.add_typer(group, name=name)
    return app


def named_command(words: Sequence[str]) -> str:
    """Return the command that the first words name, such as `sandbox env lock`."""
    first, second, *_ = (*words, "", "")
    if second in _GROUPS.get(first, ()):
        return f"sandbox {first} {second}"
    return f"sandbox {first}" if first in _COMMANDS or first in _GROUPS else "sandbox"


def _add(app: typer.Typer, commands: Mapping[str, str]) -> None:
    for name, place in commands.items():
        file, _, function = place.partition(":")
        app.command(name)(getattr(import_module(f"sandbox.cli.{file}"), function))


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        show(f"sandbox {version('sandbox-engine')}\n")
        raise typer.Exit


def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Run tools, pieces of Python source, in boxes that the host's kernel walls off.

    Exit codes: 0 ok, 1 the tool failed, 2 usage, source or arguments, 3 a limit, 4 environment, 5 backend or isolation,
    130 cancelled, 141 the reader of the output went away.
    """
