"""What of a loaded source is called, and with what: the four ways of writing a tool come to one call here.

A plain function has no `form`. Any other has one, which the engine read from the source: its `kind`, the `names` that
lead to what is called, what is `injected`, and whether all arguments are one mapping. A class is made without
arguments.

A class with `execute` is asked first. `validate_args` may answer with a truth value, or with one and a text, and
nothing (None) is no objection; `needs_permission` with a truth value, or the question that somebody has to answer. Both
come in many shapes in existing tools: they get the arguments in the shape in which they declare them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Finish = Callable[[Any], Any]

_MAX_TEXT = 4096
_TAKES_ANY_NAME = 0x08  # of a code object's flags


class Objection(Exception):
    """The tool itself says that it is not to be called so."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text[:_MAX_TEXT].encode("utf-8", "backslashreplace").decode("utf-8")


def target_of(module: Any, form: dict[str, Any]) -> Any:
    """What is to be called."""
    names, kind = form["names"], form["kind"]
    if kind == "handler":
        listed = module.TOOLS[int(names[1])]
        return listed["handler"] if isinstance(listed, dict) else listed.handler
    found = getattr(module, names[0])
    if kind == "method":
        return getattr(found(), names[1])
    return found().execute if kind == "execute" else found


def ask_first(target: Any, arguments: Any, *, may: bool, finish: Finish) -> None:
    """Raise the `Objection` of an execute-class, if it has one. `may`: somebody has permitted it."""
    tool = getattr(target, "__self__", None)
    said, text = _answer(tool, "validate_args", arguments, finish)
    if said is not None and not said:
        raise Objection("invalid", text or "the tool does not accept these arguments")
    if may:
        return
    said, text = _answer(tool, "needs_permission", arguments, finish)
    if said:
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
    """Ask, with the arguments by name, as one mapping, or without them."""
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
