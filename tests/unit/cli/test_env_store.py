"""Commands list, show, verify, prune and bundle the contents of the store, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox.cli.env import list_environments, prune_environments, show_environment, verify_environments
from sandbox.cli.env_build import build_environment, counted, lock_environment, requirements_left_out
from sandbox.cli.env_bundle import export_environment, import_environment
from sandbox.environments.interpreters.host import own_interpreter
from sandbox.environments.lock import Lock
from sandbox.environments.store.store import Store
from sandbox.errors import EnvironmentTampered, SpecError
from tests.unit.environments.made_wheels import key_of, make_wheel, publish_environment

KEY: Final = key_of(1)
CHANGED: Final = "pyvenv.cfg"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store with an environment of one package, whose wheel is there too."""
    store = Store(tmp_path / "store")
    made = make_wheel(tmp_path)
    publish_environment(store, KEY, packages=(made.locked,))
    place = store.wheels / made.locked.sha256
    place.mkdir()
    made.path.rename(place / made.locked.wheel)
    return store


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    return tmp_path / "empty"


def _document(printed: pytest.CaptureFixture[str]) -> Any:
    said = printed.readouterr()
    assert said.err == ""
    return json.loads(said.out)


# Listing


def test_an_environment_is_listed(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    assert list_environments(store=store.root) == 0
    shown = capfd.readouterr().out
    assert KEY[:12] in shown
    assert "just now" in shown
    assert list_environments(store=store.root, as_json=True) == 0
    (listed,) = _document(capfd)
    assert listed["key"] == KEY
    assert listed["packages"] == {"gadget": "1.0"}
    assert Path(listed["folder"]).is_dir()


def test_an_empty_store_is_reported(empty: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert list_environments(store=empty) == 0
    assert capfd.readouterr().out == f"no environment in {empty}\n"
    assert list_environments(store=empty, as_json=True) == 0
    assert _document(capfd) == []


def test_an_environment_is_shown_by_the_prefix_of_its_key(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    assert show_environment(KEY[:7], store=store.root, as_json=True) == 0
    shown = _document(capfd)
    found = store.show(KEY)
    assert shown["key"] == KEY
    assert shown["lock"]["digest"] == found.manifest.lock.digest
    assert shown["lock"]["packages"][0]["name"] == "gadget"
    assert shown["folder"] == str(found.folder)


def test_every_input_of_a_key_is_shown_in_one_piece(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    assert show_environment(KEY, store=store.root) == 0
    lines = capfd.readouterr().out.splitlines()
    manifest = store.show(KEY).manifest
    for fact in (
        KEY,
        manifest.lock.digest,
        manifest.builder,
        str(store.show(KEY).folder),
        *manifest.interpreter.values(),
    ):
        assert any(line.endswith(fact) for line in lines), fact
    assert any("gadget" in line and "1.0" in line for line in lines)


@pytest.mark.parametrize("key", ["", "ff00ff", "../../etc", "[bold]"])
def test_an_unknown_key_is_refused(key: str, store: Store) -> None:
    with pytest.raises(SpecError, match="no environment has a key like"):
        show_environment(key, store=Store(store.root.with_name("other")).root)


# Verifying


def _change(store: Store) -> None:
    file = store.show(KEY).folder / CHANGED
    file.chmod(0o644)
    file.write_text("home = /tmp/evil\n")


def test_an_unchanged_environment_is_verified(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    assert verify_environments(store=store.root) == 0
    assert "as built" in capfd.readouterr().out
    assert verify_environments([KEY[:5]], store=store.root, as_json=True) == 0
    (report,) = _document(capfd)
    assert report["is_intact"] is True


def test_a_changed_file_is_named_and_the_command_exits_with_4(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    _change(store)
    assert verify_environments(store=store.root) == 4
    shown = capfd.readouterr().out
    assert f"changed: {CHANGED}" in shown
    assert "as built" not in shown
    assert verify_environments(store=store.root, as_json=True) == 4
    (report,) = _document(capfd)
    assert (report["is_intact"], report["changed"]) == (False, [CHANGED])


@pytest.mark.slow
def test_a_thousand_changed_files_do_not_fill_the_screen(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    folder = store.show(KEY).folder
    folder.chmod(0o755)
    for number in range(1000):
        (folder / f"extra{number}\x1b[2J").touch()
    folder.chmod(0o555)
    assert verify_environments(store=store.root) == 4
    shown = capfd.readouterr().out
    assert len(shown.splitlines()) < 70
    assert "and 950 more" in shown
    assert "\x1b[2J" not in shown


def test_an_empty_store_verifies(empty: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert verify_environments(store=empty) == 0
    assert capfd.readouterr().out == "no environment to verify\n"


# Pruning


def test_a_dry_run_removes_nothing(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    assert prune_environments(older_than="0s", dry_run=True, store=store.root) == 0
    shown = capfd.readouterr().out
    assert "would be removed" in shown
    assert "would remove 1 environment" in shown
    assert store.find(KEY)


def test_environments_unused_for_long_are_removed(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    assert prune_environments(older_than="30d", store=store.root, as_json=True) == 0
    assert _document(capfd)["environments"] == []
    assert prune_environments(older_than="0s", store=store.root, as_json=True) == 0
    report = _document(capfd)
    assert (report["environments"], report["dry_run"]) == ([KEY], False)
    assert store.find(KEY) is None
    assert prune_environments(store=store.root) == 0
    assert capfd.readouterr().out.startswith("nothing to remove\n")


def test_an_environment_is_removed_by_the_prefix_of_its_key(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    publish_environment(store, key_of(2))
    assert prune_environments([KEY[:8]], store=store.root, as_json=True) == 0
    assert _document(capfd)["environments"] == [KEY]
    assert [each.key for each in store.list()] == [key_of(2)]


def test_an_unknown_key_removes_nothing(store: Store) -> None:
    with pytest.raises(SpecError, match="no environment has a key like 'beef'"):
        prune_environments([KEY, "beef"], store=store.root)
    assert store.find(KEY)


def test_a_named_environment_excludes_bounds_of_age_and_size(store: Store) -> None:
    for older_than, max_size in (("0s", None), (None, "1GiB")):
        with pytest.raises(SpecError, match="--older-than or --max-size"):
            prune_environments([KEY], older_than=older_than, max_size=max_size, store=store.root)
    assert store.find(KEY)


def test_an_environment_in_use_stays_and_is_named(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    hold = store.use(KEY)
    assert hold is not None
    with hold:
        assert prune_environments(older_than="0s", store=store.root) == 0
    assert "in use, and stays" in capfd.readouterr().out
    assert store.find(KEY)


@pytest.mark.parametrize("text", ["30", "5 G", "-1MiB", "", "lots"])
def test_an_odd_size_is_refused(text: str, store: Store) -> None:
    if text == "30":
        prune_environments(max_size=text, dry_run=True, store=store.root)  # bytes
        return
    with pytest.raises(SpecError, match="--max-size"):
        prune_environments(max_size=text, store=store.root)


@pytest.mark.parametrize("text", ["-1d", "a month", "", "1e9d"])
def test_an_odd_time_is_refused(text: str, store: Store) -> None:
    with pytest.raises(SpecError, match="--older-than"):
        prune_environments(older_than=text, store=store.root)


# Bundling


def test_an_environment_goes_from_store_to_store(
    store: Store, empty: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tool, key, file = tmp_path / "tool.py", tmp_path / "key", tmp_path / "a.bundle"
    tool.write_text("def tool(): ...\n")
    key.write_text("sixteen bytes or more\n")
    assert export_environment(KEY[:8], file, tool=tool, signing_key=key, store=store.root, as_json=True) == 0
    exported = _document(capfd)
    assert (exported["signature"], exported["has_tool"], exported["packages"]) == ("hmac", True, 1)
    copy = tmp_path / "copy.py"
    assert import_environment(file, tool=copy, signing_key=key, store=empty, as_json=True) == 0
    imported = _document(capfd)
    assert (imported["is_signature_checked"], imported["digest"]) == (True, exported["digest"])
    assert copy.read_text() == tool.read_text()
    with pytest.raises(SpecError, match="is there already"):
        import_environment(file, tool=copy, store=empty)


def test_the_protection_of_a_bundle_is_shown(
    store: Store, empty: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.bundle"
    export_environment(KEY, file, store=store.root)
    exported = capfd.readouterr().out
    import_environment(file, store=empty)
    imported = capfd.readouterr().out
    (digest,) = [line.split()[1] for line in exported.splitlines() if line.startswith(" digest")]
    assert digest in imported
    assert "no; compare the digest" in imported


def test_a_given_key_refuses_unsigned_bundles(store: Store, empty: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sixteen bytes or more")
    export_environment(KEY, tmp_path / "a.bundle", store=store.root)
    with pytest.raises(EnvironmentTampered, match="not signed"):
        import_environment(tmp_path / "a.bundle", signing_key=tmp_path / "key", store=empty)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "too short: 0"),
        (b"\r\n" * 20, "too short: 0"),
        (b"fifteen bytes..\n", "too short: 15"),
        (b"x" * 5000, "more"),
    ],
)
def test_an_invalid_key_is_refused(content: bytes, why: str, store: Store, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(SpecError, match=why):
        export_environment(KEY, tmp_path / "a.bundle", signing_key=tmp_path / "key", store=store.root)
    assert not (tmp_path / "a.bundle").exists()


def test_a_missing_tool_cannot_be_written(store: Store, empty: Path, tmp_path: Path) -> None:
    export_environment(KEY, tmp_path / "a.bundle", store=store.root)
    with pytest.raises(SpecError, match="no tool came along"):
        import_environment(tmp_path / "a.bundle", tool=tmp_path / "tool.py", store=empty)


# Requirements


def test_requirements_excluded_by_markers_are_reported() -> None:
    asked = ('gadget; sys_platform == "win32"', "other")
    assert requirements_left_out(_lock(asked, own_interpreter().tag)) == asked[:1]
    assert requirements_left_out(_lock(("other",), own_interpreter().tag)) == ()


def _lock(requirements: tuple[str, ...], interpreter: str) -> Lock:
    return Lock(requirements=requirements, interpreter=interpreter, packages=())


def test_requirements_are_required(empty: Path) -> None:
    for command in (lock_environment, build_environment):
        with pytest.raises(SpecError, match="nothing is required"):
            command([], store=empty)


def test_a_lock_and_requirements_exclude_each_other(empty: Path, tmp_path: Path) -> None:
    file = tmp_path / "lock.json"
    file.write_text(Lock(requirements=("x",), interpreter="cp311", packages=()).model_dump_json())
    with pytest.raises(SpecError, match="a lock says already"):
        build_environment(["requests"], lock=file, store=empty)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"format": 2}', '{"requirements": [], "interpreter": "../x"}', "\xff"]
)
def test_an_invalid_lock_is_refused(text: str, empty: Path, tmp_path: Path) -> None:
    file = tmp_path / "lock.json"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(SpecError, match="is not a lock"):
        build_environment(lock=file, store=empty)


def test_an_unreadable_lock_is_refused(empty: Path, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(SpecError, match="cannot be read"):
            build_environment(lock=path, store=empty)


def test_counts_use_singular_and_plural() -> None:
    assert [counted(number, "wheel") for number in (0, 1, 2)] == ["0 wheels", "1 wheel", "2 wheels"]
