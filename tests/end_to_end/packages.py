"""Packages for tests: small wheels that say what they are, and a machine whose only index is a test's own."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import Distribution, PackagePath, distribution
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox import Sandbox
from sandbox.errors import EnvironmentUnavailable
from tests.indexes import make_wheel

NOTHING: Final = "def tool() -> int:\n    return 1\n"
_SETTINGS: Final = ("PIP_", "UV_", "NETRC")


@contextmanager
def machine_with(index: str | None, **settings: str) -> Iterator[None]:
    """Pip's settings on this machine are these and no others, for us and for what we start."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(_SETTINGS)]:
            patch.delenv(name)
        patch.setenv("PIP_CONFIG_FILE", os.devnull)
        patch.setenv("UV_NO_CONFIG", "1")
        patch.setenv("NETRC", os.devnull)
        if index is not None:
            patch.setenv("PIP_INDEX_URL", index)
        for name, value in settings.items():
            patch.setenv(name, value)
        yield


def publish(folder: Path, name: str, *versions: str, requires: tuple[str, ...] = ()) -> None:
    """A package of one module, which knows its version."""
    for version in versions:
        module = {f"{name}.py": f"VERSION = {version!r}\n"}
        make_wheel(folder, name, version, module, requires=requires)


def publish_files(folder: Path, name: str, files: Mapping[str, str | bytes], *, requires: tuple[str, ...] = ()) -> None:
    """A package of these files."""
    make_wheel(folder, name, "1.0", dict(files), requires=requires)


def publish_installed(folder: Path, *names: str) -> None:
    """The very packages that these tests run with, as wheels again; what only other platforms need of them is left."""
    for name in names:
        installed = distribution(name)
        files = [each for each in installed.files or () if not str(each).startswith("..")]
        kept = {str(each): each.read_binary() for each in files if _is_of_the_wheel(each)}
        tag = next(line.removeprefix("Tag: ") for line in _text_of(installed, "WHEEL") if line.startswith("Tag: "))
        requires = [each for each in installed.requires or () if ";" not in each]
        make_wheel(folder, installed.name, installed.version, kept, requires=requires, tag=tag)


def _is_of_the_wheel(file: PackagePath) -> bool:
    return "__pycache__" not in file.parts and not file.parts[0].endswith(".dist-info")


def _text_of(installed: Distribution, file: str) -> list[str]:
    return (installed.read_text(file) or "").splitlines()


def version_of(module: str, *requirements: str) -> str:
    """A tool that requires these and returns the version of the module it gets."""
    return requiring(requirements, f"import {module}\ndef tool() -> str:\n    return {module}.VERSION\n")


def requiring(requirements: tuple[str, ...], code: str) -> str:
    """A tool's source that says itself what it requires."""
    lines = "".join(f"#   {requirement!r},\n" for requirement in requirements)
    return f"# /// script\n# dependencies = [\n{lines}# ]\n# ///\n{code}"


def refusal_of(sandbox: Sandbox, *requirements: Any, **fields: Any) -> EnvironmentUnavailable:
    """How an engine refuses a tool that needs nothing else."""
    with pytest.raises(EnvironmentUnavailable) as refused:
        sandbox.run(NOTHING, requirements=list(requirements), **fields)
    assert len(str(refused.value)) < 5000
    return refused.value


def policy_with(folder: Path, supply: str) -> str:
    """The path of a policy that is `default` with this [supply]."""
    file = folder / "supplied.toml"
    file.write_text(f'description = "for tests"\nextends = "default"\n[supply]\n{supply}\n')
    return str(file)


def contains(folder: Path, secret: str) -> list[Path]:
    """The files below a folder that hold this text, or are named with it."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in files if secret in str(path) or secret.encode() in path.read_bytes()]


def publish_hostile(
    folder: Path, name: str, entries: Mapping[str, str], *, links: Mapping[str, str] | None = None
) -> None:
    """A wheel that no tool would make: its archive has entries and symbolic links of any name."""
    about = f"{name}-1.0.dist-info"
    metadata = {
        f"{name}.py": "VERSION = '1.0'\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    written = {**metadata, **entries}
    record = "".join(f"{path},{_record_hash(text)},{len(text)}\n" for path, text in written.items())
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        for path, target in (links or {}).items():
            link = zipfile.ZipInfo(path)
            link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
            archive.writestr(link, target)
        for path, text in {**written, f"{about}/RECORD": f"{record}{about}/RECORD,,\n"}.items():
            archive.writestr(path, text)


def _record_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
