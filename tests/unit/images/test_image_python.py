"""Facts about an image's Python are read only in their exact form."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import replace

import pytest

from sandbox.images.image_python import QUESTION, UNKNOWN, ImagePython, read_python, write_python

DEBIANS = ImagePython(
    implementation="cpython",
    version="3.11.2",
    abi="cp311",
    platform="linux_x86_64",
    glibc="2.36",
    cache_tag="cpython-311",
    magic="a70d0d0a",
)


def test_this_python_describes_itself() -> None:
    answer = subprocess.run([sys.executable, "-I", "-S", "-c", QUESTION], capture_output=True, check=True).stdout
    python = read_python(answer)
    assert python.version == ".".join(map(str, sys.version_info[:3]))
    assert python.magic == importlib.util.MAGIC_NUMBER.hex()


def test_the_platform_has_the_name_that_locks_use() -> None:
    assert DEBIANS.tag == "cp311-linux_x86_64-glibc2.36"
    assert replace(DEBIANS, glibc="").tag == "cp311-linux_x86_64-musl"
    assert (str(DEBIANS), str(UNKNOWN)) == ("cpython 3.11.2 (cp311-linux_x86_64-glibc2.36)", "unknown")


def test_a_label_keeps_every_fact() -> None:
    assert read_python(write_python(DEBIANS)) == DEBIANS


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "Python 3.11.2",
        "[]",
        '{"version": "3.11\\u001b[2J"}',
        '{"magic": "zz"}',
        '{"implementation": 3}',
        '{"surprise": ""}',
        json.dumps({"abi": "c" * 5000}),
    ],
)
def test_malformed_facts_are_refused(answer: str) -> None:
    with pytest.raises(ValueError, match=r"^is (no|too long an) answer"):
        read_python(answer)
