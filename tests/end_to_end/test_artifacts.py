"""Files go into a call and come out of it, as bytes; what is refused is named."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox import Sandbox, SpecError, Status
from sandbox.outputs.artifacts.store import ArtifactStore
from tests.end_to_end.calls import serves, wait_until
from tests.end_to_end.file_checks import CHECKS, MIB, READ, WRITE, Check

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ArtifactStore:
    return ArtifactStore(tmp_path_factory.mktemp("artifacts"))


@pytest.fixture(scope="module")
def sandbox(store: ArtifactStore) -> Iterator[Sandbox]:
    with Sandbox(artifact_store=store) as engine:
        yield engine


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_in_boxes_of_processes(check: Check, sandbox: Sandbox, store: ArtifactStore) -> None:
    check(sandbox, store)


def test_more_files_than_are_taken_are_refused_by_name(sandbox: Sandbox) -> None:
    sizes = {f"{number:03}": 1 for number in range(12)}
    outcome = sandbox.run(WRITE, {"sizes": sizes}, limits={"artifacts": 10})
    assert [each.name for each in outcome.artifacts] == list(sizes)[:10]
    assert [each.name for each in outcome.refused] == ["010", "011"]
    assert "more than the 10 files" in outcome.refused[0].reason


HOLDS_ALL_DESCRIPTORS: Final = """
held = []
def tool():
    try:
        while True:
            held.append(open("/dev/null"))
    except OSError:
        raise ValueError("no more of them")
"""


def test_a_call_that_failed_and_left_nothing_reports_no_files(sandbox: Sandbox) -> None:
    outcome = sandbox.run(HOLDS_ALL_DESCRIPTORS)
    assert (outcome.status, outcome.refused) == (Status.EXCEPTION, ())


def test_what_is_only_rehearsed_is_not_kept(tmp_path: Path) -> None:
    """A value of our own is too long for this budget, so that it uses up all room of the report."""
    store = ArtifactStore(tmp_path)
    with Sandbox(artifact_store=store) as engine:
        outcomes = [engine.run("def tool():\n    return 7\n", return_char_limit=1) for _ in range(5)]
    assert [(each.shaped_value.text, each.artifacts) for each in outcomes] == [("7", ())] * 5
    assert list(tmp_path.iterdir()) == []


def test_more_bytes_than_are_taken_are_refused_by_name(sandbox: Sandbox) -> None:
    outcome = sandbox.run(WRITE, {"sizes": {"a": 600, "b": 600, "c": 400}}, limits={"artifact_bytes": 1000})
    assert [each.name for each in outcome.artifacts] == ["a", "c"]
    assert [each.name for each in outcome.refused] == ["b"]


def test_a_policy_may_take_none(sandbox: Sandbox) -> None:
    outcome = sandbox.run(WRITE, {"sizes": {"a": 1}}, limits={"artifacts": 0})
    assert (outcome.artifacts, [each.name for each in outcome.refused]) == ((), ["a"])


def test_tenants_do_not_see_each_others_artifacts(sandbox: Sandbox, store: ArtifactStore) -> None:
    outcome = sandbox.run(WRITE, {"sizes": {"secret": 11}}, tenant="one")
    (artifact,) = outcome.artifacts
    assert store.shelf("one").find(artifact.id).name == "secret"
    for tenant in ("", "two"):
        assert artifact.id not in {each.artifact.id for each in store.shelf(tenant).everything()}


def test_a_stream_ends_with_the_artifacts(sandbox: Sandbox) -> None:
    *_, last = sandbox.stream(WRITE, {"sizes": {"a": MIB}})
    assert [each.bytes for each in last.outcome.artifacts] == [MIB]  # type: ignore[union-attr]


def test_a_call_that_is_given_files_finds_the_process_that_waits(sandbox: Sandbox) -> None:
    """Small files are in its pipe before it reads them, large ones are not."""
    assert wait_until(lambda: sandbox.run(READ, files={"a": b"small"}).timing.ahead)
    assert wait_until(lambda: sandbox.run(READ, files={"a": bytes(MIB)}).timing.ahead)


def test_files_that_do_not_fit_are_a_limit(sandbox: Sandbox) -> None:
    outcome = sandbox.run(READ, files={"a": bytes(20 * MIB)}, limits={"disk": "8MiB"})
    assert (outcome.status, outcome.limit_name) == (Status.LIMIT, "disk")
    assert serves(sandbox)


def test_more_than_may_be_given_is_a_problem_of_the_call(sandbox: Sandbox) -> None:
    outcome = sandbox.run(READ, files={"a": bytes(2000)}, limits={"inputs": 1000})
    assert outcome.status == Status.INVALID
    assert "2000 bytes" in outcome.problems[0].message


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "../a", "a/../b", "a//b", "./a", "a\nb", "a\0b", "\ud800", "x" * 256, "a/" * 20 + "b"]
)
def test_a_name_that_leads_elsewhere_is_refused(sandbox: Sandbox, name: str) -> None:
    with pytest.raises(SpecError, match="files"):
        sandbox.run(READ, files={name: b""})


@pytest.mark.parametrize("given", ["/dev/zero", "/", "/no/such/file", 3, None])
def test_what_is_no_file_cannot_be_given(sandbox: Sandbox, given: Any) -> None:
    with pytest.raises(SpecError):
        sandbox.run(READ, files={"a": given})


@pytest.mark.parametrize(
    ("path", "holds"), [("/proc/version", "more"), ("/sys/kernel/mm/transparent_hugepage/enabled", "less")]
)
def test_what_does_not_tell_its_size_is_refused_by_name(sandbox: Sandbox, path: str, holds: str) -> None:
    with pytest.raises(SpecError, match=f"{path} reports a wrong size and holds {holds}"):
        sandbox.run(READ, files={"a": path})
    assert serves(sandbox)


def test_a_file_that_opens_and_cannot_be_read_is_reported_by_name(sandbox: Sandbox) -> None:
    with pytest.raises(SpecError, match="/proc/self/mem cannot be read: Input/output error"):
        sandbox.run(READ, files={"a": "/proc/self/mem"})


def test_nothing_can_be_a_file_and_a_folder(sandbox: Sandbox) -> None:
    with pytest.raises(SpecError, match="a file and a folder"):
        sandbox.run(READ, files={"a": b"", "a/b": b""})


def test_a_file_that_changes_while_it_is_sent_ends_the_call(sandbox: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "changing"
    path.write_bytes(bytes(48 * MIB))  # large enough that a touch comes in between, however busy the machine is
    with ThreadPoolExecutor() as pool:
        is_over = threading.Event()
        changing = pool.submit(_touch_until, is_over, path)
        with pytest.raises(SpecError, match="changed"):
            sandbox.run(READ, files={"a": path})
        is_over.set()
        changing.result()
    assert serves(sandbox)


def _touch_until(is_over: threading.Event, path: Path) -> None:
    for time in itertools.count(1):
        os.utime(path, ns=(time, time))
        if is_over.wait(0.001):
            return
