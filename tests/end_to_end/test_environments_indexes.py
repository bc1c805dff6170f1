"""Indexes that do not do their part, and the errors of calls that need them.

Real wheels over real HTTP, and a store of each test's own, so that nothing is there before the index is asked.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox import IndexRefused, IndexUnavailable, ResolutionFailed, Sandbox
from tests.end_to_end.calls import wait_until, zygotes
from tests.end_to_end.packages import machine_with, policy_with, publish, refusal_of, version_of
from tests.indexes import LocalIndex

pytestmark = pytest.mark.slow

SILENCE_S: Final = 60
MOST_ATTEMPTS: Final = 50


@contextmanager
def _faulty(folder: Path, *, timeout_s: int = 5, **fields: Any) -> Iterator[tuple[Sandbox, LocalIndex]]:
    """An engine whose only index has something wrong with it, which its fields say."""
    publish(folder / "wheels", "wanted", "1.0")
    with LocalIndex(folder / "wheels") as index:
        for name, value in fields.items():
            setattr(index, name, value)
        with machine_with(index.url, PIP_DEFAULT_TIMEOUT=str(timeout_s)), Sandbox(store=folder / "store") as engine:
            yield engine, index


WANTED: Final = version_of("wanted", "wanted==1.0")


def test_an_index_that_is_down_is_named_and_may_be_asked_again(tmp_path: Path) -> None:
    with _faulty(tmp_path) as (engine, index):
        index.close()
        refusal = refusal_of(engine, "wanted")
    assert isinstance(refusal, IndexUnavailable)
    assert refusal.retryable
    assert index.root in refusal.message


def test_a_page_is_asked_for_once(tmp_path: Path) -> None:
    with _faulty(tmp_path) as (engine, index):
        assert engine.run(WANTED).value == "1.0"
        assert index.asked.count("GET /simple/wanted/") == 1


def test_the_box_that_waits_for_a_resolution_is_gone_when_that_fails(tmp_path: Path) -> None:
    with _faulty(tmp_path, timeout_s=60, form="silent") as (engine, index), ThreadPoolExecutor(1) as threads:
        refused = threads.submit(refusal_of, engine, "wanted")
        try:
            assert wait_until(lambda: len(zygotes()) == 2)
        finally:
            index.close()
        assert isinstance(refused.result(), IndexUnavailable)
        assert wait_until(lambda: not zygotes())
        assert list((tmp_path / "store" / "building").iterdir()) == []


def test_what_sets_the_time_that_was_too_short_is_named(tmp_path: Path) -> None:
    policy = tmp_path / "hasty.toml"
    policy.write_text('description = "for tests"\nextends = "default"\n[environment]\nbuild_time = "2s"\n')
    with _faulty(tmp_path, timeout_s=60, form="silent") as (engine, index):
        refusal = refusal_of(engine, "wanted", policy=str(policy))
        index.close()
    assert "2 s, as environment.build_time in the policy says" in refusal.message


def test_an_index_that_sends_half_a_page_is_unavailable(tmp_path: Path) -> None:
    with _faulty(tmp_path, form="half") as (engine, index):
        refusal = refusal_of(engine, "wanted")
        index.form = "json"
        assert isinstance(refusal, IndexUnavailable)
        assert "asked for wanted, did not answer as one" in refusal.message
        assert engine.run(WANTED).value == "1.0"


def test_a_page_without_links_is_an_answer_and_no_other_index_is_asked(tmp_path: Path) -> None:
    publish(tmp_path / "public", "wanted", "9.0")
    with _faulty(tmp_path, form="garbage") as (engine, index), LocalIndex(tmp_path / "public") as public:
        with machine_with(public.url, PIP_EXTRA_INDEX_URL=index.url):
            refusal = refusal_of(engine, "wanted")
        assert isinstance(refusal, ResolutionFailed)
        assert "log in" not in refusal.message
        assert public.asked == []


def test_an_index_that_stays_silent_is_not_waited_for_without_end(tmp_path: Path) -> None:
    begun = time.monotonic()
    with _faulty(tmp_path, timeout_s=1, form="silent") as (engine, _):
        refusal = refusal_of(engine, "wanted")
        spent = time.monotonic() - begun
    assert isinstance(refusal, IndexUnavailable)
    assert spent < SILENCE_S


def test_a_wheel_that_arrives_byte_by_byte_runs_into_a_limit(tmp_path: Path) -> None:
    policy = tmp_path / "hurried.toml"
    policy.write_text('description = "for tests"\nextends = "default"\n[environment]\nbuild_time = "15s"\n')
    with _faulty(tmp_path, tells_metadata=True, drips="/files/wanted-1.0-py3-none-any.whl") as (engine, index):
        refusal = refusal_of(engine, "wanted", policy=str(policy))
        index.drips = None
        assert isinstance(refusal, IndexUnavailable), refusal
        assert "it sends too slowly" in refusal.message
        assert engine.run(WANTED).value == "1.0"


def test_an_index_that_is_busy_for_a_moment_is_asked_again(tmp_path: Path) -> None:
    with _faulty(tmp_path, busy=2) as (engine, index):
        assert engine.run(WANTED).value == "1.0"
        assert index.busy == 0


def test_an_index_that_stays_busy_is_unavailable(tmp_path: Path) -> None:
    with _faulty(tmp_path, busy=-1) as (engine, index):
        assert isinstance(refusal_of(engine, "wanted"), IndexUnavailable)
        assert len(index.asked) < MOST_ATTEMPTS


def test_a_download_that_breaks_off_is_begun_again(tmp_path: Path) -> None:
    with _faulty(tmp_path, breaks_off=1) as (engine, _):
        assert engine.run(WANTED).value == "1.0"


def test_a_wheel_with_another_digest_is_refused_and_not_kept(tmp_path: Path) -> None:
    with _faulty(tmp_path) as (engine, index):
        index.tells_metadata = True
        (wheel,) = index.wheels("wanted")
        index.corrupted.add(wheel.name)
        assert "wanted" in refusal_of(engine, "wanted==1.0").message
        assert not list((tmp_path / "store").rglob("*.whl"))


def test_a_wheel_without_a_digest_is_not_taken(tmp_path: Path) -> None:
    with _faulty(tmp_path, tells_hashes=False) as (engine, _):
        refusal = refusal_of(engine, "wanted")
    assert isinstance(refusal, ResolutionFailed)
    assert "wanted" in refusal.message


def test_a_release_that_was_taken_back_is_only_for_those_who_pin_it(tmp_path: Path) -> None:
    with _faulty(tmp_path) as (engine, index):
        (wheel,) = index.wheels("wanted")
        index.yanked[wheel.name] = "it eats files"
        refusal = refusal_of(engine, "wanted")
        assert isinstance(refusal, ResolutionFailed)
        assert "yanked" in refusal.message
        assert engine.run(WANTED).value == "1.0"


def test_a_release_that_is_too_young_waits(tmp_path: Path) -> None:
    with _faulty(tmp_path) as (engine, index):
        publish(index.folder, "wanted", "2.0")
        old, new = index.wheels("wanted")
        index.upload_times = {old.name: "2020-01-01T00:00:00Z", new.name: f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
        policy = policy_with(tmp_path, 'exclude_newer = "7d"')
        assert engine.run(version_of("wanted", "wanted"), policy=policy).value == "1.0"
        assert engine.run(version_of("wanted", "wanted")).value == "2.0"


def test_a_wrong_login_is_to_be_corrected_and_not_tried_again(tmp_path: Path) -> None:
    with _faulty(tmp_path, login=("bob", "right")) as (engine, index):
        with machine_with(index.url.replace("//", "//bob:hunter2@")):
            refusal = refusal_of(engine, "wanted")
        assert (type(refusal), refusal.retryable) == (IndexRefused, False)
        assert "it refuses the login" in refusal.message
        assert "correct the login" in str(refusal.remedy)
        assert "hunter2" not in str(refusal)
        with machine_with(index.url.replace("//", "//bob:right@")):
            assert engine.run(WANTED).value == "1.0"


def test_an_index_folder_that_is_missing_is_not_waited_for(tmp_path: Path) -> None:
    with _faulty(tmp_path) as (engine, _), machine_with((tmp_path / "gone").as_uri()):
        refusal = refusal_of(engine, "wanted")
    assert (type(refusal), refusal.retryable) == (IndexRefused, False)
    assert "the folder does not exist" in refusal.message


def test_an_index_without_ages_is_blamed_if_releases_must_be_old(tmp_path: Path) -> None:
    with _faulty(tmp_path) as (engine, _):
        refusal = refusal_of(engine, "wanted", policy=policy_with(tmp_path, 'exclude_newer = "7d"'))
    assert "supply.exclude_newer" in str(refusal.remedy), refusal
