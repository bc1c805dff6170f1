"""The fake backend that users test their programs with: its answers, its records, and its configuration."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from sandbox import (
    AsyncSandbox,
    EnvironmentUnavailable,
    IsolationUnavailable,
    Outcome,
    Progress,
    RequirementRefused,
    Sandbox,
    Status,
)
from sandbox.outcome import EnforcedBy
from sandbox.policy import Policy, load
from sandbox.testing import (
    FakeBackend,
    crashes,
    exceeds,
    exits,
    gives,
    hangs,
    leaves,
    prints,
    raises,
    returns,
    script,
    uses,
)
from sandbox.testing.answers import Excess
from tests import virtual_time
from tests.checkout import ROOT


def source(name: str, *parameters: str) -> str:
    return f"def {name}({', '.join(parameters)}):\n    raise AssertionError('a fake runs nothing')\n"


def outcome_of(answer: Any, *, arguments: dict[str, Any] | None = None, **fields: Any) -> Outcome:
    """Return the outcome of a tool with this answer, in virtual time."""

    async def run() -> Outcome:
        async with AsyncSandbox(backend=FakeBackend({"tool": answer})) as sandbox:
            return await sandbox.run(source("tool", *(arguments or {})), arguments, **fields)

    return virtual_time.run(run())


def test_the_example_of_the_documentation_works() -> None:
    backend = FakeBackend(
        answers={
            "word_count": {"words": 6},
            "double": lambda number: 2 * number,
            "search": script(prints("looking…\n"), hangs()),
        }
    )
    with Sandbox(backend=backend) as sandbox:
        assert sandbox.run(source("word_count")).value == {"words": 6}
        assert sandbox.run(source("double", "number"), {"number": 4}).value == 8
        outcome = sandbox.run(source("search", "query"), {"query": "x"}, limits={"wall": 0.1})
    assert outcome.status is Status.TIMEOUT
    assert outcome.stdout.text == "looking…\n"
    assert [call.arguments for call in backend.calls] == [{}, {"number": 4}, {"query": "x"}]


def test_a_single_function_may_answer_for_every_tool() -> None:
    with Sandbox(backend=FakeBackend(lambda name, arguments: [name, arguments])) as sandbox:
        assert sandbox.run(source("any", "a"), {"a": 1}).value == ["any", {"a": 1}]


def test_an_answer_may_take_its_time() -> None:
    async def answer() -> str:
        await asyncio.sleep(20)
        return "late"

    assert outcome_of(answer).value == "late"
    assert outcome_of(answer, limits={"wall": 10}).status is Status.TIMEOUT


def test_an_answer_may_be_a_function_that_gives_a_script() -> None:
    assert outcome_of(lambda: script(prints("said"), returns(1))).stdout.text == "said"
    assert outcome_of(lambda: crashes(9)).status is Status.CRASHED


def test_a_script_without_an_ending_returns_none() -> None:
    outcome = outcome_of(script(prints("said")))
    assert (outcome.status, outcome.value, outcome.stdout.text) == (Status.OK, None, "said")


def test_an_exception_of_an_answer_shows_no_frame_of_the_fake() -> None:
    def answer() -> None:
        raise KeyError("missing")

    error = outcome_of(answer).error
    assert error is not None
    assert (error.type, error.message) == ("KeyError", "'missing'")
    assert error.traceback is not None
    assert "in answer" in error.traceback
    assert "fake_runner" not in error.traceback


def test_a_tool_without_an_answer_says_how_to_give_one() -> None:
    with Sandbox(backend=FakeBackend({})) as sandbox:
        outcome = sandbox.run(source("unknown"))
    assert outcome.status is Status.EXCEPTION
    assert outcome.error is not None
    assert "FakeBackend(answers={'unknown': …})" in outcome.error.message


def test_an_answer_that_is_not_json_is_an_exception() -> None:
    assert outcome_of(object).status is Status.EXCEPTION
    assert outcome_of(lambda: float("nan")).status is Status.EXCEPTION


@pytest.mark.parametrize(("code", "told", "said"), [(None, 0, ""), (4, 4, ""), ("bye", 1, "bye\n")])
def test_an_answer_may_exit_as_a_tool_does(code: Any, told: int, said: str) -> None:
    outcome = outcome_of(lambda: sys.exit(code))
    assert (outcome.status, outcome.evidence["exit_code"], outcome.stderr.text) == (Status.EXITED, told, said)


@pytest.mark.parametrize("silently", [False, True])
def test_an_exit_may_be_reported_or_silent(silently: bool) -> None:
    outcome = outcome_of(exits(5, silently=silently))
    assert (outcome.status, outcome.evidence) == (Status.EXITED, {"exit_code": 5})


@pytest.mark.parametrize(
    ("limit", "status"),
    [
        ("memory", Status.MEMORY),
        ("cpu", Status.LIMIT),
        ("processes", Status.LIMIT),
        ("disk", Status.LIMIT),
        ("inodes", Status.LIMIT),
        ("open_files", Status.LIMIT),
        ("file_size", Status.LIMIT),
    ],
)
def test_every_limit_can_be_reached(limit: Any, status: Status) -> None:
    outcome = outcome_of(exceeds(limit))
    assert (outcome.status, outcome.limit_name) == (status, limit)


def test_a_memory_error_is_the_memory_limit() -> None:
    assert outcome_of(raises(MemoryError())).status is Status.MEMORY


def test_a_value_above_its_limit_is_refused() -> None:
    outcome = outcome_of(lambda: "x" * 2000, limits={"value": 1000})
    assert (outcome.status, outcome.limit_name) == (Status.LIMIT, "value")


def test_an_answer_can_set_the_usage() -> None:
    outcome = outcome_of(script(uses(cpu_s=1.5, memory_peak_bytes=1 << 20, processes_peak=3), returns(1)))
    assert (outcome.usage.cpu_s, outcome.usage.memory_peak_bytes, outcome.usage.processes_peak) == (1.5, 1 << 20, 3)


def test_processor_time_over_the_limit_ends_the_call() -> None:
    outcome = outcome_of(script(uses(cpu_s=31), hangs()))
    assert (outcome.status, outcome.limit_name) == (Status.LIMIT, "cpu")


def test_a_process_that_lingers_after_its_value_delays_no_caller() -> None:
    async def run() -> None:
        backend = FakeBackend({"tool": returns(7, lingers=True)})
        async with AsyncSandbox(backend=backend) as sandbox:
            begun = asyncio.get_running_loop().time()
            assert (await sandbox.run(source("tool"))).value == 7
            assert asyncio.get_running_loop().time() == begun
            await asyncio.sleep(1)
            assert (await sandbox.run(source("tool"))).timing.path == "warm"
        assert backend.open_boxes == ()

    virtual_time.run(run())


@pytest.mark.parametrize("limit", ["disk", "inodes"])
def test_a_process_that_lingers_after_filling_its_disk_met_the_limit(limit: Excess) -> None:
    outcome = outcome_of(exceeds(limit, lingers=True))
    assert (outcome.status, outcome.limit_name) == (Status.LIMIT, limit)
    assert outcome.usage.cpu_s is not None


def test_a_single_use_box_whose_runner_does_not_end_is_closed_soon() -> None:
    async def run() -> None:
        backend = FakeBackend({"tool": hangs(stubbornly=True)})
        async with AsyncSandbox(backend=backend, policy=_for_one_call()) as sandbox:
            begun = asyncio.get_running_loop().time()
            await sandbox.run(source("tool"), limits={"wall": 1.0})
            await asyncio.sleep(begun + 3.0 - asyncio.get_running_loop().time())
            assert not backend.boxes[0].is_open

    virtual_time.run(run())


def _for_one_call() -> Policy:
    policy = load("default")
    reuse = policy.reuse.model_validate({"mode": "never"})
    return policy.model_copy(update={"reuse": reuse})


def test_closing_the_engine_closes_a_box_with_a_lingering_process() -> None:
    async def run() -> None:
        backend = FakeBackend({"tool": returns(7, lingers=True)})
        async with AsyncSandbox(backend=backend, policy=_for_one_call()) as sandbox:
            assert (await sandbox.run(source("tool"))).value == 7
        assert backend.open_boxes == ()

    virtual_time.run(run())


def test_requirements_are_neither_resolved_nor_installed(tmp_path: Path) -> None:
    report, table = ROOT / "examples" / "csv_report.py", {"table": "a,b\n1,2"}
    backend = FakeBackend({"csv_report": "| a | b |"})
    with Sandbox(backend=backend, store=tmp_path / "store") as sandbox:
        sandbox.prepare(report)
        outcomes = [sandbox.run(report, table), sandbox.run(report, table, requirements=["requests==2.32.3"])]
    assert [outcome.value for outcome in outcomes] == ["| a | b |"] * 2
    assert [outcome.timing.path for outcome in outcomes] == ["warm", "cold"]
    assert len({outcome.environment.key for outcome in outcomes if outcome.environment}) == 2
    assert not (tmp_path / "store").exists()


def test_a_requirement_is_refused_as_in_a_real_box(tmp_path: Path) -> None:
    with Sandbox(backend=FakeBackend({"tool": 1}), store=tmp_path) as sandbox:
        with pytest.raises(RequirementRefused):
            sandbox.run(source("tool"), requirements=["no such =="])
        with pytest.raises(EnvironmentUnavailable, match="makes up its environments"):
            sandbox.lock(requirements=["requests"])


def test_a_call_is_recorded_as_the_box_received_it() -> None:
    backend = FakeBackend({"tool": 1})
    with Sandbox(backend=backend) as sandbox:
        sandbox.run(source("tool", "a"), {"a": [1]}, env={"OWN": "x"}, limits={"open_files": 15}, call_id="c1")
    (call,) = backend.calls
    assert (call.name, call.arguments, call.limits) == ("tool", {"a": [1]}, {"open_files": 15})
    assert (call.environment["OWN"], call.environment["SANDBOX_CALL_ID"]) == ("x", "c1")
    assert "a fake runs nothing" in call.source


def test_a_script_reads_input_files_and_writes_output_files(tmp_path: Path) -> None:
    left = leaves({"a/b.txt": "text", "c.bin": b"\0" * 300_000}, refused={"link": "it is a symbolic link"})
    backend = FakeBackend(
        {"tool": script(left, returns(1)), "slow": script(left, hangs()), "crash": script(left, crashes())}
    )
    given = {"in.txt": b"x" * 200_000, "deep/er.txt": b""}
    with Sandbox(backend=backend, artifact_store=tmp_path) as sandbox:
        outcomes = [
            sandbox.run(source("tool"), files=given),
            sandbox.run(source("slow"), limits={"wall": 0.2}),
            sandbox.run(source("crash")),
        ]
        for outcome in outcomes:
            assert [each.name for each in outcome.artifacts] == ["a/b.txt", "c.bin"]
            assert [(each.name, each.reason) for each in outcome.refused] == [("link", "it is a symbolic link")]
        assert sandbox.artifacts.show(outcomes[0].artifacts[1].id).data == b"\0" * 300_000
        few = sandbox.run(source("tool"), limits={"artifacts": 1})
    assert [outcome.status for outcome in outcomes] == [Status.OK, Status.TIMEOUT, Status.CRASHED]
    assert [call.files for call in backend.calls] == [given, {}, {}, {}]
    assert [each.name for each in few.artifacts] == ["a/b.txt"]
    assert [each.name for each in few.refused] == ["c.bin", "link"]


def test_a_generator_gives_its_items_before_the_outcome() -> None:
    backend = FakeBackend(
        {"tool": script(gives(1, {"two": 2}), prints("x"), gives(3)), "other": script(gives(1), returns(0))}
    )
    with Sandbox(backend=backend) as sandbox:
        events = list(sandbox.stream(source("tool")))
        assert [event.value for event in events if isinstance(event, Progress)] == [1, {"two": 2}, 3]
        assert sandbox.run(source("tool")).value == [1, {"two": 2}, 3]
        assert sandbox.run(source("other")).value == 0


def test_arguments_that_do_not_fit_never_reach_a_box() -> None:
    backend = FakeBackend({"tool": 1})
    with Sandbox(backend=backend) as sandbox:
        assert sandbox.run(source("tool", "a: int"), {"a": "x"}).status is Status.INVALID
    assert (backend.calls, backend.boxes) == ([], [])


def test_a_receipt_marks_everything_as_fake() -> None:
    receipt = outcome_of(1).receipt
    assert receipt is not None
    assert receipt.backend == "fake"
    assert all(state.counts and "fake" in state.detail for state in receipt.layers.values())
    claimed = {name: receipt.limits[name].enforced_by for name in ("cpu", "memory", "processes")}
    assert claimed == dict.fromkeys(claimed, EnforcedBy.NONE)
    assert any("nothing is isolated" in note for note in receipt.notes)


def test_a_missing_required_layer_refuses_every_call() -> None:
    backend = FakeBackend({"tool": 1}, missing=["seccomp"])
    with Sandbox(backend=backend) as sandbox:
        with pytest.raises(IsolationUnavailable) as refusal:
            sandbox.run(source("tool"))
        assert refusal.value.missing == ("seccomp",)
        receipt = sandbox.run(source("tool"), policy="trusted").receipt
    assert receipt is not None
    assert not receipt.layers["seccomp"].in_force
    assert len(backend.calls) == 1


def test_an_unknown_layer_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="no layer 'moat'"):
        FakeBackend(missing=["moat"])


def test_every_shipped_policy_runs_on_the_fake() -> None:
    from sandbox.policy import list_shipped

    for policy in list_shipped():
        outcome = outcome_of(1, policy=policy)
        assert outcome.receipt is not None
        assert outcome.receipt.policy.name == policy
        assert outcome.receipt.isolation.value == load(policy).isolation.minimum.value
