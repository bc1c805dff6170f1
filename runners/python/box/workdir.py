"""The one folder that a call may write to: a private tmpfs if the call has a mount namespace, otherwise a fresh folder.

A tmpfs disappears with its namespace. A folder has to be removed, whatever the tool made of it: thousands of levels,
folders without permission to enter, links to elsewhere. So the folder is flattened while it is emptied: each folder
inside is first moved to the top, and no path is ever longer than two names.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PREFIX = "sandbox-"
TEMPORARY = ".tmp"
SHARED = "/tmp"
SHARED_MEMORY = "/dev/shm"
PLACES = (TEMPORARY, ".shm", "outputs")
UMASK = 0o077


def disks(plan: dict[str, Any]) -> list[os.statvfs_result]:
    """Return the disks that a call writes to.

    A call with a mount namespace has a single one. In a container for one call `/dev/shm` is another disk, and under
    gVisor `/tmp` is one too.
    """
    own = plan["workplace"]["path"]
    if "mount" in plan["namespaces"]:
        return [os.statvfs(own)]
    places = {os.stat(place).st_dev: place for place in (SHARED_MEMORY, SHARED, own) if os.path.isdir(place)}
    return [os.statvfs(place) for place in places.values()]


def room_left(plan: dict[str, Any]) -> tuple[int, int | None]:
    """Return the free bytes and inodes, as if every disk were as full as the fullest. gVisor counts no inodes."""
    found = disks(plan)
    size = sum(disk.f_blocks * disk.f_frsize for disk in found)
    left = min(disk.f_bavail / max(disk.f_blocks, 1) for disk in found)
    inodes = [disk.f_favail for disk in found if disk.f_files]
    return int(size * left), min(inodes) if inodes else None


def choose(plan: dict[str, Any]) -> str | None:
    """Return the path of a folder to make for a call without a tmpfs; a box for one call has its folder ready."""
    if "mount" in plan["namespaces"]:
        return None
    if plan["workplace"]:
        return str(plan["workplace"]["path"])
    return os.path.join(parent(plan), prefix(os.getppid()) + os.urandom(8).hex())


def parent(plan: dict[str, Any]) -> str:
    """Return the folder in which such folders are made."""
    return str(plan.get("folder") or SHARED)


def prefix(warden: int) -> str:
    """Return the prefix of the names of a box's folders, by which its warden finds those that are left."""
    return "%s%d-" % (PREFIX, warden)


def remove_left(plan: dict[str, Any], warden: int) -> None:
    """Remove the folders of a box whose processes are all dead."""
    for name in os.listdir(parent(plan)):
        if name.startswith(prefix(warden)):
            remove(os.path.join(parent(plan), name))


def make_own(path: str) -> None:
    """Make the folders that programs expect in the box's own place, which the folder of each call covers.

    Some packages write when they are imported. Without these folders they fail as on a full disk.
    """
    for name in PLACES:
        try:
            os.mkdir(os.path.join(path, name), 0o700)
        except OSError:
            return


def enter(path: str) -> None:
    """Make the folder, for its user alone, and enter it."""
    os.mkdir(path, 0o700)
    furnish(path)


def furnish(path: str) -> None:
    """Enter the folder, and make the subfolders that programs expect."""
    os.umask(UMASK)
    os.chdir(path)
    for name in PLACES:
        os.mkdir(name)


def remove(path: str, *, within_s: float = float("inf")) -> None:
    """Remove the folder with its contents, as far as possible and in time; no process may still write there."""
    until = time.monotonic() + within_s
    try:
        if os.path.islink(path):
            os.unlink(path)
            return
        pending = [path]
        while pending:
            folder = pending.pop()
            pending += _lift_folders(folder, to=path, until=until)
            if folder != path:
                os.rmdir(folder)
        os.rmdir(path)
    except OSError:
        return


def _lift_folders(folder: str, *, to: str, until: float) -> list[str]:
    """Delete the files of a folder and move its folders to the top; return their new paths.

    Raise TimeoutError, which is an OSError, when time is up.
    """
    os.chmod(folder, 0o700)
    lifted = []
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        if time.monotonic() > until:
            raise TimeoutError(folder)
        if entry.is_dir(follow_symlinks=False):
            os.chmod(entry.path, 0o700)
            lifted.append(os.path.join(to, os.urandom(16).hex()))
            os.rename(entry.path, lifted[-1])
        else:
            os.unlink(entry.path)
    return lifted
