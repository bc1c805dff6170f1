"""The kind of a key is recognised in its file, and a public key is never used as a secret."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as generate_curve_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from sandbox.environments.bundles.signing import PrivateKey, PublicKey, Secret, read_key, read_signing_key
from sandbox.errors import SpecError

PRIVATE: Final = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
LOCKED: Final = BestAvailableEncryption(b"a passphrase")
LOCKED_BY_OPENSSH: Final = b"""\
-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHIAAAAGYmNyeXB0AAAAGAAAABAWdJxhoe
PNMA3rqxB0ihAvAAAAEAAAAAEAAAAzAAAAC3NzaC1lZDI1NTE5AAAAIO+pdHLKQT524a9z
hgntmy00zTVP9W0uOEdgBSELR6u6AAAAkKEBgxZ+Cs89ztHRz+pD6Fji0NPhu4Ni9zbwx+
Dhk+RPQjtWdAPQNuhLEgxVVpOL3utKgvHen4utxK3QipaxKr5CVh1lm3enK0hVm/SOhQmr
h9S7wh46tLsxtl4xsFstXDShBjmEb/4vSYuPUHqu0OfDB7rclOrdg8wkajSNSetJCV93We
7vCXs7W4Dvr0po3w==
-----END OPENSSH PRIVATE KEY-----
"""
"""A key that `ssh-keygen -t ed25519 -N pw` made for this test."""
HEAD: Final = b'{"format": 1}'


def _private(form: PrivateFormat, encryption: KeySerializationEncryption | None = None) -> bytes:
    return PRIVATE.private_bytes(Encoding.PEM, form, encryption or NoEncryption())


def _public(encoding: Encoding, form: PublicFormat) -> bytes:
    return PRIVATE.public_key().public_bytes(encoding, form)


OPENSSH_PUBLIC: Final = _public(Encoding.OpenSSH, PublicFormat.OpenSSH)
PEM_PUBLIC: Final = _public(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.OpenSSH])
@pytest.mark.parametrize("public", [OPENSSH_PUBLIC, OPENSSH_PUBLIC + b" somebody@somewhere\n", PEM_PUBLIC])
def test_both_halves_of_a_pair_verify_the_private_ones_signature(form: PrivateFormat, public: bytes) -> None:
    private, known = read_key(_private(form), name="key"), read_key(public, name="key.pub")
    assert isinstance(private, PrivateKey)
    assert isinstance(known, PublicKey)
    signature = private.sign(HEAD)
    for key in (private, known):
        assert key.has_signed(HEAD, signature)
        assert not key.has_signed(HEAD + b" ", signature)
        assert not key.has_signed(HEAD, signature.upper())
        assert not key.has_signed(HEAD, b"\xff" * len(signature))
        assert not key.has_signed(HEAD, b"")


def test_a_signature_for_another_purpose_signs_no_bundle() -> None:
    public = read_key(PEM_PUBLIC, name="key.pub")
    assert not public.has_signed(HEAD, f"{PRIVATE.sign(HEAD).hex()}\n".encode())


@pytest.mark.parametrize(
    "content",
    [
        OPENSSH_PUBLIC,
        PEM_PUBLIC,
        b"\n\n  " + OPENSSH_PUBLIC,
        b"# whose it is\n" + OPENSSH_PUBLIC,
        b"Subject: somebody\n" + PEM_PUBLIC,
        _public(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        OPENSSH_PUBLIC[:30],
        PEM_PUBLIC[:40],
        b"ecdsa-sha2-nistp256 AAAA",
        b"sk-ssh-ed25519@openssh.com AAAA",
    ],
)
def test_public_data_is_never_a_secret(content: bytes) -> None:
    try:
        key = read_key(content, name="key")
    except SpecError:
        return
    assert isinstance(key, PublicKey)


def test_a_public_key_signs_nothing() -> None:
    with pytest.raises(SpecError, match="give the private key"):
        read_signing_key(PEM_PUBLIC, name="key.pub")
    assert isinstance(read_signing_key(_private(PrivateFormat.PKCS8), name="key"), PrivateKey)


@pytest.mark.parametrize("content", [_private(PrivateFormat.PKCS8, LOCKED), LOCKED_BY_OPENSSH], ids=["pem", "openssh"])
def test_a_passphrase_is_not_prompted_for(content: bytes) -> None:
    with pytest.raises(SpecError, match="passphrase"):
        read_key(content, name="key")


@pytest.mark.parametrize("generate", [X25519PrivateKey.generate, lambda: generate_curve_key(SECP256R1())])
def test_a_pair_of_another_kind_is_refused(generate: Callable[[], X25519PrivateKey]) -> None:
    content = generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(SpecError, match="another kind than Ed25519"):
        read_key(content, name="key")


def test_a_missing_library_for_pairs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(SpecError, match="sandbox-engine\\[signing\\]"):
        read_key(PEM_PUBLIC, name="key")
    assert isinstance(read_key(b"sixteen bytes or more\n", name="key"), Secret)
