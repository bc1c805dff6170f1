"""The engine follows the settings of pip and uv on a machine, and shows no login anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from sandbox.environments.indexes.settings import (
    Index,
    IndexSettings,
    read_index_settings,
    redacted,
    settings_for,
)
from sandbox.errors import EnvironmentUnavailable
from tests.unprivileged import without_privileges

SECRET: Final = "hunter2"
OURS: Final = "https://ours.test/simple"
EXTRA: Final = "https://extra.test/simple"
DEFAULT: Final = "uv's own"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def _read(home: Path, environ: Mapping[str, str] | None = None) -> IndexSettings:
    return read_index_settings(environ or {}, home=home, etc=home.parent / "etc", prefix=home.parent / "prefix")


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _urls(settings: IndexSettings) -> list[str]:
    """The indexes in the order in which they are asked; uv's own default has no address here."""
    return [*(index.url for index in settings.indexes), *([DEFAULT] if settings.asks_default else [])]


def test_a_machine_without_settings_asks_the_index_that_uv_would_ask(home: Path) -> None:
    found = _read(home)
    assert _urls(found) == [DEFAULT]
    assert (found.find_links, found.certificates, found.offline) == ((), None, False)


def test_extra_indexes_come_before_the_default_one(home: Path) -> None:
    found = _read(home, {"PIP_INDEX_URL": OURS, "PIP_EXTRA_INDEX_URL": f"{EXTRA} https://more.test/simple"})
    assert _urls(found) == [EXTRA, "https://more.test/simple", OURS]
    assert _urls(_read(home, {"PIP_EXTRA_INDEX_URL": EXTRA})) == [EXTRA, DEFAULT]


def test_an_index_that_is_named_twice_is_asked_once(home: Path) -> None:
    assert _urls(_read(home, {"PIP_INDEX_URL": f"{EXTRA}/", "PIP_EXTRA_INDEX_URL": f"{EXTRA} {OURS}"})) == [EXTRA, OURS]


PIP_FILES: Final = {
    "system": "etc/pip.conf",
    "user, old": "home/.pip/pip.conf",
    "user": "home/.config/pip/pip.conf",
    "interpreter": "prefix/pip.conf",
}


@pytest.mark.parametrize("count", range(1, len(PIP_FILES) + 1))
def test_of_pips_files_the_nearest_wins(home: Path, count: int) -> None:
    for number, file in enumerate(list(PIP_FILES.values())[:count], start=1):
        _write(home.parent / file, f"[global]\nindex-url = https://index{number}.test/simple\n")
    assert _urls(_read(home)) == [f"https://index{count}.test/simple"]


def test_variables_override_the_install_section_which_overrides_global(home: Path) -> None:
    _write(home / ".config/pip/pip.conf", f"[install]\nindex_url = {OURS}\n[global]\nindex-url = {EXTRA}\n")
    assert _urls(_read(home)) == [OURS]
    assert _urls(_read(home, {"PIP_INDEX_URL": "https://variable.test/simple"})) == ["https://variable.test/simple"]


def test_a_file_named_by_a_variable_stands_in_place_of_the_users(home: Path) -> None:
    _write(home / ".config/pip/pip.conf", f"[global]\nindex-url = {OURS}\nextra-index-url = {OURS}/more\n")
    named = _write(home / "named.conf", f"[global]\nindex-url = {EXTRA}\n")
    assert _urls(_read(home, {"PIP_CONFIG_FILE": str(named)})) == [EXTRA]
    assert _urls(_read(home, {"PIP_CONFIG_FILE": os.devnull})) == [DEFAULT]


