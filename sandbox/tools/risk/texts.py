"""Signs in constant text: places of credentials, places outside the working folder, odd letters."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from sandbox.tools.risk.folding import UNKNOWN

_MAX_LENGTH: Final = 400
_CREDENTIALS: Final = re.compile(
    r"""(?x) (?:^|[/\\~'"\s=]) (?:
        \.ssh (?:[/\\]|$) | id_(?:rsa|dsa|ecdsa|ed25519)\b | authorized_keys\b
      | \.aws (?:[/\\]|$) | \.azure (?:[/\\]|$) | \.kube (?:[/\\]|$) | \.docker[/\\]config\.json | \.gnupg (?:[/\\]|$)
      | \.config[/\\]gcloud | gcloud[/\\](?:credentials|application_default) | application_default_credentials
      | \.netrc\b | \.pgpass\b | \.my\.cnf\b | \.pypirc\b | \.npmrc\b | \.git-credentials\b | \.env$
      | \.bash_history\b | \.zsh_history\b | \.vault-token\b | \.terraform\.d
      | etc[/\\](?:shadow|gshadow|sudoers)\b | etc[/\\]passwd\b | etc[/\\]krb5\.keytab
      | secrets[/\\]kubernetes\.io | run[/\\]secrets[/\\] | proc[/\\][^/]{1,20}[/\\](?:environ|mem)\b
      | Login\ Data\b | cookies\.sqlite\b | logins\.json\b | key[34]\.db\b | Local\ State$ | wallet\.dat\b
      | \.electrum\b | \.ethereum\b | \.bitcoin\b | Keychains?[/\\] | leveldb$
    )"""
)
_METADATA: Final = re.compile(r"169\.254\.169\.254|metadata\.google\.internal|169\.254\.170\.2|100\.100\.100\.200")
_SECRET_NAME: Final = re.compile(r"(?i)(?:^|_)(?:key|token|secret|passw(?:or)?d|pass|credentials?|auth|pat)(?:_|$|\d)")
_INSIDE: Final = re.compile(r"/(?:work|tmp|var/tmp|dev/(?:null|zero|u?random|std(?:in|out|err)|fd/\d+))(?:/|$)")
_PERSISTENT: Final = re.compile(
    r"^/(?:etc|boot|root|usr|s?bin|lib(?:64)?|proc|sys|dev|home|Users)(?:/|$)|^/$|^~$|^~/?$"
    r"|\.(?:bashrc|bash_profile|zshrc|profile|zprofile|gitconfig|pth)$|site-packages|cron|systemd"
    r"|LaunchAgents|autostart|\.ssh(?:/|$)|sitecustomize"
)
_DESTRUCTIVE: Final = re.compile(
    r"\brm\s+-[a-z]*[rf]|\bmkfs|\bdd\s+if=|(?:curl|wget)\b.*\|\s*(?:ba|z)?sh\b|/dev/tcp/|\bnc\s+-e|\bbash\s+-i|\bchmod\s+[0-7]*777"
    r"|\bsudo\b|\bshutdown\b|\bcrontab\b|:\(\)\s*\{"
)
_SHELL_PROGRAM: Final = re.compile(r"^/?(?:usr/)?(?:bin/)?(?:ba|z|da|k)?sh$")
_SCRIPTS: Final = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")


def names_credentials(text: str) -> bool:
    """Return whether a text names a place where credentials lie."""
    return len(text) <= _MAX_LENGTH and _CREDENTIALS.search(text) is not None


def names_metadata_service(text: str) -> bool:
    """Return whether a text has the address of a cloud's metadata service, which hands out credentials."""
    return len(text) <= _MAX_LENGTH and _METADATA.search(text) is not None


def is_secret_name(name: str) -> bool:
    """Return whether an environment variable of that name likely holds a secret."""
    return len(name) <= _MAX_LENGTH and _SECRET_NAME.search(name) is not None


def is_outside(path: str) -> bool:
    """Return whether a path lies outside the working folder and the temporary ones."""
    path = path[:_MAX_LENGTH]
    if path.startswith(UNKNOWN) or "://" in path:
        return path.startswith(UNKNOWN) and _PERSISTENT.search(path) is not None
    if path.startswith(("/", "~")):
        return _INSIDE.match(path) is None or "/../" in path
    return path.startswith("..") or "/../" in path or path.endswith(".pth")


def is_sensitive_place(path: str) -> bool:
    """Return whether a path belongs to the system, to a user's settings, or to what starts by itself."""
    return _PERSISTENT.search(path[:_MAX_LENGTH]) is not None or names_credentials(path)


def is_destructive_command(command: str) -> bool:
    """Return whether a command of a shell deletes, downloads and runs, or opens a way in."""
    return _DESTRUCTIVE.search(command[:_MAX_LENGTH]) is not None or _SHELL_PROGRAM.match(command) is not None


def odd_letters(name: str) -> str | None:
    """Return why a name with letters outside ASCII is odd, or None for one that is plainly of another language.

    Python reads a name in its compatible form, so letters of a mathematical alphabet can spell `eval`.
    """
    if name.isascii():
        return "a known name is spelled with look-alike letters"
    scripts = {unicodedata.name(letter, "").partition(" ")[0] for letter in name[:64] if letter.isalpha()}
    if len(scripts.intersection(_SCRIPTS)) > 1:
        return "a name mixes letters of scripts that look alike"
    return None
