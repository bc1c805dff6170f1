"""Profiles as files: their rules, their inheritance, and helpful refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.backends.seccomp_profiles import Profile, known_names, load_profile
from sandbox.errors import PolicyError


def write(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.toml").write_text(text)


@pytest.fixture
def based(tmp_path: Path) -> Path:
    """Return a folder with one profile for others to extend."""
    write(
        tmp_path,
        "base",
        """
        description = "the base"
        allow = ["read", "write", "socket"]
        kill = ["ptrace", "mount"]
        absent = ["clone3"]

        [[when]]
        call = "socket"
        argument = 0
        none_of = [1]
        answer = "EAFNOSUPPORT"
        """,
    )
    return tmp_path


@pytest.mark.parametrize("name", ["tool", "runner"])
def test_the_shipped_profiles_have_descriptions(name: str) -> None:
    assert load_profile(name).description


def test_the_runner_may_do_all_that_a_tool_may() -> None:
    assert set(load_profile("tool").allow) <= set(load_profile("runner").allow)


def test_a_profile_inherits_the_rules_that_it_leaves_out(based: Path) -> None:
    write(based, "more", 'extends = "base"\ndescription = "more"\nallow = ["mount"]')
    profile = load_profile("more", folder=based)
    assert profile == Profile(
        description="more",
        allow=("read", "write", "socket", "mount"),
        kill=("ptrace",),
        absent=("clone3",),
        when=load_profile("base", folder=based).when,
    )


def test_a_repeated_call_replaces_its_inherited_rules(based: Path) -> None:
    write(based, "more", 'extends = "base"\ndescription = "more"\nkill = ["socket"]')
    profile = load_profile("more", folder=based)
    assert profile.when == ()
    assert "socket" not in profile.allow


def test_a_profile_can_extend_one_that_extends_another(based: Path) -> None:
    write(based, "more", 'extends = "base"\ndescription = "more"\nallow = ["mount"]')
    write(based, "most", 'extends = "more"\ndescription = "most"\nallow = ["ptrace"]')
    assert set(load_profile("most", folder=based).allow) == {"read", "write", "socket", "mount", "ptrace"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('description = "x"\nallow = ["raed"]', "no such system call: raed"),
        ('description = "x"\nalow = ["read"]', "alow"),
        ('description = "x"\nallow = ["read"]\nkill = ["read"]', "more than once: read"),
        ('description = "x"\nallow = ["read", "read"]', "more than once: read"),
        ('description = ""', "description"),
        ('allow = ["read"]', "description"),
        ('description = "x"\nallow = "read"', "allow"),
        ("description = ", "not TOML"),
        ('description = "\udcff"', "not TOML"),
        ('description = "x"\nextends = "nothing"', "no seccomp profile 'nothing'"),
        ('description = "x"\nextends = "../bad"', "no seccomp profile"),
        ('description = "x"\nextends = "bad"', "extends itself"),
        ('description = "x"\n[[when]]\ncall = "raed"\nargument = 0\none_of = [1]\nanswer = "kill"', "raed"),
        ('description = "x"\n[[when]]\ncall = "read"\nargument = 6\none_of = [1]\nanswer = "kill"', "argument"),
        ('description = "x"\n[[when]]\ncall = "read"\nargument = 0\none_of = [1]\nanswer = "EWHAT"', "answer"),
        ('description = "x"\n[[when]]\ncall = "read"\nargument = 0\nanswer = "kill"', "either"),
        (
            'description = "x"\n[[when]]\ncall = "read"\nargument = 0\none_of = [1]\nnone_of = [2]\nanswer = "kill"',
            "either",
        ),
        (
            'description = "x"\n[[when]]\ncall = "read"\nargument = 0\nmask = 6\none_of = [1]\nanswer = "kill"',
            "outside of the mask",
        ),
        ('description = "x"\n[[when]]\ncall = "read"\nargument = 0\none_of = [-1]\nanswer = "kill"', "one_of"),
        ('description = "x"\n[[when]]\ncall = "read"\nargument = 0\none_of = [1]\nthen = "kill"', "then"),
    ],
)
def test_a_wrong_profile_is_refused_with_its_fault(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "bad.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(PolicyError, match=complaint):
        load_profile("bad", folder=tmp_path)


def test_an_unknown_profile_is_answered_with_the_known_ones(based: Path) -> None:
    with pytest.raises(PolicyError, match="the profiles are: base"):
        load_profile("bose", folder=based)


def test_every_call_has_one_name() -> None:
    assert known_names() >= {"read", "open", "openat", "clone3", "mseal", "landlock_restrict_self"}
    assert not {name for name in known_names() if name != name.strip().lower()}
