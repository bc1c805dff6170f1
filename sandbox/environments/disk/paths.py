"""Where a store is, whose it is, and who may enter it.

The store belongs to one user, who can change every environment in it: an engine refuses one that belongs to another
user or that others may write to. A box may run as another user and is shown single folders of the store, so with a
root engine the folders on the way to those can be passed (0711), though not listed; every other engine's boxes run as
its own user, and its store is closed (0700). Locks, failures and logs are closed always: who could open a lock file
could also hold it forever. So is what no box is shown: what was resolved names private packages and indexes.

Everything has its mode by being given it, never by the umask. Folders of a store that were made more open than that
are closed; one that others could write to is refused, since its content may be theirs.

A store may lie on a disk that is mounted read-only. Then what is in it can be used, and nothing is added.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sandbox.environments.disk.store_marker import give_sign
from sandbox.errors import EnvironmentUnavailable, SpecError, StoreUnwritable

CLOSED: Final = 0o700
READ_ONLY: Final = 0o555
_SHOWN: Final = 0o711
_PARENTS: Final = 0o755
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
_NO_RIGHT: Final = (errno.EACCES, errno.EPERM)
_TAKEN: Final = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR)


def default_root(variables: Mapping[str, str] | None = None) -> Path:
    """`$SANDBOX_STORE`, or `sandbox` where this user's caches are."""
    given = os.environ if variables is None else variables
    if chosen := given.get("SANDBOX_STORE"):
        return Path(chosen).absolute()
    caches = given.get("XDG_CACHE_HOME", "")
    return (Path(caches) if os.path.isabs(caches) else Path.home() / ".cache") / "sandbox"


def passable() -> int:
    """The mode of folders on the way to what a box may be shown."""
    return _SHOWN if os.geteuid() == 0 else CLOSED


def named_place(text: str | Path) -> Path:
    """Return the folder that is named for a store; an empty name would mean the current folder."""
    if not isinstance(text, str | os.PathLike):
        raise SpecError(f"the store cannot be {text!r:.80}", remedy="give the path of a folder")
    if not str(text).strip():
        raise SpecError("the store is to be a folder without a name", remedy="name a folder, or leave the option out")
    return Path(text)


def make_root(root: Path, *, shown: Iterable[str] = (), closed: Iterable[str] = ()) -> None:
    """Make the store's own folder, and those in it, if they are not there; refuse one that others could change, and
    one that holds something else than a store."""
    _refuse_unusable(root)
    try:
        make_folders(root.parent, _PARENTS)
        make_folder(root, passable())
        status = os.stat(f"{root}/")
        _refuse_others(root, status)
        give_sign(root)
        for mode, names in ((passable(), shown), (CLOSED, closed)):
            for name in names:
                _settle(root / name, mode)
    except OSError as error:
        raise EnvironmentUnavailable(
            f"the store {root} cannot be made: {error.strerror}", remedy="name another folder in SANDBOX_STORE"
        ) from error


def _refuse_unusable(root: Path) -> None:
    """Refuse a path below which virtualenv makes no environment."""
    remedy = "name another folder in SANDBOX_STORE"
    if os.pathsep in str(root):
        raise EnvironmentUnavailable(
            f"the store {root} has a {os.pathsep!r} in its path, which separates paths: no environment works there",
            remedy=remedy,
        )
    try:
        str(root).encode()
    except UnicodeEncodeError:
        raise EnvironmentUnavailable(
            f"the store {str(root)!r} has a path that is no text in UTF-8: no environment works there", remedy=remedy
        ) from None


