"""The outputs of a call as they are shown, with an artifact for whatever is not shown as a whole.

What is kept beside the files that a tool left: all of a stream or a value that is not shown exactly as it was, by the
name of what it is, and bytes that a tool returned, which nobody reads in base64. That is what was cut, or will be in
its form for memory, and what is shown as a terminal would or with what is no text replaced. Where something cannot be
kept, the outcome says so; what is shown of it stays.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from sandbox.engine.supervisor import CallSupervisor
from sandbox.engine.verdict import Verdict
from sandbox.outcome import Artifact, Json, RefusedFile, Shaped, Status, portable_json
from sandbox.outputs.artifacts.kinds import MAX_DETECTION_BYTES, detect_kind
from sandbox.outputs.artifacts.spool import StreamSpool
from sandbox.outputs.artifacts.writer import ArtifactWriter
from sandbox.outputs.budgets import Budgets
from sandbox.outputs.history import is_shown_whole
from sandbox.outputs.results import is_result, shape_result
from sandbox.outputs.shaping import is_reference, nothing, shape_of_value, shape_reference
from sandbox.protocol.frames import Stream

_TYPE_KEY: Final = "$type"


@dataclass(slots=True)
class ShapedOutputs:
    """All that is shown of a call, and what is kept of it."""

    stdout: Shaped
    stderr: Shaped
    value: Shaped
    artifacts: list[Artifact] = field(default_factory=list)
    refused: tuple[RefusedFile, ...] = ()
    warnings: list[str] = field(default_factory=list)


def shape_verdict(verdict: Verdict, budgets: Budgets, *, artifact: str | None = None) -> Shaped:
    """Whatever the tool returned; a failure that it returned is a value as well."""
    has_value = verdict.status is Status.OK or (verdict.detail is not None and verdict.value is not None)
    if not has_value:
        return nothing("json_data")
    if verdict.is_result and is_result(verdict.value):
        return shape_result(verdict.value, budgets, artifact=artifact)
    room = budgets.value(verdict.value)
    return budgets.fitted(room, shape_of_value(verdict.value, output_type=room.type, artifact=artifact))


async def shape_outputs(watcher: CallSupervisor, value: Shaped) -> ShapedOutputs:
    """What is shown of a call, before anything of it is kept."""
    stdout, stderr = [await watcher.shown_in_room(stream) for stream in (Stream.STDOUT, Stream.STDERR)]
    return ShapedOutputs(stdout, stderr, value)


def has_more(shaped: ShapedOutputs, watcher: CallSupervisor, value: Json) -> bool:
    """Whether there is anything beside what is shown; of most calls there is not."""
    return watcher.has_left or (isinstance(value, dict) and _TYPE_KEY in value) or not is_shown_whole(shaped.value)


async def keep_outputs(shaped: ShapedOutputs, watcher: CallSupervisor, verdict: Verdict, budgets: Budgets) -> None:
    """Keep the files it left, and what is not shown as a whole."""
    arrived = await watcher.arrived()
    shaped.artifacts += arrived.artifacts
    shaped.refused = arrived.refused
    shaped.stdout = await _stream(shaped, watcher, Stream.STDOUT, shaped.stdout)
    shaped.stderr = await _stream(shaped, watcher, Stream.STDERR, shaped.stderr)
    if watcher.keeping is not None:
        shaped.value = await _value(shaped, verdict, budgets, watcher.keeping)


async def _stream(shaped: ShapedOutputs, watcher: CallSupervisor, stream: Stream, found: Shaped) -> Shaped:
    spill = watcher.spill(stream)
    if spill is None:
        return found
    if is_shown_whole(found):
        await spill.drop()
        return found
    artifact = await _kept(shaped, spill, f"{stream.name.lower()}.txt")
    if artifact is None:
        return found
    if is_reference(found.type):
        return shape_reference(artifact, output_type=found.type)
    return await watcher.shown_in_room(stream, artifact=artifact.id)


async def _value(shaped: ShapedOutputs, verdict: Verdict, budgets: Budgets, keeping: ArtifactWriter) -> Shaped:
    """Bytes and images as references, what was cut with where all of it is, and anything else as it is."""
    value = verdict.value
    kind = value.get(_TYPE_KEY) if isinstance(value, dict) else None
    if kind is None and is_shown_whole(shaped.value):
        return shaped.value
    spill = StreamSpool(keeping)
    if kind == "image" and isinstance(value, dict):
        left = _left(shaped, value.get("artifact"))
        return shaped.value if left is None else shape_reference(left, output_type="image")
    if is_reference(shaped.value.type) and (left := _left(shaped, value)) is not None:
        return shape_reference(left, output_type=shaped.value.type)
    if kind == "bytes" and isinstance(value, dict) and (data := _decoded(value)) is not None:
        spill.feed(data)
        artifact = await _kept(shaped, spill, f"value.{detect_kind(data[:MAX_DETECTION_BYTES]).suffix}")
        if artifact is not None:
            is_image = artifact.mime.startswith("image/")
            return shape_reference(artifact, output_type="image" if is_image else "binary")
    if is_shown_whole(shaped.value):
        return shaped.value
    spill.feed(await keeping.threads.do(partial(_written, value)))
    artifact = await _kept(shaped, spill, "value.txt" if isinstance(value, str) else "value.json")
    if artifact is None:
        return shaped.value
    if is_reference(shaped.value.type):
        return shape_reference(artifact, output_type=shaped.value.type)
    return await keeping.threads.do(partial(shape_verdict, verdict, budgets, artifact=artifact.id))


def _left(shaped: ShapedOutputs, name: Json) -> Artifact | None:
    """The file of that name which the tool left; a tool may name it as it wrote it."""
    named = name.removeprefix("/work/").removeprefix("outputs/") if isinstance(name, str) else ""
    return next((each for each in shaped.artifacts if each.name == named), None)


async def _kept(shaped: ShapedOutputs, spill: StreamSpool, name: str) -> Artifact | None:
    artifact = await spill.keep(name)
    if artifact is None:
        shaped.warnings.append(f"{name} could not be kept: {spill.fault}")
    else:
        shaped.artifacts.append(artifact)
    return artifact


def _decoded(value: dict[str, Json]) -> bytes | None:
    text = value.get("base64")
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else None
    except (binascii.Error, ValueError):
        return None


def _written(value: Json) -> bytes:
    return value.encode("utf-8", "replace") if isinstance(value, str) else portable_json(value)[1]
