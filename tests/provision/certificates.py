"""An authority of the tests' own and certificates by it, made with the openssl command.

<authority>/    ca.pem  ca-key.pem          who vouches
                <name>.pem  <name>-key.pem  whom it vouches for
<client>/       ca.pem  cert.pem  key.pem   as DOCKER_CERT_PATH names them
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.provision import ProvisionError, debian

_DAYS: Final = "7"
_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def make_authority(folder: Path) -> None:
    """ca.pem and ca-key.pem."""
    debian.require("openssl")
    folder.mkdir()
    subject = ("-subj", f"/CN=authority {folder.name} of tests")
    _openssl(folder, "req", "-x509", *_KEY, *subject, "-days", _DAYS, "-keyout", "ca-key.pem", "-out", "ca.pem")


def make_certificate(authority: Path, name: str, *, host: str) -> None:
    """<name>.pem and <name>-key.pem, next to the authority that vouches for them, to serve that host or to ask it."""
    subject, address = ("-subj", f"/CN={name}"), f"subjectAltName={host}"
    _openssl(authority, "req", *_KEY, *subject, "-keyout", f"{name}-key.pem", "-out", f"{name}.csr")
    (authority / f"{name}.cnf").write_text(f"{address}\nextendedKeyUsage=serverAuth,clientAuth\n")
    _openssl(
        authority,
        *("x509", "-req", "-in", f"{name}.csr", "-days", _DAYS, "-out", f"{name}.pem"),
        *("-CA", "ca.pem", "-CAkey", "ca-key.pem", "-CAcreateserial", "-extfile", f"{name}.cnf"),
    )


def give_to_client(folder: Path, *, trusts: Path, shows: Path) -> Path:
    """ca.pem, cert.pem and key.pem, as DOCKER_CERT_PATH names them, of the authorities trusted and shown."""
    folder.mkdir()
    for source, name in ((trusts / "ca.pem", "ca.pem"), (shows / "client.pem", "cert.pem")):
        shutil.copy(source, folder / name)
    shutil.copy(shows / "client-key.pem", folder / "key.pem")
    return folder


def _openssl(folder: Path, *words: str) -> None:
    answer = subprocess.run(("openssl", *words), cwd=folder, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise ProvisionError(f"openssl {words[0]} failed: {answer.stderr.strip()[-1000:]}")