def _refuse_others(root: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise EnvironmentUnavailable(
            f"the store {root} belongs to user {status.st_uid}, who could change what is in it",
            remedy="name a folder of your own in SANDBOX_STORE",
        )
    if stat.S_IMODE(status.st_mode) & 0o022:
        raise EnvironmentUnavailable(f"others may write to the store {root}", remedy=f"chmod go-w {root}")


def _settle(folder: Path, mode: int) -> None:
    """Make a folder of the store, or see that one that is there is no more open than it should be."""
    try:
        make_folder(folder, mode)
        found = stat.S_IMODE(folder.stat().st_mode)
        if found & 0o022:
            raise EnvironmentUnavailable(
                f"others may write to {folder}, a part of the store: its content may be theirs",
                remedy=f"remove it, or if you trust all users here: chmod -R go-w {folder}",
            )
        if found & ~mode:
            folder.chmod(found & mode)
    except OSError as error:
        if not is_read_only(error):
            raise


@contextmanager
def writing(what: str) -> Iterator[None]:
    """Where a full disk, or one that may not be written to, becomes the error that says what to do about it."""
    try:
        yield
    except OSError as error:
        raise unwritable(what, error) from error


def unwritable(what: str, problem: OSError) -> StoreUnwritable:
    """The error that says what to do about it."""
    reason = problem.strerror or str(problem)
    return StoreUnwritable(f"{what} cannot be written: {reason}", remedy=remedy_for(problem))


def remedy_for(problem: OSError) -> str:
    """Return the remedy for a store that cannot be written to."""
    if is_full(problem):
        return "make room, for example with `sandbox env prune`"
    if is_read_only(problem):
        return "the disk is mounted read-only: name a folder on another in --store or SANDBOX_STORE"
    if problem.errno in _NO_RIGHT:
        return "let this user write to the store, or name another folder in --store or SANDBOX_STORE"
    return "see what is wrong with that disk, or name another folder in --store or SANDBOX_STORE"


def is_read_only(problem: OSError) -> bool:
    """Whether the disk is read-only."""
    return problem.errno == errno.EROFS


def is_full(problem: OSError | str) -> bool:
    """Whether that is what the system, or a program, says of a disk without room."""
    if isinstance(problem, OSError):
        return problem.errno in _NO_ROOM
    return any(os.strerror(number) in problem for number in _NO_ROOM)


def make_folder(folder: Path, mode: int) -> None:
    """Make it with exactly that mode, whatever the umask; one that is there stays as it is."""
    try:
        folder.mkdir(mode=mode)
    except FileExistsError:
        if folder.is_dir():
            return
        raise
    folder.chmod(mode)


def make_folders(folder: Path, mode: int) -> None:
    """The same, with all that are missing above it."""
    if not folder.is_dir():
        make_folders(folder.parent, mode)
        make_folder(folder, mode)


def take_name(aside: Path, place: Path) -> bool:
    """Rename, unless something has that name already, or had it a moment ago."""
    try:
        aside.rename(place)
    except OSError as error:
        if error.errno in _TAKEN or os.path.lexists(place):
            return False
        raise
    return True


def remove(path: Path) -> None:
    """Remove a file, a link, or a folder with all that is in it, however closed its folders are."""
    if path.is_dir() and not path.is_symlink():
        if os.geteuid() != 0:
            _open_folders(path)
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _open_folders(folder: Path) -> None:
    """Give ourselves the right to remove what is in them."""
    folder.chmod(CLOSED)
    for parent, names, _ in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            if not path.is_symlink():
                path.chmod(CLOSED)


def close(folder: Path, *, but: Collection[str] = frozenset()) -> None:
    """Take the right to write away, from the folder itself and all below, and let everyone read, whatever the umask.

    Files whose paths below the folder are in `but` are not looked at: they are what they should be.
    """
    for parent, _, names in os.walk(folder):
        below = os.path.relpath(parent, folder)
        prefix = "" if below == "." else f"{below}/"
        for name in names:
            if prefix + name not in but:
                _close_file(os.path.join(parent, name))
        os.chmod(parent, READ_ONLY)


def _close_file(path: str) -> None:
    mode = os.lstat(path).st_mode
    closed = READ_ONLY if mode & 0o111 else READ_ONLY & 0o444
    if stat.S_ISREG(mode) and stat.S_IMODE(mode) != closed:  # linked files are what they should be
        os.chmod(path, closed)
