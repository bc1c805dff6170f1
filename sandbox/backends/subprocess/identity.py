"""Who the engine runs as, and whether that lets each box run as somebody else.

To be user 0 proves nothing: root in a user namespace of its own has nobody else to be, and root in a container may have
been left without the rights. What counts is that the kernel would let this process and those it starts take on another
user, act upon what that one owns, and, where the box is walled, mount; and that there are ids to take. Whoever lacks
any of it walls its boxes with a user namespace of their own instead, and shares its user id with them.

The machine's own root must not do that. The kernel lets whoever has that id change its settings, in /proc/sys, without
any capability and from within any namespace: a tool could have its own program run as root when something crashes. So
root on the machine that cannot give its boxes other users has none that are walled.

An id for a box is drawn at random from a range that no distribution hands out, so that two boxes, also of two engines,
never share the kernel's per-user counters, and nothing has to be handed back.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandbox.backends.hints import failed_start
from sandbox.backends.subprocess.rootfs import TOOL_USER

User = tuple[int, int]
"""A user's id and a group's."""

_FREE_IDS: Final = (range(0x70000000, 0x7FFFFFF0), range(30_000, 60_000))
"""The second for user namespaces in which there are not more than 65536."""
_TO_ACT: Final = {"chown": 0, "dac_override": 1, "fowner": 3, "kill": 5, "setgid": 6, "setuid": 7}
_TO_MOUNT: Final = {"sys_admin": 21}
_PROC: Final = Path("/proc/self")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who the engine runs as, and what it may do about that."""

    uid: int
    gid: int
    capabilities: int
    """What it has, and what it starts will have, one bit for each."""
    free_ids: range
    """What it can give to boxes, as a user's id and a group's."""
    owns_the_kernel: bool
    """Whether the kernel's settings are this user's to change: it is the machine's root, whatever it is called here."""

    @property
    def user(self) -> User:
        """Who it is."""
        return self.uid, self.gid

    def cannot_give_users(self, *, is_plain: bool) -> str | None:
        """Why no box of that form gets a user of its own; None when each does."""
        needed = _TO_ACT if is_plain else {**_TO_ACT, **_TO_MOUNT}
        lacking = [name for name, bit in needed.items() if not self.capabilities >> bit & 1]
        if self.uid != 0:
            return "the engine is not root"
        if lacking:
            return f"the engine is root without {', '.join(lacking)}"
        if not self.free_ids:
            return "the engine is root in a user namespace that has no ids for others"
        return None


def current_caller() -> Caller:
    """Who this process runs as; raises `BackendUnavailable` where that cannot be found out."""
    sets = _capability_sets()
    capabilities = sets.get("CapEff", 0) & sets.get("CapBnd", 0)
    # Where these are mounted read-only, the kernel lets nobody in a user namespace mount a /proc that is not.
    owns_the_kernel = os.access("/proc/sys/vm/overcommit_memory", os.W_OK)
    return Caller(os.geteuid(), os.getegid(), capabilities, _free_ids() or range(0), owns_the_kernel)


def box_user(caller: Caller, *, is_plain: bool) -> User:
    """The user that the host sees a box run as: a fresh one where the caller can give one, otherwise itself."""
    if caller.cannot_give_users(is_plain=is_plain) is not None:
        return caller.user
    own = caller.free_ids.start + secrets.randbelow(len(caller.free_ids))
    return own, own


def user_inside(user: User, *, is_plain: bool) -> User:
    """What a box that runs as that user is called inside. Nobody is 0 there: without a right that a box gives up, the
    kernel lets no 0 be the owner of a further user namespace, which each call is to have."""
    return TOOL_USER if user[0] == 0 and not is_plain else user


def _capability_sets() -> dict[str, int]:
    lines = (line.split() for line in _text("status").splitlines() if line.startswith("Cap"))
    return {name.rstrip(":"): int(value, 16) for name, value in lines}


def _free_ids() -> range | None:
    """The first range that this user namespace has as users and as groups, if groups can be given up there."""
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
    """What the kernel tells of this process there; nothing where it has no such file."""
    try:
        return (_PROC / name).read_text("ascii")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise failed_start("who the engine runs as cannot be found out", error) from None
