"""One call inside its walls: the tool's source as a module, its function, its value.

The request is JSON: ``source, filename, entry, arguments, positional, environment, value_limit``. The reply, one JSON
object behind its length, goes out on a descriptor of its own, so that nothing printed can be taken for it. It has a
`kind`:

    value         the function returned: `value`, `warnings`
    exception     it raised: `error` with type, message and a traceback of the tool's own frames
    exited        it called sys.exit: `code`
    too_large     its value is over the limit: `bytes`

The process ends right after the reply, without waiting for threads or running exit handlers: a call is over when its
function has returned.
"""

from __future__ import annotations

import errno
import io
import json
import os
import sys

import call_pipes as pipes
import failure
import values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, NoReturn

_MAX_TRACEBACK = 16384
_MAX_MESSAGE = 4096
_ENOUGH_FRAMES = 2000
_MAX_EXIT_CODE = 1 << 31
_HEAD = 4
_FIRST_OF_TOOL = 3
_REHEARSAL: dict[str, Any] = {
    "source": """
def rehearse(text: str, count: int) -> dict:
    total = count + len(text) - 1
    words = [word.upper() for word in text.split() if word]
    return {"text": f"{words[0]} {total}", "n": [1, 2.5, None, True]}
""",
    "filename": os.devnull,  # can be written everywhere, and keeps nothing
    "entry": "rehearse",
    "arguments": {"text": "x", "count": 2},
    "positional": [],
    "environment": {"SANDBOX_CALL_ID": "0" * 32, "SANDBOX_TOOL": "rehearse"},
    "value_limit": 4096,
}
_PLAIN_VALUE: dict[str, Any] = {"kind": "value", "warnings": []}
_WRITTEN_PLAIN_VALUE = json.dumps(_PLAIN_VALUE).encode("ascii")
_FAILING_REHEARSAL = dict(_REHEARSAL, entry="missing")


def run(request: dict[str, Any], descriptor: int) -> NoReturn:
    """Run the call and end the process."""
    own = os.getpid()
    streams: list[Any] = [sys.stdout, sys.stderr]
    _enter_environment(request["environment"])
    _reseed()
    reply = _outcome(request, descriptor)
    if os.getpid() != own:  # a fork of the tool's that came back to us: it does not speak for the call
        os._exit(0)
    _flush(*streams, vars(sys).get("stdout"), vars(sys).get("stderr"))
    _send(reply, descriptor)
    os._exit(1 if reply.get("kind") == "exited" else 0)


def rehearse() -> None:
    """Do what a call does, on a tool of our own: what is made or touched only once is made and touched by then."""
    _rehearse(_REHEARSAL)


def rehearse_failure() -> None:
    """The same for a call that raises."""
    _rehearse(_FAILING_REHEARSAL)


def _rehearse(rehearsal: dict[str, Any]) -> None:
    _, request = pipes.rehearse(rehearsal)
    os.getpid()
    _enter_environment(request["environment"])
    _reseed()
    name = _module_name(request["filename"])
    _encoded(_outcome(request, _FIRST_OF_TOOL))
    _flush(sys.stdout, sys.stderr)
    for variable in request["environment"]:
        del os.environ[variable]
    del sys.modules[name]
    if "linecache" in sys.modules:
        sys.modules["linecache"].cache.clear()


def open_streams() -> None:
    """Text streams that keep nothing back: what was printed before a kill is not lost. The zygote makes them, for every
    call to find: they are bound to numbers, and its own children have their own pipes there."""
    stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0)), "utf-8", "replace")
    outputs: list[Any] = [io.FileIO(number, "w") for number in (1, 2)]
    streams: list[Any] = [
        io.TextIOWrapper(output, "utf-8", "backslashreplace", write_through=True) for output in outputs
    ]
    for name, stream in zip(("stdin", "stdout", "stderr"), (stdin, *streams)):
        setattr(sys, name, stream)
        setattr(sys, "__%s__" % name, stream)


def count_processors() -> None:
    """What Python 3.13 reads from the environment is true for older ones as well; the zygote sees to it, once."""
    count = os.environ.get("PYTHON_CPU_COUNT")
    if count:
        os.cpu_count = lambda: int(count)


def _enter_environment(environment: dict[str, str]) -> None:
    """Add this call's variables to those that every call of the box has, which the zygote set. One by one: `update`
    asks first what kind of thing it was given, at length."""
    for name, value in environment.items():
        os.environ[name] = value


