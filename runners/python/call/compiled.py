"""Tools that were compiled ahead: a call that brings the same source for the same file has only to run it.

Nothing of a source runs when it is compiled, but that takes some 20 microseconds a line, in each call anew. So the
engine names a source that comes again, whose calls were quick, and the zygote compiles it for all of its later forks.
What the compiler has anything to say of is left to the calls, in whose outcome it belongs; and so is what becomes much
larger than it was, for a few lines can be written to.
"""

from __future__ import annotations

import marshal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType

_MOST = 64
_LARGEST = 1 << 19
_known: dict[tuple[str, str], CodeType] = {}


def keep(source: str, path: str) -> None:
    """Have it compiled as that file; the oldest make room. Where there is nothing to do that with, calls do it."""
    try:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            code = _compile(source, path)
    except BaseException:  # what is wrong with it, or too much in it, its call says
        return
    if len(marshal.dumps(code)) > _LARGEST:
        return
    while len(_known) >= _MOST:
        del _known[next(iter(_known))]
    _known[path, source] = code


def code_of(source: str, path: str) -> CodeType:
    """What to run for it; whatever the compiler says of it is raised."""
    return _known.get((path, source)) or _compile(source, path)


def touch() -> None:
    """Look at all of it: to whoever forked this process it is shared, and to run it is to write to it."""
    pending = [*_known.values()]
    while pending:
        code = pending.pop()
        pending += [part for part in (*code.co_consts, *code.co_names) if isinstance(part, type(code))]


def _compile(source: str, path: str) -> CodeType:
    return compile(source.encode("utf-8", "surrogatepass"), path, "exec", dont_inherit=True)
