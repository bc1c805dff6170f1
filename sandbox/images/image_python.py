"""Which Python an image has: whether what was built with another one would work with it.

The interpreter says it itself, once: in the tree of files when an image is bootstrapped, or in a container that has
nothing but it, for files that were kept before anybody asked. From then on it is in the image's labels. What an image
says is believed no further than that: it is short, has the form of such facts, and only decides what is refused.
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
_LONGEST_ANSWER: Final = 4096
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
    """What an image's interpreter says of itself; all of it is empty where it was never asked."""

    implementation: _Word = ""
    version: _Version = ""
    abi: _Word = ""
    """Implementation, version and flags, as wheels are tagged: `cp311`."""
    platform: _Word = ""
    glibc: _Version = ""
    """The C library's version; empty where that is another library."""
    cache_tag: _Word = ""
    magic: Annotated[str, Field(pattern=r"^([0-9a-f]{8})?$")] = ""
    """What bytecode begins with that it can run: `importlib.util.MAGIC_NUMBER` in hexadecimal."""

    @property
    def tag(self) -> str:
        """As locks name interpreters: `cp311-linux_x86_64-glibc2.36`."""
        return f"{self.abi}-{self.platform}-{f'glibc{self.glibc}' if self.glibc else 'musl'}"

    def __str__(self) -> str:
        return f"{self.implementation} {self.version} ({self.tag})" if self.version else "unknown"


UNKNOWN: Final = ImagePython()
_FACTS: Final = TypeAdapter(ImagePython)


def read_python(text: str | bytes) -> ImagePython:
    """From an answer to the question, or from a label; `ValueError` when it is neither."""
    if len(text) > _LONGEST_ANSWER:
        raise ValueError("is too long an answer")
    try:
        return _FACTS.validate_json(text)
    except ValidationError as error:
        raise ValueError(f"is no answer: {error.errors(include_url=False)[0]['msg']}") from None


def write_python(python: ImagePython) -> str:
    """For a label."""
    return _FACTS.dump_json(python).decode()


def ask_image(client: DockerClient, image: str) -> ImagePython:
    """Run the image's Python where it can touch nothing, and believe a short and well-formed answer."""
    with translate_failures("asking an image for its Python"):
        answer = _said(client, image)
    try:
        return read_python(answer)
    except ValueError as error:
        raise BackendUnavailable(
            f"the Python of image {image[:80]} does not say what it is: it {error}",
            remedy="make the image again with `sandbox image bootstrap --fresh`",
        ) from None


def _said(client: DockerClient, image: str) -> bytes:
    """What it prints; the daemon keeps no more of it than a few KiB."""
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
