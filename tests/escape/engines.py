"""Engines to attack: one of the tests' user, and one of a user that owns nothing here.

As root a box has a user of its own and the kernel's control groups; without root it runs as the engine's own user, and
usually without groups, so other walls have to hold. An attack that matters is therefore tried on both, by asking for
the fixture `engine`. Both answer the same question with the same code, `answer`; the second in a process of its own.
"""

from __future__ import annotations

import inspect
import json
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from sandbox import Outcome, Sandbox
from tests.unprivileged import AS_NOBODY

Call = dict[str, Any]


class Asked(Protocol):
    """Answers, for a call that is under way meanwhile, or None, and a call: what the first printed, and the outcome."""

    def __call__(self, first: Call | None, then: Call) -> tuple[str, Outcome]: ...


class Engine:
    """The methods of an engine that attacks need."""

    def __init__(self, ask: Asked) -> None:
        self._ask = ask

    def run(self, source: str, args: dict[str, Any] | None = None, **fields: Any) -> Outcome:
        """The outcome of one call."""
        return self._ask(None, call(source, args, **fields))[1]

    def value(self, source: str, args: dict[str, Any] | None = None, **fields: Any) -> Any:
        """Return the value of a call, which must succeed: an attack that breaks by itself proves nothing."""
        outcome = self.run(source, args, **fields)
        assert outcome.status == "ok", outcome.error
        return outcome.value

    def run_during(self, first: Call, then: Call) -> tuple[str, Outcome]:
        """Run a call in the same box while `first` runs; return the output of `first` and the outcome of the call."""
        said, outcome = self._ask(first, then)
        assert outcome.timing.path == "warm", "it ran in another box: this test can tell nothing"
        return said, outcome


def call(source: str, args: dict[str, Any] | None = None, **fields: Any) -> Call:
    """The fields of a call as a value."""
    return {"source": source, "args": args or {}, **fields}


def answer(engine: Sandbox, first: Call | None, then: Call) -> tuple[str, Outcome]:
    """See `Asked`. Its source is also the other process's."""
    if first is None:
        return "", engine.run(**then)
    with closing(engine.stream(**first)) as events:
        printed = getattr(next(events), "text", "")
        return printed, engine.run(**then)


@contextmanager
def engine_of_ours() -> Iterator[Engine]:
    """An engine in this process."""
    with Sandbox() as sandbox:
        yield _warm(Engine(lambda first, then: answer(sandbox, first, then)))


def _warm(engine: Engine) -> Engine:
    """Open its box now, so that no test pays for it."""
    engine.value("def tool() -> None: ...")
    return engine


_SCRIPT: Final = f"""
from __future__ import annotations
import json, sys
from contextlib import closing
from sandbox import Sandbox, SandboxError

{inspect.getsource(answer)}

with Sandbox() as engine:
    for line in sys.stdin:
        try:
            said, outcome = answer(engine, *json.loads(line))
        except SandboxError as error:
            print(json.dumps([repr(error), None]), flush=True)
        else:
            print(json.dumps([said, outcome.to_json()]), flush=True)
"""


@contextmanager
def engine_without_root(python: Path) -> Iterator[Engine]:
    """An engine in a process of its own, without privileges."""
    with engine_of(str(python), "-I", cwd="/", **AS_NOBODY) as (engine, _):
        yield engine


@contextmanager
def engine_of(*python: str, **options: Any) -> Iterator[tuple[Engine, subprocess.Popen[str]]]:
    """An engine in a process of its own, started by that command, and the process."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([*python, "-c", _SCRIPT], **pipes, **options) as process:
        yield _warm(Engine(lambda first, then: _ask(process, first, then))), process


def _ask(process: subprocess.Popen[str], first: Call | None, then: Call) -> tuple[str, Outcome]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([first, then]) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    assert line, "the engine without root has ended; why is on standard error"
    said, outcome = json.loads(line)
    assert outcome is not None, said
    return said, Outcome.model_validate_json(outcome)
