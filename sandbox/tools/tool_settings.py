"""What a source says about its own runs, under `[tool.sandbox]` in its script block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from sandbox.policy.quantities import parse_seconds


def _duration(given: int | float | str) -> int | float | str:
    parse_seconds(given)
    return given


_OutputType = Annotated[str, Field(min_length=1, max_length=64)]


class ToolSettings(BaseModel):
    """All of them may be left out; what a call says counts before."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    policy: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    output_type: _OutputType | None = None
    stdout_type: _OutputType | None = None
    stderr_type: _OutputType | None = None
    return_char_limit: Annotated[int, Field(ge=1)] | None = None
    strict_return: bool | None = None
    """Whether a value that is not what the annotation says is an exception, and not only a warning."""
    enable_parallel_execution: bool | None = None
    timeout: Annotated[int | float | str, AfterValidator(_duration)] | None = None
    """As a policy writes it: 5, 2.5, "500ms", "2m"."""


NO_SETTINGS: Final = ToolSettings()
_SPELLED: Final = {
    "output_semantic_type": "output_type",
    "stdout_semantic_type": "stdout_type",
    "stderr_semantic_type": "stderr_type",
    "output_type": "output_type",
    "return_char_limit": "return_char_limit",
    "enable_parallel_execution": "enable_parallel_execution",
}
"""What a class or a decorator may say of the same, and what it is called here."""


def settings_of(marks: Mapping[str, Any], *, said: ToolSettings) -> ToolSettings:
    """What the script block says, and otherwise a class or a decorator; what that says wrongly is not heard."""
    heard = {name: marks[spelled] for spelled, name in _SPELLED.items() if marks.get(spelled) is not None}
    missing = {name: _member(value) for name, value in heard.items() if getattr(said, name) is None}
    for name, value in missing.items():
        try:
            ToolSettings.model_validate({name: value})
        except ValidationError:
            continue
        said = said.model_copy(update={name: value})
    return said


def _member(value: object) -> object:
    """`OutputType.TABLE` is read as the name of the member, which is how its value is spelled in capitals."""
    return value.lower() if isinstance(value, str) and value.isupper() else value
