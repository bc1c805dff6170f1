"""Package archives of this machine are read from both formats of apt."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.errors import BackendUnavailable
from sandbox.images.apt_sources import Archive, parse_lines, parse_paragraphs, this_distribution

PARAGRAPHS = """\
# The first
Types: deb deb-src
URIs: http://mirror.invalid/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.invalid/security
Suites: bookworm-security
Components: main

Types: deb-src
URIs: http://mirror.invalid/sources
Suites: bookworm
Components: main

Enabled: no
Types: deb
URIs: http://mirror.invalid/off
Suites: bookworm
Components: main

Types: deb
URIs: http://stranger.invalid/apt
Suites: bookworm
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 -----END PGP PUBLIC KEY BLOCK-----
"""
LINES = """\
# deb http://mirror.invalid/comment bookworm main
deb http://mirror.invalid/debian bookworm main contrib   # the first
deb-src http://mirror.invalid/debian bookworm main
deb [arch=amd64 signed-by=/etc/apt/keyrings/stranger.gpg] http://stranger.invalid/apt bookworm main
"""


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    (tmp_path / "apt/sources.list.d").mkdir(parents=True)
    (tmp_path / "os-release").write_text('ID=debian\nVERSION_CODENAME="bookworm"\n')
    return tmp_path


def test_paragraphs_are_one_archive_for_each_suite() -> None:
    found = [(archive.uri, archive.suite) for archive in parse_paragraphs(PARAGRAPHS)]
    assert found == [
        ("http://mirror.invalid/debian", "bookworm"),
        ("http://mirror.invalid/debian", "bookworm-updates"),
        ("http://mirror.invalid/security", "bookworm-security"),
        ("http://stranger.invalid/apt", "bookworm"),
    ]


def test_lines_are_read_with_their_options() -> None:
    assert list(parse_lines(LINES.splitlines())) == [
        Archive("http://mirror.invalid/debian", "bookworm", ("main", "contrib")),
        Archive("http://stranger.invalid/apt", "bookworm", ("main",), "/etc/apt/keyrings/stranger.gpg"),
    ]


def test_archives_of_the_distribution_differ_from_strangers(etc: Path) -> None:
    (etc / "apt/sources.list.d/debian.sources").write_text(PARAGRAPHS)
    found = this_distribution(etc)
    assert (str(found), found.base.uri) == ("debian bookworm", "http://mirror.invalid/debian")
    assert [archive.suite for archive in found.updates] == ["bookworm-updates", "bookworm-security"]
    assert found.keyring == "/usr/share/keyrings/debian-archive-keyring.gpg"


def test_a_machine_with_the_older_format_alone_is_supported(etc: Path) -> None:
    (etc / "apt/sources.list").write_text(LINES)
    assert this_distribution(etc).base == Archive("http://mirror.invalid/debian", "bookworm", ("main", "contrib"))


@pytest.mark.parametrize(
    "release", ["", "ID=debian\n", "ID=fedora\nVERSION_ID=43\n", "ID=debian\nVERSION_CODENAME=sid\n"]
)
def test_a_machine_without_such_packages_gets_a_remedy(release: str, etc: Path) -> None:
    (etc / "os-release").write_text(release)
    (etc / "apt/sources.list").write_text(LINES)
    with pytest.raises(BackendUnavailable, match="DOCKER_HOST"):
        this_distribution(etc)


def test_a_machine_without_apt_gets_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match="on Debian or Ubuntu"):
        this_distribution(tmp_path)