@pytest.mark.slow
def test_pips_files_are_read_as_pip_reads_them(home: Path) -> None:
    _write(home / ".pip/pip.conf", f"[global]\ntimeout = 7\nindex-url = {OURS}\n[download]\nindex-url = {OURS}/no\n")
    _write(home / ".config/pip/pip.conf", f"[global]\nextra-index-url =\n  {EXTRA}\n  {OURS}/x\nfind-links = /a /b\n")
    environ = {"HOME": str(home), "PATH": os.environ["PATH"], "PIP_INDEX_URL": f"{OURS}/variable"}
    command = [sys.executable, "-m", "pip", "config", "list"]
    said = subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout
    found = read_index_settings(environ, home=home)
    assert f"global.extra-index-url='\\n{EXTRA}\\n{OURS}/x'" in said
    assert f":env:.index-url='{OURS}/variable'" in said
    assert _urls(found) == [EXTRA, f"{OURS}/x", f"{OURS}/variable"]
    assert (found.find_links, found.timeout_s) == (("/a", "/b"), 7)


def test_no_index_leaves_only_folders_of_wheels(home: Path) -> None:
    found = _read(home, {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "~/wheels file:///srv/wheels"})
    assert (_urls(found), found.find_links) == ([], (str(home / "wheels"), "/srv/wheels"))


def test_certificates_proxies_and_patience_are_the_machines(home: Path) -> None:
    environ = {
        "REQUESTS_CA_BUNDLE": "/third.pem",
        "SSL_CERT_FILE": "/second.pem",
        "PIP_CERT": "/first.pem",
        "HTTPS_PROXY": "http://proxy.test:3128",
        "no_proxy": "localhost,.test",
        "PIP_DEFAULT_TIMEOUT": "120",
    }
    found = _read(home, environ)
    assert (found.certificates, found.timeout_s) == (Path("/first.pem"), 120)
    assert found.proxies == {"https": "http://proxy.test:3128", "no": "localhost,.test"}
    environ.pop("PIP_CERT")
    assert _read(home, environ).certificates == Path("/second.pem")
    assert _read(home, {"PIP_PROXY": "http://p.test"}).proxies == {"http": "http://p.test", "https": "http://p.test"}
    assert _read(home, {"UV_OFFLINE": "true"}).offline


def test_a_folder_of_authorities_is_the_machines_too(home: Path) -> None:
    assert _read(home, {"SSL_CERT_DIR": "/folder", "CURL_CA_BUNDLE": "/last.pem"}).certificates == Path("/folder")
    assert _read(home, {"SSL_CERT_DIR": "/folder", "SSL_CERT_FILE": "/file.pem"}).certificates == Path("/file.pem")


def test_hosts_that_pip_is_not_to_check_are_read_however_they_are_written(home: Path) -> None:
    environ = {"PIP_TRUSTED_HOST": "Ours.test extra.test:8443\n[::1]:80"}
    assert _read(home, environ).unchecked_hosts == {"ours.test", "extra.test:8443", "::1:80"}
    _write(home / ".config/pip/pip.conf", "[global]\ntrusted-host =\n    one.test\n    two.test\n")
    assert _read(home).unchecked_hosts == {"one.test", "two.test"}
    assert settings_for([OURS], _read(home)).unchecked_hosts == {"one.test", "two.test"}


def test_a_host_that_cannot_be_read_is_named_as_what_it_is(home: Path) -> None:
    with pytest.raises(EnvironmentUnavailable, match="not to be checked cannot be read"):
        _read(home, {"PIP_TRUSTED_HOST": "[::"})


def test_what_uv_is_not_to_check_counts_where_uv_says_where_packages_are(home: Path) -> None:
    environ = {"UV_INSECURE_HOST": "variable.test", "PIP_TRUSTED_HOST": "pips.test"}
    assert _read(home, environ).unchecked_hosts == {"pips.test"}
    assert _read(home, {**environ, "UV_INDEX": OURS}).unchecked_hosts == {"variable.test"}


