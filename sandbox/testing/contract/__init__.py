"""The promises of every backend, as checks that run against any backend.

Each check is a plain coroutine function of a `Subject`, named by the sentence that it holds the backend to, and raises
`AssertionError` with all it found. For a backend of your own::

    from sandbox.testing.contract import CHECKS, Subject

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_backend(check: Check) -> None:
        asyncio.run(run_check(check, Subject(MyBackend, losses=[kill_its_runner])))

or, for a backend that ships with Sandbox, ``python -m sandbox.testing.contract subprocess``, which prints a JSON object
of what failed.

Nearly all of them run hostile or clumsy tools and look at the outcome. A few look for processes on this host, and fail
rather than pass when they cannot see any.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from sandbox.testing.contract import cancelling, dialects, endings, files, isolation, lifecycle, limits, output, values
from sandbox.testing.contract.subject import Subject

__all__ = ["CHECKS", "Check", "Result", "Subject", "run_check", "try_all"]

Check: TypeAlias = Callable[[Subject], Awaitable[None]]

_LONGEST_S: Final = 100.0

CHECKS: Final[tuple[Check, ...]] = (
    values.check_every_json_type_makes_the_round_trip,
    values.check_text_of_every_plane_makes_the_round_trip,
    values.check_half_a_surrogate_pair_is_refused_as_an_argument,
    values.check_half_a_surrogate_pair_is_replaced_with_a_warning,
    values.check_an_argument_of_a_mebibyte_arrives_whole,
    values.check_a_value_of_a_mebibyte_arrives_whole,
    values.check_a_tool_that_returns_nothing_gives_null,
    values.check_a_value_beyond_json_is_converted_with_a_warning,
    values.check_a_coroutine_function_is_awaited,
    values.check_a_generator_gives_a_list,
    values.check_an_async_generator_gives_a_list,
    values.check_parameters_of_every_kind_get_their_arguments,
    values.check_each_argument_that_does_not_fit_is_reported,
    dialects.check_a_method_of_a_class_is_called,
    dialects.check_a_class_with_execute_is_asked_before_it_is_executed,
    dialects.check_a_module_with_run_gets_its_arguments_and_ctx,
    dialects.check_arguments_come_as_they_are_annotated,
    dialects.check_a_changed_state_comes_back,
    dialects.check_what_a_generator_gives_comes_as_progress,
    dialects.check_a_value_without_a_parameter_is_not_passed,
    output.check_each_stream_keeps_its_order,
    output.check_bytes_that_are_no_text_are_shown_as_far_as_they_can_be,
    output.check_frames_on_stdout_are_text,
    output.check_outputs_can_be_opened_by_their_names,
    output.check_more_output_than_is_shown_is_cut_and_says_so,
    output.check_output_past_its_limit_is_counted_and_dropped,
    output.check_output_past_its_limit_ends_the_call_where_the_policy_says_so,
    output.check_a_stream_gives_what_is_printed_and_ends_with_the_outcome,
    output.check_a_slow_reader_misses_nothing,
    output.check_leaving_a_stream_ends_its_call,
    output.check_partial_output_comes_back_after_a_timeout,
    files.check_files_go_in_and_come_out_as_they_are,
    files.check_what_is_no_plain_file_is_refused_by_name,
    files.check_what_was_left_until_the_time_was_up_comes_back,
    endings.check_an_exception_has_the_lines_of_the_author,
    endings.check_sys_exit_is_never_ok_whatever_its_code,
    endings.check_an_exit_without_a_word_is_never_ok,
    endings.check_a_signal_is_a_crash_that_names_it,
    endings.check_endless_recursion_is_an_exception,
    endings.check_who_ignores_sigterm_is_out_of_time_all_the_same,
    endings.check_threads_and_exit_handlers_that_hang_hold_nothing_up,
    endings.check_a_timeout_ends_children_and_their_orphans,
    endings.check_what_a_call_leaves_running_ends_with_it,
    limits.check_the_time_on_the_clock,
    limits.check_the_processor_time,
    limits.check_the_memory,
    limits.check_the_processes,
    limits.check_the_threads,
    limits.check_the_disk,
    limits.check_the_number_of_files,
    limits.check_the_size_of_a_file,
    limits.check_the_open_files,
    limits.check_the_size_of_the_value,
    limits.check_the_size_of_the_arguments,
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
    isolation.check_the_receipt_shows_every_wall_that_the_policy_requires,
    isolation.check_what_cannot_be_enforced_is_refused,
    lifecycle.check_a_second_call_finds_the_box_warm,
    lifecycle.check_a_prepared_box_is_warm_for_the_first_call,
    lifecycle.check_tenants_do_not_share_a_box,
    lifecycle.check_a_box_is_not_used_again_after_an_unclean_end,
    lifecycle.check_a_box_of_a_single_use_policy_serves_one_call,
    lifecycle.check_single_use_boxes_are_ready_ahead_of_their_calls,
    lifecycle.check_a_single_use_box_lost_while_ready_costs_no_call,
    lifecycle.check_many_calls_at_once_all_end_well,
    lifecycle.check_map_keeps_the_order_of_its_arguments,
    lifecycle.check_a_lost_box_is_reported_and_the_next_call_works,
    lifecycle.check_a_box_lost_while_idle_costs_no_call,
    cancelling.check_a_running_call_can_be_cancelled,
    cancelling.check_a_waiting_call_can_be_cancelled,
    cancelling.check_a_call_can_be_cancelled_at_any_moment,
    cancelling.check_cancelling_ends_what_the_call_started,
    cancelling.check_closing_the_engine_ends_its_calls_and_tells_them,
    cancelling.check_closing_the_engine_while_a_box_opens_leaves_none,
)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a check: the promise, and why it does not hold, or None."""

    name: str
    failure: str | None


async def run_check(check: Check, subject: Subject, *, within_s: float = _LONGEST_S) -> None:
    """Try one check; what hangs fails."""
    async with asyncio.timeout(within_s):
        await check(subject)


async def try_all(subject: Subject, checks: Sequence[Check] = CHECKS) -> list[Result]:
    """Try them one after the other, and say of each whether it holds."""
    try:
        return [await _tried(check, subject) for check in checks]
    finally:
        await subject.close()


async def _tried(check: Check, subject: Subject) -> Result:
    name = getattr(check, "__name__", repr(check))
    try:
        await run_check(check, subject)
    except Exception as error:
        return Result(name, f"{type(error).__name__}: {error}")
    return Result(name, None)
