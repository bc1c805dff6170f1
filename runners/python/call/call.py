"""A call inside its isolation: the tool's source as a module, its function, its value.

The request is JSON: ``source, filename, entry, arguments, positional, environment, value_limit``. A call of anything
but a plain function with plain values also has ``form`` (see call/dialects.py), ``rebuilds``, ``given`` and
``permitted``. ``streams`` asks for the items of a generator, ``returns`` names the return contract (see
call/returns.py), and ``files`` announces input files (see call/files.py).

The reply, one JSON object behind its length, leaves on a separate descriptor, so that no printed text can pass for it.
The reply has a `kind`:

    value         the function returned: `value`, `warnings`; `ok` of a `ToolResult`, `state` if the tool changed that
    exception     the function raised: `error` with type, message and a traceback of the tool's own frames
    invalid       its types or its own `validate_args` refuse the arguments: `problems`
    denied        the tool asks for a permission that the call does not have: `message`
    exited        the tool called sys.exit: `code`
    too_large     the value is over the limit: `bytes`

and `files` if the tool left some, which the guard sends when the process has ended (see call/files.py).

The process ends right after the reply, without waiting for threads or running exit handlers: a call is over when its
function has returned.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import time

from box import fast_json, pipes, rng_reseed
from call import (
    authoring_module,
    compiled,
    dialects,
    failure,
    files,
    generator_results,
    objects,
    rebuild,
    returns,
    values,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, NoReturn

_ERROR_NUMBER: Any = vars(OSError)["errno"]  # a tool's own class of error may override the attribute
_MAX_TRACEBACK = 16384
_MAX_MESSAGE = 4096
_ENOUGH_FRAMES = 4000
_MAX_EXIT_CODE = 1 << 31
_HEAD = 4
_FIRST_OF_TOOL = 3
_GIVES_WAY_S = 0.001
_NO_REPLY = 1
_REPLY_FAILED = "the call has no reply: the tool changed its own process so that sending one failed: %s: %s\n"
_sleep, _write, _exit = time.sleep, os.write, os._exit  # a tool may replace the functions in their modules
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
    "environment": {"SANDBOX_TOOL": "rehearse"},
    "value_limit": 4096,
    "returns": {"schema": {"type": "object", "minProperties": 1}, "is_strict": True},
}
_PLAIN_VALUE: dict[str, Any] = {"kind": "value", "warnings": []}
_ENCODED_PLAIN_VALUE = fast_json.write(_PLAIN_VALUE).encode("ascii")


def prepare() -> str:
    """Do the part of a call that depends on no request, and return the current folder."""
    _reseed()
    home = os.getcwd()
    objects.leave_images_in(home)
    return home


def run(request: dict[str, Any], descriptor: int, *, home: str, gives_way: bool) -> NoReturn:
    """Run the call, in a process that was prepared in `home`, and end the process.

    With `gives_way`, the engine waits for the value and not for the end of the process. A short sleep then lets the
    engine run first: the kernel takes as long to end a process as a short call takes, and does not interrupt that.
    """
    code = _NO_REPLY
    try:
        reply = _run_or_explain(request, descriptor, home=home)
        code = 1 if reply["kind"] == "exited" else 0
        if gives_way and reply["kind"] == "value" and "files" not in reply:
            _sleep(_GIVES_WAY_S)
    finally:
        _exit(code)


def _run_or_explain(request: dict[str, Any], descriptor: int, *, home: str) -> dict[str, Any]:
    """Run the call and return its reply, which was sent; if sending failed, write the reason to stderr."""
    try:
        return _run(request, descriptor, home=home)
    except BaseException as error:
        _write(2, (_REPLY_FAILED % (type(error).__name__, error)).encode("utf-8", "replace"))
        raise


def _run(request: dict[str, Any], descriptor: int, *, home: str) -> dict[str, Any]:
    """Run the call and send its reply."""
    own = os.getpid()
    streams: list[Any] = [sys.stdout, sys.stderr]
    _set_environment(request["environment"])
    reply = _call(request, home, descriptor)
    if os.getpid() != own:  # a fork of the tool that returned to our code does not speak for the call
        _exit(0)
    _flush(*streams, vars(sys).get("stdout"), vars(sys).get("stderr"))
    if files.is_left(home, may_remove=reply["kind"] == "value"):
        reply["files"] = True
    _send(reply, descriptor)
    return reply


def rehearse(id: str = "0") -> None:
    """Run a call of a tool of our own, so that memory that every call touches is touched once.

    The libc keeps every environment variable that was ever set. So a fork that has to touch that list must come with an
    id that was not set before.
    """
    _, request = pipes.rehearse(_REHEARSAL)
    request["environment"]["SANDBOX_CALL_ID"] = id * 32
    os.getpid()
    name = _module_name(request["filename"])
    home = prepare()
    _set_environment(request["environment"])
    _encode(_call(request, home, _FIRST_OF_TOOL))
    files.is_left(os.devnull, may_remove=True)  # a path without a folder that could be removed
    _flush(sys.stdout, sys.stderr)
    for variable in request["environment"]:
        del os.environ[variable]
    del sys.modules[name]
    if "linecache" in sys.modules:
        sys.modules["linecache"].cache.clear()
    compiled.touch()


def open_streams() -> None:
    """Open text streams without buffers, so that a kill loses no printed text.

    The zygote opens them once: streams are bound to numbers, at which each child has its own pipes.
    """
    stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0)), "utf-8", "replace")
    outputs: list[Any] = [io.FileIO(number, "w") for number in (1, 2)]
    streams: list[Any] = [
        io.TextIOWrapper(output, "utf-8", "backslashreplace", write_through=True) for output in outputs
    ]
    for name, stream in zip(("stdin", "stdout", "stderr"), (stdin, *streams)):
        setattr(sys, name, stream)
        setattr(sys, "__%s__" % name, stream)


def count_processors() -> None:
    """Apply PYTHON_CPU_COUNT, which only Python 3.13 and later read, in every Python; called once, in the zygote."""
    count = os.environ.get("PYTHON_CPU_COUNT")
    if count:
        os.cpu_count = lambda: int(count)


def _set_environment(environment: dict[str, str]) -> None:
    """Set the call's own variables; the zygote has set those of the box."""
    for name, value in environment.items():  # `update` is slower, because it first examines the type of its argument
        os.environ[name] = value


