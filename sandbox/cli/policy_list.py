"""`sandbox policy list`: the shipped policies, each with who should choose it."""

from __future__ import annotations

import json
import re
from typing import Final

from sandbox.cli.run import AsJson
from sandbox.cli.terminal import show_document

_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s")


def list_policies(as_json: AsJson = False) -> int:
    """List the policies that come with the engine."""
    from sandbox.policy import load, shipped

    purposes = {name: _first_sentence(load(name).description) for name in shipped()}
    if as_json:
        show_document(json.dumps([{"name": name, "purpose": purpose} for name, purpose in purposes.items()], indent=2))
        return 0
    from sandbox.cli.tables import Cell, Page

    page = Page()
    page.table(["policy", "for what"], [[Cell(name, "bold"), Cell(purpose)] for name, purpose in purposes.items()])
    page.show()
    return 0


def _first_sentence(text: str) -> str:
    return _SENTENCE_END.split(text.strip(), maxsplit=1)[0]
