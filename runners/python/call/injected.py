"""What a call is given beside its arguments: the agent's state and the like, as objects that are easy to use.

A tool may write `agent_state.cart` or `agent_state["cart"]`, at any depth. It is a dict, so that everything that takes
one takes it; a key that is also the name of one of a dict's methods, such as `items`, is had with brackets only.

The tool has a copy. What it made of it is sent back only where that is something else than it was given.
"""

from __future__ import annotations

from box import fast_json
from call import values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_STATE = "agent_state"
_BARE: dict[str, Any] = {_STATE: {}, "ctx": {}}
"""What a parameter without a default is where the call gives nothing; others are None."""


class Given(dict):  # type: ignore[type-arg]
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
        """An object that came in by another way, such as `update`, is made easy when it is looked at."""
        value = dict.__getitem__(self, name)
        if type(value) is dict:
            value = _easy(value)
            dict.__setitem__(self, name, value)
        return value

    def __setitem__(self, name: Any, value: Any) -> None:
        dict.__setitem__(self, name, _easy(value))


class Injection:
    """The injected parameters of one call, and what becomes of its state."""

    def __init__(self, function: Any, names: list[str], given: dict[str, Any]) -> None:
        self.arguments = {
            name: _easy(given.get(name, _BARE.get(name)))
            for name in names
            if name in given or not _has_default(function, name)
        }
        self._before = _written(self.arguments[_STATE]) if _STATE in self.arguments else None

    def changed_state(self, limit: int) -> tuple[str | None, list[str]]:
        """The state as JSON if the tool changed it, and what had to be changed about it."""
        if self._before is None:
            return None, []
        text, warnings = values.serialise(self.arguments[_STATE], limit)
        return (None, []) if text == self._before else (text, warnings)


def _easy(value: Any) -> Any:
    """The value with its plain objects as `Given`, all the way down."""
    if type(value) is dict:
        given = Given()
        for name, member in value.items():
            dict.__setitem__(given, name, _easy(member))
        return given
    if type(value) is list:
        return [_easy(item) for item in value]
    return value


def _has_default(function: Any, name: str) -> bool:
    """Whether the function itself says what the parameter is otherwise."""
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    named = code.co_varnames[: code.co_argcount]
    defaults = named[len(named) - len(function.__defaults__ or ()) :]
    return name in defaults or name in (function.__kwdefaults__ or {})


def _written(state: Any) -> str:
    return fast_json.write(state)
