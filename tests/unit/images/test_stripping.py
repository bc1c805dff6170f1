"""Stripping removes the listed parts of a tree, keeps the rest, and touches nothing outside."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from sandbox.images.recipe import Recipe
from sandbox.images.stripping import remove_packages, remove_special_bits, strip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "var/lib/dpkg/info").mkdir(parents=True)
    return folder


def install(tree: Path, package: str, *paths: str) -> None:
    for path in paths:
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).touch()
    folders = {f"/{parent}" for path in paths for parent in list(Path(path).parents)[:-1]}
    lines = ["/.", *sorted(folders), *(f"/{path}" for path in paths)]
    (tree / f"var/lib/dpkg/info/{package}.list").write_text("\n".join(lines) + "\n")
    with (tree / "var/lib/dpkg/status").open("a") as status:
        status.write(f"Package: {package.partition(':')[0]}\nStatus: install ok installed\n\n")


def files(tree: Path) -> set[str]:
    return {str(path.relative_to(tree)) for path in tree.rglob("*") if not path.is_dir() and "dpkg" not in str(path)}


def test_a_package_is_removed_with_the_files_only_it_has(tree: Path) -> None:
    install(tree, "kept:amd64", "usr/bin/kept", "usr/share/both/common")
    install(tree, "gone", "usr/bin/gone", "usr/share/both/own", "usr/share/both/common", "usr/share/gone/data")
    remove_packages(tree, ["gone", "never-there"])
    assert files(tree) == {"usr/bin/kept", "usr/share/both/common"}
    assert not (tree / "usr/share/gone").exists()


def test_scanners_do_not_see_removed_packages(tree: Path) -> None:
    install(tree, "kept", "usr/bin/kept")
    install(tree, "gone", "usr/bin/gone")
    remove_packages(tree, ["gone"])
    assert (tree / "var/lib/dpkg/status").read_text() == "Package: kept\nStatus: install ok installed\n\n"


def test_links_out_of_the_tree_are_not_followed(tree: Path, tmp_path: Path) -> None:
    precious = tmp_path / "host/precious"
    precious.parent.mkdir()
    precious.touch()
    install(tree, "gone", "usr/bin/gone")
    (tree / "run").symlink_to(precious.parent)
    (tree / "etc").symlink_to(precious.parent)
    with (tree / "var/lib/dpkg/info/gone.list").open("a") as paths:
        paths.write("/run/precious\n/run\n")
    strip(Recipe(description="x", packages=(), without_packages=("gone",), without_paths=("etc/*", "run/*")), tree)
    assert precious.exists()


def test_files_required_by_licences_stay(tree: Path) -> None:
    for name in ("copyright", "README", "examples/more"):
        install(tree, f"x-{name[:3].lower()}", f"usr/share/doc/x/{name}")
    strip(
        Recipe(
            description="x", packages=(), without_paths=("usr/share/doc",), kept_paths=("usr/share/doc/*/copyright",)
        ),
        tree,
    )
    assert files(tree) == {"usr/share/doc/x/copyright"}


def test_unwanted_programs_are_removed_everywhere(tree: Path) -> None:
    install(tree, "x", "usr/bin/curl", "usr/sbin/curl-config", "usr/local/bin/curl", "usr/bin/ls", "usr/lib/curl")
    strip(Recipe(description="x", packages=(), without_programs=("curl*",)), tree)
    assert files(tree) == {"usr/bin/ls", "usr/lib/curl"}


def test_nothing_stays_setuid_or_setgid(tree: Path) -> None:
    program, folder = tree / "su", tree / "mail"
    program.touch()
    folder.mkdir()
    program.chmod(0o6755)
    folder.chmod(0o2775)
    (tree / "link").symlink_to("su")
    remove_special_bits(tree)
    assert [stat.S_IMODE(os.stat(path).st_mode) for path in (program, folder)] == [0o755, 0o775]


def test_the_folders_for_mounts_exist(tree: Path) -> None:
    strip(Recipe(description="x", packages=(), folders=("workspace",)), tree)
    assert (tree / "workspace").is_dir()
