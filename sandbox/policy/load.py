"""Load a policy by the name of a shipped policy or the path of a policy file.

A text with a `/`, or one that ends in `.toml`, is a path. Any other text is looked up in the list of shipped policies
and never becomes part of a path. The key `extends` names the parent policy in the same two ways; a relative path starts
at the file's own folder. The loader follows the chain to its root and applies the files from the root downwards: a file
inherits what it leaves out, and may only tighten what it sets. The description is never inherited.
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
from sandbox.policy.messages import build_error, describe_errors, quote
from sandbox.policy.model import Policy
from sandbox.policy.tighten import find_widenings
from sandbox.resources import find_folder

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
        return f"policy file {quote(str(self.path))}"


def list_shipped() -> tuple[str, ...]:
    """Return the names of the policies that come with the engine."""
    return tuple(sorted(path.stem for path in _find_shipped_folder().glob(f"*{_SUFFIX}")))


def load(name_or_path: str | os.PathLike[str]) -> Policy:
    """Return the named policy. Raise `PolicyError` if it is unknown, malformed or wider than the policy it extends."""
    root, *heirs = reversed(_read_chain(_locate(resolve_policy_name(name_or_path), relative_to=Path())))
    policy = _validate(root, inherited={})
    for file in heirs:
        policy = _extend(file, granted=policy)
    return policy


def resolve_policy_name(policy: str | os.PathLike[str]) -> str:
    """Return a text that `load` accepts: names stay, and a path object becomes an absolute path, never a name."""
    return policy if isinstance(policy, str) else os.path.abspath(os.fsdecode(policy))


def _read_chain(path: Path) -> list[_PolicyFile]:
    """Return the file and its parents, from the file to the root."""
    files = [_PolicyFile(path, read_document(path))]
    seen = [os.path.realpath(path)]
    while (parent := _find_parent(files[-1])) is not None:
        if os.path.realpath(parent) in seen:
            names = " → ".join(quote(str(place)) for place in [*(file.path for file in files), parent])
            raise PolicyError(f"policies extend each other in a circle: {names[:2000]}")
        files.append(_PolicyFile(parent, read_document(parent)))
        seen.append(os.path.realpath(parent))
    return files


def _find_parent(file: _PolicyFile) -> Path | None:
    extends = file.document.get("extends")
    if extends is None:
        return None
    if not isinstance(extends, str):
        raise build_error(file.title, lines=["extends: must be text, the name or path of one policy"])
    try:
        return _locate(extends, relative_to=file.path.parent)
    except PolicyError as error:
        raise build_error(file.title, lines=[f"extends: {error.message}"], remedy=error.remedy) from None


def _locate(name_or_path: str, *, relative_to: Path) -> Path:
    if "/" in name_or_path or name_or_path.endswith(_SUFFIX):
        return relative_to / name_or_path
    names = list_shipped()
    if name_or_path not in names:
        remedy = "a policy file of your own is named by its path, such as ./mine.toml"
        raise PolicyError(f"no policy is called {quote(name_or_path)}; there are: {', '.join(names)}", remedy=remedy)
    return _find_shipped_folder() / f"{name_or_path}{_SUFFIX}"


def _find_shipped_folder() -> Path:
    try:
        return find_folder("policies")
    except FileNotFoundError as error:
        raise PolicyError(str(error)) from None


def _extend(file: _PolicyFile, *, granted: Policy) -> Policy:
    policy = _validate(file, inherited={name: dict(part) for name, part in granted.sections().items()})
    wider = find_widenings(granted, policy)
    if wider:
        remedy = "a policy may only tighten what it extends: ask for less, or do not extend"
        raise build_error(f"{file.title} is wider than '{granted.name}', which it extends", lines=wider, remedy=remedy)
    return policy


def _validate(file: _PolicyFile, *, inherited: Mapping[str, Mapping[str, object]]) -> Policy:
    if "name" in file.document:
        raise build_error(file.title, lines=["name: is taken from the file's name, remove this line"])
    try:
        return Policy.model_validate({**_merge(file.document, inherited), "name": file.name})
    except ValidationError as error:
        raise build_error(file.title, lines=describe_errors(error, model=Policy)) from None


def _merge(document: Mapping[str, object], inherited: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """Merge key by key; the document wins. A value that should be a section stays, for validation to refuse."""
    merged: dict[str, object] = {**inherited}
    for key, value in document.items():
        if key != "extends":
            merged[key] = {**inherited.get(key, {}), **value} if isinstance(value, dict) else value
    return merged
