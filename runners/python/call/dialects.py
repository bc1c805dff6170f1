"""The forms of a tool: which object of a loaded source is called, and with which arguments.

A plain function has no `form`. Any other tool has one, which the engine read from the source: its `kind`, the `names`
that lead to the callable, the `injected` parameters, and whether all arguments are one mapping. A class is instantiated
without arguments.

A class with `execute` may object first. `validate_args` may answer with a truth value, or with a truth value and a
text, and None is no objection. `needs_permission` may answer with a truth value, or with the question for a person.
Both methods have many signatures in existing tools, and get the arguments in the form that their signature declares.

Injected parameters get the agent's state and the like, as objects that are easy to use: a tool may write
`agent_state.cart` or `agent_state["cart"]`, at any depth. Such an object is a dict, so that everything that takes a
dict takes it. A key that is also the name of a method of dict, such as `items`, needs brackets. The tool has a copy,
which is sent back only if the tool changed it.
"""

from __future__ import annotations

from box import fast_json
from call import values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Finish = Callable[[Any], Any]

_MAX_TEXT = 4096
_TAKES_ANY_NAME = 0x08  # CO_VARKEYWORDS
_STATE = "agent_state"
_DEFAULTS: dict[str, Any] = {_STATE: {}, "ctx": {}}
"""The values of parameters without a default if the call gives none; other parameters are None."""


class Objection(Exception):
    """The tool itself refuses the call."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text[:_MAX_TEXT].encode("utf-8", "backslashreplace").decode("utf-8")


def target_of(module: Any, form: dict[str, Any]) -> Any:
    """Return the callable of a tool."""
    names, kind = form["names"], form["kind"]
    if kind == "handler":
        listed = module.TOOLS[int(names[1])]
        return listed["handler"] if isinstance(listed, dict) else listed.handler
    found = getattr(module, names[0])
    if kind == "method":
        return getattr(found(), names[1])
    return found().execute if kind == "execute" else found


def ask_first(target: Any, arguments: Any, *, may: bool, finish: Finish) -> None:
    """Raise the `Objection` of an execute-class, if it has one; `may` says that the call has permission."""
    tool = getattr(target, "__self__", None)
    answer, text = _answer(tool, "validate_args", arguments, finish)
    if answer is not None and not answer:
        raise Objection("invalid", text or "the tool does not accept these arguments")
    if may:
        return
    answer, text = _answer(tool, "needs_permission", arguments, finish)
    if answer:
        raise Objection("denied", text or "the tool asks for permission, and this call has none")


def _answer(tool: Any, name: str, arguments: Any, finish: Finish) -> tuple[Any, str]:
    question = getattr(tool, name, None)
    if question is None:
        return None, ""
    answer = finish(_put(question, arguments))
    if isinstance(answer, tuple) and answer:
        return answer[0], _text(answer[1]) if len(answer) > 1 else ""
    return answer, answer if isinstance(answer, str) else ""


def _put(question: Any, arguments: Any) -> Any:
    """Call a question with the arguments by name, as one mapping, or without them."""
    function = getattr(question, "__func__", question)
    code = getattr(function, "__code__", None)
    if code is None or not isinstance(arguments, dict):
        return question(arguments)
    is_bound = function is not question
    names = code.co_varnames[is_bound : code.co_argcount + code.co_kwonlyargcount]
    if code.co_flags & _TAKES_ANY_NAME:
        return question(**arguments) if not names else question(arguments)
    if not names:
        return question()
    if len(names) == 1 and names[0] not in arguments:
        return question(arguments)
    return question(**{name: value for name, value in arguments.items() if name in names})


def _text(answer: Any) -> str:
    return "" if answer is None else str(answer)


class AttributeDict(dict):  # type: ignore[type-arg]  # Python 3.8 cannot subscript dict
    """A JSON object whose members are attributes as well."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError("there is no %s" % name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError:
            raise AttributeError("there is no %s" % name) from None

    def __getitem__(self, name: Any) -> Any:
        """Convert an object that arrived by another method, such as `update`, when it is read."""
        value = dict.__getitem__(self, name)
        if type(value) is dict:
            value = _with_attributes(value)
            dict.__setitem__(self, name, value)
        return value

    def __setitem__(self, name: Any, value: Any) -> None:
        dict.__setitem__(self, name, _with_attributes(value))


class Injection:
    """The injected parameters of one call, and the state that it leaves."""

    def __init__(self, function: Any, names: list[str], given: dict[str, Any]) -> None:
        self.arguments = {
            name: _with_attributes(given.get(name, _DEFAULTS.get(name)))
            for name in names
            if name in given or not _has_default(function, name)
        }
        self._before = fast_json.write(self.arguments[_STATE]) if _STATE in self.arguments else None

    def changed_state(self, limit: int) -> tuple[str | None, list[str]]:
        """Return the state as JSON if the tool changed it, and the warnings about its JSON form."""
        if self._before is None:
            return None, []
        text, warnings = values.serialise(self.arguments[_STATE], limit)
        return (None, []) if text == self._before else (text, warnings)


def _with_attributes(value: Any) -> Any:
    """Return the value with all its plain objects as `AttributeDict`."""
    if type(value) is dict:
        converted = AttributeDict()
        for name, member in value.items():
            dict.__setitem__(converted, name, _with_attributes(member))
        return converted
    if type(value) is list:
        return [_with_attributes(item) for item in value]
    return value


def _has_default(function: Any, name: str) -> bool:
    """Whether the function itself has a default for the parameter."""
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    named = code.co_varnames[: code.co_argcount]
    defaults = named[len(named) - len(function.__defaults__ or ()) :]
    return name in defaults or name in (function.__kwdefaults__ or {})
