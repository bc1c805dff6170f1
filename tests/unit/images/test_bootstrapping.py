"""What an image cannot be made without is told before anything is begun."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox.errors import BackendUnavailable
from sandbox.images import bootstrapping


@pytest.mark.root
def test_without_root_it_says_who_can_make_it() -> None:
    os.seteuid(65534)
    try:
        with pytest.raises(BackendUnavailable, match="as root once"):
            bootstrapping.see_that_it_can()
    finally:
        os.seteuid(0)


@pytest.mark.root
def test_without_debootstrap_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendUnavailable, match="apt-get install debootstrap"):
        bootstrapping.see_that_it_can()
