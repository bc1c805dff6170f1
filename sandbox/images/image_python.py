"""The Python of an image, which decides whether environments for another Python work with it.

The interpreter describes itself once: in the tree of files of a new image, or in a container without anything else, for
cached files without a description. The labels of the image keep the answer. The engine believes an answer only if it is
short and well-formed, and uses it only to refuse environments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from sandbox.backends.container.docker.failures import translate_failures
from sandbox.errors import BackendUnavailable

if TYPE_CHECKING:
    from docker import DockerClient

PROGRAM: Final = "/usr/bin/python3"
QUESTION: Final = """
import importlib.util, json, os, sys, sysconfig
name, version = sys.implementation.name, sys.version_info
print(json.dumps({
    "implementation": name,
    "version": ".".join(map(str, version[:3])),
    "abi": ("cp" if name == "cpython" else name) + "".join(map(str, version[:2])) + getattr(sys, "abiflags", ""),
    "platform": sysconfig.get_platform().replace("-", "_"),
    "glibc": (os.confstr("CS_GNU_LIBC_VERSION") or "").replace("glibc ", ""),
    "cache_tag": sys.implementation.cache_tag or "",
    "magic": importlib.util.MAGIC_NUMBER.hex(),
}))
"""
_MAX_ANSWER: Final = 4096
_PATIENCE_S: Final = 30
_CONTAINER: Final[dict[str, Any]] = {
    "network_mode": "none",
    "read_only": True,
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges"],
    "mem_limit": "256m",
    "pids_limit": 16,
}

_Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]*$", max_length=64)]
_Version = Annotated[str, Field(pattern=r"^([0-9]+(\.[0-9]+)+)?$", max_length=32)]


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class ImagePython:
    """The description of an image's interpreter; all fields are empty if it was never asked."""

    implementation: _Word = ""
    version: _Version = ""
    abi: _Word = ""
    """Implementation, version and flags, as in the tags of wheels: `cp311`."""
    platform: _Word = ""
    glibc: _Version = ""
    """The version of glibc; empty for another C library."""
    cache_tag: _Word = ""
    magic: Annotated[str, Field(pattern=r"^([0-9a-f]{8})?$")] = ""
    """The magic number of its bytecode, `importlib.util.MAGIC_NUMBER` in hexadecimal."""

    @property
    def tag(self) -> str:
        """Return the name of the interpreter in locks, such as `cp311-linux_x86_64-glibc2.36`."""
        return f"{self.abi}-{self.platform}-{f'glibc{self.glibc}' if self.glibc else 'musl'}"

    def __str__(self) -> str:
        return f"{self.implementation} {self.version} ({self.tag})" if self.version else "unknown"


UNKNOWN: Final = ImagePython()
_FACTS: Final = TypeAdapter(ImagePython)


def read_python(text: str | bytes) -> ImagePython:
    """Read an answer or a label; raise `ValueError` if it is malformed."""
    if len(text) > _MAX_ANSWER:
        raise ValueError("is too long an answer")
    try:
        return _FACTS.validate_json(text)
    except ValidationError as error:
        raise ValueError(f"is no answer: {error.errors(include_url=False)[0]['msg']}") from None


def write_python(python: ImagePython) -> str:
    """Return the text of a label."""
    return _FACTS.dump_json(python).decode()


def ask_image(client: DockerClient, image: str) -> ImagePython:
    """Run the image's Python in an isolated container, and return its description."""
    with translate_failures("asking an image for its Python"):
        answer = _output(client, image)
    try:
        return read_python(answer)
    except ValueError as error:
        raise BackendUnavailable(
            f"the Python of image {image[:80]} gives no valid answer: it {error}",
            remedy="build the image again with `sandbox image bootstrap --fresh`",
        ) from None


def _output(client: DockerClient, image: str) -> bytes:
    """Return the answer of the image's Python; the daemon keeps at most a few KiB."""
    from docker.types import LogConfig

    api, log = client.api, LogConfig(type="json-file", config={"max-size": "16k", "max-file": "1"})
    settings = api.create_host_config(log_config=log, **_CONTAINER)
    command = [PROGRAM, "-I", "-S", "-B", "-c", QUESTION]
    container = api.create_container(image, command, host_config=settings, user="65534:65534", entrypoint=[])["Id"]
    try:
        api.start(container)
        api.wait(container, timeout=_PATIENCE_S)
        return bytes(api.logs(container, stdout=True, stderr=False, tail=1))
    finally:
        api.remove_container(container, force=True)
