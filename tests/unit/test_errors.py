"""Errors keep all their fields between threads and processes."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from sandbox import Outcome, Sandbox
from sandbox.errors import CallFailed, SandboxError
from sandbox.testing import FakeBackend, raises
from sandbox.tools.schemas.nodes import SchemaFinding

GIVEN: Final = {
    "remedy": "do that",
    "line": 3,
    "column": 7,
    "reasons": (SchemaFinding("a.b", "is no type"),) * 5,
    "log": "what was said",
    "missing": ("seccomp",),
}


def _tree(root: type[SandboxError] = SandboxError) -> Iterator[type[SandboxError]]:
    yield root
    for kind in root.__subclasses__():
        yield from _tree(kind)


def _failed_outcome() -> Outcome:
    with Sandbox(backend=FakeBackend({"tool": raises(ValueError("no"))})) as sandbox:
        return sandbox.run("def tool(): pass\n")


def _raised(kind: type[SandboxError]) -> SandboxError:
    given: dict[str, Any] = {
        **GIVEN,
        "outcome": _failed_outcome() if issubclass(kind, CallFailed) else None,
        "outcomes": [None],
    }
    error = kind(
        "this went wrong", **{name: given[name] for name in inspect.signature(kind).parameters if name in given}
    )
    error.add_note("a note")
    return error


def _through_a_pickle(error: SandboxError) -> SandboxError:
    loaded: SandboxError = pickle.loads(pickle.dumps(error))
    return loaded


@pytest.mark.parametrize("kind", [*_tree()], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("copied", [_through_a_pickle, copy.copy, copy.deepcopy], ids=lambda copied: copied.__name__)
def test_every_error_is_copied_completely(
    kind: type[SandboxError], copied: Callable[[SandboxError], SandboxError]
) -> None:
    error = _raised(kind)
    again = copied(error)
    assert type(again) is kind
    assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))