def test_logins_are_taken_from_urls_variables_and_netrc(home: Path) -> None:
    _write(home / ".netrc", f"machine netrc.test login bob password {SECRET}\n")
    environ = {
        "UV_INDEX": "https://netrc.test/simple name=https://named.test/simple",
        "UV_INDEX_NAME_USERNAME": "eve",
        "UV_INDEX_NAME_PASSWORD": f"{SECRET}@/",
        "UV_DEFAULT_INDEX": f"https://al%40ice:{SECRET}@ours.test:8443/simple",
    }
    found = _read(home, environ)
    assert [index.credentials for index in found.indexes] == [
        ("bob", SECRET),
        ("eve", f"{SECRET}@/"),
        ("al@ice", SECRET),
    ]
    assert _urls(found)[-1] == "https://ours.test:8443/simple"


def test_a_login_is_for_the_origin_it_was_given_for_and_no_other() -> None:
    found = IndexSettings(indexes=(Index("https://ours.test/simple", ("bob", SECRET)),))
    assert found.credentials_for("https://ours.test:443/files/x.whl") == ("bob", SECRET)
    for stranger in ("http://ours.test/x.whl", "https://ours.test:8443/x.whl", "https://files.ours.test/x.whl"):
        assert found.credentials_for(stranger) is None


def test_no_login_shows_in_what_is_printed(home: Path) -> None:
    _write(home / ".netrc", f"machine extra.test login bob password {SECRET}\n")
    environ = {
        "PIP_INDEX_URL": f"https://bob:{SECRET}@ours.test/simple",
        "PIP_EXTRA_INDEX_URL": EXTRA,
        "PIP_FIND_LINKS": f"https://bob:{SECRET}@links.test/wheels",
        "HTTPS_PROXY": f"http://bob:{SECRET}@proxy.test",
    }
    found = _read(home, environ)
    assert found.credentials_for("https://links.test/wheels/x.whl") == ("bob", SECRET)
    assert SECRET not in repr(found) + str(found) + repr(found.indexes)
    assert redacted(f"https://bob:{SECRET}@ours.test/simple?token={SECRET}#{SECRET}") == "https://ours.test/simple?…"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("home/.config/pip/pip.conf", f"[global\nindex-url = https://bob:{SECRET}@ours.test/simple"),
        ("home/.config/uv/uv.toml", f'index-url = "https://bob:{SECRET}@ours.test'),
        ("home/.config/pip/pip.conf", f"[global]\nindex-url = https://bob:{SECRET}@ours.test:port/simple"),
    ],
)
def test_settings_that_cannot_be_read_are_an_error_that_repeats_no_login(home: Path, file: str, text: str) -> None:
    _write(home.parent / file, text)
    with pytest.raises(EnvironmentUnavailable) as caught:
        _read(home)
    assert SECRET not in str(caught.value)
    assert caught.value.remedy


BROKEN_PIP: Final[dict[str, bytes]] = {
    "no section": b"index-url = 1",
    "half a section": b"[global",
    "wrong encoding": b"[global]\nindex-url = \xff",
}
UVS_INDEXES: Final[dict[str, bytes]] = {
    "an index": b"[[index]]\nurl = 'https://ours.test'",
    "an address": b'native-tls = true\nindex-url = "https://ours.test"',
    "more of them": b"extra-index-url = ['https://ours.test']",
    "a folder": b"find-links = ['wheels']",
    "in a part": b"[pip]\nno-index = true",
    "wrong encoding": b'index-url = "\xff"',
}
BROKEN: Final = [
    *(("home/.config/pip/pip.conf", content) for content in BROKEN_PIP.values()),
    *((file, content) for content in UVS_INDEXES.values() for file in ("home/.config/uv/uv.toml", "etc/uv/uv.toml")),
]


@pytest.mark.parametrize(("file", "content"), BROKEN)
def test_a_broken_file_and_one_of_uv_with_indexes_are_errors(home: Path, file: str, content: bytes) -> None:
    path = _write(home.parent / file, "")
    path.write_bytes(content)
    with pytest.raises(EnvironmentUnavailable, match="configuration file") as caught:
        _read(home)
    assert str(path) in caught.value.message
    assert caught.value.remedy


