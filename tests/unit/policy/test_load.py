"""Policy files are loaded and extended, and every other file gets a plain answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sandbox.errors import PolicyError
from sandbox.policy import Policy, list_shipped, load
from sandbox.policy.files import MAX_FILE_BYTES
from sandbox.policy.load import _merge
from sandbox.policy.messages import describe_errors

DESCRIBED = 'description = "for tests"\n'


def written(folder: Path, text: str | bytes, *, name: str = "mine.toml") -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def refusal_of(path: str) -> PolicyError:
    with pytest.raises(PolicyError) as refused:
        load(path)
    return refused.value


def test_a_file_is_named_after_itself_with_safe_defaults(tmp_path: Path) -> None:
    mine = load(written(tmp_path, DESCRIBED))
    assert mine == Policy(name="mine", description="for tests")


def test_a_file_may_write_sizes_and_durations_in_units(tmp_path: Path) -> None:
    mine = load(written(tmp_path, f'{DESCRIBED}limits.wall = "2m"\n[reuse]\nmode = "never"\n'))
    assert (mine.limits.wall, mine.reuse.mode) == (120.0, "never")


def test_a_file_needs_no_suffix_when_its_path_has_a_slash(tmp_path: Path) -> None:
    assert load(written(tmp_path, DESCRIBED, name="mine")).name == "mine"


def test_a_path_object_is_always_a_file_and_never_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, DESCRIBED, name="offline")
    assert load(Path("offline")).description == "for tests" != load("offline").description


def test_a_byte_order_mark_and_windows_lines_are_read(tmp_path: Path) -> None:
    assert load(written(tmp_path, b'\xef\xbb\xbfdescription = "x"\r\n[limits]\r\nwall = 1\r\n')).limits.wall == 1.0


def test_an_unknown_name_is_answered_with_the_known_names() -> None:
    error = refusal_of("defualt")
    assert "'defualt'" in error.message
    assert all(name in error.message for name in list_shipped())
    assert error.remedy is not None


@pytest.mark.parametrize("name", ["", "..", "default\0", "DEFAULT", "x" * 100_000, "seccomp"])
def test_an_odd_name_is_unknown_and_never_becomes_a_path(name: str) -> None:
    error = refusal_of(name)
    assert "no policy is called" in error.message
    assert len(error.message) < 500


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert "No such file" in refusal_of(str(tmp_path / "none.toml")).message


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert "directory" in refusal_of(str(tmp_path)).message.lower()


@pytest.mark.timeout(60)
def test_a_pipe_without_a_writer_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    assert "is not a regular file" in refusal_of(str(tmp_path / "pipe.toml")).message


def test_a_device_is_refused() -> None:
    assert "is not a regular file" in refusal_of("/dev/zero").message


def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop.toml").symlink_to("loop.toml")
    assert "cannot be read" in refusal_of(str(tmp_path / "loop.toml")).message


@pytest.mark.parametrize("path", ["./a\0b.toml", "./\ud800.toml", "/" + "x" * 100_000])
def test_an_impossible_path_is_refused(path: str) -> None:
    error = refusal_of(path)
    assert "policy file" in error.message
    assert len(error.message) < 500


def test_a_file_of_a_hundred_megabytes_is_refused_unread(tmp_path: Path) -> None:
    path = written(tmp_path, DESCRIBED)
    os.truncate(path, 100_000_000)
    assert "larger than 16 KiB" in refusal_of(path).message


def test_a_file_that_is_exactly_as_large_as_allowed_is_read(tmp_path: Path) -> None:
    assert load(written(tmp_path, DESCRIBED + "#" * (MAX_FILE_BYTES - len(DESCRIBED)))).name == "mine"
    assert "larger" in refusal_of(written(tmp_path, DESCRIBED + "#" * (MAX_FILE_BYTES - len(DESCRIBED) + 1))).message


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    assert "is not UTF-8 text, from byte 15 on" in refusal_of(written(tmp_path, b'description = "\xff"')).message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a = 1\nb = \n", 2),
        ("a = 1\na = 2\n", 2),
        ("a = 1\n\n[limits\n", 3),
        ('a = "x\0"\n', 1),
        ('a = 1\nb = """never closed', 2),
    ],
)
def test_malformed_toml_is_refused_with_its_file_and_line(tmp_path: Path, text: str, line: int) -> None:
    message = refusal_of(written(tmp_path, text)).message
    assert "mine.toml" in message
    assert f", line {line}: " in message


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["a = " + "[" * 16_000, "a = " + "9" * 16_000, "a." * 8_000 + "b = 1", "[" + "a." * 8_000 + "b]"]
)
def test_a_file_made_to_exhaust_the_parser_is_refused(tmp_path: Path, text: str) -> None:
    assert len(refusal_of(written(tmp_path, text)).message) < 1000


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "description: is missing"),
        ('description = " "', "description: must say who"),
        ("description = 3", "description: must be text"),
        (f'{DESCRIBED}name = "other"', "name: is taken from the file's name"),
        (f"{DESCRIBED}speed = 3", "speed: there is no such key; there are: description, environment, filesystem"),
        (f"{DESCRIBED}limits = 3", "limits: must be a section"),
        (f"{DESCRIBED}[[limits]]\nwall = 3", "limits: must be a section"),
        (f"{DESCRIBED}[limits]\nwal = 3", "limits.wal: there is no such key; there are: arguments, artifact_bytes"),
        (f'{DESCRIBED}[limits]\nwall = "soon"', 'limits.wall: must be a duration such as "30s"'),
        (f"{DESCRIBED}[limits]\nwall = inf", "limits.wall: must be finite"),
        (f"{DESCRIBED}[limits]\nwall = nan", "limits.wall: must be longer than zero"),
        (f"{DESCRIBED}[limits]\nwall = 0", 'no value means "unlimited"'),
        (f"{DESCRIBED}[limits]\nwall = 2020-01-01", "limits.wall: must be a number of seconds"),
        (f"{DESCRIBED}[limits]\nmemory = true", "limits.memory: must be a whole number of bytes"),
        (f'{DESCRIBED}[limits]\nmemory = "512M"', "limits.memory: must be a size"),
        (f"{DESCRIBED}[limits]\nprocesses = 1.5", "limits.processes: must be a whole number"),
        (f'{DESCRIBED}[network]\nmode = "all"', 'network.mode: must be "none", "public", "index" or "host"'),
        (f"{DESCRIBED}[network]\nmode = []", "network.mode: must be"),
        (f'{DESCRIBED}[filesystem]\nreadable = "/opt"', "filesystem.readable: must be a list"),
        (f'{DESCRIBED}[filesystem]\nreadable = ["/opt", 3]', "filesystem.readable[1]: must be text"),
        (f'{DESCRIBED}[filesystem]\nreadable = ["/run"]', "filesystem.readable[0]: '/run' would show /run"),
        (f'{DESCRIBED}[isolation]\nrequire = ["moat"]', 'isolation.require[0]: must be "user_namespace"'),
        (f"{DESCRIBED}[output.budgets]\ntable = -1", "output.budgets.table: must not be negative"),
        (
            f'{DESCRIBED}[output.tokens]\ntable = 1\n"a b" = 1',
            "output.tokens.'a b': 'a b' is not the name",
        ),
        (f"{DESCRIBED}[output]\nbudgets = [[3]]", "output.budgets[0]"),
        (f"{DESCRIBED}[reuse]\nahead = 17", "reuse.ahead: must be at most 16"),
        (f"{DESCRIBED}[environments]\n", "environments: there is no such key"),
        (f"{DESCRIBED}[environment]\nverify = 1", "environment.verify: must be true or false"),
        (f'{DESCRIBED}[environment]\nbuild_disk = "8G"', "environment.build_disk: must be a size"),
        (f"{DESCRIBED}[supply]\nexclude_newer = -1", "supply.exclude_newer: must not be less than zero seconds"),
        (f'{DESCRIBED}[supply]\nsdists = "no"', "supply.sdists: must be true or false"),
        (f'{DESCRIBED}[supply]\ndeny = "numpy"', "supply.deny: must be a list"),
        (f'{DESCRIBED}[supply]\nallow = ["a>=1"]', "supply.allow[0]: 'a>=1' is not a package's name"),
        (f'{DESCRIBED}[supply]\nindexes = ["ssh://a/b"]', "supply.indexes[0]: must be a URL that starts with"),
        (f'{DESCRIBED}[supply]\nwheelhouse = ["wheels"]', "supply.wheelhouse[0]: 'wheels' must be an absolute path"),
        (f"{DESCRIBED}extends = 3", "extends: must be text"),
        (f'{DESCRIBED}extends = "nobody"', "extends: no policy is called 'nobody'; there are: "),
    ],
)
def test_each_mistake_is_named_by_its_key_in_plain_words(tmp_path: Path, text: str, complaint: str) -> None:
    message = refusal_of(written(tmp_path, text)).message
    assert complaint in message
    assert "mine.toml" in message
    assert not [word for word in ("pydantic", "Input", "Value error", "https://errors", "type=") if word in message]


