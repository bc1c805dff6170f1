"""The user that the engine runs as, and the users that it can give to its boxes.

User id 0 proves nothing: root in a user namespace may have no other ids, and root in a container may lack the
capabilities. An engine can give each box a user of its own if the kernel lets the engine and its children become
another user, act upon that user's files and processes, and mount, and if free ids exist. Otherwise its boxes share its
user id, behind a user namespace.

The machine's own root must not share its id. The kernel lets user id 0 change the settings in /proc/sys without any
capability and from any namespace: a tool could make the kernel run a program of the tool's as root after a crash. So an
engine that is the machine's root, and cannot give its boxes other users, refuses to open boxes with namespaces.

The engine draws the id for a box at random from a range that no distribution assigns, so that two boxes, also of two
engines, never share the kernel's counters per user, and no id has to be returned.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandbox.backends.hints import failed_start
from sandbox.backends.isolation import TOOL_USER

User = tuple[int, int]
"""A user's id and a group's."""

_FREE_IDS: Final = (range(0x70000000, 0x7FFFFFF0), range(30_000, 60_000))
"""The second range is for user namespaces with 65536 ids."""
_TO_ACT: Final = {"chown": 0, "dac_override": 1, "fowner": 3, "kill": 5, "setgid": 6, "setuid": 7}
_TO_MOUNT: Final = {"sys_admin": 21}
_PROC: Final = Path("/proc/self")


@dataclass(frozen=True, slots=True)
class EngineIdentity:
    """The user that the engine runs as, and the users that the engine may give to boxes."""

    uid: int
    gid: int
    capabilities: int
    """The capabilities of the engine and of its children, one bit each."""
    free_ids: range
    """The ids that boxes can have, for users and groups."""
    owns_the_kernel: bool
    """True if this user may change the kernel's settings: the machine's root, under any id."""

    @property
    def user(self) -> User:
        """The engine's own user and group."""
        return self.uid, self.gid

    def cannot_give_users(self, *, is_plain: bool) -> str | None:
        """Return the reason why boxes get no users of their own; None if they do."""
        needed = _TO_ACT if is_plain else {**_TO_ACT, **_TO_MOUNT}
        lacking = [name for name, bit in needed.items() if not self.capabilities >> bit & 1]
        if self.uid != 0:
            return "the engine is not root"
        if lacking:
            return f"the engine is root without {', '.join(lacking)}"
        if not self.free_ids:
            return "the engine is root in a user namespace that has no ids for others"
        return None


def current_identity() -> EngineIdentity:
    """Return the identity of this process; raise `BackendUnavailable` if /proc does not tell."""
    sets = _capability_sets()
    capabilities = sets.get("CapEff", 0) & sets.get("CapBnd", 0)
    # A user namespace cannot mount a writable /proc if these settings are mounted read-only here.
    owns_the_kernel = os.access("/proc/sys/vm/overcommit_memory", os.W_OK)
    return EngineIdentity(os.geteuid(), os.getegid(), capabilities, _free_ids() or range(0), owns_the_kernel)


def box_user(engine: EngineIdentity, *, is_plain: bool) -> User:
    """Return the host's user for a new box: a fresh one if the engine can give one, otherwise the engine's own."""
    if engine.cannot_give_users(is_plain=is_plain) is not None:
        return engine.user
    own = engine.free_ids.start + secrets.randbelow(len(engine.free_ids))
    return own, own


def user_inside(user: User, *, is_plain: bool) -> User:
    """Return the user that a box of that host's user has inside its namespaces."""
    # Never 0: the kernel forbids user 0 to own a further user namespace without a capability that the box drops, and
    # each call needs such a namespace.
    return TOOL_USER if user[0] == 0 and not is_plain else user


def _capability_sets() -> dict[str, int]:
    lines = (line.split() for line in _text("status").splitlines() if line.startswith("Cap"))
    return {name.rstrip(":"): int(value, 16) for name, value in lines}


def _free_ids() -> range | None:
    """Return the first range that this user namespace maps for users and groups, if its processes may drop groups."""
    if _text("setgroups").strip() == "deny":
        return None
    maps = [_mapped(_text(name).splitlines()) for name in ("uid_map", "gid_map")]
    return next((ids for ids in _FREE_IDS if all(_holds(mapped, ids) for mapped in maps)), None)


def _mapped(lines: Iterable[str]) -> list[range]:
    extents = (line.split() for line in lines)
    return [range(int(first), int(first) + int(count)) for first, _, count in extents]


def _holds(mapped: Iterable[range], ids: range) -> bool:
    return any(extent.start <= ids.start and ids.stop <= extent.stop for extent in mapped)


def _text(name: str) -> str:
    """Return the text of a file of this process in /proc; empty if the kernel has no such file."""
    try:
        return (_PROC / name).read_text("ascii")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise failed_start("the user of the engine cannot be read", error) from None
