"""The reading of uv's answer: of what it says only what is checked goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox.environments.build_jobs import JobEnd
from sandbox.environments.indexes.local_places import LocalPlaces, lay_out
from sandbox.environments.indexes.settings import Index, IndexSettings
from sandbox.environments.interpreters.host import own_interpreter
from sandbox.environments.resolution.request import ResolveRequest
from sandbox.environments.resolution.uv_lock import index_options, index_variables, locked_wheel, read_answer
from sandbox.errors import IndexRefused, IndexUnavailable, ResolutionFailed
from sandbox.policy import load
from tests.indexes import LocalIndex, make_wheel, sha256_of

URL: Final = "https://index.test/simple"
SECRET: Final = "hunter2"


def _question(**settings: Any) -> ResolveRequest:
    return ResolveRequest(
        requirements=("wanted",),
        interpreter=own_interpreter(),
        supply=load("default").supply,
        settings=IndexSettings(indexes=(Index(URL, ("bob", SECRET)),), **settings),
        most_packages=10,
        most_disk=1,
    )


def _problem(said: str, *, refused: tuple[tuple[str, str], ...] = (), builds: bool = False) -> Exception:
    end = JobEnd(value={"code": 2, "said": said})
    with pytest.raises((ResolutionFailed, IndexUnavailable)) as caught:
        read_answer(end, _question(), refused=refused, builds=builds)
    return caught.value


FAULTS: Final = {
    "HTTP status server error (503 Service Unavailable) for url (x)": "it answers 503",
    "HTTP status server error (502 Bad Gateway) for url (x)": "no connection to index.test",
    "operation timed out": "no answer within 30 s",
    "invalid peer certificate: UnknownIssuer": "its certificate is not trusted",
    "tunnel error: unsuccessful": "no connection to index.test",
}


@pytest.mark.parametrize("cause", FAULTS)
def test_an_index_that_does_not_answer_is_named_with_its_package(cause: str) -> None:
    error = _problem(f"error: Failed to fetch: `{URL}/wanted/`\n  Caused by: {cause}")
    assert f"the package index {URL}, asked for wanted, did not answer as one: {FAULTS[cause]}" in str(error)


def test_a_private_address_that_was_refused_is_the_reason() -> None:
    error = _problem(f"error: Failed to fetch: `{URL}/wanted/`\n  tunnel error", refused=(("10.0.0.1", "address"),))
    assert isinstance(error, IndexRefused)
    assert "10.0.0.1" in str(error)


def test_a_login_that_is_missing_or_withheld_is_the_reason() -> None:
    said = f"hint: An index URL ({URL}) could not be queried due to a lack of credentials (401 Unauthorized)"
    assert "it refuses the login" in str(_problem(f"error: No solution found\n{said}"))
    assert "boxes that build sources are given no login" in str(_problem(said, builds=True))


def test_passwords_are_masked_in_all_that_uv_says() -> None:
    assert SECRET not in str(_problem(f"error: something with https://bob:{SECRET}@index.test"))


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "file:///links/0/../../etc/passwd",
        "file:///links/1/wanted-1.0-py3-none-any.whl",
        "file:///links/0/link-1.0-py3-none-any.whl",
        "ftp://index.test/wanted-1.0-py3-none-any.whl",
        "",
    ],
)
def test_a_file_of_this_machine_is_taken_from_shown_folders_alone(url: str, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "links", "wanted", "1.0")
    secret = make_wheel(tmp_path / "secret", "link", "1.0")
    (wheel.parent / secret.name).symlink_to(secret)
    places = LocalPlaces(shown={"/links/0": wheel.parent})
    stated = {"name": "wanted", "version": "1.0", "wheels": [{"url": url, "hashes": {"sha256": "0" * 64}}]}
    with pytest.raises(ResolutionFailed, match="not in its own folder"):
        locked_wheel(stated, places, frozenset(), supply=load("default").supply)


def test_a_wheel_of_a_folder_is_locked_by_its_own_hash(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "links", "wanted", "1.0")
    places = LocalPlaces(shown={"/links/0": wheel.parent})
    stated = {"name": "wanted", "version": "1.0", "wheels": [{"url": f"file:///links/0/{wheel.name}"}]}
    package, origin = locked_wheel(stated, places, frozenset(), supply=load("default").supply)
    assert (package.sha256, origin) == (sha256_of(wheel), wheel.as_uri())


def test_a_hash_that_no_page_promises_is_refused_unless_policy_takes_it() -> None:
    wheel = {"url": f"{URL}/wanted-1.0-py3-none-any.whl", "hashes": {"sha256": "0" * 64}}
    stated = {"name": "wanted", "version": "1.0", "wheels": [wheel]}
    supply = load("default").supply
    with pytest.raises(ResolutionFailed, match="promises no SHA-256"):
        locked_wheel(stated, LocalPlaces(), frozenset(), supply=supply)
    assert locked_wheel(stated, LocalPlaces(), frozenset({"0" * 64}), supply=supply)
    loose = supply.model_copy(update={"require_hashes": False})
    assert locked_wheel(stated, LocalPlaces(), frozenset(), supply=loose)


def test_uv_is_given_logins_only_where_no_source_is_built() -> None:
    settings = _question().settings
    assert SECRET in index_variables(settings, LocalPlaces(), has_logins=True)["UV_DEFAULT_INDEX"]
    assert SECRET not in repr(index_variables(settings, LocalPlaces(), has_logins=False))


def test_uvs_own_default_index_is_not_named() -> None:
    settings = IndexSettings(indexes=(Index(URL),), asks_default=True)
    variables = index_variables(settings, LocalPlaces(), has_logins=True)
    assert (variables["UV_INDEX"], "UV_DEFAULT_INDEX" in variables) == (URL, False)
    assert "--no-index" not in index_options(settings)
    assert "--no-index" in index_options(replace(settings, offline=True))


def test_an_index_folder_is_shown_with_the_folder_that_its_pages_link_to(tmp_path: Path) -> None:
    index = LocalIndex(tmp_path / "files")
    index.add("child", "2.0")
    url = index.write_as_folder(tmp_path / "simple")
    index._server.server_close()
    (tmp_path / "private").mkdir()
    places = lay_out(IndexSettings(indexes=(Index(url),)), tmp_path)
    assert places.shown == {"/indexes/0/simple": tmp_path / "simple", "/indexes/0/files": tmp_path / "files"}
    assert places.urls == {url: "file:///indexes/0/simple"}
    assert places.on_host("file:///indexes/0/files/child-2.0-py3-none-any.whl") == index.wheels("child")[0]


@pytest.mark.root
def test_a_folder_that_others_cannot_read_is_copied_for_the_box(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "links", "wanted", "1.0")
    wheel.parent.chmod(0o700)
    places = lay_out(IndexSettings(find_links=(str(wheel.parent),)), tmp_path)
    shown = places.shown["/links/0"]
    assert shown != wheel.parent
    assert (shown / wheel.name).stat().st_mode & 0o777 == 0o644
    assert places.links == {str(wheel.parent): "/links/0"}
    assert places.on_host(f"file:///links/0/{wheel.name}") == wheel
