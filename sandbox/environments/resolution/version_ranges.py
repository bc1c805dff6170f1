"""Whether any version at all can be what several specifiers ask for.

Only what is certain is said: `==1` with `==2`, and `>=2` with `<1`, can never be met, and the refusal names them at
once. A subtler contradiction (`>1` with `<1.post1`) passes here and fails when it is resolved.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from packaging.specifiers import Specifier, SpecifierSet
from packaging.version import Version


class _Bound(NamedTuple):
    version: Version
    is_open: bool
    """The version itself is out."""


def contradict_each_other(versions: Iterable[str]) -> bool:
    """Whether no version fits all of these specifiers."""
    specifiers = [Specifier(version) for version in versions]
    pins = [each.version for each in specifiers if each.operator == "==" and not each.version.endswith(".*")]
    if pins:
        everything = SpecifierSet(",".join(map(str, specifiers)), prereleases=True)
        return not any(pin in everything for pin in pins)
    lower = [bound for each in specifiers if (bound := _lower(each))]
    upper = [bound for each in specifiers if (bound := _upper(each))]
    if not lower or not upper:
        return False
    lowest = max(lower, key=lambda bound: (bound.version, bound.is_open))
    highest = min(upper, key=lambda bound: (bound.version, not bound.is_open))
    is_point = lowest.version == highest.version
    return lowest.version > highest.version or (is_point and (lowest.is_open or highest.is_open))


def _lower(specifier: Specifier) -> _Bound | None:
    if specifier.operator in (">=", "~=", ">"):
        return _Bound(Version(specifier.version), is_open=specifier.operator == ">")
    if specifier.operator == "==":
        prefix = Version(specifier.version.removesuffix(".*"))
        return _Bound(_first_of(prefix.epoch, prefix.release), is_open=False)
    return None


def _upper(specifier: Specifier) -> _Bound | None:
    if specifier.operator in ("<=", "<"):
        return _Bound(Version(specifier.version), is_open=specifier.operator == "<")
    if specifier.operator in ("~=", "=="):
        version = Version(specifier.version.removesuffix(".*"))
        fixed = version.release[:-1] if specifier.operator == "~=" else version.release
        return _Bound(_first_of(version.epoch, (*fixed[:-1], fixed[-1] + 1)), is_open=True)
    return None


def _first_of(epoch: int, release: tuple[int, ...]) -> Version:
    """The very first version of a series: its first development release."""
    return Version(f"{epoch}!{'.'.join(map(str, release))}.dev0")
