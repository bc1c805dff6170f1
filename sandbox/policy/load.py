"""From the name of a shipped policy, or the path of a policy file, to a `Policy`.

A name is looked up in the list of shipped policies and never becomes part of a path; what holds a `/` or ends in
`.toml` is a path. `extends` names another policy in the same two ways, a path being relative to the file that says it.
The chain is followed to its root first and then applied downwards: what a file leaves out it takes from the policy it
extends, and what it says may only tighten that. The description is each file's own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from sandbox.errors import PolicyError
from sandbox.policy.files import read_document
from sandbox.policy.messages import complaints, quoted, refusal
from sandbox.policy.model import Policy
from sandbox.policy.tighten import widenings
from sandbox.resources import folder

_SUFFIX: Final = ".toml"


@dataclass(frozen=True, slots=True)
class _PolicyFile:
    path: Path
    document: Mapping[str, object]

    @property
    def name(self) -> str:
        return self.path.name.removesuffix(_SUFFIX)

    @property
    def title(self) -> str:
        return f"policy file {quoted(str(self.path))}"


def shipped() -> tuple[str, ...]:
    """The names of the policies that come with the engine."""
    return tuple(sorted(path.stem for path in _shipped_folder().glob(f"*{_SUFFIX}")))


def load(name_or_path: str | os.PathLike[str]) -> Policy:
    """The policy of that name or in that file; `PolicyError` says what is unknown, malformed or too wide."""
    root, *heirs = reversed(_chain(_located(named(name_or_path), beside=Path())))
    policy = _validated(root, inherited={})
    for file in heirs:
        policy = _extended(file, granted=policy)
    return policy


def named(policy: str | os.PathLike[str]) -> str:
    """The text that names the policy: what is a path and no text never stands for a name."""
    return policy if isinstance(policy, str) else os.path.abspath(os.fsdecode(policy))


def _chain(path: Path) -> list[_PolicyFile]:
    """The file, what it extends, what that extends, and so on."""
    files = [_PolicyFile(path, read_document(path))]
    seen = [os.path.realpath(path)]
    while (parent := _parent(files[-1])) is not None:
        if os.path.realpath(parent) in seen:
            names = " → ".join(quoted(str(place)) for place in [*(file.path for file in files), parent])
            raise PolicyError(f"policies extend each other in a circle: {names[:2000]}")
        files.append(_PolicyFile(parent, read_document(parent)))
        seen.append(os.path.realpath(parent))
    return files


def _parent(file: _PolicyFile) -> Path | None:
    extends = file.document.get("extends")
    if extends is None:
        return None
    if not isinstance(extends, str):
        raise refusal(file.title, lines=["extends: must be text, the name or path of one policy"])
    try:
        return _located(extends, beside=file.path.parent)
    except PolicyError as error:
        raise refusal(file.title, lines=[f"extends: {error.message}"], remedy=error.remedy) from None


def _located(name_or_path: str, *, beside: Path) -> Path:
    if "/" in name_or_path or name_or_path.endswith(_SUFFIX):
        return beside / name_or_path
    names = shipped()
    if name_or_path not in names:
        remedy = "a policy file of your own is named by its path, such as ./mine.toml"
        raise PolicyError(f"no policy is called {quoted(name_or_path)}; there are: {', '.join(names)}", remedy=remedy)
    return _shipped_folder() / f"{name_or_path}{_SUFFIX}"


def _shipped_folder() -> Path:
    try:
        return folder("policies")
    except FileNotFoundError as error:
        raise PolicyError(str(error)) from None


def _extended(file: _PolicyFile, *, granted: Policy) -> Policy:
    policy = _validated(file, inherited={name: dict(part) for name, part in granted.sections().items()})
    wider = widenings(granted, policy)
    if wider:
        remedy = "a policy may only tighten what it extends: ask for less, or do not extend"
        raise refusal(f"{file.title} is wider than '{granted.name}', which it extends", lines=wider, remedy=remedy)
    return policy


def _validated(file: _PolicyFile, *, inherited: Mapping[str, Mapping[str, object]]) -> Policy:
    if "name" in file.document:
        raise refusal(file.title, lines=["name: is taken from the file's name, remove this line"])
    try:
        return Policy.model_validate({**_merged(file.document, inherited), "name": file.name})
    except ValidationError as error:
        raise refusal(file.title, lines=complaints(error, model=Policy)) from None


def _merged(document: Mapping[str, object], inherited: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """Key by key, the document's own before the inherited; what is no section is left for validation to refuse."""
    merged: dict[str, object] = {**inherited}
    for key, value in document.items():
        if key != "extends":
            merged[key] = {**inherited.get(key, {}), **value} if isinstance(value, dict) else value
    return merged
