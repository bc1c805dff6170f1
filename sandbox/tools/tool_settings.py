"""What a source says about its own runs: under `[tool.sandbox]` in its script block, or in the code of the tool."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

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
    return_token_limit: Annotated[int, Field(ge=1)] | None = None
    """The same in tokens, where the engine was given a tokenizer."""
    strict_return: bool | None = None
    """Whether a value that is not what the annotation says is an exception, and not only a warning."""
    enable_parallel_execution: bool | None = None
    """False: an engine runs the calls of this tool that a tenant makes one after another."""
    timeout: Annotated[int | float | str, AfterValidator(_duration)] | None = None
    """As a policy writes it: 5, 2.5, "500ms", "2m"."""


NO_SETTINGS: Final = ToolSettings()
