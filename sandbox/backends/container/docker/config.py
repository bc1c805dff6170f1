"""The Docker SDK's own configuration file, checked before the SDK reads it.

The SDK parses `~/.docker/config.json` whenever a client is made, although only a registry needs what stands in it, and
answers a malformed file with whatever Python raises. So the engine looks first:

* To connect, a file that cannot be opened or is not JSON is ignored, as `docker` itself does. A file with fields of the
  wrong type is refused, because the SDK cannot be kept from reading those.
* To pull or push, every broken file is refused: without the login in it a registry would only say "unauthorized".

A refusal names the file and the field, never a value, which may be a password.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, StrictStr, ValidationError

from sandbox.errors import BackendUnavailable

_MAX_BYTES: Final = 4 << 20
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CORRECT_IT: Final = "correct the file, move it away, or name another folder in DOCKER_CONFIG"
_CORRECT_HELPER: Final = "run `docker login` again, and check the credential helpers that the file names"
_STORE_ERROR: Final = "Credentials store error"
_LEGACY: Final = ".dockercfg"
_MAX_QUOTED: Final = 300
_RAW_ERRORS: Final = (AttributeError, LookupError, RecursionError, TypeError, ValueError)


def _login(text: str) -> str:
    user, colon, _ = base64.b64decode(text.encode("ascii")).partition(b":")
    if not colon or not user.decode():
        raise ValueError("not base64 of user:password")
    return text


def _header(text: str) -> str:
    if not text.isprintable() or text != text.strip():
        raise ValueError("not a header")
    text.encode("latin-1")
    return text


def _header_name(text: str) -> str:
    if not _TOKEN.fullmatch(text):
        raise ValueError("not the name of a header")
    return text


class _Lenient(BaseModel):
    """Other fields are other programs' business."""

    model_config = ConfigDict(extra="ignore")


class _Login(_Lenient):
    auth: Annotated[StrictStr, AfterValidator(_login)] | None = None
    identitytoken: StrictStr | None = None


class _Proxies(_Lenient):
    httpProxy: StrictStr | None = None  # noqa: N815 - as Docker spells the fields
    httpsProxy: StrictStr | None = None  # noqa: N815
    ftpProxy: StrictStr | None = None  # noqa: N815
    noProxy: StrictStr | None = None  # noqa: N815


class _Config(_Lenient):
    """The fields that the SDK reads; `null` stands for an absent field only where the SDK takes it so."""

    auths: dict[str, _Login] | None = None
    credsStore: StrictStr | None = None  # noqa: N815
    credHelpers: dict[str, StrictStr] | None = None  # noqa: N815
    proxies: dict[str, _Proxies] = {}
    HttpHeaders: dict[
        Annotated[StrictStr, AfterValidator(_header_name)], Annotated[StrictStr, AfterValidator(_header)]
    ] = {}


class _NotJson(ValueError):
    pass


@contextmanager
def usable_docker_config(*, is_for_login: bool = False) -> Iterator[None]:
    """Raise `BackendUnavailable` for a configuration file over which the SDK stumbles in this block, or, if the block
    needs a login, which the SDK would silently leave out."""
    from docker.errors import APIError, DockerException
    from docker.utils.config import find_config_file

    path = cast("str | None", find_config_file())
    if path is not None:
        _check(path, is_for_login=is_for_login)
    try:
        yield
    except DockerException as problem:
        if path is None or isinstance(problem, APIError) or not str(problem).startswith(_STORE_ERROR):
            raise
        raise _broken(path, str(problem)[:_MAX_QUOTED], remedy=_CORRECT_HELPER) from None
    except _RAW_ERRORS as problem:
        if path is None or isinstance(problem, OSError):  # some errors of `requests` are a ValueError, too
            raise
        why = f"the Docker SDK cannot use it ({type(problem).__name__})"
        raise _broken(path, why, remedy=_CORRECT_HELPER if is_for_login else _CORRECT_IT) from None


def _check(path: str, *, is_for_login: bool) -> None:
    try:
        _Config.model_validate(_read(path))
    except _NotJson as problem:
        if is_for_login and not path.endswith(_LEGACY):
            raise _broken(path, str(problem)) from None
    except OSError as problem:
        if is_for_login:
            raise _broken(path, problem.strerror or type(problem).__name__) from None
    except ValidationError as problem:
        raise _broken(path, _first_field(problem)) from None


def _read(path: str) -> Any:
    """The document; a pipe or a device, on which the SDK would wait, is refused."""
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise _broken(path, "it is no regular file")
    with open(path, "rb") as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise _broken(path, f"it has more than {_MAX_BYTES >> 20} MiB")
    try:
        return json.loads(content.decode())
    except RecursionError:
        raise _broken(path, "it is nested too deeply") from None
    except ValueError:
        raise _NotJson("it is not valid JSON") from None


def _first_field(problem: ValidationError) -> str:
    """Return the name of the wrong field; the names of registries in it are no secrets."""
    error = problem.errors(include_input=False, include_context=False, include_url=False)[0]
    field = ".".join(map(str, error["loc"]))[:200]
    return f"the field {field} is not as Docker writes it" if field else "it holds no JSON object"


def _broken(path: str, why: str, *, remedy: str = _CORRECT_IT) -> BackendUnavailable:
    return BackendUnavailable(f"Docker's configuration file {path[:_MAX_QUOTED]} is broken: {why}", remedy=remedy)
