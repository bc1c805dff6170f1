"""The messages of checks that fail: all that was found, so that a reader need not run them again.

Not `assert`: these also hold under `python -O`, and their messages need no test runner.
"""

from __future__ import annotations

from sandbox.outcome import Outcome, Status


def that(condition: object, message: str) -> None:
    """Fail with the message unless it holds."""
    if not condition:
        raise AssertionError(message)


def same(found: object, wanted: object, *, what: str = "it") -> None:
    """Fail unless they are equal, and of one type."""
    that(found == wanted and type(found) is type(wanted), f"{what} is {found!r:.2000}, not {wanted!r:.2000}")


def ended(outcome: Outcome, status: Status, *, limit_name: str | None = None) -> Outcome:
    """The outcome, if that is how its call ended."""
    is_so = outcome.status is status and outcome.limit_name == limit_name
    wanted = f"{status}/{limit_name}" if limit_name else str(status)
    that(is_so, f"ended {outcome.status}, not {wanted}:\n{outcome.to_json(indent=1)[:4000]}")
    return outcome


def ok(outcome: Outcome) -> Outcome:
    """The outcome, if its call returned."""
    return ended(outcome, Status.OK)
