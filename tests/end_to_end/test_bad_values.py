"""Values that go in and come out: arguments that do not fit, and values that JSON has no form for."""

from __future__ import annotations

from typing import Any, Final

import pytest

from sandbox import Sandbox, SpecError, Status
from tests.end_to_end.calls import TRIVIAL

pytestmark = pytest.mark.usefixtures("harmless")

MISFITS: Final[dict[str, tuple[dict[str, Any], set[str]]]] = {
    "nothing at all": ({}, {"a", "b"}),
    "one missing": ({"a": 1}, {"b"}),
    "one too many": ({"a": 1, "b": 2, "c": 3}, {"c"}),
    "a wrong type": ({"a": "one", "b": 2}, {"a"}),
    "all at once": ({"a": [], "c": 3}, {"a", "b", "c"}),
    "a value that is no JSON": ({"a": object(), "b": 2}, {"a"}),
}


@pytest.mark.parametrize("kind", MISFITS)
def test_arguments_that_do_not_fit_are_all_named_and_nothing_runs(kind: str, sandbox: Sandbox) -> None:
    args, wrong = MISFITS[kind]
    outcome = sandbox.run(f"print('ran')\n{TRIVIAL}", args)
    assert outcome.status is Status.INVALID
    assert {problem.path for problem in outcome.problems} == wrong
    assert (outcome.stdout.text, outcome.receipt, outcome.exit_code) == ("", None, 2)
    assert outcome.error is not None
    assert all(name in outcome.error.message for name in wrong)


def test_arguments_that_are_no_mapping_are_a_wrong_call(sandbox: Sandbox) -> None:
    with pytest.raises(SpecError, match="mapping"):
        sandbox.run(TRIVIAL, [1, 2])  # type: ignore[arg-type]  # the very mistake


@pytest.mark.slow
def test_arguments_over_their_limit_are_refused(sandbox: Sandbox) -> None:
    outcome = sandbox.run("def tool(text: str) -> int:\n    return len(text)\n", {"text": "x" * (11 << 20)})
    assert outcome.status is Status.INVALID


@pytest.mark.slow
def test_arguments_near_their_limit_arrive_whole(sandbox: Sandbox) -> None:
    outcome = sandbox.run("def tool(text: str) -> int:\n    return len(text)\n", {"text": "x" * (9 << 20)})
    assert (outcome.status, outcome.value) == (Status.OK, 9 << 20)


@pytest.mark.parametrize("value", ["object()", "open('/dev/null')", "lambda: 1", "[1, {'x': object()}]", "1j"])
def test_a_value_that_has_no_json_form_is_shown_and_warned_of(value: str, sandbox: Sandbox) -> None:
    outcome = sandbox.run(f"def tool():\n    print('before')\n    return {value}\n")
    assert outcome.status is Status.OK
    assert outcome.warnings
    assert outcome.stdout.text == "before\n"


@pytest.mark.parametrize(
    "code",
    [
        "x = []; x.append(x); return x",
        "x = {}; x['x'] = x; return x",
        "x = []\n    for _ in range(100_000): x = [x]\n    return x",
        "return {(1, 2): 3}",
        "return float('nan')",
        "return 10 ** 5000",
        r"return '\ud800'",
    ],
)
def test_a_value_that_json_can_only_half_hold_is_given_with_a_warning(code: str, sandbox: Sandbox) -> None:
    outcome = sandbox.run(f"def tool():\n    {code}\n")
    assert (outcome.status, bool(outcome.warnings)) == (Status.OK, True), outcome.error
    assert outcome.from_json(outcome.to_json()) == outcome


HOSTILE: Final = """
class Hostile(dict):
    def __iter__(self): raise SystemExit("iter")
    def items(self): raise SystemExit("items")
    def keys(self): raise SystemExit("keys")
    def __len__(self): raise SystemExit("len")
    def __repr__(self): raise SystemExit("repr")
    def __getattribute__(self, name): raise SystemExit("attribute")
def tool():
    print("before")
    return Hostile(a=1)
"""


def test_a_value_whose_own_methods_exit_ends_its_call_only(sandbox: Sandbox) -> None:
    outcome = sandbox.run(HOSTILE)
    assert outcome.status in (Status.OK, Status.EXCEPTION, Status.EXITED)
    assert outcome.stdout.text == "before\n"


@pytest.mark.slow
def test_a_value_over_its_limit_ends_by_that_limit(sandbox: Sandbox) -> None:
    outcome = sandbox.run("def tool():\n    print('before')\n    return 'x' * (9 << 20)\n")
    assert (outcome.status, outcome.limit_name) == (Status.LIMIT, "value")
    assert outcome.evidence["limit"] == 8 << 20
    assert outcome.stdout.text == "before\n"


@pytest.mark.parametrize("value", ["{1: 'a', '1': 'b'}", "[{True: 1, 'true': 2}]", "{'x': {None: 1, 'null': 2}}"])
def test_keys_that_are_the_same_as_text_are_reported(value: str, sandbox: Sandbox) -> None:
    outcome = sandbox.run(f"def tool(): return {value}")
    assert outcome.status is Status.OK
    assert outcome.warnings == ("two keys are the same as text; the value of the last is given",)


RAISES_ITSELF: Final = """
class Hostile(Exception):
    def __str__(self): raise KeyError("str")
    def __repr__(self): raise KeyError("repr")
    @property
    def __traceback__(self): raise KeyError("traceback")
def tool():
    print("before")
    raise Hostile()
"""


def test_an_exception_whose_own_methods_raise_is_still_reported(sandbox: Sandbox) -> None:
    outcome = sandbox.run(RAISES_ITSELF)
    assert outcome.status is Status.EXCEPTION
    assert outcome.error is not None
    assert (outcome.error.type, outcome.stdout.text) == ("Hostile", "before\n")


NUMBER_THAT_RAISES: Final = """
class Hostile(OSError):
    @property
    def errno(self): raise KeyError("errno")
def tool():
    raise Hostile("no")
"""


def test_a_system_error_whose_number_raises_is_still_reported(sandbox: Sandbox) -> None:
    outcome = sandbox.run(NUMBER_THAT_RAISES)
    assert outcome.status is Status.EXCEPTION
    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.message, outcome.stderr.text) == ("Hostile", "no", "")
