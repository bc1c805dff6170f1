"""The delivery of the runner into a container, without files in the image and without mounts.

The container starts with a few lines of Python that read one message from standard input: the runner's modules, which
Python then imports from memory. So a new runner needs no new image, and a daemon on another machine needs none of our
files. The channel follows on standard input.

If the image's Python reads our bytecode (both have the same magic number), the payload holds bytecode, and the
container starts without compiling; otherwise the payload holds source.
"""

from __future__ import annotations

import importlib.util
import marshal
from functools import cache
from pathlib import Path
from typing import Final

from sandbox.resources import find_folder

_PYTHON: Final = "/usr/bin/python3"
_LENGTH: Final = 8
_STREAM, _STREAM_AND_OFFER = "-", "+"
_MARSHAL_FORMAT: Final = 2
"""A format that every Python since 3.4 reads."""
_PLACE: Final = "/runner"
"""The folder in the modules' file names; no image has such a folder."""

_LOADER: Final = f"""
import marshal, os, sys

def take(size):
    data = b""
    while len(data) < size:
        part = os.read(0, size - len(data))
        if not part:
            os._exit(1)
        data += part
    return data

class Delivered:
    finds_the_runner = True
    def __init__(self, modules):
        self.modules = modules
    def find_spec(self, name, path=None, target=None):
        if name not in self.modules:
            return None
        return type(sys.__spec__)(name, self, is_package=self.modules[name][0])
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        _, path, content = self.modules[module.__name__]
        module.__file__ = path
        if isinstance(content, bytes):
            content = compile(content, path, "exec", dont_inherit=True)
        exec(content, module.__dict__)

sys.dont_write_bytecode = True
delivered = Delivered(marshal.loads(take(int.from_bytes(take({_LENGTH}), "big"))))
sys.meta_path.insert(0, delivered)
from box import start
sys.exit(start.main(sys.argv[1]))
"""


def runner_command(*, is_near: bool) -> list[str]:
    """Return the command of a container; with `is_near` the runner offers a channel past the daemon."""
    return [_PYTHON, "-I", "-S", "-B", "-c", _LOADER, _STREAM_AND_OFFER if is_near else _STREAM]


@cache
def runner_payload(magic: bytes) -> bytes:
    """Return the first message to a container whose Python has that magic number."""
    is_compiled = magic == importlib.util.MAGIC_NUMBER
    root = find_folder("runners") / "python"
    files = [path for path in sorted(root.rglob("*.py")) if path.name != "__main__.py"]
    modules = {_name(path, root): _module(path, root, is_compiled=is_compiled) for path in files}
    data = marshal.dumps(modules) if is_compiled else marshal.dumps(modules, _MARSHAL_FORMAT)
    return len(data).to_bytes(_LENGTH, "big") + data


def _name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _module(path: Path, root: Path, *, is_compiled: bool) -> tuple[bool, str, object]:
    """Return whether the module is a package, its file name, and its content."""
    place = f"{_PLACE}/{path.relative_to(root).as_posix()}"
    source = path.read_bytes()
    content = compile(source, place, "exec", dont_inherit=True) if is_compiled else source
    return path.name == "__init__.py", place, content
