"""The outputs of a call as its outcome shows them, with an artifact for every output that is not shown in full.

Besides the files that a tool left, the engine keeps the whole of each stream or value that is not shown exactly as it
was, and bytes that a tool returned, which no reader wants in base64. That covers what was cut, what will be cut in the
form for a conversation's history, what a terminal would show differently, and what is not text. If something cannot be
kept, the outcome says so and still shows its part.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from sandbox.engine.replies import LARGE_BYTES, aside
from sandbox.engine.result import CallResult
from sandbox.engine.streams import StreamCapture
from sandbox.engine.verdict import Verdict
from sandbox.outcome import Artifact, Json, RefusedFile, Shaped, Status, portable_json
from sandbox.outputs.artifacts.kinds import MAX_DETECTION_BYTES, detect_kind
from sandbox.outputs.artifacts.spool import StreamSpool
from sandbox.outputs.artifacts.writer import ArtifactWriter
from sandbox.outputs.budgets import Budgets
from sandbox.outputs.history import is_shown_whole
from sandbox.outputs.results import is_result, shape_result
from sandbox.outputs.shaping import is_reference, nothing, shape_of_value, shape_reference

_TYPE_KEY: Final = "$type"


@dataclass(slots=True)
class ShapedOutputs:
    """The outputs of a call as shown, and what is kept of them."""

    stdout: Shaped
    stderr: Shaped
    value: Shaped
    artifacts: list[Artifact] = field(default_factory=list)
    refused: tuple[RefusedFile, ...] = ()
    warnings: list[str] = field(default_factory=list)


async def shape_outputs(
    result: CallResult, verdict: Verdict, budgets: Budgets, writer: ArtifactWriter
) -> ShapedOutputs:
    """Shape the outputs of a call that ended, and keep what is not shown in full."""
    is_quick = len(result.end.value) <= LARGE_BYTES and budgets.tokenizer is None
    shape = partial(shape_value, verdict, budgets)
    value = shape() if is_quick else await aside(shape, writer.threads)
    shaped = ShapedOutputs(*budgets.silence, value)
    has_outputs = result.has_outputs
    if has_outputs:
        await _shape_streams(shaped, result, budgets, writer)
    if has_outputs or _is_typed(verdict.value) or not is_shown_whole(value):
        shaped.value = await _keep_value(shaped, verdict, budgets, writer)
    return shaped


def shape_at_once(result: CallResult, verdict: Verdict, budgets: Budgets) -> ShapedOutputs:
    """Shape the outputs of a cancelled call. Nothing is waited for, and nothing is kept."""
    stdout, stderr = budgets.silence
    return ShapedOutputs(
        stdout if result.stdout is None else result.stdout.capture.shape(),
        stderr if result.stderr is None else result.stderr.capture.shape(),
        shape_value(verdict, budgets),
    )


def shape_value(verdict: Verdict, budgets: Budgets, *, artifact: str | None = None) -> Shaped:
    """Shape the value that a tool returned. A failure that it returned is a value as well."""
    has_value = verdict.status is Status.OK or (verdict.detail is not None and verdict.value is not None)
    if not has_value:
        return nothing("json_data")
    if verdict.is_result and is_result(verdict.value):
        return shape_result(verdict.value, budgets, artifact=artifact)
    room = budgets.value(verdict.value)
    return budgets.fitted(room, shape_of_value(verdict.value, output_type=room.type, artifact=artifact))


def _is_typed(value: Json) -> bool:
    return isinstance(value, dict) and _TYPE_KEY in value


async def _shape_streams(shaped: ShapedOutputs, result: CallResult, budgets: Budgets, writer: ArtifactWriter) -> None:
    shaped.artifacts += result.files.artifacts
    shaped.refused = result.files.refused
    if result.stdout is not None:
        shaped.stdout = await _shape_stream(shaped, result.stdout, "stdout.txt", budgets, writer)
    if result.stderr is not None:
        shaped.stderr = await _shape_stream(shaped, result.stderr, "stderr.txt", budgets, writer)


async def _shape_stream(
    shaped: ShapedOutputs, captured: StreamCapture, name: str, budgets: Budgets, writer: ArtifactWriter
) -> Shaped:
    found = await _shown(captured, budgets, writer)
    if captured.spool is None:
        return found
    if is_shown_whole(found):
        await captured.spool.drop()
        return found
    artifact = await _keep(shaped, captured.spool, name)
    if artifact is None:
        return found
    if is_reference(found.type):
        return shape_reference(artifact, output_type=found.type)
    return await _shown(captured, budgets, writer, artifact=artifact.id)


async def _shown(
    captured: StreamCapture, budgets: Budgets, writer: ArtifactWriter, *, artifact: str | None = None
) -> Shaped:
    """Shape a stream; in a thread if a tokenizer counts its budget, which may take long."""
    if captured.room.tokens is None:
        return captured.capture.shape(artifact=artifact)
    shape = captured.capture.shape_of_now(artifact=artifact)
    return await writer.threads.do(lambda: budgets.fitted(captured.room, shape))


async def _keep_value(shaped: ShapedOutputs, verdict: Verdict, budgets: Budgets, writer: ArtifactWriter) -> Shaped:
    """Return bytes and images as references, and a value that was cut with the artifact that holds it in full."""
    value = verdict.value
    kind = value.get(_TYPE_KEY) if isinstance(value, dict) else None
    if kind is None and is_shown_whole(shaped.value):
        return shaped.value
    spool = StreamSpool(writer)
    if kind == "image" and isinstance(value, dict):
        left = _left_file(shaped, value.get("artifact"))
        return shaped.value if left is None else shape_reference(left, output_type="image")
    if is_reference(shaped.value.type) and (left := _left_file(shaped, value)) is not None:
        return shape_reference(left, output_type=shaped.value.type)
    if kind == "bytes" and isinstance(value, dict) and (data := _decode(value)) is not None:
        spool.feed(data)
        artifact = await _keep(shaped, spool, f"value.{detect_kind(data[:MAX_DETECTION_BYTES]).suffix}")
        if artifact is not None:
            is_image = artifact.mime.startswith("image/")
            return shape_reference(artifact, output_type="image" if is_image else "binary")
    if is_shown_whole(shaped.value):
        return shaped.value
    spool.feed(await writer.threads.do(partial(_encode, value)))
    artifact = await _keep(shaped, spool, "value.txt" if isinstance(value, str) else "value.json")
    if artifact is None:
        return shaped.value
    if is_reference(shaped.value.type):
        return shape_reference(artifact, output_type=shaped.value.type)
    return await writer.threads.do(partial(shape_value, verdict, budgets, artifact=artifact.id))


def _left_file(shaped: ShapedOutputs, name: Json) -> Artifact | None:
    """Return the file of that name which the tool left. A tool may name it by the path that it wrote to."""
    short = name.removeprefix("/work/").removeprefix("outputs/") if isinstance(name, str) else ""
    return next((each for each in shaped.artifacts if each.name == short), None)


async def _keep(shaped: ShapedOutputs, spool: StreamSpool, name: str) -> Artifact | None:
    artifact = await spool.keep(name)
    if artifact is None:
        shaped.warnings.append(f"{name} could not be kept: {spool.fault}")
    else:
        shaped.artifacts.append(artifact)
    return artifact


def _decode(value: dict[str, Json]) -> bytes | None:
    text = value.get("base64")
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else None
    except (binascii.Error, ValueError):
        return None


def _encode(value: Json) -> bytes:
    return value.encode("utf-8", "replace") if isinstance(value, str) else portable_json(value)[1]
