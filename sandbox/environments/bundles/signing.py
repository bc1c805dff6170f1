"""Sign bundles, and check who made one.

There are two kinds of keys. A *secret* is any file that both sides have: who can check with it can sign with it as
well. A *pair* is Ed25519: who signs keeps the private key, and everybody may have the public one, which signs nothing.

The content of a key file decides its kind, never the bundle. So the engine never takes a public key, which all know,
for a secret, with which anybody could have signed.
"""

from __future__ import annotations

import hashlib
import hmac
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias

from sandbox.errors import SpecError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SignatureKind: TypeAlias = Literal["hmac", "ed25519"]
SIGNATURE_BYTES: Final[dict[SignatureKind, int]] = {"hmac": 65, "ed25519": 129}
"""Hexadecimal digits and a line break."""
SHORTEST_SECRET: Final = 16
_FOR_BUNDLES_ONLY: Final = b"sandbox bundle 1\0"
"""Ahead of what is signed with a private key, which may be one that signs other things, too."""
_PEM: Final = b"-----BEGIN "
_SSH: Final = (b"ssh-", b"sk-ssh-", b"ecdsa-", b"sk-ecdsa-")
_ED25519_IN_DER: Final = bytes.fromhex("06032b6570")


class Key(ABC):
    """A key that checks signatures."""

    kind: ClassVar[SignatureKind]

    @abstractmethod
    def has_signed(self, head: bytes, stated: bytes) -> bool:
        """Whether that is what signs a bundle.json of these bytes."""


class SigningKey(Key):
    """A key that signs as well."""

    @abstractmethod
    def sign(self, head: bytes) -> bytes:
        """Sign a bundle.json of these bytes; the result is a line of text."""


@dataclass(frozen=True, slots=True)
class Secret(SigningKey):
    """HMAC-SHA256."""

    kind = "hmac"
    secret: bytes

    def sign(self, head: bytes) -> bytes:
        """Sign `head` with the shared secret."""
        return _as_line(hmac.digest(self.secret, head, hashlib.sha256))

    def has_signed(self, head: bytes, stated: bytes) -> bool:
        """Compared in a time that tells nothing."""
        return hmac.compare_digest(stated, self.sign(head))


@dataclass(frozen=True, slots=True)
class PublicKey(Key):
    """Checks, and cannot sign."""

    kind = "ed25519"
    public: Ed25519PublicKey

    def has_signed(self, head: bytes, stated: bytes) -> bool:
        """Check the signature; each content has one signature, and one way to write it."""
        from cryptography.exceptions import InvalidSignature

        try:
            signature = bytes.fromhex(stated.decode("ascii"))
            self.public.verify(signature, _FOR_BUNDLES_ONLY + head)
        except (ValueError, InvalidSignature):
            return False
        return stated == _as_line(signature)


@dataclass(frozen=True, slots=True)
class PrivateKey(SigningKey):
    """Signs, and knows what it has signed."""

    kind = "ed25519"
    private: Ed25519PrivateKey

    def sign(self, head: bytes) -> bytes:
        """Sign `head` with the private key."""
        return _as_line(self.private.sign(_FOR_BUNDLES_ONLY + head))

    def has_signed(self, head: bytes, stated: bytes) -> bool:
        """As the public key of the pair tells."""
        return PublicKey(self.private.public_key()).has_signed(head, stated)


def read_key(content: bytes, *, name: str) -> Key:
    """The key that a file holds, `name` for messages: a key of a pair, as OpenSSL and OpenSSH write them, or a secret,
    of which line breaks at the end do not count."""
    text = content.strip()
    if _PEM in text or _ED25519_IN_DER in content or any(line.startswith(_SSH) for line in text.splitlines()):
        return _key_of_a_pair(text, name=name)
    secret = content.rstrip(b"\r\n")
    if len(secret) < SHORTEST_SECRET:
        raise SpecError(
            f"the key in {name} is too short: {len(secret)} bytes, at least {SHORTEST_SECRET}",
            remedy=f"make a secret with: head -c 32 /dev/urandom | base64 > {name}",
        )
    return Secret(secret)


def read_signing_key(content: bytes, *, name: str) -> SigningKey:
    """The same, for who is to sign."""
    key = read_key(content, name=name)
    if isinstance(key, SigningKey):
        return key
    raise SpecError(f"{name} holds a public key, which signs nothing", remedy="give the private key of the pair")


def _key_of_a_pair(text: bytes, *, name: str) -> Key:
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    except ImportError:
        raise SpecError(
            f"{name} holds a key of a pair, and what reads those is not installed",
            remedy="pip install 'sandbox-engine[signing]', or sign with a secret that both sides have",
        ) from None
    try:
        key = _loaded(text)
    except TypeError:
        raise SpecError(
            f"the key in {name} is locked with a passphrase", remedy="give one without a passphrase"
        ) from None
    except (ValueError, UnsupportedAlgorithm) as error:
        raise SpecError(f"the key in {name} cannot be read: {str(error)[:300]}") from None
    if isinstance(key, Ed25519PrivateKey):
        return PrivateKey(key)
    if isinstance(key, Ed25519PublicKey):
        return PublicKey(key)
    raise SpecError(
        f"the key in {name} is of another kind than Ed25519",
        remedy="make a pair with: ssh-keygen -t ed25519 -N '' -f signing",
    )


def _loaded(text: bytes) -> object:
    """Read a private key of any kind; a locked one raises `TypeError`."""
    from cryptography.hazmat.primitives import serialization

    if text.startswith(_SSH):
        return serialization.load_ssh_public_key(text)
    first_line = text.partition(b"\n")[0]
    if b"OPENSSH" in first_line:
        return _unlocked(text)
    if b"PUBLIC" in first_line:
        return serialization.load_pem_public_key(text)
    return serialization.load_pem_private_key(text, password=None)


def _unlocked(text: bytes) -> object:
    from cryptography.hazmat.primitives import serialization

    try:
        return serialization.load_ssh_private_key(text, password=None)
    except ValueError as error:
        if "password" in str(error).lower():
            raise TypeError(str(error)) from None
        raise


def _as_line(signature: bytes) -> bytes:
    return f"{signature.hex()}\n".encode()
