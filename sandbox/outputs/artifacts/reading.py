"""Reading: what has been kept, listed, shown in pages, searched and saved. `Sandbox.artifacts` is this.

An id may be cut as long as it is the only one of its tenant that begins so. What is read is the tool's: text and bytes
to be shown with care, never to be run or unpacked.
"""

from __future__ import annotations

import os
import secrets
import shutil
from functools import partial
from pathlib import Path
from typing import Any, Final

from sandbox.errors import ArtifactsUnavailable, SpecError
from sandbox.outcome import Artifact
from sandbox.outputs.artifacts.paging import Page, Span, page_of_bytes, page_of_lines
from sandbox.outputs.artifacts.search import Matches, search
from sandbox.outputs.artifacts.store import ArtifactStore, Kept
from sandbox.threads import in_own_thread

_SEARCH_S: Final = 10.0
_USUAL_MATCHES: Final = 100

Bounds = tuple[int | None, int | None]


class Artifacts:
    """The artifacts of one store."""

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store

    def list(self, *, tenant: str = "") -> tuple[Kept, ...]:
        """All of the tenant's, the youngest first."""
        return tuple(self._store.shelf(tenant).everything())

    def find(self, id: str, *, tenant: str = "") -> Artifact:
        """What is known of one; raises `ArtifactMissing`."""
        return self._store.shelf(tenant).find(id)

    def show(self, id: str, *, lines: Bounds | None = None, bytes: Bounds | None = None, tenant: str = "") -> Page:
        """A part of one, 1 MiB at most: lines counted from 1, with the last; or bytes from 0, without the last."""
        if lines is not None and bytes is not None:
            raise SpecError("either lines or bytes are shown, not both")
        for name, bounds in (("lines", lines), ("bytes", bytes)):
            _refuse_odd(name, bounds)
        total = self.find(id, tenant=tenant).bytes
        with self._store.shelf(tenant).open(id) as file:
            if lines is not None:
                return page_of_lines(file, Span(*lines), total=total)
            return page_of_bytes(file, Span(*(bytes or (None, None))), total=total)

    def grep(
        self,
        id: str,
        pattern: str,
        *,
        most: int = _USUAL_MATCHES,
        ignore_case: bool = False,
        seconds: float = _SEARCH_S,
        tenant: str = "",
    ) -> Matches:
        """The lines that a regular expression matches; what was found until the time was over."""
        with self._store.shelf(tenant).open(id) as file:
            return search(file, pattern, most=most, ignore_case=ignore_case, seconds=seconds)

    def save(self, id: str, path: str | Path, *, replace: bool = False, tenant: str = "") -> Path:
        """Copy one to a path of this host; into a folder by its own name's last part. All of it or nothing."""
        target = Path(path)
        if target.is_dir():
            target /= self.find(id, tenant=tenant).name.rpartition("/")[2]
        with self._store.shelf(tenant).open(id) as file:
            partial = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}")
            try:
                with partial.open("xb") as copy:
                    shutil.copyfileobj(file, copy, 1 << 20)
                _publish(partial, target, replace=replace)
            except FileExistsError:
                raise SpecError(
                    f"{target} is there already", remedy="choose another path, or replace it: replace=True, --replace"
                ) from None
            except OSError as error:
                raise ArtifactsUnavailable(
                    f"{target} cannot be written: {error.strerror}",
                    remedy="name a file in a folder that is there, and that you may write to",
                ) from None
            finally:
                partial.unlink(missing_ok=True)
        return target

    def prune(self) -> int:
        """Remove what is too old or too much, of all tenants; how many bytes that freed."""
        return self._store.prune()


def _refuse_odd(name: str, bounds: Any) -> None:
    """Raises `SpecError` for what is no pair of numbers, either of which may be None."""
    if bounds is None:
        return
    is_pair = isinstance(bounds, tuple | list) and len(bounds) == 2
    if not is_pair or not all(bound is None or type(bound) is int for bound in bounds):
        raise SpecError(f"{name} are shown from one number to another, not {bounds!r:.80}", remedy=f"{name}=(1, 50)")
    for bound in bounds:
        if bound is not None and bound < 0:
            raise SpecError(f"a page has no bound of {bound}: they are counted from the beginning")


def _publish(partial: Path, target: Path, *, replace: bool) -> None:
    """By a rename, which replaces; or by a link, which does not."""
    if replace:
        partial.replace(target)
    else:
        os.link(partial, target)


class AsyncArtifacts:
    """The same for programs with an event loop."""

    def __init__(self, store: ArtifactStore) -> None:
        self._inner = Artifacts(store)

    async def list(self, *, tenant: str = "") -> tuple[Kept, ...]:
        """See `Artifacts.list`."""
        return await in_own_thread(partial(self._inner.list, tenant=tenant))

    async def find(self, id: str, *, tenant: str = "") -> Artifact:
        """See `Artifacts.find`."""
        return await in_own_thread(partial(self._inner.find, id, tenant=tenant))

    async def show(
        self, id: str, *, lines: Bounds | None = None, bytes: Bounds | None = None, tenant: str = ""
    ) -> Page:
        """See `Artifacts.show`."""
        return await in_own_thread(partial(self._inner.show, id, lines=lines, bytes=bytes, tenant=tenant))

    async def grep(
        self,
        id: str,
        pattern: str,
        *,
        most: int = _USUAL_MATCHES,
        ignore_case: bool = False,
        seconds: float = _SEARCH_S,
        tenant: str = "",
    ) -> Matches:
        """See `Artifacts.grep`."""
        return await in_own_thread(
            partial(self._inner.grep, id, pattern, most=most, ignore_case=ignore_case, seconds=seconds, tenant=tenant)
        )

    async def save(self, id: str, path: str | Path, *, replace: bool = False, tenant: str = "") -> Path:
        """See `Artifacts.save`."""
        return await in_own_thread(partial(self._inner.save, id, path, replace=replace, tenant=tenant))

    async def prune(self) -> int:
        """See `Artifacts.prune`."""
        return await in_own_thread(self._inner.prune)
