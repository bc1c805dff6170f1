"""Tools that were compiled ahead: a call with the same source for the same file only has to run the code.

Compiling runs no code of the source, but takes some 20 microseconds a line in each call. So the engine names a source
that comes again, whose calls were quick, and the zygote compiles it for all of its later forks. A source with a warning
or an error of the compiler is left to the calls, because the outcome has to show that. So is a source with unusually
large code, which a few lines can produce.
"""

from __future__ import annotations

import marshal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType

_MAX_TOOLS = 64
_MAX_CODE_BYTES = 1 << 19
_known: dict[tuple[str, str], CodeType] = {}


def keep(source: str, path: str) -> None:
    """Compile a source as that file, in place of the oldest if there are too many; leave a failure to the calls."""
    try:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            code = _compile(source, path)
    except BaseException:  # the call will report the error
        return
    if len(marshal.dumps(code)) > _MAX_CODE_BYTES:
        return
    while len(_known) >= _MAX_TOOLS:
        del _known[next(iter(_known))]
    _known[path, source] = code


def code_of(source: str, path: str) -> CodeType:
    """Return the code for a source; raise the errors of the compiler."""
    return _known.get((path, source)) or _compile(source, path)


def touch() -> None:
    """Touch all code once: running it writes to its reference counts, in pages that the parent shares until then."""
    pending = [*_known.values()]
    while pending:
        code = pending.pop()
        pending += [part for part in (*code.co_consts, *code.co_names) if isinstance(part, type(code))]


def _compile(source: str, path: str) -> CodeType:
    return compile(source.encode("utf-8", "surrogatepass"), path, "exec", dont_inherit=True)
