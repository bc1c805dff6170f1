"""One call inside its walls: the tool's source as a module, its function, its value.

The request is JSON: ``source, filename, entry, arguments, positional, environment, value_limit``; where the call is not
that of a plain function with plain values also ``form`` (see call/dialects.py), ``rebuilds``, ``given``, ``permitted``;
that of a plain function with plain values also ``form`` (dialects.py), ``rebuilds``, ``given``, ``permitted``;
call/returns.py); and ``files`` where it is given some (see call/input_files.py).
The reply, one JSON object behind its length, goes out on a descriptor of its own, so that nothing printed can be taken
for it. It has a `kind`:

    value         the function returned: `value`, `warnings`; `ok` if that says so itself, `state` if it changed
    exception     it raised: `error` with type, message and a traceback of the tool's own frames
    invalid       the arguments do not fit, as its types or its own `validate_args` say: `problems`
    denied        it asks for a permission that the call has not: `message`
    exited        it called sys.exit: `code`
    too_large     its value is over the limit: `bytes`

and `files` where the tool left some, which are sent when its process has ended (see call/output_files.py).

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
    generator_results,
    injected,
    input_files,
    objects,
    output_files,
    rebuild,
    results,
    returns,
    values,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, NoReturn

_ERROR_NUMBER: Any = vars(OSError)["errno"]  # a tool's own kind of error may say what it likes
_MAX_TRACEBACK = 16384
_MAX_MESSAGE = 4096
_ENOUGH_FRAMES = 4000
_MAX_EXIT_CODE = 1 << 31
_HEAD = 4
_FIRST_OF_TOOL = 3
_GIVES_WAY_S = 0.001
_UNTOLD = 1
_IN_VAIN = "what came of the call cannot be told, after what the tool did to its own process: %s: %s\n"
_sleep, _write, _exit = time.sleep, os.write, os._exit  # a tool may have put something else in their places
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
_WRITTEN_PLAIN_VALUE = fast_json.write(_PLAIN_VALUE).encode("ascii")


def settle() -> str:
    """Make this process one of its own, whatever its call will be; the folder that it is in."""
    _reseed()
    home = os.getcwd()
    objects.leave_images_in(home)
    return home


def run(request: dict[str, Any], descriptor: int, *, home: str, gives_way: bool) -> NoReturn:
    """Run the call, in a process that has settled there, and end the process. Where nobody waits for its end, whoever
    waits for its value goes first: taking a process down occupies the kernel as long as a short call takes, and is not
    interrupted for anybody."""
    code = _UNTOLD
    try:
        reply = _told(request, descriptor, home=home)
        code = 1 if reply["kind"] == "exited" else 0
        if gives_way and reply["kind"] == "value" and "files" not in reply:
            _sleep(_GIVES_WAY_S)
    finally:
        _exit(code)


def _told(request: dict[str, Any], descriptor: int, *, home: str) -> dict[str, Any]:
    """What came of the call, which has been told; or, on its stderr, that it cannot be."""
    try:
        return _run(request, descriptor, home=home)
    except BaseException as error:
        _write(2, (_IN_VAIN % (type(error).__name__, error)).encode("utf-8", "replace"))
        raise


def _run(request: dict[str, Any], descriptor: int, *, home: str) -> dict[str, Any]:
    """Run the call and tell what came of it."""
    own = os.getpid()
    streams: list[Any] = [sys.stdout, sys.stderr]
    _learn(request["environment"])
    reply = _outcome(request, home, descriptor)
    if os.getpid() != own:  # a fork of the tool's that came back to us: it does not speak for the call
        _exit(0)
    _flush(*streams, vars(sys).get("stdout"), vars(sys).get("stderr"))
    if output_files.is_left(home, may_go=reply["kind"] == "value"):
        reply["files"] = True
    _send(reply, descriptor)
    return reply


def rehearse(id: str = "0") -> None:
    """Do what a call does, on a tool of our own: what is made or touched only once is made and touched by then. The
    libc keeps every variable that it was ever told, so who is to touch that must come with an id that it has not had.
    """
    _, request = pipes.rehearse(_REHEARSAL)
    request["environment"]["SANDBOX_CALL_ID"] = id * 32
    os.getpid()
    name = _module_name(request["filename"])
    home = settle()
    _learn(request["environment"])
    _encoded(_outcome(request, home, _FIRST_OF_TOOL))
    output_files.is_left(os.devnull, may_go=True)  # which has none to be found empty, and removed
    _flush(sys.stdout, sys.stderr)
    for variable in request["environment"]:
        del os.environ[variable]
    del sys.modules[name]
    if "linecache" in sys.modules:
        sys.modules["linecache"].cache.clear()
    compiled.touch()


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


def _learn(environment: dict[str, str]) -> None:
    """The call's own variables, beside those that every call of the box has, which the zygote set: one by one, because
    `update` asks first what kind of thing it was given."""
    for name, value in environment.items():
        os.environ[name] = value


def _reseed() -> None:
    """Let no two forks draw the same numbers; `random` sees to that itself after a fork."""
    tempfile = sys.modules.get("tempfile")
    if tempfile:
        vars(tempfile)["_name_sequence"] = None
    if "_ssl" in sys.modules:
        sys.modules["_ssl"].RAND_add(os.urandom(32), 32.0)
    numpy = sys.modules.get("numpy")
    if numpy:
        numpy.random.seed()
    rng_reseed.seed_anew()


def _outcome(request: dict[str, Any], home: str, descriptor: int) -> dict[str, Any]:
    path = os.path.join(home, request["filename"])
    try:
        if "files" in request:
            input_files.place(request["files"], request["files_begun"])
        module = _load(request["source"], path)
        items = generator_results.Items(descriptor, request["value_limit"]) if "streams" in request else None
        call = _called if "form" in request else _called_plainly
        return call(module, request, items)
    except rebuild.Misfit as misfit:
        return {"kind": "invalid", "problems": [{"path": steps, "message": told} for steps, told in misfit.problems]}
    except dialects.Objection as objection:
        return _objected(objection)
    except SystemExit as stop:
        return _exited(stop)
    except BaseException as error:
        if isinstance(error, OSError) and _ERROR_NUMBER.__get__(error) == errno.EMFILE:
            os.closerange(_FIRST_OF_TOOL, descriptor)  # the call is over, and to tell of it takes some
        told = failure.describe(error, path, request["source"], max_message=_MAX_MESSAGE, max_traceback=_MAX_TRACEBACK)
        return dict(told, warnings=authoring_module.warnings(request["source"]))


def _called_plainly(
    module: ModuleType, request: dict[str, Any], items: generator_results.Items | None
) -> dict[str, Any]:
    """A plain function with plain values: what nearly every call is."""
    arguments = request["arguments"]
    function = getattr(module, request["entry"])
    positional = [arguments.pop(name) for name in request["positional"] if name in arguments]
    return _reply(generator_results.finish(function(*positional, **arguments), items), request)


def _called(module: ModuleType, request: dict[str, Any], items: generator_results.Items | None) -> dict[str, Any]:
    """Any other: found, its arguments rebuilt, asked whether it minds, given what it is to be given."""
    form, arguments = request["form"], request["arguments"]
    function = dialects.target_of(module, form)
    build = rebuild.rebuild_mapping if form["takes_mapping"] else rebuild.rebuild_arguments
    arguments = build(function, arguments) if request["rebuilds"] else arguments
    if form["kind"] == "execute":
        dialects.ask_first(function, arguments, may=request["permitted"], finish=generator_results.finish)
    injection = injected.Injection(function, form["injected"], request["given"])
    if form["takes_mapping"]:
        result = function(arguments, **injection.arguments)
    else:
        positional = [arguments.pop(name) for name in request["positional"] if name in arguments]
        result = function(*positional, **arguments, **injection.arguments)
    return _reply(generator_results.finish(result, items), request, injection)


def _objected(objection: dialects.Objection) -> dict[str, Any]:
    if objection.kind == "invalid":
        return {"kind": "invalid", "problems": [{"path": [], "message": objection.text}]}
    return {"kind": "denied", "message": objection.text}


def _load(source: str, path: str) -> ModuleType:
    """The tool as a module of its own file, which tracebacks and `inspect` find even when the tool removes it."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(file, source.encode("utf-8", "surrogatepass"))
    os.close(file)
    name = _module_name(path)
    if "linecache" in sys.modules:
        sys.modules["linecache"].cache[path] = (lambda: source,)  # its form for lines that are had on demand
    module: ModuleType = type(sys)(name)
    module.__file__ = path
    sys.modules[name] = module
    exec(compiled.code_of(source, path), module.__dict__)
    return module


