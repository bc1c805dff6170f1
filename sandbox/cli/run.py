"""`sandbox run`: one call of a tool in a file.

The call runs on the engine's own thread and this thread writes. A reader who pauses (a full pipe, Ctrl-S) holds back
the tool, never the clock that limits the tool.

With `--stream --json` each line is one JSON document: `{"event": "printed", "stream", "text"}` for printed text,
`{"event": "progress", "value"}` for an item of a generator, and last the outcome itself or `{"error": …}`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sandbox.cli.app import CutShort, cut_short
from sandbox.cli.options import CallOptions, ResultOptions, takes_options
from sandbox.cli.terminal import SeenPieces, is_drawn_on, is_terminal, one_line, show, show_document, tell

if TYPE_CHECKING:
    from sandbox.client.client import Sandbox
    from sandbox.outcome import Json, Outcome


@takes_options
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Python file of the tool, with a public function.")],
    *,
    call: CallOptions,
    result: ResultOptions,
) -> int:
    """Run a tool in a box and show its outcome."""
    from sandbox.cli.build_progress import build_progress
    from sandbox.cli.options import load_tokenizer, read_arguments, refuse_second_reader
    from sandbox.client.client import Sandbox

    if result.save_artifacts is not None:
        from sandbox.cli.artifact import refuse_unusable

        refuse_unusable(result.save_artifacts)
    elif result.replace:
        raise typer.BadParameter("it goes with --save-artifacts", param_hint="--replace")
    refuse_second_reader({"--args": call.args, "--state": call.state, "--ctx": call.ctx})
    arguments = read_arguments(call.args, call.pairs or [])
    fields = _spec_fields(file, call, result)
    with (
        build_progress(is_shown=not result.as_json) as on_progress,
        Sandbox(
            backend=result.backend,
            store=result.store,
            artifact_store=result.artifacts,
            tokenizer=load_tokenizer(result.tokenizer),
            offline=result.offline,
            on_progress=on_progress,
        ) as box,
    ):
        outcome = _outcome(box, file, arguments, fields, result)
        code = outcome.exit_code
        if result.save_artifacts is not None:
            from sandbox.cli.artifact import save_all

            folder = result.save_artifacts
            outcome, code = save_all(outcome, box.artifacts, folder, tenant=call.tenant, replace=result.replace)
        is_fitted = result.tokens is not None or "value" in fields["outputs"]
        _report(outcome, as_json=result.as_json, is_output_shown=result.stream, is_value_fitted=is_fitted)
        return code


def _spec_fields(file: Path, call: CallOptions, result: ResultOptions) -> dict[str, Any]:
    from sandbox.cli.options import read_limits, read_object, read_outputs, read_pairs

    return {
        "entry": call.entry,
        "requirements": tuple(call.requirements or ()),
        "policy": call.policy,
        "limits": read_limits(call.timeout, call.limits or []),
        "env": read_pairs(call.env or [], option="--env"),
        "state": read_object(call.state, option="--state"),
        "agent_id": call.agent,
        "ctx": read_object(call.ctx, option="--ctx"),
        "outputs": read_outputs(result.outputs or []),
        "tokens": result.tokens,
        "permitted": call.permit,
        "files": {name: Path(path) for name, path in read_pairs(call.files or [], option="--file").items()},
        "tenant": call.tenant,
        "filename": file.name.encode(errors="replace").decode() or "tool.py",
    }


def _outcome(
    box: Sandbox, file: Path, arguments: Mapping[str, Any], fields: Mapping[str, Any], result: ResultOptions
) -> Outcome:
    """Run the call; report the outcome of an interrupted call before `CutShort` ends the command."""
    try:
        if result.stream:
            return _streamed(box, file, arguments, fields, as_json=result.as_json)
        return box.run(file, arguments, **fields)
    except KeyboardInterrupt as interrupt:
        if (found := cut_short(interrupt)) is None:
            raise
        _report(found, as_json=result.as_json, is_output_shown=result.stream, is_value_fitted=False)
        raise CutShort from interrupt


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
                # The interrupt came between two events; the stream answers with the call's outcome.
                events.throw(interrupt)
            raise
    raise AssertionError("the last event is the outcome")


class _Lines:
    """Write each piece of output as one JSON document."""

    def write(self, stream: str, text: str) -> None:
        show_document(json.dumps({"event": "printed", "stream": stream, "text": text}, ensure_ascii=False))

    def tell(self, value: Json) -> None:
        from sandbox.outcome import portable

        fit = portable(value)
        show_document(json.dumps({"event": "progress", "value": fit}, ensure_ascii=False))

    def end(self) -> None:
        """Do nothing: each piece was written at once."""


class _Screen:
    """Write each piece to the stream it was printed to, and end both streams with a line break.

    Items of a generator go to stderr, because stdout gets all of them as the value.
    """

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
