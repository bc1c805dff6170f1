"""Source distributions that attack their builder.

Each has a build backend of its own, so that nothing of any index is needed to build it, and makes the wheel that was
asked for unless the attack is to make something else. The result of the attack ends up in the package as `REPORT`,
where a tool that requires the package finds it: an attack that never ran has no report.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Final

_BACKEND: Final = """
import base64, hashlib, os, sys, zipfile

NAME = {name!r}
ABOUT = NAME + "-1.0.dist-info"
METADATA = "Metadata-Version: 2.1\\nName: " + NAME + "\\nVersion: 1.0\\n"
TELLS = "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"

def write_wheel(path, files):
    rows = []
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            rows.append(name + ",sha256=" + digest + "," + str(len(text.encode())))
        archive.writestr(ABOUT + "/RECORD", "\\n".join(rows + [ABOUT + "/RECORD,,", ""]))

def make_wheel(folder, report):
    name = NAME + "-1.0-py3-none-any.whl"
    module = "VERSION = '1.0'\\nREPORT = " + repr(report) + "\\n"
    files = {{NAME + ".py": module, ABOUT + "/METADATA": METADATA, ABOUT + "/WHEEL": TELLS}}
    write_wheel(os.path.join(folder, name), files)
    return name

def prepare_metadata_for_build_wheel(folder, config_settings=None):
    metadata()
    os.mkdir(os.path.join(folder, ABOUT))
    for name, text in {{"METADATA": METADATA, "WHEEL": TELLS}}.items():
        with open(os.path.join(folder, ABOUT, name), "w") as file:
            file.write(text)
    return ABOUT

def build_wheel(folder, config_settings=None, metadata_directory=None):
    return make_wheel(folder, attack(folder))

def metadata():
    pass

"""


def make_source(folder: Path, name: str, attack: str, *, is_dynamic: bool = False) -> str:
    """A package's source in that folder, and its name.

    `attack` defines `attack(folder)`, which runs when the wheel is built; also `metadata()`, which runs when it is
    resolved, if the source `is_dynamic`: only its backend can tell what it requires.
    """
    version = "2.1" if is_dynamic else "2.2"
    files = {
        "PKG-INFO": f"Metadata-Version: {version}\nName: {name}\nVersion: 1.0\n",
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        "backend.py": _BACKEND.format(name=name) + attack,
    }
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(folder / f"{name}-1.0.tar.gz", "w:gz") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(f"{name}-1.0/{path}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return name
