"""`--tokenizer MODULE:NAME`: something of the user's own that counts tokens. It is imported and run as part of this
very program, like anything else that its user has installed; no tool can name one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from sandbox.errors import SpecError

if TYPE_CHECKING:
    from sandbox.outputs.tokens import Tokenizer


def load_tokenizer(named: str | None) -> Tokenizer | None:
    """What is named, if anything is; raises `SpecError` where that cannot be called."""
    if named is None:
        return None
    module, colon, path = named.partition(":")
    if not (module and colon and path):
        raise SpecError(
            f"--tokenizer {named[:80]!r} is not MODULE:NAME", remedy="write it like --tokenizer mytokens:count"
        )
    found: object
    try:
        found = import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except Exception as error:  # whatever the module does when it is imported
        raise SpecError(f"--tokenizer {named[:80]}: {type(error).__name__}: {str(error)[:200]}") from None
    if not callable(found):
        raise SpecError(f"--tokenizer {named[:80]}: that cannot be called")
    tokenizer: Tokenizer = found
    return tokenizer
