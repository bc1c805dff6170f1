"""Every backend keeps the contract: boxes of processes as root and not, and the fake as far as a tool not run can."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from sandbox.backends.base import Box
from sandbox.testing import FakeBackend, FakeBox
from sandbox.testing.contract import (
    CHECKS,
    Check,
    Subject,
    cancelling,
    dialects,
    endings,
    files,
    isolation,
    lifecycle,
    limits,
    output,
    run_check,
    values,
)
from sandbox.testing.contract.__main__ import subject as shipped_subject
from tests.contract.twins import TWINS
from tests.unprivileged import AS_NOBODY

ONLY_WHEN_RUN: Final[tuple[Check, ...]] = (
    values.check_half_a_surrogate_pair_is_replaced_with_a_warning,
    values.check_a_value_beyond_json_is_converted_with_a_warning,
    dialects.check_a_method_of_a_class_is_called,
    dialects.check_a_class_with_execute_is_asked_before_it_is_executed,
    dialects.check_a_module_with_run_gets_its_arguments_and_ctx,
    dialects.check_arguments_come_as_they_are_annotated,
    dialects.check_a_changed_state_comes_back,
    dialects.check_a_value_without_a_parameter_is_not_passed,
    output.check_outputs_can_be_opened_by_their_names,
    endings.check_an_exception_has_the_lines_of_the_author,
    endings.check_endless_recursion_is_an_exception,
    endings.check_threads_and_exit_handlers_that_hang_hold_nothing_up,
    endings.check_a_timeout_ends_children_and_their_orphans,
    endings.check_what_a_call_leaves_running_ends_with_it,
    limits.check_a_tool_that_copes_with_a_limit_is_ok,
    limits.check_a_tool_sees_how_many_processors_it_has,
    limits.check_what_a_call_used_is_measured,
    isolation.check_a_call_begins_with_empty_places,
    isolation.check_what_a_call_leaves_is_not_there_for_the_next,
    isolation.check_calls_at_the_same_time_do_not_see_each_other,
    isolation.check_a_tool_has_no_variables_of_the_host,
    isolation.check_the_files_of_the_host_are_not_there,
    isolation.check_services_of_the_host_cannot_be_reached,
    isolation.check_who_kills_everything_reaches_only_itself,
    isolation.check_no_two_calls_draw_the_same_numbers,
    isolation.check_standard_input_is_empty,
    cancelling.check_cancelling_ends_what_the_call_started,
)
SCRIPTED: Final = [check for check in CHECKS if check not in ONLY_WHEN_RUN]


def _name(check: Check) -> str:
    return getattr(check, "__name__", repr(check)).removeprefix("check_")


every_check = pytest.mark.parametrize("check", CHECKS, ids=_name)


@pytest.fixture(scope="module")
def try_check() -> Iterator[Callable[[Check], None]]:
    """Try a check on boxes of processes, as the user who runs the tests; they share one engine."""
    subject = shipped_subject("subprocess")
    with asyncio.Runner() as runner:
        yield lambda check: runner.run(run_check(check, subject))
        runner.run(subject.close())


@pytest.fixture(scope="module")
def found_without_root(unprivileged_python: Path) -> dict[str, str | None]:
    """Return the failure of each check, if any, in a process without any privilege."""
    answer = subprocess.run(
        [unprivileged_python, "-I", "-m", "sandbox.testing.contract", "subprocess"],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        **AS_NOBODY,
    )
    assert answer.stdout.startswith("{"), answer.stderr
    found: dict[str, str | None] = json.loads(answer.stdout)
    return found


def _lose(box: Box) -> None:
    assert isinstance(box, FakeBox)
    box.lose()


@pytest.mark.slow
@pytest.mark.parametrize("check", SCRIPTED, ids=_name)
def test_the_fake(check: Check) -> None:
    async def tried() -> None:
        subject = Subject(lambda: FakeBackend(TWINS), losses=[_lose])
        await run_check(check, subject)
        await subject.close()

    asyncio.run(tried())


@pytest.mark.slow
@every_check
def test_boxes_of_processes(check: Check, try_check: Callable[[Check], None]) -> None:
    try_check(check)


@pytest.mark.slow
@pytest.mark.timeout(400)
@every_check
def test_boxes_of_processes_without_root(check: Check, found_without_root: dict[str, str | None]) -> None:
    failure = found_without_root[f"check_{_name(check)}"]
    assert failure is None, failure


def test_every_check_is_in_the_table() -> None:
    modules = (cancelling, dialects, endings, files, isolation, lifecycle, limits, output, values)
    written = {name for module in modules for name in vars(module) if name.startswith("check_")}
    assert {f"check_{_name(check)}" for check in CHECKS} == written
