"""Exporting: an environment of the store into a bundle."""

from __future__ import annotations

import hashlib
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from sandbox.environments.bundles.format import (
    CONTENTS,
    END,
    TOOL,
    Contents,
    Member,
    copied_whole,
    header,
    padding,
    signature_member,
    wheel_member,
    wheel_place,
)
from sandbox.environments.bundles.signing import SignatureKind, SigningKey
from sandbox.environments.lock import Lock, LockedPackage
from sandbox.environments.resolution.request import answers
from sandbox.environments.resolution.requirements import SupplyRules, read_requirements
from sandbox.environments.store.store import Store
from sandbox.errors import EnvironmentTampered, EnvironmentUnavailable, SpecError


@dataclass(frozen=True, slots=True)
class BundleReport:
    """The report of an export."""

    file: Path
    lock: Lock
    digest: str
    """The SHA-256 of bundle.json, which stands for all of it."""
    size: int
    signature: SignatureKind | None
    has_tool: bool


def export_bundle(
    store: Store,
    key: str,
    target: Path,
    *,
    tool: bytes | None = None,
    required: Sequence[str] = (),
    signed_with: SigningKey | None = None,
) -> BundleReport:
    """Write all that the environment with that key, or the beginning of one, is built from; a key signs it. A tool that
    goes along finds what it `required` where it is imported.

    A plain file that is there already is replaced, once the new one is whole. Anything else of that name, a link too,
    is refused before anything is done.
    """
    _refuse_strange(target)
    environment = store.show(key)
    hold = store.use(environment.key)
    if hold is None:
        raise EnvironmentUnavailable(f"environment {environment.key[:12]} has just been removed from the store")
    lock = _answering(store, environment.manifest.lock, required)
    with hold, _written_whole(target) as file:
        members = {} if tool is None else {TOOL: Member(sha256=hashlib.sha256(tool).hexdigest(), size=len(tool))}
        members |= {wheel_member(package): _stored_wheel(store, package) for package in lock.packages}
        head = _contents(lock, members).to_bytes()
        _put(file, CONTENTS, head)
        if signed_with is not None:
            _put(file, signature_member(signed_with.kind), signed_with.sign(head))
        if tool is not None:
            _put(file, TOOL, tool)
        for package in lock.packages:
            _put_wheel(file, store, package, members[wheel_member(package)])
        file.write(END)
        size = file.tell()
    digest = hashlib.sha256(head).hexdigest()
    kind = None if signed_with is None else signed_with.kind
    return BundleReport(target, lock, digest, size, signature=kind, has_tool=tool is not None)


def _answering(store: Store, lock: Lock, required: Sequence[str]) -> Lock:
    """The lock as the answer for who requires that. Environments are shared by tools whose requirements come to the
    same: the lock has those of the first, and who asks offline is answered by what was asked."""
    wanted = read_requirements(required, supply=SupplyRules(direct_references=True))
    if not wanted or wanted == lock.requirements:
        return lock
    for known in answers(store):
        if known.requirements == wanted and known.digest == lock.digest:
            return known
    if not set(wanted) <= set(lock.requirements):
        raise SpecError(
            f"the tool requires {', '.join(wanted)[:300]}, and nothing in the store says that this environment is what "
            f"that comes to: it was built for {', '.join(lock.requirements)[:300]}",
            remedy="export the environment that `sandbox env build --file TOOL` names",
        )
    return lock


def _refuse_strange(target: Path) -> None:
    """Raise for a device, a pipe or a link: a file in its place would break programs that rely on it."""
    with suppress(OSError):  # a path that cannot be inspected fails when it is written
        if not stat.S_ISREG(target.lstat().st_mode):
            raise SpecError(
                f"the bundle cannot be written to {target}: it is there, and is no plain file",
                remedy="name a file that is not there yet; of a link, the file that it leads to",
            )


def _contents(lock: Lock, members: dict[str, Member]) -> Contents:
    try:
        return Contents(lock=lock, members=members)
    except ValidationError as error:
        raise SpecError(f"this cannot be bundled: {error.errors()[0]['msg']}") from None


def _put(file: BinaryIO, name: str, content: bytes) -> None:
    file.write(header(name, len(content)) + content + padding(len(content)))


def _put_wheel(file: BinaryIO, store: Store, package: LockedPackage, member: Member) -> None:
    file.write(header(wheel_member(package), member.size))
    with wheel_place(store, package).open("rb") as wheel:
        if not copied_whole(wheel, file.write, member) or wheel.read(1):
            raise EnvironmentTampered(
                f"{package.wheel} in the store is not what was locked",
                remedy="find out who could write to the store; `sandbox env prune --older-than 0s` empties it",
            )
    file.write(padding(member.size))


def _stored_wheel(store: Store, package: LockedPackage) -> Member:
    try:
        return Member(sha256=package.sha256, size=wheel_place(store, package).stat().st_size)
    except FileNotFoundError:
        raise EnvironmentUnavailable(
            f"{package.wheel} is not in the store any more",
            remedy="remove the environment with `sandbox env prune KEY`, and build it again",
        ) from None


@contextmanager
def _written_whole(target: Path) -> Iterator[BinaryIO]:
    """A file that gets its name when all is written."""
    aside = target.with_name(f".{target.name[:200]}.{secrets.token_hex(8)}") if target.name else target
    try:
        with open(aside, "xb") as file:
            yield file
        aside.replace(target)
    except OSError as error:
        raise SpecError(f"the bundle cannot be written to {target}: {error.strerror}") from None
    finally:
        with suppress(OSError):
            aside.unlink()
