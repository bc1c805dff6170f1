"""Requirements that cannot be met: each is refused for what is wrong with it, and the engine goes on.

The indexes, the wheels and the resolver are real. A refused requirement leaves no environment behind.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from sandbox import IndexRefused, RequirementRefused, ResolutionFailed, Sandbox, Status
from sandbox.errors import BuildFailed, EnvironmentUnavailable, SourceError
from sandbox.policy import load
from tests.end_to_end.packages import (
    NOTHING,
    machine_with,
    policy_with,
    publish,
    publish_files,
    publish_hostile,
    refusal_of,
    requiring,
    version_of,
)
from tests.indexes import LocalIndex, make_wheel, sha256_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("harmless")]


def _published(folder: Path) -> None:
    publish(folder, "shared", "1.0", "2.0")
    publish(folder, "cautious", "1.0", requires=("shared<2",))
    publish(folder, "modern", "1.0", requires=("shared>=2",))
    publish(folder, "outdated", "1.0", requires=("shared[no-such]",))
    publish(folder, "dangling", "1.0", requires=("nowhere-to-be-found",))


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the packages in the index of this module."""
    folder = tmp_path_factory.mktemp("wheels")
    _published(folder)
    return folder


@pytest.fixture(scope="module")
def sandbox(index: LocalIndex, store: Path) -> Iterator[Sandbox]:
    """Open an engine whose store is the module's own."""
    with Sandbox(store=store) as engine:
        yield engine


