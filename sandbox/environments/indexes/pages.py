"""The pages of an index: which files of a package there are, where, and what is known of each without fetching it.

An index answers in JSON (PEP 691) or HTML (PEP 503), a folder of wheels does not answer at all; all become the same
tuple of `ListedFile`. What is passed on is always JSON. A page was written by strangers: a file whose name is not one
of a distribution is left out, a field that is not what it should be is dropped, and a page that is not one at all (a
login form, a proxy's apology, half an answer) is told apart from the page of a package that has no files.

A page names files by addresses, and what it may name depends on where it is, whatever it says that its addresses are
relative to: one that came over a network lists only what is at `http` or `https`, a page on this machine also files of
this machine. Whatever else it names is left out here, so no address of a `ListedFile` has to be doubted later; each is
written as the parser read it, with its scheme in lower case and without blanks or control characters around it.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from html.parser import HTMLParser
from typing import Final
from urllib.parse import unquote, urljoin, urlsplit

JSON_PAGE: Final = "application/vnd.pypi.simple.v1+json"
ACCEPTED: Final = f"{JSON_PAGE}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01"

MOST_PAGE_BYTES: Final = 64 << 20
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._!+-]{0,250}\.(whl|tar\.gz|zip|tgz|tar\.bz2|tar\.xz)")
_OTHER_FILE: Final = re.compile(r".+\.(egg|exe|msi|rpm|deb|dmg|asc|sig|metadata|tar\.Z)", re.DOTALL)
_PLAIN_PAGE: Final = re.compile(r"pypi:repository-version|Links for ", re.IGNORECASE)
_HASH: Final = re.compile(r"(md5|sha1|sha224|sha256|sha384|sha512)=([0-9A-Fa-f]{32,128})")
_PLAIN_ADDRESS: Final = re.compile(
    r"https?://[A-Za-z0-9-][A-Za-z0-9.-]*(:[0-9]{1,4})?/[A-Za-z0-9._~!$&'()*+,;=:@%/?#-]*"
)
"""What most pages hold thousands of, and what no joining or splitting would change."""
_PLAIN_ANCHOR: Final = re.compile(
    r'<a((?:\s+[a-z-]+="[^"<>&]*(?:&(?:amp|gt|lt|quot|#39);[^"<>&]*)*")+)\s*>[^<>]*</a>(?:\s*<br */?>)?'
)
"""As indexes write nearly all of theirs."""
_PLAIN_ATTRIBUTE: Final = re.compile(r'([a-z-]+)="([^"]*)"')
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_REMOTE: Final = ("http", "https")
_LOCAL: Final = "file"
_MOST_TEXT: Final = 4096


class MalformedPage(ValueError):
    """What was answered is no page of an index."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One file as a page lists it."""

    filename: str
    url: str
    hashes: Mapping[str, str] = field(default_factory=dict)
    requires_python: str | None = None
    yanked: bool | str = False
    core_metadata: bool | Mapping[str, str] = False
    size: int | None = None
    upload_time: str | None = None

    @property
    def sha256(self) -> str | None:
        """Its digest, if the page tells one that can be."""
        digest = self.hashes.get("sha256", "").lower()
        return digest if _SHA256.fullmatch(digest) else None


def is_file_name(name: str) -> bool:
    """Whether a wheel or a source distribution may be called so."""
    return _FILE_NAME.fullmatch(name) is not None


def parse_page(body: bytes, *, content_type: str, address: str) -> tuple[ListedFile, ...]:
    """The files of a page that came from this address."""
    media_type, _, parameters = content_type.partition(";")
    media_type = media_type.strip().lower()
    if media_type.endswith("json"):
        return _parse_json(body, address=address)
    if media_type in ("", "text/html", "application/xhtml+xml") or media_type.endswith("+html"):
        charset = re.search(r"charset=\"?([\w-]+)", parameters)
        return parse_html(_decoded(body, charset[1] if charset else "utf-8"), address=address)
    raise MalformedPage(f"it answers with {media_type[:80]!r} instead of a page")


def parse_html(text: str, *, address: str, strict: bool = True) -> tuple[ListedFile, ...]:
    """The files that a page links to; `strict` doubts that a page without any is one."""
    links = _links_of(text, address=address)
    files = [_linked_file(attributes, links=links) for attributes in links.found]
    found = tuple(file for file in files if file is not None)
    if strict and not found and not _is_plain_page(text, links.found):
        raise MalformedPage("it answers with a page that links to no package")
    return found


def render_page(name: str, files: Iterable[ListedFile], *, address_of: Callable[[ListedFile], str]) -> bytes:
    """A package's page in JSON, with each file at the address it is given here."""
    listed = [_rendered(file, address=address_of(file)) for file in files]
    return json.dumps({"meta": {"api-version": "1.0"}, "name": name, "files": listed}).encode()


def render_links(files: Iterable[ListedFile], *, address_of: Callable[[ListedFile], str]) -> bytes:
    """A flat page of links in HTML: the only form in which resolvers take files of several packages."""
    lines = ["<!DOCTYPE html><html><head><title>Links for packages</title></head><body>"]
    for file in files:
        address = address_of(file) + (f"#sha256={file.sha256}" if file.sha256 else "")
        marks = {"href": address, "data-requires-python": file.requires_python, "data-yanked": _reason(file.yanked)}
        text = " ".join(f'{name}="{html.escape(mark)}"' for name, mark in marks.items() if mark is not None)
        lines.append(f"<a {text}>{html.escape(file.filename)}</a><br>")
    return "\n".join([*lines, "</body></html>"]).encode()


