"""`sandbox policy show`: everything one policy says, with what it takes from the policy that it extends."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from sandbox.cli.run import AsJson
from sandbox.cli.terminal import show_document

PolicyFile = Annotated[
    str, typer.Argument(metavar="NAME|FILE", help="A shipped policy's name, or the path of a policy file.")
]


def show_policy(policy: PolicyFile, as_json: AsJson = False) -> int:
    """Show all that a policy grants and demands."""
    from sandbox.policy import load

    loaded = load(policy)
    if as_json:
        document = {**loaded.model_dump(mode="json"), "digest": loaded.digest}
        show_document(json.dumps(document, ensure_ascii=False, indent=2))
        return 0
    from sandbox.cli.tables import Cell, Page

    page = Page()
    page.title(loaded.name)
    page.line(loaded.description)
    for name, section in loaded.sections().items():
        page.title(f"[{name}]")
        page.table(["", ""], [[Cell(key, "dim"), Cell(section.spelled(key))] for key in type(section).model_fields])
    page.line("")
    page.line(f"digest {loaded.digest}", style="dim")
    page.show()
    return 0