def test_an_invalid_name_is_refused_with_its_file(tmp_path: Path) -> None:
    assert "name: the file's name must be" in refusal_of(written(tmp_path, DESCRIBED, name="a b.toml")).message


def test_mistakes_are_listed_up_to_a_bound(tmp_path: Path) -> None:
    many = "".join(f"key{number} = 1\n" for number in range(500))
    message = refusal_of(written(tmp_path, f"{many}{'k' * 5000} = 1\n")).message
    assert "key0: " in message
    assert "key1: " in message
    assert "more" in message
    assert len(message) < 5000


def test_an_heir_inherits_the_fields_that_it_leaves_out(tmp_path: Path) -> None:
    mine = load(written(tmp_path, f'{DESCRIBED}extends = "strict"\n[limits]\nwall = 1\n'))
    strict = load("strict")
    assert mine.limits == strict.limits.model_copy(update={"wall": 1.0})
    assert mine.sections() == {**strict.sections(), "limits": mine.limits}
    assert (mine.name, mine.description) == ("mine", "for tests")


def test_a_chain_of_files_is_followed_relative_to_each_file(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    written(tmp_path / "base", f'{DESCRIBED}extends = "batch"\nlimits.wall = "30m"', name="half.toml")
    written(tmp_path / "base", f'{DESCRIBED}extends = "half.toml"\nlimits.memory = "1GiB"', name="small.toml")
    mine = load(written(tmp_path, f'{DESCRIBED}extends = "./base/small.toml"\nlimits.cpus = 1'))
    assert (mine.limits.wall, mine.limits.memory, mine.limits.cpus) == (1800.0, 2**30, 1)
    assert mine.limits.cpu == load("batch").limits.cpu


def test_an_heir_that_is_wider_is_refused_with_every_widening(tmp_path: Path) -> None:
    limits, rest = "[limits]\nwall = 60\nmemory = 4194304\n", '[network]\nmode = "host"\n[isolation]\nrequire = []\n'
    error = refusal_of(written(tmp_path, f'{DESCRIBED}extends = "default"\n{limits}{rest}'))
    assert "limits.wall: 60 s is more than 30 s granted by 'default'" in error.message
    assert "network.mode: host is more than none granted by 'default'" in error.message
    assert "isolation.require: leaves out user_namespace, mount_namespace" in error.message
    assert "limits.memory" not in error.message
    assert error.remedy is not None


def test_a_grandchild_cannot_undo_the_restrictions_of_a_child(tmp_path: Path) -> None:
    written(tmp_path, f'{DESCRIBED}extends = "default"\nlimits.wall = 10', name="child.toml")
    path = written(tmp_path, f'{DESCRIBED}extends = "./child.toml"\nlimits.wall = 20')
    assert "limits.wall: 20 s is more than 10 s granted by 'child'" in refusal_of(path).message


@pytest.mark.parametrize("target", ["./mine.toml", "./other.toml", "./link.toml"])
def test_a_circle_of_extending_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "link.toml").symlink_to("mine.toml")
    written(tmp_path, f'{DESCRIBED}extends = "mine.toml"', name="other.toml")
    path = written(tmp_path, f'{DESCRIBED}extends = "{target}"')
    assert "in a circle" in refusal_of(path).message


def test_a_long_chain_is_followed_without_recursion(tmp_path: Path) -> None:
    written(tmp_path, DESCRIBED, name="p0.toml")
    for number in range(1, 150):
        written(tmp_path, f'{DESCRIBED}extends = "p{number - 1}.toml"', name=f"p{number}.toml")
    assert load(str(tmp_path / "p149.toml")).name == "p149"


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)
_keys = st.sampled_from(
    [*Policy.model_fields, "extends", "wall", "mode", "readable", "require", "deny", "indexes"]
) | st.text(max_size=10)


@pytest.mark.slow
@given(st.dictionaries(_keys, _values | st.dictionaries(_keys, _values, max_size=3), max_size=6))
def test_any_document_is_a_policy_or_is_refused_in_plain_words(document: dict[str, object]) -> None:
    try:
        Policy.model_validate(_merge(document, {"limits": {"wall": 3.0}}))
    except ValidationError as error:
        lines = describe_errors(error, model=Policy)
        assert lines
        assert all(": " in line and "Input" not in line and "https://errors" not in line for line in lines)
