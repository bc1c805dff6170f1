"""The description of a tool's exception for its author: the type, the message, and the frames of the tool's own file.

The module `traceback`, with its imports, takes a fifth of a runner's memory, and longer to load than most calls. So a
box does not load it before a call has failed; then the engine has it preloaded. The first call that fails loads it by
itself. If that fails, for want of memory or descriptors, the description only lists the places.
"""

from __future__ import annotations

from call.values import type_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

_OURS = __file__.rpartition("/")[0].rpartition("/")[0] + "/"


def describe(error: BaseException, path: str, source: str, *, max_message: int, max_traceback: int) -> dict[str, Any]:
    """Return the reply for an exception of any class, however hostile; texts are bounded and keep both ends."""
    return {
        "kind": "exception",
        "error": {
            "type": type_name(type(error)),
            "message": _cut(_read_safely(lambda: str(error)), max_message),
            "traceback": _cut(_read_safely(lambda: _traceback(error, path, source)), max_traceback),
        },
        "memory": issubclass(type(error), MemoryError),
        "errno": _errno(error),
    }


def _errno(error: BaseException) -> int | None:
    number: Any = vars(OSError)["errno"].__get__(error) if issubclass(type(error), OSError) else None
    return number if type(number) is int and 0 <= number < 4096 else None


def _traceback(error: BaseException, path: str, source: str) -> str:
    try:
        return _text(error, path, source)
    except BaseException:
        return "".join(_places(error, path))


def _places(error: BaseException, path: str) -> Iterator[str]:
    """Yield the places in the tool's own file that the exception passed."""
    yield "Traceback (most recent call last):\n"
    step: Any = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == path:
            yield '  File "%s", line %d, in %s\n' % (path, step.tb_lineno, step.tb_frame.f_code.co_name)
        step = step.tb_next
    yield type_name(type(error))


def _text(error: BaseException, path: str, source: str) -> str:
    """Return the traceback without our frames; a syntax error has no other frames."""
    import linecache
    import traceback

    # The tool may have changed the file, or no file can be opened any more.
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    found = traceback.TracebackException.from_exception(error)
    seen: set[int] = set()
    pending: list[Any] = [found]
    while pending:
        part = pending.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        is_within = part is not found and all(frame.filename != path for frame in part.stack)
        part.stack[:] = _frames_of_the_tool(part.stack, path, is_within=is_within)
        pending += [part.__cause__, part.__context__, *(getattr(part, "exceptions", None) or ())]
    return "".join(found.format())


def _frames_of_the_tool(frames: Sequence[Any], path: str, *, is_within: bool) -> list[Any]:
    """Return the frames from a frame of the tool's file on, up to the next of our frames.

    `is_within` says that the first frames are the tool's. Our frames appear in the middle when the exception's own
    methods raise while we read its text.
    """
    kept = []
    for frame in frames:
        is_within = frame.filename == path or (is_within and not frame.filename.startswith(_OURS))
        if is_within:
            kept.append(frame)
    return kept


def _read_safely(read: Callable[[], str]) -> str:
    """Return the result of `read` as text that can be sent, even if the exception's own methods fail."""
    try:
        return str.__str__(read()).encode("utf-8", "backslashreplace").decode("utf-8")
    except BaseException as error:
        return "<unreadable: %s>" % type_name(type(error))


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return "%s\n[… %d characters left out …]\n%s" % (text[:half], len(text) - 2 * half, text[-half:])
