"""Shape a `ToolResult`: each of its texts like the stream of the same name, and its `meta` pruned as JSON.

The whole is still the JSON of the value. If the tool or the call limits how much of the value is shown, that limit
holds for all of it together, and then the whole is pruned as JSON once more.
"""

from __future__ import annotations

import json
from typing import Any, Final, TypeGuard

from sandbox.outcome import Json, Shaped, portable
from sandbox.outputs.budgets import Budgets, OutputBudget
from sandbox.outputs.notices import strip_notices
from sandbox.outputs.shaping import shape, shape_value
from sandbox.trusted import build_trusted

_TYPE: Final = "json_data"
_PARTS: Final = {"ok", "stdout", "stderr", "meta"}


def is_result(value: Json) -> TypeGuard[dict[str, Any]]:
    """Return whether it has the parts that a runner makes of a `ToolResult`."""
    if not isinstance(value, dict) or value.keys() != _PARTS:
        return False
    return isinstance(value["stdout"], str) and isinstance(value["stderr"], str)


def shape_result(value: dict[str, Any], budgets: Budgets, *, artifact: str | None = None) -> Shaped:
    """Return a result with each of its parts in its own room."""
    parts = {
        "stdout": _text(value["stdout"], budgets.stdout, budgets, artifact),
        "stderr": _text(value["stderr"], budgets.stderr, budgets, artifact),
    }
    meta = budgets.fitted(budgets.meta, lambda most: shape_value(value["meta"], output_type=_TYPE, budget=most))
    fitted = {name: parts[name].text if name in parts else each for name, each in value.items()}
    if meta.truncated:
        fitted["meta"] = json.loads(meta.text)
    shaped = _as_one(portable(value), portable(fitted), [*parts.values(), meta], artifact)
    if not budgets.limits_value:
        return shaped
    room = budgets.value(value)
    again = budgets.fitted(room, lambda most: shape_value(fitted, output_type=_TYPE, budget=most, artifact=artifact))
    return again.model_copy(update={"characters": shaped.characters}) if again.truncated else shaped


def _text(text: str, room: OutputBudget, budgets: Budgets, artifact: str | None) -> Shaped:
    return budgets.fitted(room, lambda most: shape(text, output_type=room.type, budget=most, artifact=artifact))


def _as_one(value: Json, fitted: Json, parts: list[Shaped], artifact: str | None) -> Shaped:
    text = json.dumps(fitted, ensure_ascii=False)
    whole = text if all(part.reason is None for part in parts) else json.dumps(value, ensure_ascii=False)
    reasons = dict.fromkeys(part.reason for part in parts if part.reason)
    return build_trusted(
        Shaped,
        text=text,
        type=_TYPE,
        characters=len(whole),
        shown=len(strip_notices(text)),
        truncated=any(part.truncated for part in parts),
        reason="; ".join(reasons) or None,
        artifact=artifact,
    )
