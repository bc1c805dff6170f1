"""Write the reference pages from the code: `python -m tests.docs.reference`.

A test compares the pages with what this module writes.
"""

from __future__ import annotations

from typing import Final

from tests.docs.commands_page import commands_page
from tests.docs.fields_pages import outcome_page, policy_page
from tests.docs.pages import REFERENCE
from tests.docs.python_page import python_page

_NOTICE: Final = "<!-- Written by `python -m tests.docs.reference`; change the code instead. -->"
_WRITERS: Final = {
    "cli.md": commands_page,
    "outcome.md": outcome_page,
    "policy.md": policy_page,
    "python.md": python_page,
}


def reference_pages() -> dict[str, str]:
    """Return the text of every reference page by its name."""
    return {name: "\n".join([_NOTICE, "", *write()]).rstrip("\n") + "\n" for name, write in _WRITERS.items()}


def main() -> None:
    """Write the pages."""
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name, text in reference_pages().items():
        (REFERENCE / name).write_text(text)


if __name__ == "__main__":
    main()
