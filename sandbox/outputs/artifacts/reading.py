"""Read artifacts: list, show in pages, search and save. `Sandbox.artifacts` is this module's `Artifacts`.

An id may be shortened as long as only one artifact of its tenant begins like that. The content is untrusted: text and
bytes to be shown with care, never to be run or unpacked. A page is found without holding more of the artifact than a
block.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

from sandbox.errors import ArtifactsUnavailable, SpecError
from sandbox.outcome import Artifact
from sandbox.outputs.artifacts.search import Matches, search
from sandbox.outputs.artifacts.store import ArtifactStore, StoredArtifact
from sandbox.threads import in_own_thread

MAX_PAGE_BYTES: Final = 1 << 20
"""As many bytes are given at once; the rest is there to be asked for."""
_BLOCK: Final = 1 << 18
_SPAN: Final = re.compile(r"(\d{0,18}):(\d{0,18})")


@dataclass(frozen=True, slots=True)
class Span:
    """From `first` on, up to `last`; both may be left open."""

    first: int | None = None
    last: int | None = None

    @classmethod
    def read(cls, text: str, *, option: str) -> Span:
        """Return the span for `A:B`, `A:` or `:B`; raise `SpecError` for any other text."""
        match = _SPAN.fullmatch(text)
        if match is None or text == ":":
            raise SpecError(f"{option} {text[:80]!r} is no span", remedy=f"write it like {option} 10:20, 10: or :20")
        return cls(*(int(each) if each else None for each in match.groups()))


@dataclass(frozen=True, slots=True)
class ArtifactPage:
    """The bytes from `start` up to `end`, of `total`; `is_cut` where more was asked for than is given at once."""

    data: bytes
    start: int
    total: int
    first_line: int | None = None
    """The number of its first line, where lines were asked for."""
    is_cut: bool = False

    @property
    def end(self) -> int:
        return self.start + len(self.data)

    @property
    def text(self) -> str:
        """As text; what is not UTF-8 is U+FFFD."""
        return self.data.decode("utf-8", "replace")


def page_of_bytes(file: IO[bytes], span: Span, *, total: int) -> ArtifactPage:
    """Return the bytes from `first`, counted from 0, up to `last`, exclusive."""
    start = min(span.first or 0, total)
    end = total if span.last is None else max(min(span.last, total), start)
    return _read(file, start, end, total=total)


def page_of_lines(file: IO[bytes], span: Span, *, total: int) -> ArtifactPage:
    """Return the lines from `first`, counted from 1, up to `last`, inclusive."""
    first = max(span.first or 1, 1)
    start = _skip_lines(file, first - 1, at=0)
    end = total if span.last is None else _skip_lines(file, max(span.last - first + 1, 0), at=start)
    return _read(file, start, end, total=total, first_line=first)


def _read(file: IO[bytes], start: int, end: int, *, total: int, first_line: int | None = None) -> ArtifactPage:
    file.seek(start)
    data = file.read(min(end - start, MAX_PAGE_BYTES))
    return ArtifactPage(data, start, total, first_line=first_line, is_cut=end - start > MAX_PAGE_BYTES)


def _skip_lines(file: IO[bytes], count: int, *, at: int) -> int:
    """Return the position `count` lines after the line at `at`, or the end of the file if there are fewer lines."""
    file.seek(at)
    while count and (block := file.read(_BLOCK)):
        there = block.count(b"\n")
        if there >= count:
            return at + _after(block, count)
        count -= there
        at += len(block)
    return at


def _after(block: bytes, count: int) -> int:
    place = -1
    for _ in range(count):
        place = block.index(b"\n", place + 1)
    return place + 1


_SEARCH_S: Final = 10.0
_USUAL_MATCHES: Final = 100

Bounds = tuple[int | None, int | None]


class Artifacts:
    """The artifacts of one store."""

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store

    def list(self, *, tenant: str = "") -> tuple[StoredArtifact, ...]:
        """Return all of the tenant's, the youngest first."""
        return tuple(self._store.shelf(tenant).everything())

    def find(self, id: str, *, tenant: str = "") -> Artifact:
        """Return the metadata of an artifact; raise `ArtifactMissing`."""
        return self._store.shelf(tenant).find(id)

    def show(
        self, id: str, *, lines: Bounds | None = None, bytes: Bounds | None = None, tenant: str = ""
    ) -> ArtifactPage:
        """Return a page of at most 1 MiB: lines from 1, inclusive; or bytes from 0, exclusive."""
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
        """Return the lines that a regular expression matches; what was found until the time was over."""
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
    """Raise `SpecError` unless the bounds are a pair of numbers, either of which may be None."""
    if bounds is None:
        return
    is_pair = isinstance(bounds, tuple | list) and len(bounds) == 2
    if not is_pair or not all(bound is None or type(bound) is int for bound in bounds):
        raise SpecError(f"{name} are shown from one number to another, not {bounds!r:.80}", remedy=f"{name}=(1, 50)")
    for bound in bounds:
        if bound is not None and bound < 0:
            raise SpecError(f"a page has no bound of {bound}: they are counted from the beginning")


def _publish(partial: Path, target: Path, *, replace: bool) -> None:
    """Publish by a rename, which replaces, or by a link, which does not."""
    if replace:
        partial.replace(target)
    else:
        os.link(partial, target)


class AsyncArtifacts:
    """The same for programs with an event loop."""

    def __init__(self, store: ArtifactStore) -> None:
        self._inner = Artifacts(store)

    async def list(self, *, tenant: str = "") -> tuple[StoredArtifact, ...]:
        """See `Artifacts.list`."""
        return await in_own_thread(partial(self._inner.list, tenant=tenant))

    async def find(self, id: str, *, tenant: str = "") -> Artifact:
        """See `Artifacts.find`."""
        return await in_own_thread(partial(self._inner.find, id, tenant=tenant))

    async def show(
        self, id: str, *, lines: Bounds | None = None, bytes: Bounds | None = None, tenant: str = ""
    ) -> ArtifactPage:
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