def test_uvs_file_that_names_no_index_is_no_error(home: Path) -> None:
    _write(home / ".config/uv/uv.toml", 'concurrent-downloads = 4\n# index-url = "https://ours.test"\n')
    assert _urls(_read(home)) == [DEFAULT]
    _write(home / ".config/uv/uv.toml", f'index-url = "{OURS}"\n')
    assert _urls(_read(home, {"UV_NO_CONFIG": "1"})) == [DEFAULT]
    assert _urls(_read(home, {"UV_DEFAULT_INDEX": EXTRA})) == [EXTRA]


def test_where_uvs_variables_name_indexes_pips_do_not_count(home: Path) -> None:
    environ = {
        "PIP_INDEX_URL": OURS,
        "PIP_FIND_LINKS": "/wheels",
        "UV_INDEX": f"named={EXTRA} https://more.test/simple",
    }
    found = _read(home, environ)
    assert (_urls(found), found.find_links) == ([EXTRA, "https://more.test/simple", DEFAULT], ())
    assert _urls(_read(home, {**environ, "UV_DEFAULT_INDEX": OURS}))[-1] == OURS


@pytest.mark.parametrize("file", ["home/.config/pip/pip.conf", "home/.config/uv/uv.toml", "etc/uv/uv.toml"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_pipe_or_a_folder_is_an_error_and_not_waited_for(home: Path, file: str, make: Callable[[Path], None]) -> None:
    path = home.parent / file
    path.parent.mkdir(parents=True)
    make(path)
    with pytest.raises(EnvironmentUnavailable, match=rf"{path.name} cannot be read"):
        _read(home)


@pytest.mark.root
@pytest.mark.parametrize("file", ["home/.config/pip/pip.conf", "home/.config/uv/uv.toml", "etc/xdg/uv/uv.toml"])
def test_a_file_that_this_user_may_not_read_is_an_error(home: Path, file: str) -> None:
    path = _write(home.parent / file, f'index-url = "{OURS}"')
    path.parent.chmod(0)
    home.chmod(0o755)
    with without_privileges(home), pytest.raises(EnvironmentUnavailable, match="PermissionError"):
        _read(home)


@pytest.mark.parametrize("content", [b"machine", b"machine ours.test login", b"\xff\xfe", b"machine ours.test x y"])
def test_a_broken_netrc_names_no_login(home: Path, content: bytes) -> None:
    (home / ".netrc").write_bytes(content)
    assert _read(home, {"PIP_INDEX_URL": OURS}).credentials_for(OURS) is None


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_netrc_that_is_no_file_names_no_login(home: Path, make: Callable[[Path], None]) -> None:
    make(home / ".netrc")
    assert _read(home, {"PIP_INDEX_URL": OURS}).credentials_for(OURS) is None


def test_a_policys_indexes_stand_in_place_of_the_machines(home: Path) -> None:
    base = _read(home, {"PIP_INDEX_URL": f"https://bob:{SECRET}@ours.test/simple", "PIP_FIND_LINKS": "/wheels"})
    found = settings_for([EXTRA, "https://ours.test/other"], base)
    assert (_urls(found), found.find_links) == ([EXTRA, "https://ours.test/other"], ())
    assert [index.credentials for index in found.indexes] == [None, ("bob", SECRET)]
    assert settings_for([], base) == base


def test_a_policys_wheelhouse_is_looked_through_first(home: Path) -> None:
    base = _read(home, {"PIP_INDEX_URL": OURS, "PIP_FIND_LINKS": "/wheels"})
    assert settings_for([], base, wheelhouse=["/house"]).find_links == ("/house", "/wheels")
    assert settings_for([EXTRA], base, wheelhouse=["/house"]).find_links == ("/house",)
