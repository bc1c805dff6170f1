"""An address of an index that is mistyped is refused as one, and nothing that may be a login in it is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from sandbox.environments.indexes.settings import IndexSettings, read_index_settings, redacted, settings_for
from sandbox.errors import EnvironmentUnavailable

SECRET: Final = "S3CRETpw"
MISTYPED: Final = [
    f"http:/user:{SECRET}@host/simple",
    f"HTTPS:user:{SECRET}@host/simple",
    f"user:{SECRET}@host/simple",
    f"user:{SECRET}@host",
    f"{SECRET}@host/simple",
    f"//user:{SECRET}@host/simple",
    f"htp://user:{SECRET}@host/simple",
    f"http://user:{SECRET}/x@host/simple",
    f"./user:{SECRET}@host/simple",
]


def _read(folder: Path, **environ: str) -> IndexSettings:
    return read_index_settings(environ, home=folder, etc=folder, prefix=folder)


@pytest.mark.parametrize("at", range(len(MISTYPED)))
@pytest.mark.parametrize("variable", ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "UV_INDEX_URL"])
def test_a_mistyped_address_is_refused_and_not_repeated(variable: str, at: int, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnavailable) as refused:
        _read(tmp_path, PIP_CONFIG_FILE="/dev/null", UV_NO_CONFIG="1", **{variable: MISTYPED[at]})
    assert SECRET not in str(refused.value)
    assert refused.value.remedy


@pytest.mark.parametrize("at", range(len(MISTYPED)))
def test_so_is_one_of_a_policy(at: int) -> None:
    with pytest.raises(EnvironmentUnavailable) as refused:
        settings_for([MISTYPED[at]], IndexSettings())
    assert SECRET not in str(refused.value)


def test_the_setting_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnavailable, match=r"pip's extra-index-url holds .*…@host/simple"):
        _read(tmp_path, PIP_CONFIG_FILE="/dev/null", PIP_EXTRA_INDEX_URL=MISTYPED[0])


def test_files_of_another_machine_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnavailable, match="file://otherhost/x names a file of another machine"):
        _read(tmp_path, PIP_CONFIG_FILE="/dev/null", PIP_EXTRA_INDEX_URL="file://otherhost/x")


@pytest.mark.parametrize("path", ["wheels", "./a@b", "/srv/@team/wheels", "/srv/a:b", "~/wheels", "file:///srv/@team"])
def test_folders_may_be_named_as_they_are(path: str, tmp_path: Path) -> None:
    found = _read(tmp_path, PIP_CONFIG_FILE="/dev/null", PIP_FIND_LINKS=path, PIP_NO_INDEX="1").find_links
    assert found[0].endswith(path.removeprefix("file://").lstrip("~."))


@pytest.mark.parametrize("at", range(len(MISTYPED)))
def test_what_is_shown_of_an_address_holds_no_login(at: int) -> None:
    assert SECRET not in redacted(MISTYPED[at])
    assert "host" in redacted(MISTYPED[at])


def test_what_is_no_login_is_shown() -> None:
    for address in ("/srv/@team/wheels", "file:///srv/@team", "https://host/@scope/simple"):
        assert redacted(address) == address
