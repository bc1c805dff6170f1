"""Passwords from the keyring of whoever runs the engine, where pip or uv of this machine are told to ask it.

They are told so by `keyring-provider = subprocess`, and ask by the program `keyring`, for a user whose name stands in
the address of the index. What that program says is kept for as long as this process lives, and never written anywhere.
Asking may take its time, so it is done by the threads that ask indexes, when an index is first asked.
"""

from __future__ import annotations

import shutil
import subprocess
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from sandbox.environments.indexes.settings import Credentials, IndexSettings, origin_of

_PATIENCE_S: Final = 30.0
_MOST_BYTES: Final = 4096


def with_password(login: Credentials | None, url: str, settings: IndexSettings) -> Credentials | None:
    """The login for that address, with the keyring's password if it has none of its own."""
    if login is None or login[1] or not login[0] or not settings.asks_keyring:
        return login
    same = [index.url for index in settings.indexes if origin_of(index.url) == origin_of(url)]
    found = (_password(service, login[0]) for service in (*same, urlsplit(url).netloc, urlsplit(url).hostname or ""))
    return login[0], next((password for password in found if password), "")


@lru_cache(maxsize=64)
def _password(service: str, user: str) -> str:
    """What the keyring has for them; nothing, if it has nothing or does not work."""
    program = shutil.which("keyring")
    if program is None:
        return ""
    try:
        command = [program, "get", service, user]
        answer = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout[:_MOST_BYTES].decode("utf-8", "replace").rstrip("\r\n") if answer.returncode == 0 else ""
