"""Requirements are normalised, and refusals explain the problem."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement

from sandbox.environments.resolution.requirement_syntax import MAX_LENGTH
from sandbox.environments.resolution.requirements import (
    MAX_REQUIREMENTS,
    SupplyRules,
    excluded_by_marker,
    read_requirements,
)
from sandbox.environments.resolution.version_ranges import contradict_each_other
from sandbox.errors import EnvironmentUnavailable, RequirementRefused
from tests.processor_time import within

HASH: Final = "0123456789abcdef" * 4
ADDRESS: Final = f"https://host.example/files/a-1.0-py3-none-any.whl#sha256={HASH}"
ANYTHING: Final = SupplyRules()
DIRECT: Final = SupplyRules(direct_references=True)


def read(*items: object, supply: SupplyRules = ANYTHING) -> tuple[str, ...]:
    return read_requirements(items, supply=supply)  # type: ignore[arg-type]


def refusal(*items: object, supply: SupplyRules = ANYTHING) -> str:
    with pytest.raises(RequirementRefused) as refused:
        read(*items, supply=supply)
    assert refused.value.remedy
    return refused.value.message


TAKEN: Final = {
    "requests": "requests",
    "  requests \n": "requests",
    "Requests": "requests",
    "zope.interface": "zope-interface",
    "Foo__Bar.-baz": "foo-bar-baz",
    "a": "a",
    "7zip": "7zip",
    "web.py": "web-py",
    "requests==2.32.3": "requests==2.32.3",
    "requests ==  2.32.3": "requests==2.32.3",
    "requests (>=2)": "requests>=2",
    "requests>=2,<3": "requests<3,>=2",
    "requests < 3 , >= 2": "requests<3,>=2",
    "requests~=2.0": "requests~=2.0",
    "requests~=2.0.0": "requests~=2.0.0",
    "requests!=2.1,!=2.0": "requests!=2.0,!=2.1",
    "requests==2.*": "requests==2.*",
    "requests!=2.1.*": "requests!=2.1.*",
    "requests<=2": "requests<=2",
    "requests>2": "requests>2",
    "requests==1.0RC1": "requests==1.0rc1",
    "requests==v1.0.Alpha.1": "requests==1.0a1",
    "requests==1!2.0": "requests==1!2.0",
    "requests==1.0.post1.dev2": "requests==1.0.post1.dev2",
    "torch==2.0+CPU": "torch==2.0+cpu",
    "requests==1.0,==1.00": "requests==1.0",
    "requests[socks]": "requests[socks]",
    "requests[Socks, use_chardet]>=2": "requests[socks,use-chardet]>=2",
    "requests[]": "requests",
    "requests[a,A]": "requests[a]",
    "a;python_version<'3.9'": 'a; python_version < "3.9"',
    'a ; os.name=="posix"': 'a; os_name == "posix"',
    "a; python_implementation == 'CPython'": 'a; platform_python_implementation == "CPython"',
    "a; (sys_platform=='linux')": 'a; sys_platform == "linux"',
    "a; sys_platform=='linux' and (python_version<'4' or os_name=='nt')": (
        'a; sys_platform == "linux" and (python_version < "4" or os_name == "nt")'
    ),
    "a; '3.8' <= python_version": 'a; "3.8" <= python_version',
    "a; python_version in '3.8 3.9'": 'a; python_version in "3.8 3.9"',
    "a; platform_machine not in 'arm64'": 'a; platform_machine not in "arm64"',
    "a>=1; platform_release >= '5.10.0-generic'": 'a>=1; platform_release >= "5.10.0-generic"',
    "a; python_version == '3.*'": 'a; python_version == "3.*"',
}


@pytest.mark.parametrize(("text", "canonical"), TAKEN.items())
def test_a_requirement_is_normalised(text: str, canonical: str) -> None:
    assert read(text) == (canonical,)


@pytest.mark.parametrize("canonical", sorted(set(TAKEN.values())))
def test_a_normalised_requirement_stays_unchanged(canonical: str) -> None:
    assert read(canonical) == (canonical,)
    assert Requirement(canonical).name in canonical


OBJECTS: Final[list[tuple[dict[str, object], str]]] = [
    ({"name": "Requests"}, "requests"),
    ({"name": "requests", "version": "2.32.3"}, "requests==2.32.3"),
    ({"name": "requests", "version": "2.*"}, "requests==2.*"),
    ({"name": "requests", "version": "==2.32.3"}, "requests==2.32.3"),
    ({"name": "requests", "version": ">=2,<3"}, "requests<3,>=2"),
    ({"name": "requests", "version": " ~=2.0 "}, "requests~=2.0"),
    ({"name": "requests", "version": ""}, "requests"),
    ({"name": "requests", "version": None}, "requests"),
    ({"name": "torch", "version": "2.0+cpu"}, "torch==2.0+cpu"),
    ({"name": "requests", "extras": ["Socks", "b"]}, "requests[b,socks]"),
    ({"name": "requests", "extras": "socks, b"}, "requests[b,socks]"),
    ({"name": "requests", "extras": []}, "requests"),
    (
        {"name": "a", "version": "1", "extras": ["x"], "marker": "python_version > '3'"},
        'a[x]==1; python_version > "3"',
    ),
]


@pytest.mark.parametrize(("item", "canonical"), OBJECTS)
def test_an_object_with_a_name_is_read_like_the_text(item: dict[str, object], canonical: str) -> None:
    assert read(item) == (canonical,)


REFUSED: Final[dict[str, str]] = {
    "": "is empty",
    " \t\n": "is empty",
    "-e .": "option (-e)",
    "-r other.txt": "option (-r)",
    "-c limits.txt": "option (-c)",
    "--index-url https://host.example/simple": "option (--index-url)",
    "--index-url=https://host.example/simple": "option (--index-url)",
    "--pre": "option (--pre)",
    "requests --no-binary :all:": "option (--no-binary)",
    f"requests==1 --hash=sha256:{HASH}": "option (--hash)",
    "requests;\t--pre": "control character U+0009",
    "-": "not a requirement",
    "--": "not a requirement",
    "# requests": "comment",
    "requests  # because": "comment",
    "a; platform_version == '#1'": "comment",
    "./requests": "path",
    "../requests": "path",
    ".": "path",
    "/etc/passwd": "path",
    "~/requests": "path",
    "requests/": "path",
    "folder/requests": "path",
    "folder\\requests": "path",
    "requests-2.0-py3-none-any.whl": "path",
    "requests-2.0.tar.gz": "path",
    "Requests.ZIP": "path",
    "requirements.txt": "path",
    "C:\\requests": "address without a name",
    "https://host.example/a.whl": "address without a name",
    "file:///etc/passwd": "address without a name",
    "git+https://host.example/a.git": "address without a name",
    "git+ssh://git@host.example/a.git": "address without a name",
    "a @ https://host.example/a.whl": "names an address",
    f"a @ {ADDRESS}": "names an address",
    "a @ git+https://host.example/a.git@main": "names an address",
    "a @ file:///tmp/a.whl": "names an address",
    "a@./a": "names an address",
    "git@host.example:a/a.git": "names an address",
    "requests; rm -rf /": "option (-rf)",
    "requests; reboot": "not a requirement",
    "requests && reboot": "'&'",
    "requests | sh": "'|'",
    "requests`id`": "'`'",
    "requests==$(id)": "'$'",
    "${HOME}": "'$'",
    "a; python_version > '$HOME'": "'$'",
    "a{b,c}": "'{'",
    "requests?": "'?'",
    "requests^1": "'^'",
    "requests > out": "not a requirement",
    "requests\n--pre": "U+000A",
    "requests\rflask": "U+000D",
    "requests\0": "U+0000",
    "requests\x1b[2J": "U+001B",
    "requests\x7f": "U+007F",
    "requ\u0435sts": "U+0435",
    "requests\u200b": "U+200B",
    "requests\u202e": "U+202E",
    "requests\u2028--pre": "U+2028",
    "\ud800": "U+D800",
    "requests\N{NO-BREAK SPACE}": "U+00A0",
    "a" * (MAX_LENGTH + 1): "longer than",
    "a" * 300: "256 characters",
    "a" + "[" + "(" * 500: "parentheses",
    "a; " + "(" * 100 + "os_name == 'a'" + ")" * 100: "parentheses",
    "requests flask": "not a requirement",
    "requests, flask": "not a requirement",
    "requests==": "not a requirement",
    "requests=2": "not a requirement",
    "requests=>2": "not a requirement",
    "requests==latest": "not a requirement",
    "requests==*": "not a requirement",
    "requests>=2.*": "not a requirement",
    "requests~=2": "not a requirement",
    "requests^2": "'^'",
    "requests[": "not a requirement",
    "requests[a b]": "not a requirement",
    "_requests": "not a requirement",
    "requests-": "not a requirement",
    "*": "not a requirement",
    ";": "not a requirement",
    "; os_name == 'posix'": "not a requirement",
    "==1": "not a requirement",
    "requests;": "not a requirement",
    "requests; linux": "not a requirement",
    "requests; color == 'red'": "not a requirement",
    "requests===2": "===",
    "requests===anything": "===",
    "requests; extra == 'socks'": "extras",
    "requests; 'socks' in extras": "extras",
    "requests; python_version > 'three'": "compares a version",
    "requests; 'three' < python_full_version": "compares a version",
    "requests; python_version > '3.*'": "compares a version",
    "requests; os_name == 'a\"b'": "quotation marks",
    "requests>=2,<1": "no version of 'requests'",
    "requests==1,==2": "no version of 'requests'",
}


@pytest.mark.parametrize(("text", "reason"), REFUSED.items(), ids=lambda value: ascii(value)[:60])
def test_an_invalid_requirement_is_refused_with_place_and_reason(text: str, reason: str) -> None:
    message = refusal("flask", text, "numpy")
    assert message.startswith("requirement 2 of 3: ")
    assert reason in message


@pytest.mark.parametrize("text", REFUSED, ids=lambda value: ascii(value)[:60])
def test_a_refusal_is_short_and_harmless_on_a_terminal(text: str) -> None:
    message = refusal(text)
    assert message.replace("…", "").isascii()
    assert message.isprintable()
    assert len(message) < 400


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ({}, "an object has no name"),
        ({"version": "1"}, "has no name"),
        ({"name": ""}, "has no name"),
        ({"name": " "}, "has no name"),
        ({"name": None}, "has no name"),
        ({"name": 7}, "`name` that is not text"),
        ({"name": ["a"]}, "`name` that is not text"),
        ({"name": "a==1"}, "not just the name"),
        ({"name": "a[x]"}, "not just the name"),
        ({"name": f"a @ {ADDRESS}"}, "not just the name"),
        ({"name": "-e"}, "not just the name"),
        ({"name": "a\n--pre"}, "not just the name"),
        ({"name": "a" * 300}, "not just the name"),
        ({"name": "a" * 5000}, "more than"),
        ({"name": "a", "version": 1.2}, "`version` that is not text"),
        ({"name": "a", "version": True}, "`version` that is not text"),
        ({"name": "a", "version": "*"}, "malformed `version`"),
        ({"name": "a", "version": "latest"}, "malformed `version`"),
        ({"name": "a", "version": "^1.2"}, "malformed `version`"),
        ({"name": "a", "version": "1.2; os_name == 'nt'"}, "malformed `version`"),
        ({"name": "a", "version": "@ https://host.example/a.whl"}, "malformed `version`"),
        ({"name": "a", "version": "1\n--pre"}, "malformed `version`"),
        ({"name": "a", "version": "===1"}, "==="),
        ({"name": "a", "version": "9" * 5000}, "more than"),
        ({"name": "a", "extras": 5}, "`extras`"),
        ({"name": "a", "extras": [5]}, "`extras`"),
        ({"name": "a", "extras": ["x]; os_name"]}, "`extras`"),
        ({"name": "a", "extras": {"x": 1}}, "`extras`"),
        ({"name": "a", "extras": ["x"] * 5000}, "`extras`"),
        ({"name": "a", "marker": 5}, "`marker` that is not text"),
        ({"name": "a", "marker": "nonsense"}, "not a requirement"),
        ({"name": "a", "specifier": "1"}, "not among the keys"),
        ({"name": "a", 5: "1"}, "not among the keys"),
        ({"name": "a", "url": ADDRESS}, "not among the keys"),
        (None, "neither text nor an object"),
        (5, "neither text nor an object"),
        (b"requests", "neither text nor an object"),
        (["requests"], "neither text nor an object"),
        (("requests", "2"), "neither text nor an object"),
        (Requirement("requests"), "neither text nor an object"),
    ],
)
def test_an_invalid_item_is_refused(item: object, reason: str) -> None:
    message = refusal(item)
    assert message.startswith("requirement 1 of 1: ")
    assert reason in message
    assert len(message) < 400


@pytest.mark.parametrize("items", ["requests", b"requests", {"name": "a"}, None, 5, {"a"}, iter(["a"])])
def test_a_value_that_is_no_list_is_refused(items: object) -> None:
    with pytest.raises(RequirementRefused, match="not a list"):
        read_requirements(items, supply=ANYTHING)  # type: ignore[arg-type]


def test_an_empty_list_is_accepted() -> None:
    assert read() == ()


def test_too_many_are_refused() -> None:
    assert len(read(*(f"a{number}" for number in range(MAX_REQUIREMENTS)))) == MAX_REQUIREMENTS
    with pytest.raises(RequirementRefused, match=f"at most {MAX_REQUIREMENTS}"):
        read(*["a"] * (MAX_REQUIREMENTS + 1))


def test_order_and_spelling_do_not_matter() -> None:
    items = ["Zope.Interface>=5", "requests[b,a]<3,>=2", "numpy; python_version>'3'", "flask"]
    other = ["FLASK", "zope_interface >= 5", "requests[A,B] >=2, <3", 'numpy ; python_version > "3"', "flask"]
    assert read(*items) == read(*other) == tuple(sorted(read(*items)))


def test_repeated_packages_become_one_line() -> None:
    assert read("a>=1", "A<3", "a[x]", "a[y]>=1.0") == ("a[x,y]<3,>=1.0",)


def test_under_different_markers_a_package_stays_apart() -> None:
    asked = ("a==1; python_version < '3.9'", "a==2; python_version >= '3.9'", "a>=1")
    assert len(read(*asked)) == 3


CONTRADICTIONS: Final = [
    ("==1", "==2"),
    ("==1", ">=2"),
    ("==1", "!=1"),
    ("==1", "!=1.*"),
    ("==1.0", "==1.0.1"),
    ("==1.*", "==2.*"),
    ("==1.*", ">=2"),
    ("==1.4.*", "<1.3"),
    (">=2", "<1"),
    (">=2", "<2"),
    (">2", "<2"),
    (">2", "<=2"),
    ("~=1.4", ">=2"),
    ("~=1.4.2", ">=1.5"),
    ("~=1.4", "<1.4"),
    ("~=1!1.4", "<2"),
    ("==1.0+cpu", "==1.0+gpu"),
]
AGREEMENTS: Final = [
    ("==1", "==1.0"),
    ("==1.0", "==1.0+cpu"),
    ("==1.0rc1", ">=0.9"),
    ("==1.0rc1", "==1.*"),
    ("==1.*", ">=1.5"),
    ("==1.*", "==1.4.*"),
    ("==1.*", "<1.0.1"),
    (">=2", "<=2"),
    (">=2", "!=2"),
    ("~=1.4", ">=1.9"),
    ("~=1.4.2", "<1.4.3"),
    ("~=1.4", "~=1.4.5"),
    ("!=1", "!=2"),
    (">=1!1", ">=5"),
    (">1", "<1.0.1"),
    ("==1.0.post1", "<1.1"),
    (">=1.0.dev1", "<1.0.dev2"),
]


@pytest.mark.parametrize("versions", CONTRADICTIONS)
def test_contradicting_versions_are_refused_with_both_places(versions: tuple[str, str]) -> None:
    for first, second in (versions, versions[::-1]):
        message = refusal(f"Abc{first}", "flask", f"abc{second}")
        assert message.startswith("requirements 1, 3 of 3: ")
        assert f"'abc{first}'" in message
        assert f"'abc{second}'" in message


@pytest.mark.parametrize("versions", AGREEMENTS)
def test_satisfiable_versions_are_accepted(versions: tuple[str, str]) -> None:
    assert len(read(f"a{versions[0]}", f"a{versions[1]}")) == 1
    assert len(read(f"a{versions[1]}", f"a{versions[0]}")) == 1


_VERSIONS: Final = st.builds(
    lambda release, suffix: ".".join(map(str, release)) + suffix,
    st.lists(st.integers(0, 3), min_size=2, max_size=3),
    st.sampled_from(["", "", "", "a1", "rc1", ".post1", ".dev1"]),
)
_SPECIFIERS: Final = st.builds(
    lambda operator, version: operator + version, st.sampled_from(["==", "!=", ">=", "<=", ">", "<", "~="]), _VERSIONS
)


@pytest.mark.slow
@given(version=_VERSIONS, specifiers=st.lists(_SPECIFIERS, max_size=6))
def test_a_satisfiable_range_is_never_called_a_contradiction(version: str, specifiers: list[str]) -> None:
    fitting = [each for each in specifiers if Requirement(f"a{each}").specifier.contains(version, prereleases=True)]
    assert not contradict_each_other(fitting)


def test_all_problems_are_reported_at_once() -> None:
    message = refusal("-e .", "flask", "a==1", "a==2", "", "denied", supply=SupplyRules(deny=frozenset({"denied"})))
    lines = message.splitlines()
    assert lines[0] == "4 problems with requirements:"
    places = [line.strip().split(": ")[0] for line in lines[1:]]
    assert places == ["requirement 1 of 6", "requirements 3, 4 of 6", "requirement 5 of 6", "requirement 6 of 6"]


def test_a_flood_of_problems_is_reported_in_a_screenful() -> None:
    message = refusal(*["$" * 900] * MAX_REQUIREMENTS)
    assert len(message.splitlines()) < 30
    assert len(message) < 10_000
    assert "more" in message


def test_a_refusal_is_an_environment_error() -> None:
    assert issubclass(RequirementRefused, EnvironmentUnavailable)
    assert not RequirementRefused("x").retryable


@pytest.mark.parametrize(
    "text",
    [
        "https://user:hunter2@host.example/a.whl",
        "a @ https://user:hunter2@host.example/a.whl",
        f"a @ https://user:hunter2@host.example/a.whl#sha256={HASH}",
        "a @ https://hunter2@host.example/a.whl",
        "a @ https://user:hunter2/@host.example/a.whl",
        f"a @ https://host.example/a.whl?token=hunter2#sha256={HASH}",
        "--index-url https://user:hunter2@host.example/simple",
        "--extra-index-url=https://user:hunter2@host.example/simple",
        "git+https://hunter2@host.example/a.git",
        "a; https://user:hunter2@host.example",
        "a ???https://user:hunter2@host.example",
        "https://user:hunter2@host.example/" + "a" * 3000,
    ],
)
@pytest.mark.parametrize("supply", [ANYTHING, DIRECT], ids=["index only", "direct references"])
def test_a_password_is_never_repeated(text: str, supply: SupplyRules) -> None:
    with pytest.raises(RequirementRefused) as refused:
        read(text, supply=supply)
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (f"a @ {ADDRESS}", f"a @ {ADDRESS}"),
        (f"A@{ADDRESS}", f"a @ {ADDRESS}"),
        (f"a[X] @ {ADDRESS} ; python_version > '3'", f'a[x] @ {ADDRESS} ; python_version > "3"'),
        (
            f"a @ http://host.example:8080/a.whl#sha256={HASH.upper()}",
            f"a @ http://host.example:8080/a.whl#sha256={HASH}",
        ),
    ],
)
def test_an_address_with_a_hash_is_accepted_if_the_policy_allows_it(text: str, canonical: str) -> None:
    assert read(text, supply=DIRECT) == read(canonical, supply=DIRECT) == (canonical,)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a @ https://host.example/a.whl", "hash"),
        ("a @ https://host.example/a.whl#sha256=123", "hash"),
        (f"a @ https://host.example/a.whl#md5={HASH[:32]}", "hash"),
        (f"a @ https://host.example/a.whl#sha256={HASH}&x=1", "hash"),
        (f"a @ https://host.example/a.whl?x=1#sha256={HASH}", "hash"),
        (f"a @ https://host.example/$(id)#sha256={HASH}", "hash"),
        (f"a @ https://user:x@host.example/a.whl#sha256={HASH}", "credentials"),
        (f"a @ {ADDRESS};os_name=='nt'", "put a space"),
        (f"a @ {ADDRESS} ; python_version > '$(id)'", "'$'"),
        (f"a @ {ADDRESS} --pre", "option"),
        (f"a @ git+https://host.example/a.git@{HASH[:40]}", "repository"),
        (f"a @ git+https://host.example/a.git#sha256={HASH}", "repository"),
        (f"a @ file:///tmp/a.whl#sha256={HASH}", "file"),
        (f"a @ ftp://host.example/a.whl#sha256={HASH}", "file"),
        ("a @ ./a.whl", "file"),
        ("a @", "file"),
        (ADDRESS, "address without a name"),
        (f"@ {ADDRESS}", "not a requirement"),
    ],
)
def test_an_address_without_a_hash_is_refused_everywhere(text: str, reason: str) -> None:
    with pytest.raises(RequirementRefused) as refused:
        read(text, supply=DIRECT)
    assert reason in str(refused.value)


def test_one_package_from_two_places_is_refused() -> None:
    other = ADDRESS.replace("host", "other")
    assert "two places" in refusal(f"a @ {ADDRESS}", f"a @ {other}", supply=DIRECT)
    assert "two places" in refusal(f"a @ {ADDRESS}", "a>=1", supply=DIRECT)
    assert read(f"a @ {ADDRESS}", f"a[x] @ {ADDRESS}", supply=DIRECT) == (f"a[x] @ {ADDRESS}",)


def test_a_denied_name_is_refused_in_every_spelling() -> None:
    supply = SupplyRules(deny=frozenset({"Bad_Package"}))
    for text in ("bad-package", "BAD.PACKAGE==1", "bad__package[x]; os_name == 'nt'"):
        assert "'bad-package' is denied" in refusal("flask", text, supply=supply)
    assert read("good-package", supply=supply)


def test_a_name_outside_the_allowed_ones_is_refused() -> None:
    supply = SupplyRules(allow=frozenset({"Good_Package"}))
    assert read("good.package>=1", supply=supply) == ("good-package>=1",)
    assert "'other' is not among the packages" in refusal("good-package", "other", supply=supply)


def test_a_package_both_allowed_and_denied_is_denied() -> None:
    supply = SupplyRules(allow=frozenset({"a"}), deny=frozenset({"a"}))
    assert "denied" in str(supply.refusal("A"))


def test_markers_that_do_not_hold_are_reported_and_kept() -> None:
    lines = read("a; sys_platform == 'win32'", "b; sys_platform == 'linux'", "c")
    assert len(lines) == 3
    assert excluded_by_marker(lines, markers={"sys_platform": "linux"}) == ('a; sys_platform == "win32"',)


@pytest.mark.slow
@given(st.lists(st.text(), max_size=4))
def test_any_text_is_read_or_refused(items: list[str]) -> None:
    _read_or_refused(items)


@pytest.mark.slow
@given(st.lists(st.text(alphabet="ab1.[](),;=<>!~@#'\" -/:*\\\n", max_size=40), max_size=3))
def test_any_text_that_looks_like_a_requirement_is_read_or_refused(items: list[str]) -> None:
    _read_or_refused(items)
    _read_or_refused(items, supply=DIRECT)


_VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
_KEYS: Final = st.sampled_from(["name", "version", "extras", "marker"]) | st.text(max_size=3)


@pytest.mark.slow
@given(st.lists(_VALUES | st.dictionaries(_KEYS, _VALUES | st.just("1.2"), max_size=4), max_size=3))
def test_any_value_is_read_or_refused(items: list[object]) -> None:
    _read_or_refused(items)


def _judged(items: Sequence[object], *, supply: SupplyRules) -> tuple[str, ...] | RequirementRefused:
    try:
        return read(*items, supply=supply)
    except RequirementRefused as refused:
        return refused


def _read_or_refused(items: Sequence[object], *, supply: SupplyRules = ANYTHING) -> None:
    judged = _judged(items, supply=supply)
    if isinstance(judged, RequirementRefused):
        assert judged.message.replace("\n  ", "").isprintable()
        return
    assert len(judged) <= len(items)
    assert read(*judged, supply=supply) == judged
    assert all(line.isascii() and line.isprintable() and line[0].isalnum() for line in judged)


@pytest.mark.slow
@given(
    st.lists(st.sampled_from(sorted(TAKEN)), min_size=1, max_size=8),
    st.randoms(use_true_random=False),
)
def test_order_never_matters(items: list[str], chance: random.Random) -> None:
    shuffled = chance.sample(items, len(items))
    judged, again = _judged(items, supply=ANYTHING), _judged(shuffled, supply=ANYTHING)
    assert type(judged) is type(again)
    assert isinstance(judged, RequirementRefused) or judged == again


@pytest.mark.parametrize("text", [text for text in TAKEN if ";" not in text])
def test_letter_case_never_matters(text: str) -> None:
    assert read(text.upper()) == read(text.lower()) == read(text)


@pytest.mark.parametrize(
    "unit",
    ["a", "(", "[", "'", '"', "@", ":", "//", "-", " -", "=", "==1,", ".", "a ", "a,", "; ", "1.", "!", "a@:", "<1"],
)
def test_a_long_text_is_judged_quickly(unit: str) -> None:
    with within(1):
        for text in (
            unit * (MAX_LENGTH // len(unit)),
            f"a; {unit * 300}"[:MAX_LENGTH],
            "a" + unit * 300,
            unit * 1_000_000,
        ):
            _read_or_refused([text])
