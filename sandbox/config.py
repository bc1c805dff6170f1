"""What a user or operator has set for every engine of theirs, so that no program and no command needs to say it again.

Three places, the later ones count more: a file, the environment, and what is said to the engine or command itself.

The file is `config.toml` in the folder `sandbox` of the user's own settings (`$XDG_CONFIG_HOME`, or `~/.config`), or
whatever `SANDBOX_CONFIG` names. All of it may be left out::

    backend = "container"                   # SANDBOX_BACKEND

    [container]
    host = "tcp://builds.example:2376"
    runtime = "runsc"                       # SANDBOX_RUNTIME: one of those that the daemon has
    environment = "image"                   # "mount" shows the store's folders, "image" makes images of them; "auto"

`DOCKER_HOST` is every Docker program's and not ours: it says where the daemon is only where the file does not. The
`image` commands speak to the same daemon as calls do.

An unknown key is an error, like a file that was named and is not there. What is set here chooses between backends; what
calls may do is for policies to say.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from sandbox.errors import SpecError
from sandbox.policy.messages import complaints

EnvironmentForm = Literal["auto", "mount", "image"]

_FILE_VARIABLE: Final = "SANDBOX_CONFIG"
_LARGEST: Final = 1 << 16
_Text = Annotated[str, StringConstraints(min_length=1, max_length=1024)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ContainerSettings(_Table):
    """How containers are opened."""

    host: _Text | None = None
    runtime: _Text | None = None
    environment: EnvironmentForm = "auto"


class Configuration(_Table):
    """What is set."""

    backend: _Text = "subprocess"
    container: ContainerSettings = ContainerSettings()


def load_configuration(variables: Mapping[str, str] | None = None) -> Configuration:
    """The file, and what the environment says beside it; `SpecError` says what is wrong with either."""
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
        raise _wrong(environment, complaints(error, model=Configuration)[0]) from None


def _content(environment: Mapping[str, str]) -> dict[str, Any]:
    path = _path(environment)
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        is_there = bool(environment.get(_FILE_VARIABLE)) or os.path.exists(path)
        if is_there:
            raise _wrong(environment, error.strerror or "it cannot be read") from None
        return {}  # nor is it where this user may not even look, as in the home of who became them
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
        remedy=f"mend the file, or name another in {_FILE_VARIABLE}",
    )
