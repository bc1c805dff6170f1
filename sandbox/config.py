"""Settings of a user or operator for every engine and command.

Three places hold settings, and later ones win: a file, environment variables, and the arguments of the engine or
command.

The file is `config.toml` in the folder `sandbox` of the user's settings (`$XDG_CONFIG_HOME`, or `~/.config`), or the
file that `SANDBOX_CONFIG` names. Every setting is optional::

    backend = "container"                   # SANDBOX_BACKEND

    [container]
    host = "tcp://builds.example:2376"
    runtime = "runsc"                       # SANDBOX_RUNTIME: a runtime that the daemon has
    environment = "image"                   # "mount" shows the store's folders, "image" builds images; "auto"

Every Docker program reads `DOCKER_HOST`, so that variable applies only if the file names no host. The `image` commands
use the same daemon as calls do.

An unknown key is an error, and so is a named file that does not exist. Settings choose between backends; policies
decide what calls may do.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from sandbox.errors import SpecError
from sandbox.policy.messages import describe_errors

EnvironmentForm = Literal["auto", "mount", "image"]

_FILE_VARIABLE: Final = "SANDBOX_CONFIG"
_LARGEST: Final = 1 << 16
_Text = Annotated[str, StringConstraints(min_length=1, max_length=1024)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ContainerSettings(_Table):
    """Settings of the container backend."""

    host: _Text | None = None
    runtime: _Text | None = None
    environment: EnvironmentForm = "auto"


class Configuration(_Table):
    """All settings."""

    backend: _Text = "subprocess"
    container: ContainerSettings = ContainerSettings()


def load_configuration(variables: Mapping[str, str] | None = None) -> Configuration:
    """Return the settings of the file, overridden by environment variables. Raise `SpecError` for a wrong setting."""
    environment = os.environ if variables is None else variables
    content = _content(environment)
    container = content.get("container", {})
    if environment.get("SANDBOX_BACKEND"):
        content["backend"] = environment["SANDBOX_BACKEND"]
    if environment.get("SANDBOX_RUNTIME") and isinstance(container, dict):
        content["container"] = {**container, "runtime": environment["SANDBOX_RUNTIME"]}
    try:
        return Configuration.model_validate(content)
    except ValidationError as error:
        raise _wrong(environment, describe_errors(error, model=Configuration)[0]) from None


def _content(environment: Mapping[str, str]) -> dict[str, Any]:
    path = _path(environment)
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        is_there = bool(environment.get(_FILE_VARIABLE)) or os.path.exists(path)
        if is_there:
            raise _wrong(environment, error.strerror or "it cannot be read") from None
        return {}  # this also covers a home folder that the current user may not read, such as after a change of user
    if len(data) > _LARGEST:
        raise _wrong(environment, f"it is larger than {_LARGEST >> 10} KiB")
    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _wrong(environment, f"it is not TOML: {error}") from None


def _path(environment: Mapping[str, str]) -> Path:
    named = environment.get(_FILE_VARIABLE)
    if named:
        return Path(named)
    home = environment.get("XDG_CONFIG_HOME") or ""
    return (Path(home) if os.path.isabs(home) else Path.home() / ".config") / "sandbox" / "config.toml"


def _wrong(environment: Mapping[str, str], reason: str) -> SpecError:
    return SpecError(
        f"the configuration {_path(environment)} cannot be used: {reason[:500]}",
        remedy=f"correct the file, or name another in {_FILE_VARIABLE}",
    )
