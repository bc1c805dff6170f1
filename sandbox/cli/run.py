"""`sandbox run`: one call of a tool in a file.

The call runs on the engine's own thread and this one writes, so that a reader who pauses (a full pipe, Ctrl-S) holds
back the tool and never the clock that limits it.

With `--stream --json` each line is one JSON document: `{"event": "printed", "stream", "text"}` for what is printed,
`{"event": "progress", "value"}` for what a generator gives, and last the outcome itself, or `{"error": …}`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sandbox.cli.artifact_options import ArtifactPlace
from sandbox.cli.escape import SeenPieces, one_line
from sandbox.cli.exit_codes import CutShort, cut_short
from sandbox.cli.inputs import read_store
from sandbox.cli.terminal import is_drawn_on, is_terminal, show, show_document, tell

if TYPE_CHECKING:
    from sandbox.client.client import Sandbox
    from sandbox.outcome import Json, Outcome

Backend = Annotated[
    str | None,
    typer.Option(
        "--backend", metavar="NAME", envvar="SANDBOX_BACKEND", help="What opens the box: subprocess or container."
    ),
]
PolicyName = Annotated[
    str,
    typer.Option("--policy", metavar="NAME|FILE", envvar="SANDBOX_POLICY", help="The policy to run under."),
]
StorePlace = Annotated[
    Path | None,
    typer.Option(
        "--store",
        metavar="DIR",
        envvar="SANDBOX_STORE",
        parser=read_store,
        help="Where environments are kept; by default, your cache.",
    ),
]
Offline = Annotated[bool, typer.Option("--offline", help="Ask no package index: only the store and folders of wheels.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, and nothing else.")]


def run(  # noqa: PLR0913  (each option is a parameter)
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The tool: a Python file with a public function.")],
    *,
    entry: Annotated[
        str | None, typer.Option("--entry", metavar="NAME", help="The function to call, where the file has several.")
    ] = None,
    args: Annotated[
        str | None,
        typer.Option("--args", metavar="JSON|@FILE|-", help="The arguments, as a JSON object; - is standard input."),
    ] = None,
    pairs: Annotated[
        list[str] | None,
        typer.Option("-a", metavar="NAME=VALUE", help="One argument; the tool's types say what its text means."),
    ] = None,
    requirements: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="REQ", help="A package to install for it, such as requests==2.32.3."),
    ] = None,
    policy: PolicyName = "default",
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="TIME", help="The longest it may take: 5, 5s, 500ms, 2m.")
    ] = None,
    limits: Annotated[
        list[str] | None,
        typer.Option("--limit", metavar="NAME=VALUE", help="A limit below the policy's own, such as memory=64MiB."),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            metavar="NAME=VALUE",
            help="A variable for the tool's environment. Packages read it when they are imported only where the policy "
            "says environment.preload = false.",
        ),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option("--state", metavar="JSON|@FILE|-", help="What a tool that takes agent_state gets a copy of."),
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="ID", help="What a tool that takes agent_id gets.")
    ] = None,
    ctx: Annotated[
        str | None, typer.Option("--ctx", metavar="JSON|@FILE|-", help="What a tool that takes ctx gets.")
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Option("--file", metavar="NAME=PATH", help="A file of this host that it finds at inputs/NAME."),
    ] = None,
    outputs: Annotated[
        list[str] | None,
        typer.Option(
            "--output",
            metavar="NAME.WHAT=VALUE",
            help="Of value, stdout or stderr: its type, or how much is shown at most in characters or tokens, such as "
            "stdout.type=json_data or value.characters=500.",
        ),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option("--tokens", metavar="N", min=0, help="As many tokens are shown of each output.")
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option("--tokenizer", metavar="MODULE:NAME", help="What gives the tokens of a text, or their number."),
    ] = None,
    permit: Annotated[bool, typer.Option("--permit", help="Permit what the tool asks permission for.")] = False,
    tenant: Annotated[
        str, typer.Option("--tenant", metavar="NAME", help="For whom; boxes are never shared between tenants.")
    ] = "",
    backend: Backend = None,
    store: StorePlace = None,
    artifacts: ArtifactPlace = None,
    save_artifacts: Annotated[
        Path | None,
        typer.Option("--save-artifacts", metavar="DIR", help="Save what it leaves in outputs/ in this folder."),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="With --save-artifacts: replace the files that are there.")
    ] = False,
    offline: Offline = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print the outcome as one JSON document on stdout, and nothing else; with --stream, one document per "
            "line, and the outcome last.",
        ),
    ] = False,
    stream: Annotated[bool, typer.Option("--stream", help="Show what the tool prints as it comes.")] = False,
) -> int:
    """Run a tool in a box, and show what came of it."""
    from sandbox.cli.build_progress import build_progress
    from sandbox.cli.inputs import (
        read_arguments,
        read_limits,
        read_object,
        read_outputs,
        read_pairs,
        refuse_second_reader,
    )
    from sandbox.cli.tokenizers import load_tokenizer
    from sandbox.client.client import Sandbox

    if save_artifacts is not None:
        from sandbox.cli.artifact_files import refuse_unusable

        refuse_unusable(save_artifacts)
    elif replace:
        raise typer.BadParameter("it goes with --save-artifacts", param_hint="--replace")
    refuse_second_reader({"--args": args, "--state": state, "--ctx": ctx})
    arguments = read_arguments(args, pairs or [])
    fields: dict[str, Any] = {
        "entry": entry,
        "requirements": tuple(requirements or ()),
        "policy": policy,
        "limits": read_limits(timeout, limits or []),
        "env": read_pairs(env or [], option="--env"),
        "state": read_object(state, option="--state"),
        "agent_id": agent,
        "ctx": read_object(ctx, option="--ctx"),
        "outputs": read_outputs(outputs or []),
        "tokens": tokens,
        "permitted": permit,
        "files": {name: Path(path) for name, path in read_pairs(files or [], option="--file").items()},
        "tenant": tenant,
        "filename": file.name.encode(errors="replace").decode() or "tool.py",
    }
    with (
        build_progress(is_shown=not as_json) as on_progress,
        Sandbox(
            backend=backend,
            store=store,
            artifact_store=artifacts,
            tokenizer=load_tokenizer(tokenizer),
            offline=offline,
            on_progress=on_progress,
        ) as box,
    ):
        try:
            if stream:
                outcome = _streamed(box, file, arguments, fields, as_json=as_json)
            else:
                outcome = box.run(file, arguments, **fields)
        except KeyboardInterrupt as interrupt:
            if (found := cut_short(interrupt)) is None:
                raise
            _report(found, as_json=as_json, is_output_shown=stream, is_value_fitted=False)
            raise CutShort from interrupt
        code = outcome.exit_code
        if save_artifacts is not None:
            from sandbox.cli.artifact_files import save_all

            outcome, code = save_all(outcome, box.artifacts, save_artifacts, tenant=tenant, replace=replace)
        is_fitted = tokens is not None or "value" in fields["outputs"]
        _report(outcome, as_json=as_json, is_output_shown=stream, is_value_fitted=is_fitted)
        return code


def _report(outcome: Outcome, *, as_json: bool, is_output_shown: bool, is_value_fitted: bool) -> None:
    if as_json:
        is_read_by_people = is_terminal(sys.stdout) and not is_output_shown
        show_document(outcome.to_json(indent=2 if is_read_by_people else None))
        return
    from sandbox.cli.outcome_report import report_outcome

    report_outcome(outcome, is_output_shown=is_output_shown, is_value_fitted=is_value_fitted)


def _streamed(
    box: Sandbox, file: Path, arguments: Mapping[str, Any], fields: Mapping[str, Any], *, as_json: bool
) -> Outcome:
    from sandbox.client.stream import Printed, Progress

    writers = _Lines() if as_json else _Screen()
    with closing(box.stream(file, arguments, **fields)) as events:
        try:
            for event in events:
                if isinstance(event, Printed):
                    writers.write(event.stream, event.text)
                elif isinstance(event, Progress):
                    writers.tell(event.value)
                else:
                    writers.end()
                    return event.outcome
        except KeyboardInterrupt as interrupt:
            if cut_short(interrupt) is None:
                events.throw(interrupt)  # it came between two events, and learns here what came of the call
            raise
    raise AssertionError("the last event is the outcome")


class _Lines:
    """What is printed, as one JSON document per piece."""

    def write(self, stream: str, text: str) -> None:
        show_document(json.dumps({"event": "printed", "stream": stream, "text": text}, ensure_ascii=False))

    def tell(self, value: Json) -> None:
        from sandbox.outcome import portable

        fit = portable(value)
        show_document(json.dumps({"event": "progress", "value": fit}, ensure_ascii=False))

    def end(self) -> None:
        """Nothing is held back."""


class _Screen:
    """What is printed, to the streams it was printed to; at the end, both are at the beginning of a line. What a
    generator gives is shown on stderr: stdout gets all of it as the value."""

    def __init__(self) -> None:
        streams = {"stdout": sys.stdout, "stderr": sys.stderr}
        self._pieces = {name: SeenPieces(is_live=is_drawn_on(stream)) for name, stream in streams.items()}
        self._writes = {"stdout": show, "stderr": tell}
        self._last = {"stdout": "\n", "stderr": "\n"}

    def write(self, stream: str, text: str) -> None:
        self._put(stream, self._pieces[stream].feed(text))

    def tell(self, value: Json) -> None:
        from sandbox.cli.outcome_report import value_json

        line = one_line(value if isinstance(value, str) else value_json(value))
        start = "" if self._last["stderr"] == "\n" else "\n"
        self._put("stderr", f"{start}{line}\n")

    def end(self) -> None:
        for stream, pieces in self._pieces.items():
            self._put(stream, pieces.end())
            if self._last[stream] != "\n":
                self._put(stream, "\n")

    def _put(self, stream: str, text: str) -> None:
        if text:
            self._writes[stream](text)
            self._last[stream] = text[-1]
