"""The inline metadata of a script: the TOML in its `# /// script` comment block (PEP 723).

A block opens with a line `# /// TYPE`, continues as long as lines are `#` or start with `# `, and closes at the *last*
`# ///` of these lines; a block that never closes is an ordinary comment. The reader walks over the lines once. The
regular expression of the standard looks at a long comment again and again, from every line that might open a block.

A block of type `script` that never closes is refused, although the standard ignores it: otherwise a tool would silently
run without its requirements. uv refuses such a block as well.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from sandbox.errors import SourceError
from sandbox.tools.safe_text import excerpt, name_list
from sandbox.tools.tool import NO_SETTINGS, ToolSettings

MAX_BLOCK_CHARACTERS: Final = 16 * 1024
_OPENING = re.compile(r"# /// ([a-zA-Z0-9-]+)")
_CLOSING = "# ///"
_CLOSE_IT = "end it with a line `# ///`; each line before that is a `#` alone, or begins with `# `"
_REMEDY = "write the block as in PEP 723"


@dataclass(frozen=True, slots=True)
class ScriptBlock:
    """The requirements and settings of a script."""

    requirements: tuple[str, ...] = ()
    requires_python: str | None = None
    settings: ToolSettings = NO_SETTINGS


def read_script_block(text: str) -> ScriptBlock:
    """Return the metadata of the one block of type `script`, or an empty block without one."""
    if "# /// script" not in text:
        return ScriptBlock()
    blocks = [(line, content) for kind, line, content in _blocks(text.split("\n")) if kind == "script"]
    if not blocks:
        return ScriptBlock()
    if len(blocks) > 1:
        raise SourceError("the source has two `# /// script` blocks", line=blocks[1][0], remedy="join them into one")
    line, content = blocks[0]
    return _read(_load(content, line=line), line=line)


def _blocks(lines: list[str]) -> Iterator[tuple[str, int, str]]:
    """Yield the type, the number of the opening line and the content of each closed block.

    Raise `SourceError` for a block of type `script` that never closes.
    """
    position = 0
    while position < len(lines):
        opening = _OPENING.fullmatch(lines[position])
        position += 1
        if opening is None:
            continue
        first, closing = position, None
        while position < len(lines) and (lines[position] == "#" or lines[position].startswith("# ")):
            closing = position if lines[position] == _CLOSING else closing
            position += 1
        if closing is not None:
            yield opening[1], first, "\n".join(line[2:] for line in lines[first:closing])
            position = closing + 1
        elif opening[1] == "script":
            raise SourceError("the `# /// script` block is never closed", line=first, remedy=_CLOSE_IT)


def _load(content: str, *, line: int) -> dict[str, object]:
    if len(content) > MAX_BLOCK_CHARACTERS:
        raise SourceError(f"the script block has more than {MAX_BLOCK_CHARACTERS} characters", line=line)
    try:
        return tomllib.loads(content)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"the script block is not TOML: {excerpt(str(error))}", line=line, remedy=_REMEDY) from None


def _read(table: dict[str, object], *, line: int) -> ScriptBlock:
    requires_python = table.get("requires-python")
    if requires_python is not None and not isinstance(requires_python, str):
        raise SourceError("`requires-python` in the script block is not a string", line=line, remedy=_REMEDY)
    requirements = _requirements(table.get("dependencies", []), line=line)
    return ScriptBlock(requirements, requires_python, _settings(table.get("tool"), line=line))


def _settings(tool: object, *, line: int) -> ToolSettings:
    """Return the settings under `[tool.sandbox]`; tables of other tools are ignored."""
    table = tool.get("sandbox", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise SourceError("`tool.sandbox` in the script block is not a table", line=line, remedy=_REMEDY)
    unknown = sorted(table.keys() - ToolSettings.model_fields.keys())
    if unknown:
        raise SourceError(
            f"[tool.sandbox] in the script block has unknown keys: {name_list(unknown)}",
            line=line,
            remedy=f"it may have {', '.join(ToolSettings.model_fields)}",
        )
    try:
        return ToolSettings.model_validate(table)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        key = ".".join(str(step) for step in first["loc"][:1])
        raise SourceError(
            f"`{key}` under [tool.sandbox] in the script block: {excerpt(first['msg'])}", line=line, remedy=_REMEDY
        ) from None


def _requirements(listed: object, *, line: int) -> tuple[str, ...]:
    if isinstance(listed, list) and all(isinstance(each, str) and each.strip() for each in listed):
        return tuple(each.strip() for each in listed)
    raise SourceError("`dependencies` in the script block is not a list of strings", line=line, remedy=_REMEDY)