def _module_name(path: str) -> str:
    """The file's name, unless a module of that name is, or could be, imported."""
    stem = path[path.rfind("/") + 1 :].rpartition(".")[0] or "tool"
    taken = stem in sys.modules or stem in getattr(sys, "stdlib_module_names", ())
    return stem + "_tool" if taken else stem


def _reply(value: object, request: dict[str, Any], injection: injected.Injection | None = None) -> dict[str, Any]:
    sys.setrecursionlimit(_ENOUGH_FRAMES)  # a tool may have raised it, past what the stack holds
    limit: int = request["value_limit"]
    plain, ok = results.read_result(value)
    contract = returns.Contract(request.get("returns"), ok=ok)
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
    state, told = injection.changed_state(limit) if injection else (None, [])
    if state is not None:
        size += len(state)
        reply.update(state=state, warnings=reply["warnings"] + told)
    return reply if size <= limit else {"kind": "too_large", "bytes": size}


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
    generator_results.write(descriptor, _encoded(reply))


def _encoded(reply: dict[str, Any]) -> bytes:
    """Length and reply; what is JSON already is put in as it is, not encoded twice."""
    written = {name: reply.pop(key) for key, name in (("text", "value"), ("state", "state")) if key in reply}
    data = fast_json.write(reply).encode("ascii") if reply != _PLAIN_VALUE else _WRITTEN_PLAIN_VALUE
    for name, text in written.items():
        data = b'%s, "%s": %s}' % (data[:-1], name.encode("ascii"), text.encode("ascii"))
    return len(data).to_bytes(_HEAD, "big") + data
