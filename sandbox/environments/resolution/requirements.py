"""From what a tool asks for to the lines an installer gets: every requirement once, in one spelling, or a refusal.

Order, letter case and spelling do not matter: equal wishes give equal lines, which is what makes a resolution worth
remembering. Two wishes for one package become one line that asks for both; under different markers it stays
apart, since only the resolver knows which of them hold. Markers are kept: the resolver evaluates them for the
interpreter that the tool gets.

Nothing is dropped in silence and nothing is guessed. The refusal names all mistakes at once, each by its position,
so that an author with five mistakes does not need five attempts. No line can become anything else than a requirement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from packaging.requirements import Requirement
from packaging.specifiers import Specifier
from packaging.utils import canonicalize_name, canonicalize_version

from sandbox.environments.resolution.requirement_syntax import MAX_LENGTH, Malformed, Wanted, read, shown
from sandbox.environments.resolution.version_ranges import contradict_each_other
from sandbox.errors import RequirementRefused

MAX_REQUIREMENTS: Final = 1000
_MAX_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class SupplyRules:
    """A policy's rules for the packages themselves; names in any spelling."""

    allow: frozenset[str] = frozenset()
    """The only packages taken; none: any."""
    deny: frozenset[str] = frozenset()
    direct_references: bool = False

    def __post_init__(self) -> None:
        for field in ("allow", "deny"):
            object.__setattr__(self, field, frozenset(map(canonicalize_name, getattr(self, field))))

    def refusal(self, name: str) -> str | None:
        """Return why no package of that name is taken, for a tool or for another package."""
        name = canonicalize_name(name)
        if name in self.deny:
            return f"'{name}' is denied by the policy"
        if self.allow and name not in self.allow:
            return f"'{name}' is not among the packages that the policy allows"
        return None


@dataclass(frozen=True, slots=True)
class _Problem:
    positions: tuple[int, ...]
    text: str
    remedy: str


def read_requirements(items: Sequence[str | Mapping[str, object]], *, supply: SupplyRules) -> tuple[str, ...]:
    """The requirements as canonical PEP 508 lines, sorted; raises `RequirementRefused` with all that is wrong."""
    _check_list(items)
    problems: list[_Problem] = []
    wanted: list[tuple[int, Wanted]] = []
    for position, item in enumerate(items, start=1):
        try:
            wanted.append((position, _read(item, supply=supply)))
        except Malformed as error:
            problems.append(_Problem((position,), f"{shown(item)} {error.reason}", error.remedy))
    lines = _merged(wanted, problems=problems)
    if problems:
        raise _refusal(sorted(problems, key=lambda problem: problem.positions), count=len(items))
    return tuple(sorted(lines))


def excluded_by_marker(requirements: Iterable[str], *, markers: Mapping[str, str]) -> tuple[str, ...]:
    """Return the lines that ask for nothing on an interpreter with these values for markers."""
    parsed = {line: Requirement(line).marker for line in requirements}
    return tuple(line for line, marker in parsed.items() if marker and not marker.evaluate(dict(markers)))


def _check_list(items: object) -> None:
    if not isinstance(items, Sequence) or isinstance(items, str | bytes | bytearray):
        kind = type(items).__name__
        raise RequirementRefused(f"the requirements are not a list, but {kind}", remedy='write ["name", "name==1.2"]')
    if len(items) > MAX_REQUIREMENTS:
        raise RequirementRefused(f"there are {len(items)} requirements; at most {MAX_REQUIREMENTS} are taken")


def _read(item: object, *, supply: SupplyRules) -> Wanted:
    wanted = read(item, direct_references=supply.direct_references)
    if reason := supply.refusal(wanted.name):
        raise Malformed(f"is refused: {reason}", remedy="use another package, or a policy that allows this one")
    return wanted


def _merged(wanted: list[tuple[int, Wanted]], *, problems: list[_Problem]) -> set[str]:
    """Return one line for all wishes for one package under one marker."""
    groups: dict[tuple[str, str], list[tuple[int, Wanted]]] = defaultdict(list)
    for position, each in wanted:
        groups[each.name, each.marker].append((position, each))
    lines = set()
    for members in groups.values():
        together = _together([each for _, each in members])
        if reason := _contradiction(together, [each for _, each in members]):
            remedy = f"ask for versions of '{together.name}' that go together"
            problems.append(_Problem(tuple(position for position, _ in members), reason, remedy))
        lines.add(together.text())
    return lines


def _together(members: list[Wanted]) -> Wanted:
    versions = frozenset[str]().union(*(each.versions for each in members))
    return replace(
        members[0],
        extras=frozenset[str]().union(*(each.extras for each in members)),
        versions=_each_meaning_once(versions),
        address=max(each.address for each in members),
    )


def _each_meaning_once(versions: Iterable[str]) -> frozenset[str]:
    """Return the specifiers without duplicates: `==1.0.0` stands for `==1.0` as well."""
    spelled: dict[tuple[str, str], str] = {}
    for text in sorted(versions, key=lambda text: (len(text), text)):
        specifier = Specifier(text)
        has_trailing_zeros = specifier.operator == "~=" or text.endswith(".*")
        meaning = canonicalize_version(specifier.version, strip_trailing_zero=not has_trailing_zeros)
        spelled[specifier.operator, meaning] = text
    return frozenset(spelled.values())


def _contradiction(together: Wanted, members: list[Wanted]) -> str | None:
    asked = ", ".join(sorted({shown(each.text()) for each in members})[:5])
    if len({each.address for each in members}) > 1:
        return f"{asked}: '{together.name}' is asked for from two places"
    if len(together.text()) > MAX_LENGTH:
        return f"{asked}: together they are longer than {MAX_LENGTH} characters"
    if contradict_each_other(together.versions):
        return f"{asked}: no version of '{together.name}' can be all of that"
    return None


def _refusal(problems: list[_Problem], *, count: int) -> RequirementRefused:
    remedies = list(dict.fromkeys(problem.remedy for problem in problems))
    lines = [f"{_position(problem.positions, count=count)}: {problem.text}" for problem in problems[:_MAX_SHOWN]]
    if len(problems) > _MAX_SHOWN:
        lines.append(f"… and {len(problems) - _MAX_SHOWN} more")
    message = lines[0] if len(lines) == 1 else "\n  ".join((f"{len(problems)} problems with requirements:", *lines))
    return RequirementRefused(message, remedy="; ".join(remedies[:3]))


def _position(positions: tuple[int, ...], *, count: int) -> str:
    if len(positions) == 1:
        return f"requirement {positions[0]} of {count}"
    listed = ", ".join(map(str, positions[:5])) + (", …" if len(positions) > 5 else "")
    return f"requirements {listed} of {count}"
