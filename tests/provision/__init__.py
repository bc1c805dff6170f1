"""Provide the needs of the tests on a fresh machine. Standard library only, but for `absent`, which runs in pytest.

environment   `.test-venv`, the Python environment everything runs in
debian        system packages, only as root on a Debian machine
offspring     runs the tests so that no process they start outlives them
earlier_runs  ends and removes what a killed run left
docker_daemon a Docker Engine of the tests' own, only as root on Linux
podman        the same of Podman
certificates  an authority of the tests' own
absent        what this machine lacks: a failure where it can be installed, a skip with the reason elsewhere
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


class ProvisionError(Exception):
    """The tests need a thing that cannot be had here; the message says what to do about it."""