def _reseed() -> None:
    """Let no two forks draw the same numbers; `random` reseeds itself after a fork."""
    tempfile = sys.modules.get("tempfile")
    if tempfile:
        vars(tempfile)["_name_sequence"] = None
    if "_ssl" in sys.modules:
        sys.modules["_ssl"].RAND_add(os.urandom(32), 32.0)
    numpy = sys.modules.get("numpy")
    if numpy:
        numpy.random.seed()
    rng_reseed.reseed()


def _call(request: dict[str, Any], home: str, descriptor: int) -> dict[str, Any]:
    path = os.path.join(home, request["filename"])
    try:
        if "files" in request:
            files.place(request["files"], request["files_begun"])
        module = _load(request["source"], path)
        items = generator_results.ItemSender(descriptor, request["value_limit"]) if "streams" in request else None
        call = _call_in_form if "form" in request else _call_plainly
        return call(module, request, items)
    except rebuild.Misfit as misfit:
        return {"kind": "invalid", "problems": [{"path": path, "message": text} for path, text in misfit.problems]}
    except dialects.Objection as objection:
        return _reply_to_objection(objection)
    except SystemExit as stop:
        return _reply_to_exit(stop)
    except BaseException as error:
        if isinstance(error, OSError) and _ERROR_NUMBER.__get__(error) == errno.EMFILE:
            os.closerange(_FIRST_OF_TOOL, descriptor)  # the call is over, and the reply needs descriptors
        reply = failure.describe(error, path, request["source"], max_message=_MAX_MESSAGE, max_traceback=_MAX_TRACEBACK)
        return dict(reply, warnings=authoring_module.warnings(request["source"]))


def _call_plainly(
    module: ModuleType, request: dict[str, Any], items: generator_results.ItemSender | None
) -> dict[str, Any]:
    """Call a plain function with plain values, as nearly every call does."""
    arguments = request["arguments"]
    function = getattr(module, request["entry"])
    positional = [arguments.pop(name) for name in request["positional"] if name in arguments]
    return _reply(generator_results.finish(function(*positional, **arguments), items), request)


