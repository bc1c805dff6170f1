"""Missing prerequisites of an image are reported before any work begins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox.errors import BackendUnavailable
from sandbox.images import bootstrapping


@pytest.mark.root
def test_without_root_the_error_names_who_can_build() -> None:
    os.seteuid(65534)
    try:
        with pytest.raises(BackendUnavailable, match="as root once"):
            bootstrapping.check_host()
    finally:
        os.seteuid(0)


@pytest.mark.root
def test_without_debootstrap_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendUnavailable, match="apt-get install debootstrap"):
        bootstrapping.check_host()
