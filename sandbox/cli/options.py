"""Options that several commands have, and the options of `sandbox run` as two dataclasses.

A typer command takes each option as a parameter of its own. `takes_options` lets a command take a few dataclasses
instead: typer sees one keyword parameter for each field, and the command receives the filled dataclasses.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from sandbox.cli.inputs import read_store

Backend = Annotated[
    str | None,
    typer.Option("--backend", metavar="NAME", envvar="SANDBOX_BACKEND", help="Backend: subprocess or container."),
]
PolicyName = Annotated[
    str,
    typer.Option("--policy", metavar="NAME|FILE", envvar="SANDBOX_POLICY", help="Policy of the call."),
]
StorePlace = Annotated[
    Path | None,
    typer.Option(
        "--store",
        metavar="DIR",
        envvar="SANDBOX_STORE",
        parser=read_store,
        help="Folder of environments (default: your cache).",
    ),
]
ArtifactPlace = Annotated[
    Path | None,
    typer.Option(
        "--artifacts", metavar="DIR", envvar="SANDBOX_ARTIFACTS", help="Folder of artifacts (default: your cache)."
    ),
]
Offline = Annotated[bool, typer.Option("--offline", help="Use only the store and wheelhouses, no index.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, nothing else.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """The tool, arguments and limits of `run`."""

    entry: Annotated[
        str | None, typer.Option("--entry", metavar="NAME", help="Function to call if the file has several.")
    ] = None
    args: Annotated[
        str | None,
        typer.Option("--args", metavar="JSON|@FILE|-", help="Arguments as a JSON object; - reads standard input."),
    ] = None
    pairs: Annotated[
        list[str] | None,
        typer.Option("-a", metavar="NAME=VALUE", help="One argument; the tool's types give it a meaning."),
    ] = None
    requirements: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="REQ", help="Package to install, such as requests==2.32.3."),
    ] = None
    policy: PolicyName = "default"
    timeout: Annotated[str | None, typer.Option("--timeout", metavar="TIME", help="Time limit: 5, 5s, 500ms, 2m.")] = (
        None
    )
    limits: Annotated[
        list[str] | None,
        typer.Option("--limit", metavar="NAME=VALUE", help="Tighter limit, such as memory=64MiB."),
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME=VALUE", help="Environment variable of the tool."),
    ] = None
    state: Annotated[
        str | None,
        typer.Option("--state", metavar="JSON|@FILE|-", help="Value of the parameter agent_state (a copy)."),
    ] = None
    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="Value of the parameter agent_id.")] = None
    ctx: Annotated[str | None, typer.Option("--ctx", metavar="JSON|@FILE|-", help="Value of the parameter ctx.")] = None
    files: Annotated[
        list[str] | None,
        typer.Option("--file", metavar="NAME=PATH", help="File of this host to show at inputs/NAME."),
    ] = None
    permit: Annotated[bool, typer.Option("--permit", help="Permit what the tool asks permission for.")] = False
    tenant: Annotated[
        str, typer.Option("--tenant", metavar="NAME", help="Tenant; boxes are never shared between tenants.")
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultOptions:
    """Where `run` opens the box, and what it does with the outcome."""

    outputs: Annotated[
        list[str] | None,
        typer.Option("--output", metavar="NAME.WHAT=VALUE", help="Shape of an output, such as stdout.type=json_data."),
    ] = None
    tokens: Annotated[
        int | None, typer.Option("--tokens", metavar="N", min=0, help="Show at most N tokens of each output.")
    ] = None
    tokenizer: Annotated[
        str | None,
        typer.Option("--tokenizer", metavar="MODULE:NAME", help="Function that counts the tokens of a text."),
    ] = None
    backend: Backend = None
    store: StorePlace = None
    artifacts: ArtifactPlace = None
    save_artifacts: Annotated[
        Path | None,
        typer.Option("--save-artifacts", metavar="DIR", help="Save the files of outputs/ in this folder."),
    ] = None
    replace: Annotated[bool, typer.Option("--replace", help="With --save-artifacts: replace existing files.")] = False
    offline: Offline = False
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the outcome as JSON; with --stream, one line per event."),
    ] = False
    stream: Annotated[bool, typer.Option("--stream", help="Show what the tool prints as it comes.")] = False


def takes_options(function: Callable[..., int]) -> Callable[..., int]:
    """Replace each dataclass parameter of a command by one keyword parameter per field."""
    hints = get_type_hints(function, include_extras=True)
    kinds = {name: kind for name, kind in hints.items() if hasattr(kind, "__dataclass_fields__")}
    plain = [
        parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in kinds
    ]
    options = {field.name: _parameter(kind, field) for kind in kinds.values() for field in fields(kind)}

    @functools.wraps(function)
    def command(**values: Any) -> int:
        filled = {
            name: kind(**{field.name: values.pop(field.name) for field in fields(kind)}) for name, kind in kinds.items()
        }
        return function(**values, **filled)

    # typer reads the signature for the parameters and __annotations__ for their types.
    parameters = [*plain, *options.values()]
    vars(command)["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _parameter(kind: type[Any], field: Any) -> inspect.Parameter:
    annotation = get_type_hints(kind, include_extras=True)[field.name]
    default = inspect.Parameter.empty if field.default is MISSING else field.default
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