def _call_in_form(
    module: ModuleType, request: dict[str, Any], items: generator_results.ItemSender | None
) -> dict[str, Any]:
    """Call a tool of any form: rebuild its arguments, ask for its objections, and inject its parameters."""
    form, arguments = request["form"], request["arguments"]
    function = dialects.target_of(module, form)
    build = rebuild.rebuild_mapping if form["takes_mapping"] else rebuild.rebuild_arguments
    arguments = build(function, arguments) if request["rebuilds"] else arguments
    if form["kind"] == "execute":
        dialects.ask_first(function, arguments, may=request["permitted"], finish=generator_results.finish)
    injection = dialects.Injection(function, form["injected"], request["given"])
    if form["takes_mapping"]:
        result = function(arguments, **injection.arguments)
    else:
        positional = [arguments.pop(name) for name in request["positional"] if name in arguments]
        result = function(*positional, **arguments, **injection.arguments)
    return _reply(generator_results.finish(result, items), request, injection)


def _reply_to_objection(objection: dialects.Objection) -> dict[str, Any]:
    if objection.kind == "invalid":
        return {"kind": "invalid", "problems": [{"path": [], "message": objection.text}]}
    return {"kind": "denied", "message": objection.text}


def _load(source: str, path: str) -> ModuleType:
    """Load the tool as a module; tracebacks and `inspect` find its source even if the tool removes the file."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(file, source.encode("utf-8", "surrogatepass"))
    os.close(file)
    name = _module_name(path)
    if "linecache" in sys.modules:
        sys.modules["linecache"].cache[path] = (lambda: source,)  # the form of an entry whose lines are read on demand
    module: ModuleType = type(sys)(name)
    module.__file__ = path
    sys.modules[name] = module
    exec(compiled.code_of(source, path), module.__dict__)
    return module


def _module_name(path: str) -> str:
    """Return the file's name, changed if a module of that name is, or could be, imported."""
    stem = path[path.rfind("/") + 1 :].rpartition(".")[0] or "tool"
    taken = stem in sys.modules or stem in getattr(sys, "stdlib_module_names", ())
    return stem + "_tool" if taken else stem


def _reply(value: object, request: dict[str, Any], injection: dialects.Injection | None = None) -> dict[str, Any]:
    sys.setrecursionlimit(_ENOUGH_FRAMES)  # a tool may have raised the limit beyond the size of the stack
    limit: int = request["value_limit"]
    plain, ok = returns.read_result(value)
    contract = returns.ReturnContract(request.get("returns"), ok=ok)
    text, warnings = values.serialise(plain, limit, contract.check)
    if contract.is_broken:
        return contract.failure(request["source"])
    reply: dict[str, Any] = {
        "kind": "value",
        "text": text,
        "warnings": warnings + authoring_module.warnings(request["source"]),
    }
    if ok is not None:
        reply["ok"] = ok
    size = len(text)
    state, state_warnings = injection.changed_state(limit) if injection else (None, [])
    if state is not None:
        size += len(state)
        reply.update(state=state, warnings=reply["warnings"] + state_warnings)
    return reply if size <= limit else {"kind": "too_large", "bytes": size}


def _reply_to_exit(stop: SystemExit) -> dict[str, Any]:
    code: Any = vars(SystemExit)["code"].__get__(stop)
    if code is None:
        return {"kind": "exited", "code": 0}
    if issubclass(type(code), int):
        return {"kind": "exited", "code": max(-_MAX_EXIT_CODE, min(int.__index__(code), _MAX_EXIT_CODE))}
    try:
        sys.stderr.write("%s\n" % (code,))
    except BaseException:  # the text of the code comes from the tool's own methods
        pass
    return {"kind": "exited", "code": 1}


def _flush(*streams: Any) -> None:
    for stream in streams:
        try:
            stream.flush()
        except BaseException:
            continue


def _send(reply: dict[str, Any], descriptor: int) -> None:
    generator_results.write(descriptor, _encode(reply))


def _encode(reply: dict[str, Any]) -> bytes:
    """Return the length and the reply; parts that are JSON already are inserted without a second encoding."""
    texts = {name: reply.pop(key) for key, name in (("text", "value"), ("state", "state")) if key in reply}
    data = fast_json.write(reply).encode("ascii") if reply != _PLAIN_VALUE else _ENCODED_PLAIN_VALUE
    for name, text in texts.items():
        data = b'%s, "%s": %s}' % (data[:-1], name.encode("ascii"), text.encode("ascii"))
    return len(data).to_bytes(_HEAD, "big") + data
