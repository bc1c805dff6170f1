"""Names for people and names for machines, each made from the name that a source gives.

`SandboxFilesTool` is shown as *Sandbox Files* and known to models as `sandbox_files_tool`.
"""

from __future__ import annotations

import re
from typing import Final

NAME_PATTERN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
"""What every provider takes as the name of a tool."""
LONGEST_GENERATED: Final = 48

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SPACES = re.compile(r"[\s_]+")
_SUFFIX = "_tool"


def display_name(name: str) -> str:
    """What people read: words in title case, without a trailing `_tool` or `Tool`."""
    bare = name.removesuffix("_tool").removesuffix("Tool")
    words = _SPACES.sub(" ", _WORD_START.sub(" ", bare)).strip()
    return " ".join(word[:1].upper() + word[1:].lower() for word in words.split(" ")) or name


def machine_name(class_name: str) -> str:
    """What a class is known by to machines: snake_case, ending in `_tool`."""
    bare = class_name.removesuffix("_tool").removesuffix("Tool")
    words = re.sub(r"_+", "_", _WORD_START.sub("_", bare)).strip("_").lower()
    return f"{words[: LONGEST_GENERATED - len(_SUFFIX)]}{_SUFFIX}" if words else class_name.lower()
