"""A bundle brings exactly the exported environment to a machine without a network."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox.environments.bundles.exporting import export_bundle
from sandbox.environments.bundles.format import Contents, Member, header, padding
from sandbox.environments.bundles.importing import import_bundle
from sandbox.environments.bundles.signing import Key, PrivateKey, PublicKey, Secret, SigningKey
from sandbox.environments.disk.file_inventory import list_digest
from sandbox.environments.indexes.settings import Index, IndexSettings
from sandbox.environments.interpreters.host import own_interpreter
from sandbox.environments.lock import Lock, LockedPackage
from sandbox.environments.resolution.request import Resolution, ResolveRequest, remember, remembered
from sandbox.environments.store.manifest import Manifest
from sandbox.environments.store.store import Store
from sandbox.errors import EnvironmentTampered, EnvironmentUnavailable, ResolutionFailed, SpecError
from sandbox.policy import Supply

KEY: Final = "ab" * 32
SECRET: Final = Secret(b"a secret of both sides")
PAIR: Final = PrivateKey(Ed25519PrivateKey.generate())
TOOL: Final = b"def tool():\n    return 1\n"
WHEELS: Final = {"first": b"the bytes of one wheel" * 50, "second": b"", "third": bytes(512)}


def _package(name: str, content: bytes) -> LockedPackage:
    wheel = f"{name}-1.0-py3-none-any.whl"
    return LockedPackage(name=name, version="1.0", wheel=wheel, sha256=hashlib.sha256(content).hexdigest())


def _lock(wheels: dict[str, bytes] = WHEELS) -> Lock:
    packages = tuple(_package(name, content) for name, content in wheels.items())
    return Lock(requirements=tuple(sorted(wheels)), interpreter=own_interpreter().tag, packages=packages)


def _stocked(root: Path, lock: Lock, wheels: dict[str, bytes] = WHEELS) -> Store:
    """Return a store with an environment of these wheels; only the wheels matter here."""
    store = Store(root)
    for package in lock.packages:
        _place(store, package).parent.mkdir(exist_ok=True)
        _place(store, package).write_bytes(wheels[package.name])
    manifest = Manifest(
        key=KEY,
        lock=lock,
        interpreter={"tag": lock.interpreter},
        created=datetime.now(UTC),
        builder="cd" * 32,
        files=list_digest([]),
        trees=(),
        modules=(),
        pth=False,
        bytes_total=0,
        bytes_own=0,
    )
    with store.new_building_folder() as building:
        (building.folder / "environment").mkdir()
        store.publish(building, manifest, files=[])
    return store


def _place(store: Store, package: LockedPackage) -> Path:
    return store.wheels / package.sha256 / package.wheel


def _question(lock: Lock, *, offline: bool = True, supply: Supply | None = None) -> ResolveRequest:
    return ResolveRequest(
        requirements=lock.requirements,
        interpreter=own_interpreter(),
        supply=supply or Supply(),
        settings=IndexSettings(indexes=(Index("https://index.invalid/simple"),), offline=offline),
        most_packages=10,
        most_disk=1 << 30,
    )


def test_a_resolution_that_is_used_again_counts_as_used(tmp_path: Path) -> None:
    store, question = Store(tmp_path / "store"), _question(_lock(), offline=False)
    remember(store, question, Resolution(lock=_lock()))
    (file,) = store.resolutions.iterdir()
    os.utime(file, (1, 1))
    assert remembered(store, question) == Resolution(lock=_lock())
    assert file.stat().st_mtime > 1


def test_a_resolution_is_for_one_release_of_python() -> None:
    question = _question(_lock())
    assert replace(question).digest == question.digest
    other = replace(question.interpreter, version=f"{question.interpreter.version}0")
    assert replace(question, interpreter=other).digest != question.digest


def _kept(store: Store) -> list[str]:
    """Return all plain files of a store but its marker and its locks."""
    files = [path for path in store.root.glob("*/**/*") if path.is_file() and path.parent != store.locks]
    return sorted(str(path.relative_to(store.root)) for path in files)


@pytest.fixture
def origin(tmp_path: Path) -> Store:
    return _stocked(tmp_path / "origin", _lock())


@pytest.fixture
def target(tmp_path: Path) -> Store:
    return Store(tmp_path / "target")


@pytest.fixture
def bundle(origin: Store, tmp_path: Path) -> Path:
    file = tmp_path / "signed.bundle"
    export_bundle(origin, KEY, file, tool=TOOL, signed_with=SECRET)
    return file


# From store to store


def test_an_exported_environment_arrives(origin: Store, target: Store, tmp_path: Path) -> None:
    exported = export_bundle(origin, KEY[:6], tmp_path / "a.bundle", tool=TOOL)
    imported = import_bundle(target, tmp_path / "a.bundle")
    assert imported.lock == exported.lock == _lock()
    assert imported.tool == TOOL
    assert imported.digest == exported.digest
    assert imported.size == exported.size == (tmp_path / "a.bundle").stat().st_size
    for package in imported.lock.packages:
        assert _place(target, package).read_bytes() == WHEELS[package.name]
        assert _place(target, package).stat().st_mode & 0o777 == 0o444


def test_imported_requirements_need_no_network(target: Store, bundle: Path) -> None:
    assert remembered(target, _question(_lock())) is None
    import_bundle(target, bundle)
    found = remembered(target, _question(_lock()))
    assert found is not None
    assert found.lock == _lock()


def test_with_a_network_the_indexes_are_asked_all_the_same(target: Store, bundle: Path) -> None:
    import_bundle(target, bundle)
    assert remembered(target, _question(_lock(), offline=False)) is None


def test_another_interpreter_does_not_get_the_wheels(target: Store, bundle: Path) -> None:
    import_bundle(target, bundle)
    question = replace(_question(_lock()), interpreter=replace(own_interpreter(), tag="cp38-linux_x86_64-glibc2.17"))
    assert remembered(target, question) is None


def test_the_policys_lists_hold_for_imports(target: Store, bundle: Path) -> None:
    import_bundle(target, bundle)
    with pytest.raises(ResolutionFailed, match="does not take: third"):
        remembered(target, _question(_lock(), supply=Supply(deny=("third",))))
    with pytest.raises(ResolutionFailed, match="3 packages; the policy takes 2"):
        remembered(target, replace(_question(_lock()), most_packages=2))


def test_equal_contents_make_equal_bytes(origin: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = _stocked(tmp_path / "elsewhere", _lock(dict(reversed(WHEELS.items()))))
    files = [tmp_path / "a.bundle", tmp_path / "b.bundle"]
    for store, file, umask in zip((origin, other), files, (0o077, 0o022), strict=True):
        ours = os.umask(umask)
        export_bundle(store, KEY, file, tool=TOOL, signed_with=SECRET)
        os.umask(ours)
        monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert files[0].read_bytes() == files[1].read_bytes()


def test_any_tar_program_lists_a_bundle(bundle: Path) -> None:
    with tarfile.open(bundle) as archive:
        names = archive.getnames()
        tool = archive.extractfile("tool.py")
        assert tool is not None
        assert tool.read() == TOOL
    assert names == ["bundle.json", "bundle.json.hmac", "tool.py", *(f"wheels/{p.sha256}" for p in _lock().packages)]


def test_importing_twice_changes_nothing(target: Store, bundle: Path) -> None:
    import_bundle(target, bundle)
    first = _kept(target)
    import_bundle(target, bundle)
    assert _kept(target) == first


def test_an_import_replaces_a_damaged_wheel_in_the_store(target: Store, bundle: Path) -> None:
    place = _place(target, _lock().packages[0])
    place.parent.mkdir()
    place.write_bytes(b"damaged")
    import_bundle(target, bundle)
    assert place.read_bytes() == WHEELS["first"]


def test_an_empty_environment_can_be_exported(target: Store, tmp_path: Path) -> None:
    origin = _stocked(tmp_path / "empty", _lock({}), {})
    export_bundle(origin, KEY, tmp_path / "a.bundle")
    report = import_bundle(target, tmp_path / "a.bundle")
    assert (report.lock.packages, report.tool) == ((), None)


# Impossible exports


def test_a_changed_wheel_is_not_exported(origin: Store, tmp_path: Path) -> None:
    file = tmp_path / "a.bundle"
    file.write_text("what was there before")
    for content in (b"the bytes of another wheel!" * 50, WHEELS["first"] + b"more", b""):
        _place(origin, _lock().packages[0]).write_bytes(content)
        with pytest.raises(
            EnvironmentTampered, match=r"first-1\.0-py3-none-any\.whl in the store is not what was lock"
        ):
            export_bundle(origin, KEY, file)
    assert file.read_text() == "what was there before"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["a.bundle"]


def test_a_missing_wheel_is_named(origin: Store, tmp_path: Path) -> None:
    _place(origin, _lock().packages[1]).unlink()
    with pytest.raises(EnvironmentUnavailable, match=r"second-1\.0-py3-none-any\.whl is not in the store any more"):
        export_bundle(origin, KEY, tmp_path / "a.bundle")


def test_an_export_to_an_unwritable_place_is_refused(origin: Store, tmp_path: Path) -> None:
    for place in (tmp_path / "none" / "a.bundle", tmp_path, Path("/dev/full/x"), Path("/")):
        with pytest.raises(SpecError, match="cannot be written"):
            export_bundle(origin, KEY, place)


def test_a_missing_environment_is_not_exported(origin: Store, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no environment has a key like"):
        export_bundle(origin, "12", tmp_path / "a.bundle")


# Signatures


def test_a_signed_bundle_is_accepted_with_the_secret_and_without_a_check(target: Store, bundle: Path) -> None:
    checked, unchecked = import_bundle(target, bundle, signed_with=SECRET), import_bundle(target, bundle)
    assert (checked.signature, checked.is_signature_checked) == ("hmac", True)
    assert (unchecked.signature, unchecked.is_signature_checked) == ("hmac", False)


def test_a_required_signature_must_exist(origin: Store, target: Store, tmp_path: Path) -> None:
    export_bundle(origin, KEY, tmp_path / "a.bundle")
    with pytest.raises(EnvironmentTampered, match="not signed"):
        import_bundle(target, tmp_path / "a.bundle", signed_with=SECRET)
    assert _kept(target) == []


@pytest.mark.parametrize("other", [Secret(b"another secret of theirs"), PAIR], ids=["secret", "pair"])
def test_a_signature_with_another_key_is_refused(other: Key, target: Store, bundle: Path) -> None:
    with pytest.raises(EnvironmentTampered, match="not signed with this key"):
        import_bundle(target, bundle, signed_with=other)
    assert _kept(target) == []


def test_a_signature_does_not_carry_over_to_other_contents(origin: Store, target: Store, tmp_path: Path) -> None:
    export_bundle(origin, KEY, tmp_path / "signed", signed_with=SECRET)
    export_bundle(origin, KEY, tmp_path / "other", tool=TOOL)
    signed, other = (tmp_path / "signed").read_bytes(), (tmp_path / "other").read_bytes()
    at, end = signed.index(b"bundle.json.hmac"), other.index(b"tool.py")
    end = other.rindex(b"tool.py", 0, other.index(TOOL))
    forged = tmp_path / "forged"
    forged.write_bytes(other[:end] + signed[at : at + 1024] + other[end:])
    with pytest.raises(EnvironmentTampered, match="not signed with this key"):
        import_bundle(target, forged, signed_with=SECRET)
    assert import_bundle(target, forged).signature == "hmac"


def test_a_private_signature_is_accepted_with_the_public_key(origin: Store, target: Store, tmp_path: Path) -> None:
    report = export_bundle(origin, KEY, tmp_path / "a.bundle", tool=TOOL, signed_with=PAIR)
    taken = import_bundle(target, tmp_path / "a.bundle", signed_with=PublicKey(PAIR.private.public_key()))
    assert (report.signature, taken.signature, taken.is_signature_checked) == ("ed25519", "ed25519", True)


@pytest.mark.parametrize("other", [SECRET, PublicKey(Ed25519PrivateKey.generate().public_key())], ids=type)
def test_a_private_signature_is_refused_with_another_public_key(
    other: Key, origin: Store, target: Store, tmp_path: Path
) -> None:
    export_bundle(origin, KEY, tmp_path / "a.bundle", signed_with=PAIR)
    with pytest.raises(EnvironmentTampered, match="not signed with this key"):
        import_bundle(target, tmp_path / "a.bundle", signed_with=other)
    assert _kept(target) == []


# Changed on the way


@pytest.mark.slow
@pytest.mark.parametrize("key", [SECRET, PAIR], ids=["secret", "pair"])
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_byte_of_a_signed_bundle_can_be_changed(
    key: SigningKey, data: st.DataObject, origin: Store, target: Store, tmp_path: Path
) -> None:
    bundle = tmp_path / "signed"
    if not bundle.exists():
        export_bundle(origin, KEY, bundle, tool=TOOL, signed_with=key)
    content = bytearray(bundle.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    changed = bundle.with_name("changed")
    changed.write_bytes(content)
    with pytest.raises((EnvironmentTampered, SpecError)):
        import_bundle(target, changed, signed_with=key)
    assert _kept(target) == []


@pytest.mark.slow
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_half_a_bundle_is_refused(data: st.DataObject, target: Store, bundle: Path) -> None:
    content = bundle.read_bytes()
    half = bundle.with_name("half")
    half.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises((EnvironmentTampered, SpecError)):
        import_bundle(target, half)
    assert _kept(target) == []


@pytest.mark.parametrize("more", [b"\0", b"more", bytes(512), header("more", 4) + b"more"])
def test_bytes_after_the_end_are_refused(more: bytes, target: Store, bundle: Path) -> None:
    bundle.write_bytes(bundle.read_bytes() + more)
    with pytest.raises(EnvironmentTampered, match="bytes instead of"):
        import_bundle(target, bundle)
    assert _kept(target) == []


@pytest.mark.parametrize("name", WHEELS)
def test_another_wheel_in_its_place_is_named(name: str, target: Store, tmp_path: Path) -> None:
    others = {**WHEELS, name: bytes(len(WHEELS[name]) + 1)}
    file = _written(tmp_path, Contents(lock=_lock(), members=_members(others)), others)
    with pytest.raises(EnvironmentTampered, match=f"the content of 'wheels/{_package(name, WHEELS[name]).sha256}'"):
        import_bundle(target, file)
    assert _kept(target) == []


def test_another_tool_in_its_place_is_named(target: Store, bundle: Path) -> None:
    bundle.write_bytes(bundle.read_bytes().replace(b"return 1", b"return 2"))
    with pytest.raises(EnvironmentTampered, match=r"the content of 'tool\.py' is not what was exported"):
        import_bundle(target, bundle, signed_with=SECRET)


# Made by an attacker


def _members(wheels: dict[str, bytes]) -> dict[str, Member]:
    """Return the sizes of these wheels, under the digests that the lock has for them."""
    digests = {package.name: package.sha256 for package in _lock().packages}
    return {f"wheels/{digests[name]}": Member(sha256=digests[name], size=len(wheels[name])) for name in sorted(wheels)}


def _written(folder: Path, contents: Contents, wheels: dict[str, bytes]) -> Path:
    head = contents.to_bytes()
    members = [("bundle.json", head)]
    members += [(f"wheels/{package.sha256}", wheels[package.name]) for package in contents.lock.packages]
    file = folder / "written.bundle"
    parts = [header(name, len(content)) + content + padding(len(content)) for name, content in members]
    file.write_bytes(b"".join(parts) + bytes(1024))
    return file


def _change(about: str) -> Callable[[tarfile.TarInfo], None]:
    """Set one attribute of a member, given as `name=value`."""
    name, _, value = about.partition("=")
    changed: object = value.encode() if name == "type" else int(value) if value.isdigit() else value

    def change(member: tarfile.TarInfo) -> None:
        setattr(member, name, changed)
        if member.type in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            member.linkname = "../../../../etc/passwd"

    return change


HOSTILE: Final = {
    "a symbolic link": "type=2",
    "a hard link": "type=1",
    "a folder": "type=5",
    "a device": "type=3",
    "a pipe": "type=6",
    "a sparse file": "type=S",
    "an old plain file": "type=\0",
    "a path that climbs": "name=../../etc/cron.d/evil",
    "a path from the root": "name=/etc/passwd",
    "another name": "name=wheels/evil.whl",
    "a program": "mode=2541",
    "a file of another user": "uid=1000",
    "a file of some time": "mtime=1",
    "a file too long": "size=100000",
}


@pytest.mark.parametrize("which", [0, 1, 2, 3], ids=["contents", "first", "second", "third"])
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_member_is_refused(kind: str, which: int, target: Store, tmp_path: Path) -> None:
    contents = Contents(lock=_lock(), members=_members(WHEELS)).to_bytes()
    members = {"bundle.json": contents} | {f"wheels/{p.sha256}": WHEELS[p.name] for p in _lock().packages}
    file = tmp_path / "hostile.bundle"
    with file.open("wb") as out:
        for number, (name, content) in enumerate(members.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            if number == which:
                _change(HOSTILE[kind])(member)
            out.write(member.tobuf(tarfile.USTAR_FORMAT) + content + padding(len(content)))
        out.write(bytes(1024))
    with pytest.raises((EnvironmentTampered, SpecError), match=r"stands where 'wheels/|not a bundle|cut short"):
        import_bundle(target, file)
    assert _kept(target) == []
    assert not (tmp_path / "etc").exists()


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_extended_headers_are_not_even_read(form: int, target: Store, tmp_path: Path) -> None:
    file = tmp_path / "extended.bundle"
    with tarfile.open(file, "w", format=form) as archive:
        content = Contents(lock=_lock(), members=_members(WHEELS)).to_bytes()
        member = tarfile.TarInfo("bundle.json")
        member.size, member.pax_headers = len(content), {"path": "bundle.json", "comment": "x" * 1000}
        member.uname = "ü" * 40
        archive.addfile(member, io.BytesIO(content))
    with pytest.raises(SpecError, match="not a bundle"):
        import_bundle(target, file)


def test_file_names_in_a_message_are_short_and_plain(target: Store, tmp_path: Path) -> None:
    contents = Contents(lock=_lock(), members=_members(WHEELS)).to_bytes()
    evil = tarfile.TarInfo("\x1b[2J" + "x" * 90)
    with (file := tmp_path / "evil.bundle").open("wb") as out:
        out.write(header("bundle.json", len(contents)) + contents + padding(len(contents)))
        out.write(evil.tobuf(tarfile.USTAR_FORMAT) + bytes(1024))
    with pytest.raises(EnvironmentTampered) as caught:
        import_bundle(target, file)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 600


LIES: Final[dict[str, Callable[[str], str]]] = {
    "no JSON": lambda text: text[:-10],
    "another format": lambda text: text.replace('"format": 1', '"format": 2', 1),
    "something unheard of": lambda text: text.replace('"format": 1', '"evil": 1', 1),
    "a wheel that is not locked": lambda text: text.replace(
        '"members": {', f'"members": {{"wheels/{"e" * 64}": {{"sha256": "{"e" * 64}", "size": 1}},', 1
    ),
    "a file anywhere": lambda text: text.replace('"wheels/', '"../', 1),
    "a digest that is not the lock's": lambda text: text[::-1].replace(_lock().packages[0].sha256[::-1], "e" * 64, 1)[
        ::-1
    ],
    "a wheel named like a path": lambda text: text.replace("first-1.0", "../first-1.0"),
    "an interpreter named like a path": lambda text: text.replace('"interpreter": "', '"interpreter": "../'),
    "a size below nothing": lambda text: text.replace('"size": 0', '"size": -1'),
    "a size beyond all": lambda text: text.replace('"size": 0', '"size": 9999999999999'),
    "a tool too large": lambda text: text.replace(
        '"members": {', f'"members": {{"tool.py": {{"sha256": "{"e" * 64}", "size": 99999999}}}},', 1
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_senseless_contents_are_refused(lie: str, target: Store, tmp_path: Path) -> None:
    text = Contents(lock=_lock(), members=_members(WHEELS)).to_bytes().decode()
    told = LIES[lie](text)
    assert told != text
    file = tmp_path / "lying.bundle"
    file.write_bytes(header("bundle.json", len(told)) + told.encode() + padding(len(told)) + bytes(1024))
    with pytest.raises(SpecError, match="the bundle's contents cannot be read"):
        import_bundle(target, file)
    assert _kept(target) == []


def test_a_false_size_costs_nothing(target: Store, tmp_path: Path) -> None:
    members = {name: Member(sha256=member.sha256, size=8 << 29) for name, member in _members(WHEELS).items()}
    file = _written(tmp_path, Contents(lock=_lock(), members=members), WHEELS)
    with pytest.raises(EnvironmentTampered, match="a file of 1100 bytes, stands where"):
        import_bundle(target, file)
    assert _kept(target) == []


def test_one_wheel_for_two_packages_is_refused() -> None:
    package = _package("first", b"x")
    lock = _lock({}).model_copy(update={"packages": (package, package.model_copy(update={"name": "again"}))})
    with pytest.raises(ValueError, match="not the wheels of the lock"):
        Contents(lock=lock, members={f"wheels/{package.sha256}": Member(sha256=package.sha256, size=1)})


def test_a_special_file_is_not_read(target: Store, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(SpecError, match="is not a plain file"):
            import_bundle(target, path)
    for path in (tmp_path / "none", Path("nul\0")):
        with pytest.raises(SpecError, match="cannot be read"):
            import_bundle(target, path)


@pytest.mark.parametrize("content", [b"", b"PK\3\4", bytes(10240), b"x" * 2000, b"\x1f\x8b\x08" + bytes(1000)])
def test_a_file_that_is_no_bundle_is_refused(content: bytes, target: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(SpecError, match="this is not a bundle"):
        import_bundle(target, tmp_path / "file")