def _reseed() -> None:
    """No two calls of one zygote draw the same numbers."""
    random = sys.modules.get("random")
    if random:
        random.seed()
    tempfile = sys.modules.get("tempfile")
    if tempfile:
        vars(tempfile)["_name_sequence"] = None
    if "_ssl" in sys.modules:
        sys.modules["_ssl"].RAND_add(os.urandom(32), 32.0)
    numpy = sys.modules.get("numpy")
    if numpy:
        numpy.random.seed()


def _outcome(request: dict[str, Any], descriptor: int) -> dict[str, Any]:
    path = os.path.join(os.getcwd(), request["filename"])
    try:
        function = getattr(_load(request["source"], path), request["entry"])
        arguments = request["arguments"]
        positional = [arguments.pop(name) for name in request["positional"] if name in arguments]
        return _reply(_finish(function(*positional, **arguments)), request["value_limit"])
    except SystemExit as stop:
        return _exited(stop)
    except BaseException as error:
        if isinstance(error, OSError) and error.errno == errno.EMFILE:
            os.closerange(_FIRST_OF_TOOL, descriptor)  # the call is over, and to tell of it takes some
        return failure.describe(error, path, request["source"], max_message=_MAX_MESSAGE, max_traceback=_MAX_TRACEBACK)


def _load(source: str, path: str) -> ModuleType:
    """The tool as a module of its own file, which tracebacks and `inspect` find even when the tool removes it."""
    import types

    data = source.encode("utf-8", "surrogatepass")
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(file, data)
    os.close(file)
    name = _module_name(path)
    if "linecache" in sys.modules:
        sys.modules["linecache"].cache[path] = (lambda: source,)  # its form for lines that are had on demand
    module = types.ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    exec(compile(data, path, "exec", dont_inherit=True), module.__dict__)
    return module


def _module_name(path: str) -> str:
    """The file's name, unless a module of that name is, or could be, imported."""
    stem = os.path.basename(path).rpartition(".")[0] or "tool"
    taken = stem in sys.modules or stem in getattr(sys, "stdlib_module_names", ())
    return stem + "_tool" if taken else stem


def _finish(result: Any) -> Any:
    """What a function returned, with what it left to be awaited or drawn out."""
    kind = type(result)
    if hasattr(kind, "__await__"):
        import asyncio

        return asyncio.run(_awaited(result))
    if hasattr(kind, "__anext__"):
        import asyncio

        return asyncio.run(_drained(result))
    if hasattr(kind, "gi_frame"):
        return list(result)
    return result


async def _awaited(result: Any) -> Any:
    return await result


async def _drained(result: Any) -> list[Any]:
    return [item async for item in result]


def _reply(value: object, limit: int) -> dict[str, Any]:
    sys.setrecursionlimit(_ENOUGH_FRAMES)  # a tool may have raised it, past what the stack holds
    text, warnings = values.serialise(value, limit)
    if len(text) > limit:
        return {"kind": "too_large", "bytes": len(text)}
    return {"kind": "value", "text": text, "warnings": warnings}


def _exited(stop: SystemExit) -> dict[str, Any]:
    code: Any = vars(SystemExit)["code"].__get__(stop)
    if code is None:
        return {"kind": "exited", "code": 0}
    if issubclass(type(code), int):
        return {"kind": "exited", "code": max(-_MAX_EXIT_CODE, min(int.__index__(code), _MAX_EXIT_CODE))}
    try:
        sys.stderr.write("%s\n" % (code,))
    except BaseException:  # what it says of itself is the tool's
        pass
    return {"kind": "exited", "code": 1}


def _flush(*streams: Any) -> None:
    for stream in streams:
        try:
            stream.flush()
        except BaseException:
            continue


def _send(reply: dict[str, Any], descriptor: int) -> None:
    """All of it; the pipe may take it in pieces."""
    data = _encoded(reply)
    while data:
        data = data[os.write(descriptor, data) :]


def _encoded(reply: dict[str, Any]) -> bytes:
    """Length and reply; a value's JSON is put in as it is, not encoded twice."""
    value = reply.pop("text", None)
    data = json.dumps(reply).encode("ascii") if reply != _PLAIN_VALUE else _WRITTEN_PLAIN_VALUE
    if value is not None:
        data = data[:-1] + b', "value": ' + value.encode("ascii") + b"}"
    return len(data).to_bytes(_HEAD, "big") + data