REFUSED: Final = {
    "an option": ("--index-url https://elsewhere.example/simple", "--index-url"),
    "an option behind a name": ("shared --no-binary :all:", "--no-binary"),
    "an editable folder": ("-e .", "option"),
    "a file of requirements": ("-r /etc/passwd", "option"),
    "a path": ("./wheels/shared-1.0-py3-none-any.whl", ""),
    "an absolute path": ("/etc/passwd", ""),
    "a path of the home": ("~/shared", ""),
    "a parent folder": ("../shared", ""),
    "a URL": ("https://elsewhere.example/shared-1.0-py3-none-any.whl", "address"),
    "a URL with a name": ("shared @ https://elsewhere.example/shared-1.0-py3-none-any.whl", ""),
    "a repository": ("git+https://elsewhere.example/shared.git", "address"),
    "a repository with a name": ("shared @ git+ssh://git@elsewhere.example/shared.git", ""),
    "a file URL": ("shared @ file:///etc/passwd", ""),
    "a shell's command": ("shared; rm -rf /", ""),
    "a shell's substitution": ("shared==$(id)", ""),
    "a shell's pipe": ("shared|sh", ""),
    "a shell's variable": ("${HOME}", ""),
    "a second line": ("shared\n--index-url=https://elsewhere.example", ""),
    "a NUL": ("shared\0", ""),
    "a letter like another": ("sh\u0430red", "U+0430"),
    "nothing": ("", "is empty"),
    "blanks": ("  ", "is empty"),
    "no name": ("==1.0", ""),
    "no version": ("shared==", ""),
    "half a version": ("shared==one", ""),
    "half a marker": ("shared; python_version <", ""),
    "text compared as a version": ('shared; sys_platform ~= "linux"', "compares text as if it were a version"),
    "too many characters": ("s" * 100_000, "characters"),
    "an object without a name": ({"version": "1.0"}, "name"),
    "an object with more": ({"name": "shared", "index": "https://elsewhere.example"}, ""),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_requirement_is_refused_unasked(kind: str, sandbox: Sandbox, index: LocalIndex) -> None:
    text, said = REFUSED[kind]
    asked = len(index.asked)
    refusal = refusal_of(sandbox, text)
    assert isinstance(refusal, RequirementRefused)
    assert said in refusal.message
    assert refusal.remedy
    assert len(index.asked) == asked


@pytest.mark.parametrize("marker", ['python_version > "{0}.{1}a1"', 'python_full_version > "{0}.{1}.{2}.dev0"'])
def test_a_requirement_that_the_resolver_drops_wrongly_is_refused(marker: str, sandbox: Sandbox) -> None:
    """For uv, no version before a release is later than that release."""
    refusal = refusal_of(sandbox, f"shared; {marker.format(*sys.version_info)}")
    assert isinstance(refusal, ResolutionFailed)
    assert "left out, though its marker asks for it" in refusal.message


def test_every_mistake_is_named_by_its_place(sandbox: Sandbox) -> None:
    refusal = refusal_of(sandbox, "shared==1.0", "-e .", "shared", "https://elsewhere.example/x.whl")
    assert "requirement 2 of 4" in refusal.message
    assert "requirement 4 of 4" in refusal.message
    assert "requirement 1 of 4" not in refusal.message


def test_requirements_that_contradict_each_other_are_refused_unasked(sandbox: Sandbox, index: LocalIndex) -> None:
    asked = len(index.asked)
    refusal = refusal_of(sandbox, "shared==1.0", "Shared>=2")
    assert isinstance(refusal, RequirementRefused)
    assert "shared" in refusal.message
    assert "1.0" in refusal.message
    assert ">=2" in refusal.message
    assert len(index.asked) == asked


def test_the_source_and_the_call_cannot_contradict_each_other(sandbox: Sandbox) -> None:
    with pytest.raises(RequirementRefused, match="shared"):
        sandbox.run(version_of("shared", "shared==1.0"), requirements=["shared==2.0"])


def test_a_source_with_a_broken_block_is_refused_with_its_line(sandbox: Sandbox) -> None:
    with pytest.raises(SourceError) as refused:
        sandbox.run("# /// script\n# dependencies = [\n# ///\n" + NOTHING)
    assert refused.value.line is not None


def test_a_source_that_requires_what_is_no_requirement_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(RequirementRefused, match="--index-url"):
        sandbox.run(requiring(("--index-url https://elsewhere.example",), NOTHING))


def test_a_denied_package_is_refused_unasked(sandbox: Sandbox, index: LocalIndex, tmp_path: Path) -> None:
    asked = len(index.asked)
    refusal = refusal_of(sandbox, "SHARED==1.0", policy=policy_with(tmp_path, 'deny = ["Shared"]'))
    assert isinstance(refusal, RequirementRefused)
    assert "'shared' is denied" in refusal.message
    assert len(index.asked) == asked


def test_a_package_that_is_not_on_the_list_of_allowed_ones_is_refused(sandbox: Sandbox, tmp_path: Path) -> None:
    refusal = refusal_of(sandbox, "shared==1.0", policy=policy_with(tmp_path, 'allow = ["modern"]'))
    assert isinstance(refusal, RequirementRefused)
    assert "shared" in refusal.message


@pytest.mark.parametrize("supply", ['deny = ["shared"]', 'allow = ["modern"]'])
def test_the_policys_lists_hold_for_what_a_package_brings_along(sandbox: Sandbox, tmp_path: Path, supply: str) -> None:
    assert "shared" in refusal_of(sandbox, "modern==1.0", policy=policy_with(tmp_path, supply)).message


def test_a_call_cannot_have_more_packages_than_the_policy_takes(sandbox: Sandbox, tmp_path: Path) -> None:
    file = tmp_path / "few.toml"
    file.write_text('description = "for tests"\nextends = "default"\n[environment]\npackages = 1\n')
    assert "1" in refusal_of(sandbox, "modern==1.0", policy=str(file)).message
    assert sandbox.run(version_of("shared", "shared==1.0"), policy=str(file)).value == "1.0"


def test_an_unknown_package_is_named(sandbox: Sandbox) -> None:
    refusal = refusal_of(sandbox, "nowhere-to-be-found")
    assert isinstance(refusal, ResolutionFailed)
    assert "nowhere-to-be-found" in refusal.message


def test_an_unknown_package_that_another_needs_is_named_with_who_needs_it(sandbox: Sandbox) -> None:
    refusal = refusal_of(sandbox, "dangling")
    assert isinstance(refusal, ResolutionFailed)
    assert "nowhere-to-be-found" in refusal.message
    assert "dangling" in refusal.message


@pytest.mark.parametrize("requirement", ["shared[no_such]", "shared[no-such]>=1"])
def test_an_extra_that_does_not_exist_is_named(requirement: str, sandbox: Sandbox) -> None:
    refusal = refusal_of(sandbox, requirement)
    assert isinstance(refusal, ResolutionFailed)
    assert refusal.message == "shared has no extra named 'no-such'"


def test_a_missing_extra_that_another_package_wants_is_ignored(sandbox: Sandbox) -> None:
    assert sandbox.run(version_of("outdated", "outdated")).value == "1.0"


def test_a_version_that_does_not_exist_is_named(sandbox: Sandbox) -> None:
    refusal = refusal_of(sandbox, "shared==9.9")
    assert isinstance(refusal, ResolutionFailed)
    assert "shared" in refusal.message
    assert "9.9" in refusal.message


def test_a_conflict_names_both_parents(sandbox: Sandbox) -> None:
    refusal = refusal_of(sandbox, "cautious", "modern")
    assert isinstance(refusal, ResolutionFailed)
    assert all(name in refusal.message for name in ("cautious", "modern", "shared"))
    assert not refusal.retryable


def test_what_was_refused_leaves_no_environment_and_can_be_put_right(sandbox: Sandbox, store: Path) -> None:
    before = set(store.glob("envs/*/*"))
    refusal_of(sandbox, "shared==9.9")
    refusal_of(sandbox, "cautious", "modern")
    assert set(store.glob("envs/*/*")) == before
    assert sandbox.run(version_of("shared", "cautious")).value == "1.0"


OUTSIDE: Final = {
    "above its folder": "../{name}_escaped.py",
    "far above": "../../../../../../../../tmp/{name}_escaped.py",
    "absolute": "/tmp/{name}_escaped.py",
    "above from below": "{name}_data/../../{name}_escaped.py",
    "scripts above": "{name}-1.0.data/scripts/../../../{name}_escaped.py",
    "data above": "{name}-1.0.data/data/../../../{name}_escaped.py",
    "backslashes": "..\\{name}_escaped.py",
}


@pytest.mark.parametrize("way", OUTSIDE)
def test_a_wheel_whose_files_leave_its_folder_is_refused(
    way: str, sandbox: Sandbox, wheels: Path, store: Path, tmp_path: Path
) -> None:
    name = f"escapes{list(OUTSIDE).index(way)}"
    publish_hostile(wheels, name, {OUTSIDE[way].format(name=name): "ESCAPED = True\n"})
    refusal = refusal_of(sandbox, name)
    assert isinstance(refusal, BuildFailed)
    assert name in refusal.message
    assert not list(store.rglob(f"*{name}_escaped.py"))
    assert not Path(f"/tmp/{name}_escaped.py").exists()
    assert not (Path(tempfile.gettempdir()) / f"{name}_escaped.py").exists()


def test_a_wheel_that_links_out_of_its_folder_is_refused(sandbox: Sandbox, wheels: Path, tmp_path: Path) -> None:
    publish_hostile(wheels, "linking", {}, links={"linked.py": str(tmp_path / "secret.py"), "away": str(tmp_path)})
    assert isinstance(refusal_of(sandbox, "linking"), BuildFailed)


def test_a_wheel_that_writes_through_a_link_of_its_own_is_refused(
    sandbox: Sandbox, wheels: Path, tmp_path: Path
) -> None:
    publish_hostile(wheels, "through", {"away/written.py": "1"}, links={"away": str(tmp_path)})
    assert isinstance(refusal_of(sandbox, "through"), BuildFailed)
    assert list(tmp_path.iterdir()) == []


def test_a_wheel_that_says_it_is_another_package_is_refused(sandbox: Sandbox, wheels: Path) -> None:
    publish_files(wheels, "honest", {"honest.py": ""})
    (wheels / "honest-1.0-py3-none-any.whl").rename(wheels / "liar-1.0-py3-none-any.whl")
    assert "liar" in refusal_of(sandbox, "liar").message


@pytest.mark.parametrize("content", [b"", b"PK\3\4 not a zip", b"<html>", bytes(100_000)])
def test_a_wheel_that_is_no_archive_is_refused(content: bytes, sandbox: Sandbox, wheels: Path) -> None:
    name = f"broken{len(content)}"
    (wheels / f"{name}-1.0-py3-none-any.whl").write_bytes(content)
    assert name in refusal_of(sandbox, name).message


def test_a_wheel_for_another_platform_is_refused_by_name(sandbox: Sandbox, wheels: Path) -> None:
    publish_files(wheels, "foreign", {"foreign.py": ""})
    (wheels / "foreign-1.0-py3-none-any.whl").rename(wheels / "foreign-1.0-cp311-cp311-win_amd64.whl")
    refusal = refusal_of(sandbox, "foreign")
    assert isinstance(refusal, ResolutionFailed)
    assert "foreign" in refusal.message


def test_a_source_distribution_is_not_built_unless_the_policy_says_so(tmp_path: Path) -> None:
    marker, folder = tmp_path / "built", tmp_path / "links"
    folder.mkdir()
    (tmp_path / "setup.py").write_text(f"open({str(marker)!r}, 'w').write('built')\n")
    (tmp_path / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: sourced\nVersion: 1.0\n")
    with tarfile.open(folder / "sourced-1.0.tar.gz", "w:gz") as archive:
        for name in ("setup.py", "PKG-INFO"):
            archive.add(tmp_path / name, f"sourced-1.0/{name}")
    with machine_with(None, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(folder)), Sandbox(store=tmp_path / "store") as engine:
        refusal = refusal_of(engine, "sourced")
    assert isinstance(refusal, ResolutionFailed)
    assert "sourced" in refusal.message
    assert not marker.exists()


def test_a_python_that_this_host_lacks_is_refused_with_what_there_is(sandbox: Sandbox) -> None:
    source = "# /// script\n# requires-python = '>=3.99'\n# ///\n" + NOTHING
    with pytest.raises(EnvironmentUnavailable, match=r">=3\.99") as refused:
        sandbox.run(source)
    assert "3." in refused.value.message.replace("3.99", "")


def test_a_release_of_unknown_age_is_not_old_enough(sandbox: Sandbox, tmp_path: Path) -> None:
    refusal = refusal_of(sandbox, "shared", policy=policy_with(tmp_path, 'exclude_newer = "7d"'))
    assert isinstance(refusal, ResolutionFailed)
    assert "shared" in refusal.message


def test_offline_nothing_is_asked(sandbox: Sandbox, index: LocalIndex, tmp_path: Path) -> None:
    asked = len(index.asked)
    refusal = refusal_of(sandbox, "shared!=9", policy=policy_with(tmp_path, "offline = true"))
    assert "offline" in str(refusal)
    assert len(index.asked) == asked


def test_a_wheel_named_by_address_and_digest_comes_from_a_configured_host(
    sandbox: Sandbox, index: LocalIndex, wheels: Path, tmp_path: Path
) -> None:
    wheel = make_wheel(wheels, "addressed", "3.0", {"addressed.py": "VERSION = '3.0'\n"})
    default = load("default")
    policy = default.model_copy(update={"supply": default.supply.model_copy(update={"direct_references": True})})
    named = f"addressed @ {index.file_url(wheel)}#sha256={sha256_of(wheel)}"
    outcome = sandbox.run(version_of("addressed", named), policy=policy)
    assert (outcome.status, outcome.value) == (Status.OK, "3.0")
    wrong = f"addressed @ {index.file_url(wheel)}#sha256={'0' * 64}"
    assert "addressed" in str(refusal_of(sandbox, wrong, policy=policy))
    with LocalIndex(tmp_path) as elsewhere:
        private = f"addressed @ {elsewhere.root}/files/{wheel.name}#sha256={'1' * 64}"
        refusal = refusal_of(sandbox, private, policy=policy)
        assert isinstance(refusal, IndexRefused)
        assert elsewhere.asked == []
