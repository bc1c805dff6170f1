"""Read one requirement, from text or from an object, into its parts in canonical spelling.

The grammar is PEP 508's, and `packaging` reads it. The checks before that look for text that other programs would take
for something else, so that each gets a reason that helps its writer, and because the text ends as a line of a file that
an installer reads: there a line break, an option, a comment or `${…}` would say something that was never checked here.

Two spellings of one requirement become one: names and extras as PEP 503 spells them, versions as PEP 440 does, markers
as `packaging` writes them. Trailing zeros stay where they are: `~=1.4` and `~=1.4.0` differ, and people look for what
they wrote. A text is never repeated whole: addresses carry passwords.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from packaging.markers import InvalidMarker, Marker, UndefinedComparison
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, Specifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

MAX_LENGTH: Final = 1000
SPELLING: Final = 'write it as "name", "name==1.2" or "name[extra]>=1.2,<2; python_version > \'3.9\'"'
_DEEPEST: Final = 20

_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,254}[A-Za-z0-9])?")
_OPTION: Final = re.compile(r"(?:^|\s)(--?[A-Za-z][A-Za-z-]{0,30})")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ADDRESS: Final = re.compile(
    r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?/[A-Za-z0-9._~/%+,=-]+#sha256=[0-9a-f]{64}", re.IGNORECASE
)
_FILE_ENDINGS: Final = (".whl", ".zip", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".txt")
_FOR_SHELLS: Final = "`$|&\\{}?^%"
_QUOTED: Final = re.compile(r'"[^"]*"')
_VERSION_TEST: Final = re.compile(
    r'(?:python_version|python_full_version|implementation_version) ([<>=!~]+) "([^"]*)"'
    r'|"([^"]*)" ([<>=!~]+) (?:python_version|python_full_version|implementation_version)'
)
_OF_PACKAGES: Final = re.compile(r"\b(extras?|dependency_groups)\b")
_OBJECT_KEYS: Final = ("name", "version", "extras", "marker")


class Malformed(Exception):
    """Why it is no requirement, and what to write instead; both are safe to show."""

    def __init__(self, reason: str, *, remedy: str = SPELLING) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Wanted:
    """The wish for one package."""

    name: str
    extras: frozenset[str] = frozenset()
    versions: frozenset[str] = frozenset()
    """Specifiers such as `>=1.2`, of which all hold."""
    marker: str = ""
    address: str = ""

    def text(self) -> str:
        """As PEP 508 writes it."""
        extras = f"[{','.join(sorted(self.extras))}]" if self.extras else ""
        where = f" @ {self.address}" if self.address else ""
        marker = f"{' ' if self.address else ''}; {self.marker}" if self.marker else ""
        return f"{self.name}{extras}{','.join(sorted(self.versions))}{where}{marker}"


def read(item: object, *, direct_references: bool) -> Wanted:
    """Read one item of a list of requirements; raises `Malformed`."""
    if isinstance(item, str):
        return _read_text(item.strip(" \t\r\n"), direct_references=direct_references)
    if isinstance(item, Mapping):
        return _read_text(_text_of_object(item), direct_references=False)
    raise Malformed("is neither text nor an object with a name")


def shown(item: object) -> str:
    """An item as a message may quote it: short, on one line, without what may be a password."""
    if isinstance(item, Mapping):
        item = item.get("name")
        if not isinstance(item, str):
            return "an object"
    if not isinstance(item, str):
        return f"a value of type {type(item).__name__}"
    if len(item) > MAX_LENGTH:
        return f"a text of {len(item)} characters"
    masked = ascii(" ".join(_masked(word) for word in item.strip().split(" ")))
    return masked if len(masked) <= 80 else f"{masked[:79]}…"


def _masked(word: str) -> str:
    before, at, after = word.rpartition("@")
    if at and ":" in before:
        word = f"***@{after}"
    address, query, _ = word.partition("?")
    return f"{address}?***" if query else word


def _read_text(text: str, *, direct_references: bool) -> Wanted:
    _check_characters(text)
    _check_form(text, direct_references=direct_references)
    try:
        parsed = Requirement(text)
    except InvalidRequirement as error:
        raise Malformed(f"is not a requirement: {_what_was_expected(error, text=text)}") from None
    return _wanted(parsed)


def _text_of_object(item: Mapping[object, object]) -> str:
    unknown = sorted(shown(key) for key in item if key not in _OBJECT_KEYS)
    if unknown:
        raise Malformed(f"has {unknown[0]}, which is not among the keys {', '.join(_OBJECT_KEYS)}")
    name = _text_of(item, "name")
    if not _NAME.fullmatch(name):
        raise Malformed("has a `name` that is not just the name of a package" if name else "has no name")
    parts = [name, _extras_of(item), _version_of(item)]
    marker = _text_of(item, "marker")
    return "".join(parts) + (f"; {marker}" if marker else "")


def _text_of(item: Mapping[object, object], key: str) -> str:
    value = item.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Malformed(f"has a `{key}` that is not text, but {type(value).__name__}")
    if len(value) > MAX_LENGTH:
        raise Malformed(f"has a `{key}` of more than {MAX_LENGTH} characters")
    return value.strip()


def _extras_of(item: Mapping[object, object]) -> str:
    value = item.get("extras") or ()
    extras = value.split(",") if isinstance(value, str) else value
    if not isinstance(extras, list | tuple) or len(extras) > MAX_LENGTH:
        raise Malformed("has `extras` that are not a list of names")
    names = [each.strip() if isinstance(each, str) else "" for each in extras]
    if not all(_NAME.fullmatch(name) for name in names):
        raise Malformed("has `extras` that are not a list of names")
    return f"[{','.join(names)}]" if names else ""


def _version_of(item: Mapping[object, object]) -> str:
    """A bare version means exactly that one."""
    version = _text_of(item, "version")
    bare = f"=={version}" if version[:1].isalnum() else version
    try:
        SpecifierSet(bare)
    except InvalidSpecifier:
        remedy = 'write the version as "1.2" or ">=1.2,<2", or leave it out to take any'
        raise Malformed("has a malformed `version`", remedy=remedy) from None
    return bare


def _check_characters(text: str) -> None:
    if not text:
        raise Malformed("is empty")
    if len(text) > MAX_LENGTH:
        raise Malformed(f"is longer than {MAX_LENGTH} characters")
    for character in text:
        if not " " <= character <= "~":
            kind = "control character" if ord(character) < 32 or ord(character) == 127 else "character"
            raise Malformed(f"has a {kind} U+{ord(character):04X} that no requirement has")
    if text.count("(") > _DEEPEST:
        raise Malformed(f"has more than {_DEEPEST} parentheses")


def _check_form(text: str, *, direct_references: bool) -> None:
    """Raise for text that is no requirement, though installers take it in place of one."""
    before_marker = text.partition(";")[0]
    if option := _OPTION.search(text):
        remedy = "where packages come from is set in the policy and in pip's own configuration"
        raise Malformed(f"holds an option ({option[1]}); options are not taken", remedy=remedy)
    name, at, address = before_marker.partition("@")
    if at and not _SCHEME.match(name.strip()):
        if not direct_references:
            remedy = "name a version, or use a policy that allows direct references"
            raise Malformed("names an address; the policy takes packages from an index only", remedy=remedy)
        return _check_address(address.strip(), text=text)
    if _SCHEME.match(before_marker):
        raise Malformed("is an address without a name", remedy='write "name", or "name @ address" where policy allows')
    if "#" in text:
        raise Malformed("holds a comment", remedy="leave the comment out")
    if "/" in before_marker or "\\" in before_marker or before_marker.startswith((".", "~")) or _is_file(before_marker):
        raise Malformed("is a path; packages are taken from an index, by name")
    return _check_for_shells(text)


def _is_file(text: str) -> bool:
    return text.strip().lower().endswith(_FILE_ENDINGS)


def _check_for_shells(text: str) -> None:
    found = next((character for character in text if character in _FOR_SHELLS), None)
    if found:
        raise Malformed(f"holds {found!r}, which means something to a shell and nothing in a requirement")


def _check_address(address: str, *, text: str) -> None:
    scheme = address.partition(":")[0].lower()
    where = address.partition("//")[2].partition("/")[0]
    if "+" in scheme:
        raise Malformed("names a repository of sources, whose content no hash can vouch for")
    if scheme not in ("http", "https"):
        raise Malformed("names a file or a repository; packages are taken from an index, by name")
    if "@" in where:
        raise Malformed("names an address with credentials", remedy="keep them in netrc or in pip's configuration")
    if not _ADDRESS.fullmatch(address):
        raise Malformed(
            "names an address that is not a plain URL with the hash of what is there",
            remedy='write it as "name @ https://host/file.whl#sha256=<64 hexadecimal digits>"',
        )
    _check_for_shells(text.replace(address, ""))


def _wanted(parsed: Requirement) -> Wanted:
    if not _NAME.fullmatch(parsed.name):
        raise Malformed("has a name of more than 256 characters")
    return Wanted(
        name=canonicalize_name(parsed.name),
        extras=frozenset(canonicalize_name(extra) for extra in parsed.extras),
        versions=frozenset(_canonical(each) for each in parsed.specifier),
        marker=_checked_marker(str(parsed.marker)) if parsed.marker else "",
        address=_canonical_address(parsed.url or ""),
    )


def _canonical(specifier: Specifier) -> str:
    if specifier.operator == "===":
        raise Malformed("compares versions as text (===)", remedy="use == instead")
    prefix = specifier.version.removesuffix(".*")
    try:
        return f"{specifier.operator}{Version(prefix)}{specifier.version[len(prefix) :]}"
    except InvalidVersion:
        raise Malformed(f"has a malformed version: {prefix[:40]!a}") from None


def _canonical_address(address: str) -> str:
    if address and not _ADDRESS.fullmatch(address):
        raise Malformed("names an address that ends in something else than its hash", remedy="put a space after it")
    place, sign, digest = address.partition("#")
    return f"{place}{sign}{digest.lower()}"


def _checked_marker(marker: str) -> str:
    """Installers take a marker that they cannot make sense of as one that does not hold, and leave the package out."""
    if _OF_PACKAGES.search(_QUOTED.sub("", marker)):
        raise Malformed("has a marker about extras or groups, of which a tool has none")
    for left_operator, right, left, right_operator in _VERSION_TEST.findall(marker):
        try:
            Specifier(f"{left_operator or right_operator}{right or left}")
        except InvalidSpecifier:
            raise Malformed("has a marker that compares a version with something else") from None
    if "'" in marker or not _is_read_as_written(marker):
        raise Malformed("has a marker with quotation marks inside of quotation marks")
    try:
        Marker(marker).evaluate()
    except UndefinedComparison:
        raise Malformed("has a marker that compares text as if it were a version") from None
    return marker


def _is_read_as_written(marker: str) -> bool:
    try:
        return str(Marker(marker)) == marker
    except InvalidMarker:
        return False


def _what_was_expected(error: InvalidRequirement, *, text: str) -> str:
    """In `packaging`'s words; its third line points at the place below the text."""
    lines = str(error).splitlines() or ["it cannot be read"]
    where = ""
    if len(lines) == 3:
        column = len(lines[2]) - len(lines[2].lstrip()) - 4
        where = f", at {shown(text[column:])}" if text[column:] else ", at its end"
    return f"{lines[0][:120]}{where}"