class _Links(HTMLParser):
    """Collects the attributes of all anchors, and what they are relative to."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.page = address
        self.base = address
        self.found: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found.append(dict(attrs))
        elif tag == "base" and (href := dict(attrs).get("href")):
            self.base = _joined(self.base, href, page=self.page) or self.base


def _links_of(text: str, *, address: str) -> _Links:
    """All anchors of a page. Plain ones are taken out by a pattern before the rest is parsed: a parser that knows all
    of HTML takes four times as long for them, and popular packages have thousands."""
    links, plain = _Links(address), list[str]()

    def take(anchor: re.Match[str]) -> str:
        plain.append(anchor[1])
        return ""

    links.feed(text if "<!--" in text else _PLAIN_ANCHOR.sub(take, text))
    links.close()
    links.found += [{name: _unescaped(value) for name, value in _PLAIN_ATTRIBUTE.findall(each)} for each in plain]
    return links


def _unescaped(value: str) -> str:
    return _unescape(value) if "&" in value else value


_unescape = lru_cache(maxsize=256)(html.unescape)  # there are few that differ: versions of Python, most of them


def _is_plain_page(text: str, links: list[dict[str, str | None]]) -> bool:
    """Whether it says itself what it is, or links to files of kinds that nobody installs any more."""
    names = [re.split("[?#]", link.get("href") or "")[0] for link in links]
    return bool(_PLAIN_PAGE.search(text[:_MOST_TEXT])) or any(_OTHER_FILE.fullmatch(name) for name in names)


def _linked_file(attributes: Mapping[str, str | None], *, links: _Links) -> ListedFile | None:
    url, _, fragment = _joined(links.base, attributes.get("href") or "", page=links.page).partition("#")
    filename = unquote(url.partition("?")[0].rpartition("/")[2])
    if not url or not is_file_name(filename):
        return None
    metadata = attributes.get("data-core-metadata", attributes.get("data-dist-info-metadata", ""))
    return ListedFile(
        filename=filename,
        url=url,
        hashes=dict(_HASH.findall(fragment.lower())),
        requires_python=_short(attributes.get("data-requires-python")),
        yanked=(_short(attributes["data-yanked"]) or True) if "data-yanked" in attributes else False,
        core_metadata=dict(_HASH.findall((metadata or "").lower())) or metadata == "true",
        size=_size(attributes.get("data-size")),
        upload_time=_short(attributes.get("data-upload-time")),
    )


def _parse_json(body: bytes, *, address: str) -> tuple[ListedFile, ...]:
    try:
        page = json.loads(body)
    except (ValueError, RecursionError):
        raise MalformedPage("it answers with half a page, or with something that is no JSON") from None
    files = page.get("files") if isinstance(page, dict) else None
    if not isinstance(files, list) or not all(isinstance(file, dict) for file in files):
        raise MalformedPage("it answers with JSON that is no package's page")
    found = (_described_file(file, address=address) for file in files)
    return tuple(file for file in found if file is not None)


def _described_file(file: Mapping[str, object], *, address: str) -> ListedFile | None:
    filename, reference = file.get("filename"), file.get("url")
    if not isinstance(filename, str) or not isinstance(reference, str) or not is_file_name(filename):
        return None
    url = _joined(address, reference, page=address).partition("#")[0]
    if not url:
        return None
    metadata = file.get("core-metadata", file.get("dist-info-metadata", file.get("data-dist-info-metadata")))
    yanked = file.get("yanked")
    return ListedFile(
        filename=filename,
        url=url,
        hashes=_hashes(file.get("hashes")),
        requires_python=_short(file.get("requires-python")),
        yanked=_short(yanked) or yanked is True,
        core_metadata=_hashes(metadata) or metadata is True or isinstance(metadata, dict),
        size=_size(file.get("size")),
        upload_time=_short(file.get("upload-time")),
    )


def _joined(base: str, reference: str, *, page: str) -> str:
    """An address that a page may name and that can be followed, or nothing."""
    if _PLAIN_ADDRESS.fullmatch(reference):
        return reference
    try:
        parts = urlsplit(urljoin(base, reference.strip()))
        _ = parts.port  # reading it checks it
    except ValueError:
        return ""
    if parts.scheme == _LOCAL and urlsplit(page).scheme == _LOCAL:
        return parts.geturl() if parts.netloc in ("", "localhost") else ""
    is_followed = parts.scheme in _REMOTE and parts.hostname and "\\" not in parts.netloc  # where readers differ
    return parts.geturl() if is_followed else ""


def _rendered(file: ListedFile, *, address: str) -> dict[str, object]:
    found: dict[str, object] = {"filename": file.filename, "url": address, "hashes": dict(file.hashes)}
    told = {"requires-python": file.requires_python, "size": file.size, "upload-time": file.upload_time}
    found.update((name, value) for name, value in told.items() if value is not None)
    if file.yanked:
        found["yanked"] = file.yanked
    if file.core_metadata:
        found["core-metadata"] = True if file.core_metadata is True else dict(file.core_metadata)
    return found


def _reason(yanked: bool | str) -> str | None:  # noqa: FBT001 - it is what the standard says it is
    return None if yanked is False else "" if yanked is True else yanked


def _hashes(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    pairs = {f"{name}={digest}".lower() for name, digest in value.items()}
    return {found[1]: found[2] for pair in sorted(pairs) if (found := _HASH.fullmatch(pair))}


def _short(value: object) -> str | None:
    return value[:_MOST_TEXT] if isinstance(value, str) and value else None


def _size(value: object) -> int | None:
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    return number if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else None


def _decoded(body: bytes, charset: str) -> str:
    try:
        return body.decode(charset, errors="replace")
    except LookupError:
        return body.decode(errors="replace")
