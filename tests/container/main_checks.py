"""The main part of the contract, for daemons that are not asked everything: what they could do differently."""

from __future__ import annotations

from typing import Final

from sandbox.testing.contract import Check, cancelling, endings, isolation, lifecycle, limits, output, values

MAIN_CHECKS: Final[tuple[Check, ...]] = (
    values.check_every_json_type_makes_the_round_trip,
    values.check_an_argument_of_a_mebibyte_arrives_whole,
    values.check_a_value_of_a_mebibyte_arrives_whole,
    output.check_each_stream_keeps_its_order,
    output.check_frames_on_stdout_are_text,
    output.check_a_slow_reader_misses_nothing,
    output.check_output_past_its_limit_ends_the_call_where_the_policy_says_so,
    endings.check_an_exception_is_told_with_the_lines_of_the_author,
    endings.check_sys_exit_is_never_ok_whatever_its_code,
    endings.check_a_signal_is_a_crash_that_names_it,
    endings.check_who_ignores_sigterm_is_out_of_time_all_the_same,
    endings.check_a_timeout_ends_children_and_their_orphans,
    limits.check_the_time_on_the_clock,
    limits.check_the_processor_time,
    limits.check_the_memory,
    limits.check_the_processes,
    limits.check_the_threads,
    limits.check_the_disk,
    limits.check_the_number_of_files,
    limits.check_the_size_of_a_file,
    limits.check_the_open_files,
    isolation.check_the_files_of_the_host_are_not_there,
    isolation.check_services_of_the_host_cannot_be_reached,
    isolation.check_the_receipt_shows_every_wall_that_the_policy_requires,
    lifecycle.check_a_second_call_finds_the_box_warm,
    lifecycle.check_single_use_boxes_are_ready_ahead_of_their_calls,
    cancelling.check_a_running_call_can_be_cancelled,
    cancelling.check_closing_the_engine_while_a_box_opens_leaves_none,
)
