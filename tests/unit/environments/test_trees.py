"""A package tree equals its wheel exactly; environments share it through links."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import stat
import time
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

import pytest

from sandbox.environments.builds.ingest import TreeCaps, adopt_tree
from sandbox.environments.builds.linking import link_tree
from sandbox.environments.disk.file_inventory import (
    StoredFile,
    digests,
    list_digest,
    read_list,
    take_inventory,
    write_list,
)
from sandbox.environments.store.store import Store
from sandbox.environments.store.tree_report import TreeFacts, TreeReport
from sandbox.environments.store.trees import load_tree, publish_tree
from sandbox.errors import BuildFailed
from tests.unit.environments.made_wheels import (
    SITE,
    Made,
    copy_of,
    digest_row,
    key_of,
    make_wheel,
    publish_environment,
    tree_in,
    unpack,
)

INFO: Final = "gadget-1.0.dist-info"
SCRIPT: Final = "[console_scripts]\nturn = gadget.parts.wheel:turn\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make_wheel(tmp_path_factory.mktemp("wheel"), entry_points=SCRIPT)


@pytest.fixture(scope="module")
def unpacked(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked") / "gadget"
    unpack(made.path, folder)
    return folder


@pytest.fixture
def left(unpacked: Path, tmp_path: Path) -> Path:
    """Return the folder that a box left, for a test to spoil."""
    return copy_of(unpacked, tmp_path / "left")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def tree(store: Store, left: Path, made: Made) -> TreeReport:
    return publish_tree(store, adopt_tree(left, wheel=made.locked, archive=made.path), key_of(1))


def test_files_unpacked_by_uv_are_accepted_and_listed(left: Path, made: Made) -> None:
    report = adopt_tree(left, wheel=made.locked, archive=made.path)
    paths = {file.path: file.kind for file in report.files}
    assert paths["gadget/parts/wheel.py"] == "file"
    assert paths["bin/turn"] == "program"
    assert paths["gadget/fast.cpython-311-x86_64-linux-gnu.so"] == "program"
    assert report.facts.modules == ("gadget", "single")
    assert not report.facts.has_path_files
    assert report.facts.files == list_digest(report.files)
    assert report.facts.bytes_on_disk > 16 << 10
    assert {file.path: (file.sha256, file.size) for file in report.files} == digests(left, paths)


def test_bytecode_is_part_of_a_tree(left: Path, made: Made) -> None:
    report = adopt_tree(left, wheel=made.locked)
    compiled = [file.path for file in report.files if file.path.endswith(".pyc")]
    assert len(compiled) == 4
    assert compiled[0].startswith("__pycache__/single.")


def test_a_tree_is_read_only_and_owned_by_the_engine(tree: TreeReport) -> None:
    for parent, _, names in os.walk(tree.folder):
        assert stat.S_IMODE(os.stat(parent).st_mode) == 0o555
        for name in names:
            status = Path(parent, name).lstat()
            assert (status.st_uid, status.st_gid) == (os.geteuid(), os.getegid())
            assert stat.S_IMODE(status.st_mode) in (0o444, 0o555)


@pytest.mark.root
def test_files_of_the_boxs_user_change_hands(left: Path, made: Made) -> None:
    for parent, names, files in os.walk(left):
        for name in [*names, *files]:
            os.chown(Path(parent, name), 65534, 65534)
    os.chown(left, 65534, 65534)
    adopt_tree(left, wheel=made.locked)
    owners = {Path(parent, name).stat().st_uid for parent, names, files in os.walk(left) for name in [*names, *files]}
    assert owners | {left.stat().st_uid} == {0}


def test_files_about_the_installation_only_are_dropped(left: Path, made: Made) -> None:
    report = adopt_tree(left, wheel=made.locked, archive=made.path)
    names = {file.path.rpartition("/")[2] for file in report.files}
    assert names.isdisjoint({".lock", "REQUESTED", "direct_url.json", "uv_cache.json"})
    record = (left / INFO / "RECORD").read_text()
    assert "uv_cache" not in record
    assert "INSTALLER" in record


@pytest.mark.slow
def test_equal_wheels_make_equal_trees(made: Made, unpacked: Path, left: Path, tmp_path: Path) -> None:
    (moved := tmp_path / "elsewhere").mkdir()
    shutil.copy(made.path, moved)
    unpack(moved / made.path.name, tmp_path / "again")
    first, second = (adopt_tree(folder, wheel=made.locked) for folder in (left, tmp_path / "again"))
    sources = [{file for file in report.files if not file.path.endswith(".pyc")} for report in (first, second)]
    assert sources[0] == sources[1]


@pytest.mark.slow
def test_path_files_are_reported(tmp_path: Path) -> None:
    made = make_wheel(tmp_path, files={"odd.pth": b"import sys\n", "deep/odd.pth": b"", "deep/x-1.0.py": b""})
    unpack(made.path, tmp_path / "left")
    report = adopt_tree(tmp_path / "left", wheel=made.locked)
    assert report.facts.has_path_files
    assert report.facts.modules == ("deep",)


@pytest.mark.slow
def test_data_files_are_reported_and_put_next_to_lib(tmp_path: Path, store: Store) -> None:
    files = {
        "odd.py": b"",
        "gadget-1.0.data/data/share/odd/page.1": b"read me",
        "gadget-1.0.data/scripts/run": b"#!python\n",
    }
    made = make_wheel(tmp_path, files=files)
    tree = tree_in(store, made, key_of(1))
    assert tree.facts.prefix_files == ("bin/run", "share/odd/page.1")
    content = publish_environment(store, key_of(2), {key_of(1): tree}).folder
    assert (content / "share/odd/page.1").read_text() == "read me"
    assert (content / "bin/run").exists()
    assert (content / SITE / "odd.py").exists()
    assert not (content / SITE / "bin").exists()


@pytest.mark.slow
def test_a_record_names_files_where_the_environment_has_them(tmp_path: Path, store: Store) -> None:
    files = {"odd.py": b"", "gadget-1.0.data/data/share/page.1": b"", "gadget-1.0.data/scripts/run": b"#!python\n"}
    made = make_wheel(tmp_path, files=files, entry_points="[console_scripts]\nturn = odd:turn\n")
    content = publish_environment(store, key_of(2), {key_of(1): tree_in(store, made, key_of(1))}).folder
    listed = next(iter(distributions(path=[str(content / SITE)]))).files or []
    there = {os.path.relpath(os.path.realpath(file.locate()), os.path.realpath(content)) for file in listed}
    assert {"bin/run", "bin/turn", "share/page.1", f"{SITE}/odd.py"} <= there
    assert [path for path in there if not (content / path).exists()] == []
    assert store.verify(key_of(2)).is_intact


@pytest.mark.slow
def test_executable_files_of_a_wheel_may_be_anywhere(tmp_path: Path, store: Store) -> None:
    files = {"tools/data/bin/cmake": b"#!/bin/sh\n", "tools/__init__.py": b"", "tools/plain": b""}
    made = make_wheel(tmp_path, files=files, programs=["tools/data/bin/cmake"])
    content = publish_environment(store, key_of(2), {key_of(1): tree_in(store, made, key_of(1))}).folder
    modes = {path: stat.S_IMODE((content / SITE / path).stat().st_mode) for path in files}
    assert modes == {"tools/data/bin/cmake": 0o555, "tools/__init__.py": 0o444, "tools/plain": 0o444}
    assert store.verify(key_of(2)).is_intact


@pytest.mark.slow
def test_a_package_called_bin_is_no_folder_of_scripts(tmp_path: Path, store: Store) -> None:
    files = {"bin/__init__.py": b"", "bin/tool.py": b"x = 1\n", "gadget-1.0.data/scripts/run": b"#!python\n"}
    made = make_wheel(tmp_path, files=files, programs=files, entry_points="[console_scripts]\nturn = bin.tool:turn\n")
    tree = tree_in(store, made, key_of(1))
    assert tree.facts.modules == ("bin",)
    content = publish_environment(store, key_of(2), {key_of(1): tree}).folder
    assert {path.name for path in (content / SITE / "bin").glob("*.py")} == {"__init__.py", "tool.py"}
    assert {path.name for path in (content / "bin").iterdir()} == {"python", "run", "turn"}


# Hostile results of a box


def _plant_link(left: Path) -> None:
    (left / "gadget" / "secret").symlink_to("/etc/passwd")


def _plant_folder_link(left: Path) -> None:
    (left / "outside").symlink_to("/etc")


def _replace_with_link(left: Path) -> None:
    (left / "single.py").unlink()
    (left / "single.py").symlink_to("/etc/passwd")


def _plant_hard_link(left: Path) -> None:
    os.link(left / "single.py", left.parent / "kept by the box")


def _plant_pipe(left: Path) -> None:
    os.mkfifo(left / "gadget" / "pipe")


def _plant_socket(left: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(left / "s"))


def _plant_setuid(left: Path) -> None:
    (left / "single.py").chmod(0o4755)


def _plant_setgid(left: Path) -> None:
    (left / "single.py").chmod(0o2755)


def _plant_file(left: Path) -> None:
    (left / "gadget" / "sitecustomize.py").write_text("import os")


def _plant_hidden_file(left: Path) -> None:
    (left / ".hidden").write_text("")


def _plant_bytecode_without_source(left: Path) -> None:
    (left / "gadget" / "__pycache__" / "ghost.cpython-311.pyc").write_bytes(b"x")


def _plant_bytecode_in_the_open(left: Path) -> None:
    (left / "ghost.pyc").write_bytes(b"x")


def _plant_newline(left: Path) -> None:
    (left / "gadget" / "a\nb.py").write_text("")


def _plant_bytes(left: Path) -> None:
    Path(os.fsdecode(os.fsencode(left) + b"/gadget/\xff.py")).write_text("")


def _plant_second_package(left: Path) -> None:
    shutil.copytree(left / INFO, left / "other-2.0.dist-info")


def _rename_package(left: Path) -> None:
    (left / INFO).rename(left / "other-1.0.dist-info")


def _change_version(left: Path) -> None:
    (left / INFO).rename(left / "gadget-1.1.dist-info")


def _remove_dist_info(left: Path) -> None:
    shutil.rmtree(left / INFO)


def _remove_record(left: Path) -> None:
    (left / INFO / "RECORD").unlink()


def _make_record_a_folder(left: Path) -> None:
    (left / INFO / "RECORD").unlink()
    (left / INFO / "RECORD").mkdir()


def _make_record_bytes(left: Path) -> None:
    (left / INFO / "RECORD").write_bytes(b"\xff\xfe\x00")


def _change_file(left: Path) -> None:
    (left / "single.py").write_text("x = 2\n")


def _truncate_file(left: Path) -> None:
    (left / "gadget" / "data.bin").write_bytes(b"")


def _remove_file(left: Path) -> None:
    (left / "single.py").unlink()


def _record(row: str) -> Callable[[Path], None]:
    def spoil(left: Path) -> None:
        with (left / INFO / "RECORD").open("a") as record:
            record.write(f"{row}\n")

    return spoil


def _make_too_deep(left: Path) -> None:
    Path(left, *["d"] * 60).mkdir(parents=True)


SPOILED: Final = {
    "a link": _plant_link,
    "a link to a folder": _plant_folder_link,
    "a link instead of a file": _replace_with_link,
    "a file with a second name": _plant_hard_link,
    "a pipe": _plant_pipe,
    "a socket": _plant_socket,
    "a setuid file": _plant_setuid,
    "a setgid file": _plant_setgid,
    "an unlisted file": _plant_file,
    "a hidden file": _plant_hidden_file,
    "bytecode without source": _plant_bytecode_without_source,
    "bytecode outside its folder": _plant_bytecode_in_the_open,
    "a newline in a name": _plant_newline,
    "a name that is no text": _plant_bytes,
    "a second package": _plant_second_package,
    "another package": _rename_package,
    "another version": _change_version,
    "no metadata": _remove_dist_info,
    "no RECORD": _remove_record,
    "a folder called RECORD": _make_record_a_folder,
    "a RECORD that is no text": _make_record_bytes,
    "a changed file": _change_file,
    "a truncated file": _truncate_file,
    "a missing file": _remove_file,
    "a folder too deep": _make_too_deep,
    "a row that leads out": _record("../../../etc/passwd,,"),
    "an absolute row": _record("/etc/passwd,,"),
    "a row of two columns": _record("single.py,"),
    "a row without digest": _record("gadget/unlisted.py,,"),
    "a weak digest": _record("single.py,md5=abc,1"),
    "a malformed digest": _record("single.py,sha256=*,6"),
    "two digests of one file": _record(digest_row("single.py", b"other")),
    "a size that is no number": _record("new.py,,many"),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_any_other_result_is_refused(spoil: Callable[[Path], None], left: Path, made: Made) -> None:
    spoil(left)
    with pytest.raises(BuildFailed, match=r"gadget 1\.0"):
        adopt_tree(left, wheel=made.locked, archive=made.path)


@pytest.mark.root
@pytest.mark.parametrize("kind", [stat.S_IFCHR, stat.S_IFBLK])
def test_a_device_is_refused(kind: int, left: Path, made: Made) -> None:
    os.mknod(left / "gadget" / "device", kind | 0o666, os.makedev(1, 3))
    with pytest.raises(BuildFailed, match="a device"):
        adopt_tree(left, wheel=made.locked)


@pytest.mark.root
def test_a_file_with_capabilities_is_refused(left: Path, made: Made) -> None:
    capable = bytes.fromhex("0100000200040000000000000000000000000000")
    os.setxattr(left / "single.py", "security.capability", capable)
    with pytest.raises(BuildFailed, match="not a plain file"):
        adopt_tree(left, wheel=made.locked)


def test_the_folder_itself_may_not_be_a_link(left: Path, made: Made, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(left)
    with pytest.raises(BuildFailed):
        adopt_tree(tmp_path / "link", wheel=made.locked)


@pytest.mark.parametrize("caps", [TreeCaps(files=10), TreeCaps(bytes=10_000)])
def test_excess_is_refused_while_it_is_counted(caps: TreeCaps, left: Path, made: Made) -> None:
    with pytest.raises(BuildFailed, match="is more than"):
        adopt_tree(left, wheel=made.locked, caps=caps)


def test_a_sparse_file_of_a_terabyte_is_refused_unread(left: Path, made: Made) -> None:
    os.truncate(left / "gadget" / "data.bin", 1 << 40)
    with pytest.raises(BuildFailed, match="is more than"):
        adopt_tree(left, wheel=made.locked)


def test_a_record_that_matches_a_changed_file_contradicts_the_wheel(left: Path, made: Made) -> None:
    changed = b"x = 'not what was locked'\n"
    (left / "single.py").write_bytes(changed)
    record = left / INFO / "RECORD"
    rows = [row for row in record.read_text().splitlines() if not row.startswith("single.py,")]
    record.write_text("\n".join([*rows, digest_row("single.py", changed), ""]))
    with pytest.raises(BuildFailed, match="not what its wheel holds"):
        adopt_tree(left, wheel=made.locked, archive=made.path)


def test_a_record_that_lists_an_added_file_contradicts_the_wheel(left: Path, made: Made) -> None:
    (left / "evil.pth").write_bytes(b"import os\n")
    _record(digest_row("evil.pth", b"import os\n"))(left)
    with pytest.raises(BuildFailed, match="not in its wheel"):
        adopt_tree(left, wheel=made.locked, archive=made.path)


def test_a_wheel_that_is_no_archive_is_refused(left: Path, made: Made, tmp_path: Path) -> None:
    (tmp_path / "broken.whl").write_bytes(b"no archive")
    with pytest.raises(BuildFailed, match="cannot be read"):
        adopt_tree(left, wheel=made.locked, archive=tmp_path / "broken.whl")


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["sha384", "sha512"])
def test_a_wheel_may_have_better_digests_than_sha256(algorithm: str, tmp_path: Path) -> None:
    made = make_wheel(tmp_path, algorithm=algorithm)
    unpack(made.path, tmp_path / "left")
    (copy := copy_of(tmp_path / "left", tmp_path / "copy") / "single.py").write_bytes(b"x = 2\n")
    assert adopt_tree(tmp_path / "left", wheel=made.locked, archive=made.path).facts.name == "gadget"
    with pytest.raises(BuildFailed, match=r"'single\.py' of gadget 1\.0 is not what its RECORD says"):
        adopt_tree(copy.parent, wheel=made.locked, archive=made.path)


@pytest.mark.slow
def test_versions_may_be_spelled_differently(tmp_path: Path) -> None:
    made = make_wheel(tmp_path, name="Some_Gadget", version="1.0", files={"odd.py": b""})
    unpack(made.path, tmp_path / "left")
    locked = made.locked.model_copy(update={"name": "some-gadget", "version": "1.0.0"})
    assert adopt_tree(tmp_path / "left", wheel=locked).facts.name == "some-gadget"


def test_a_published_tree_is_found_with_its_facts(store: Store, tree: TreeReport) -> None:
    found = load_tree(store, key_of(1))
    assert found is not None
    assert (found.folder, found.facts, found.files) == (tree.folder, tree.facts, tree.files)
    assert list(store.building.iterdir()) == []


def test_an_unknown_tree_is_not_found(store: Store) -> None:
    assert load_tree(store, key_of(1)) is None


def test_the_second_of_two_equal_trees_takes_the_first(
    store: Store, tree: TreeReport, unpacked: Path, made: Made, tmp_path: Path
) -> None:
    report = adopt_tree(copy_of(unpacked, tmp_path / "again"), wheel=made.locked)
    before = (tree.folder / "single.py").stat().st_ino
    taken = publish_tree(store, report, key_of(1))
    assert (taken.folder / "single.py").stat().st_ino == before
    assert not report.folder.exists()
    assert list(store.building.iterdir()) == []


@pytest.mark.parametrize("what", ["complete", "tree.json", "files"])
def test_an_incomplete_tree_is_replaced(
    what: str, store: Store, tree: TreeReport, unpacked: Path, made: Made, tmp_path: Path
) -> None:
    (store.package_folder(key_of(1)) / what).unlink()
    assert load_tree(store, key_of(1)) is None
    publish_tree(store, adopt_tree(copy_of(unpacked, tmp_path / "again"), wheel=made.locked), key_of(1))
    assert load_tree(store, key_of(1)) is not None


# Linking


def _environment(tmp_path: Path, name: str = "environment") -> tuple[Path, Path]:
    content = tmp_path / name
    (content / "bin").mkdir(parents=True)
    return content / SITE, content


def test_linked_files_are_those_of_the_tree(tree: TreeReport, tmp_path: Path) -> None:
    site, prefix = _environment(tmp_path)
    linked = link_tree(tree, site, prefix)
    assert os.path.samefile(site / "gadget/parts/wheel.py", tree.folder / "gadget/parts/wheel.py")
    assert os.path.samefile(prefix / "bin/turn", tree.folder / "bin/turn")
    assert linked.copied_bytes == 0
    assert take_inventory(tmp_path / "environment").files == tuple(sorted(linked.files, key=lambda file: file.path))


def test_copies_are_independent_files(tree: TreeReport, tmp_path: Path) -> None:
    site, prefix = _environment(tmp_path)
    linked = link_tree(tree, site, prefix, copy=True)
    assert not os.path.samefile(site / "single.py", tree.folder / "single.py")
    assert stat.S_IMODE((site / "single.py").stat().st_mode) == 0o444
    assert linked.copied_bytes == sum(file.size for file in tree.files)
    assert take_inventory(tmp_path / "environment").files == tuple(sorted(linked.files, key=lambda file: file.path))


def test_a_file_system_without_links_gets_copies(tree: TreeReport) -> None:
    other = Path("/dev/shm")
    assert other.stat().st_dev != tree.folder.stat().st_dev
    folder = other / f"sandbox-test-{os.getpid()}"
    try:
        linked = link_tree(tree, *_environment(folder))
        assert linked.copied_bytes == sum(file.size for file in tree.files)
    finally:
        shutil.rmtree(folder)


def _tree(store: Store, tmp_path: Path, name: str, files: dict[str, bytes]) -> TreeReport:
    (folder := tmp_path / name).mkdir()
    return tree_in(store, make_wheel(folder, name=name, files=files), key_of(hash(name)))


@pytest.mark.slow
def test_packages_with_the_same_file_agree(store: Store, tmp_path: Path) -> None:
    shared = {"space/__init__.py": b"__path__ = __import__('pkgutil').extend_path(__path__, __name__)\n"}
    trees = [_tree(store, tmp_path, name, {**shared, f"space/{name}.py": b""}) for name in ("one", "two")]
    site, prefix = _environment(tmp_path)
    for tree in trees:
        link_tree(tree, site, prefix)
    assert {"one.py", "two.py", "__init__.py"} <= set(os.listdir(site / "space"))


@pytest.mark.slow
@pytest.mark.parametrize("copy", [False, True])
def test_packages_with_different_files_of_one_name_are_refused(copy: bool, store: Store, tmp_path: Path) -> None:
    trees = [_tree(store, tmp_path, name, {"space/same.py": name.encode()}) for name in ("one", "two")]
    site, prefix = _environment(tmp_path)
    link_tree(trees[0], site, prefix, copy=copy)
    with pytest.raises(BuildFailed, match=r"two 1\.0 and one 1\.0 both bring 'space/same\.py'"):
        link_tree(trees[1], site, prefix, copy=copy)


@pytest.mark.slow
def test_a_file_where_another_package_has_a_folder_is_refused(store: Store, tmp_path: Path) -> None:
    folder = _tree(store, tmp_path, "one", {"space/__init__.py": b"", "space.txt/a": b""})
    file = _tree(store, tmp_path, "two", {"space.txt": b""})
    for number, (first, second) in enumerate([(folder, file), (file, folder)]):
        site, prefix = _environment(tmp_path, f"environment{number}")
        link_tree(first, site, prefix)
        with pytest.raises(BuildFailed, match=r"both bring 'space\.txt'"):
            link_tree(second, site, prefix)


@pytest.mark.slow
def test_a_script_that_would_replace_the_environments_own_is_refused(store: Store, tmp_path: Path) -> None:
    tree = _tree(store, tmp_path, "evil", {"gadget-1.0.py": b"", "evil-1.0.data/scripts/tool": b"#!/bin/sh\n"})
    site, prefix = _environment(tmp_path)
    (prefix / "bin/tool").symlink_to("/usr/bin/python3")
    with pytest.raises(BuildFailed, match="the bare environment"):
        link_tree(tree, site, prefix)


@pytest.mark.slow
def test_a_collision_names_the_other_package(store: Store, tmp_path: Path) -> None:
    data = {"first-1.0.data/data/pyvenv.cfg": b"home = /nowhere\n"}
    tree = _tree(store, tmp_path, "first", data)
    site, prefix = _environment(tmp_path)
    (prefix / "pyvenv.cfg").write_text("home = /usr/bin\n")
    with pytest.raises(BuildFailed, match=r"first 1\.0 and the bare environment both bring"):
        link_tree(tree, site, prefix)
    (prefix / "pyvenv.cfg").unlink()
    other = _tree(store, tmp_path, "second", {"second-1.0.data/data/pyvenv.cfg": b"home = /elsewhere\n"})
    site, prefix = _environment(tmp_path, "another")
    link_tree(tree, site, prefix)
    with pytest.raises(BuildFailed, match=r"second 1\.0 and first 1\.0 both bring"):
        link_tree(other, site, prefix)


@pytest.mark.slow
def test_five_thousand_links_cost_little_more_than_the_links(store: Store, tmp_path: Path) -> None:
    tree = _large_tree(tmp_path / "large", folders=100, files=50)
    (bare := tmp_path / "bare").mkdir()
    started = time.process_time()
    for file in tree.files:
        (bare / file.path).parent.mkdir(exist_ok=True, parents=True)
        os.link(tree.folder / file.path, bare / file.path)
    floor = time.process_time() - started
    started = time.process_time()
    link_tree(tree, *_environment(tmp_path))
    assert time.process_time() - started < max(1.5 * floor, 0.2)


def _large_tree(folder: Path, *, folders: int, files: int) -> TreeReport:
    for number in range(folders):
        (folder / f"large/part{number}").mkdir(parents=True)
        for name in range(files):
            (folder / f"large/part{number}/module{name}.py").write_bytes(b"x")
    listed = take_inventory(folder).files
    facts = TreeFacts(
        name="large",
        version="1",
        wheel="0" * 64,
        modules=("large",),
        has_path_files=False,
        prefix_files=(),
        bytes_on_disk=0,
        files=list_digest(listed),
    )
    return TreeReport(folder, facts, listed)


# Lists


def test_a_list_reads_back_unchanged() -> None:
    files = (
        StoredFile("a b/c", "0" * 64, 3),
        StoredFile("bin/x", "1" * 64, 0, "program"),
        StoredFile("l", "2", 1, "link"),
    )
    assert read_list(write_list(reversed(files))) == files


@pytest.mark.parametrize("text", ["nonsense", "0 1 q path", "0 one f path"])
def test_a_malformed_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        read_list(text)


def test_a_large_file_is_digested_like_a_small_one(tmp_path: Path) -> None:
    data = os.urandom(3 << 20)
    (tmp_path / "large").write_bytes(data)
    assert digests(tmp_path, ["large"]) == {"large": (hashlib.sha256(data).hexdigest(), len(data))}


def test_reading_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/link").symlink_to(tmp_path / "file")
    (tmp_path / "linked").symlink_to(tmp_path / "folder")
    for path in ("folder/link", "linked/x"):
        with pytest.raises(OSError, match=r"Too many levels|Not a directory"):
            digests(tmp_path, [path])
