"""Supplies of packages: safe defaults, normalised names and places, and no secrets in a policy."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sandbox.policy import Policy, Supply
from sandbox.policy.quantities import GIB
from sandbox.policy.supply import MAX_INDEXES, MAX_PACKAGES, Environments


def test_by_default_a_build_runs_no_foreign_code_and_checks_every_file() -> None:
    supply = Supply()
    assert (supply.sdists, supply.direct_references, supply.prereleases) == (False, False, False)
    assert supply.require_hashes is True
    assert (supply.offline, supply.exclude_newer) == (False, 0.0)
    assert (supply.allow, supply.deny, supply.indexes, supply.wheelhouse) == ((), (), (), ())


def test_by_default_a_build_has_bounds_of_its_own() -> None:
    environment = Environments()
    assert (environment.build_time, environment.build_memory, environment.build_disk) == (900.0, 4 * GIB, 8 * GIB)
    assert (environment.packages, environment.verify, environment.preload) == (500, False, True)


def test_a_package_name_is_normalised() -> None:
    names = ("Ruamel.YAML", "ruamel_yaml", "ruamel-yaml", "NumPy")
    assert Supply(deny=names).deny == ("numpy", "ruamel-yaml")
    assert Supply(allow=names).allow == ("numpy", "ruamel-yaml")


@pytest.mark.parametrize(
    "name",
    ["", " ", "a b", "a>=1", "a[b]", "acme-*", "-a", "a-", "../a", "a\n", "a\0", "n\u0131m", "\u212aey", "x" * 300],
)
def test_an_invalid_package_name_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="is not a package's name"):
        Supply(deny=(name,))


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("https://index.example/simple/", "https://index.example/simple"),
        ("HTTPS://Index.Example:8443/Simple", "https://index.example:8443/Simple"),
        ("http://[::1]:3141/root/dev", "http://[::1]:3141/root/dev"),
        ("file:///srv/index/", "file:///srv/index"),
    ],
)
def test_an_index_address_is_normalised(written: str, kept: str) -> None:
    assert Supply(indexes=(written, kept)).indexes == (kept,)


def test_indexes_keep_their_order_because_the_first_is_asked_first() -> None:
    assert Supply(indexes=("https://b.example", "https://a.example")).indexes[0] == "https://b.example"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "index.example",
        "//index.example/simple",
        "ftp://index.example",
        "git+https://index.example/x",
        "https://",
        "https:///simple",
        "https://a b/",
        "https://a/\n",
        "https://a/\u2028",
        "https://a:99999/",
        "https://[::1/",
        "https://a/" + "x" * 3000,
        "file://",
        "file:///",
        "file://elsewhere/srv/index",
    ],
)
def test_an_invalid_index_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="must"):
        Supply(indexes=(url,))


@pytest.mark.parametrize(
    "url",
    [
        "https://user:hunter2@index.example/simple",
        "https://hunter2@index.example/simple",
        "https://:hunter2@index.example/simple",
        "https://index.example/simple?token=hunter2",
        "https://index.example/simple#hunter2",
        "https://user:hunter2@index.example:port/simple",
        "hunter2://index.example",
        "https://user:hunter2@",
        "https://user:hunter2@[::1/simple",
    ],
)
def test_a_credential_in_an_address_is_refused_and_never_repeated(url: str) -> None:
    document = {"name": "x", "description": "y", "supply": {"indexes": [url]}}
    with pytest.raises(ValidationError) as refused:
        Policy.model_validate(document)
    assert "hunter2" not in str(refused.value)


def test_a_refused_credential_is_answered_with_its_proper_place() -> None:
    with pytest.raises(ValidationError, match=r"netrc or in pip's own configuration"):
        Supply(indexes=("https://user:secret@index.example",))


@pytest.mark.parametrize("path", ["", "wheels", "~/wheels", "/srv/../etc", "/srv/wheels/", "/srv/\0"])
def test_a_wheelhouse_is_an_absolute_folder(path: str) -> None:
    with pytest.raises(ValidationError):
        Supply(wheelhouse=(path,))


def test_wheelhouses_are_kept_once() -> None:
    assert Supply(wheelhouse=("/srv/b", "/srv/a", "/srv/b")).wheelhouse == ("/srv/a", "/srv/b")


def test_every_list_is_bounded() -> None:
    lists = {
        "allow": [f"p{number}" for number in range(MAX_PACKAGES + 1)],
        "deny": [f"p{number}" for number in range(MAX_PACKAGES + 1)],
        "indexes": [f"https://a.example/{number}" for number in range(MAX_INDEXES + 1)],
        "wheelhouse": [f"/srv/{number}" for number in range(MAX_INDEXES + 1)],
    }
    for key, values in lists.items():
        assert len(getattr(Supply.model_validate({key: values[1:]}), key)) == len(values) - 1
        with pytest.raises(ValidationError, match="at most"):
            Supply.model_validate({key: values})


@pytest.mark.parametrize("value", [1, 0, "true", "yes", None, []])
@pytest.mark.parametrize("key", ["offline", "sdists", "direct_references", "require_hashes", "prereleases"])
def test_a_switch_is_true_or_false_and_nothing_similar(key: str, value: object) -> None:
    with pytest.raises(ValidationError):
        Supply.model_validate({key: value})


def test_supplies_are_part_of_the_permissions_of_a_policy() -> None:
    plain = Policy(name="x", description="y")
    digests = {
        plain.digest,
        plain.model_copy(update={"supply": Supply(offline=True)}).digest,
        plain.model_copy(update={"supply": Supply(deny=("numpy",))}).digest,
        plain.model_copy(update={"environment": Environments(verify=True)}).digest,
    }
    assert len(digests) == 4
