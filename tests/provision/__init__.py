"""What the tests need and a fresh machine lacks. Standard library only, apart from `absent`, which runs inside pytest.

environment   `.test-venv`, the Python environment everything runs in
debian        system packages, only as root on a Debian machine in CI
offspring     runs the tests so that no process they start outlives them
docker_daemon a Docker Engine of the tests' own, only as root on Linux
absent        what this machine has not got: a failure in CI, named loudly elsewhere
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


class ProvisionError(Exception):
    """Something the tests need cannot be had here; the message says what to do about it."""


def is_in_ci() -> bool:
    return os.environ.get("CI", "").lower() in {"true", "1"}
