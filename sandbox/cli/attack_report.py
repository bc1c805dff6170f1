"""`sandbox doctor --attack`: the shipped attacks, tried on this host.

What was tried, whether the wall held, and how that showed. An attack that could not be told about counts as one that
got through: nothing has been seen to hold.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sandbox.cli.terminal import show_document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox.cli.tables import Cell, Page
    from sandbox.doctor.attacks import Attack, Finding
    from sandbox.outcome import Receipt
    from sandbox.policy import Policy


@dataclass(frozen=True, slots=True)
class Siege:
    """What came of all attacks, and around what they were tried."""

    policy: Policy
    receipt: Receipt
    findings: list[Finding]

    @property
    def lost(self) -> list[str]:
        """The attacks against which the walls did not hold."""
        return [finding.attack.name for finding in self.findings if not finding.held]


def attack_host(backend: str | None, policy: str, *, as_json: bool) -> int:
    """Try every attack and show what came of it; 0 when all walls held, 5 when one did not."""
    import asyncio

    from sandbox.cli.exit_codes import UNAVAILABLE

    siege = asyncio.run(_besiege(backend, policy))
    if as_json:
        show_document(json.dumps(_document(siege), ensure_ascii=False, indent=2))
    else:
        _page(siege).show()
    return UNAVAILABLE if siege.lost else 0


async def _besiege(backend: str | None, name: str) -> Siege:
    from sandbox.cli.temporary_sandbox import forgetful_sandbox
    from sandbox.doctor.attacks import attack_all
    from sandbox.errors import BackendUnavailable
    from sandbox.policy import load

    policy = load(name)
    async with forgetful_sandbox(backend) as engine:
        outcome = await engine.run("def probe():\n    return True\n", policy=policy)
        if outcome.receipt is None:
            raise BackendUnavailable("no box can be opened here")
        return Siege(policy, outcome.receipt, [finding async for finding in attack_all(engine, policy)])


def _document(siege: Siege) -> dict[str, Any]:
    return {
        "backend": siege.receipt.backend,
        "runtime": siege.receipt.runtime,
        "isolation": siege.receipt.isolation.value,
        "policy": siege.policy.name,
        "all_held": not siege.lost,
        "attacks": {
            finding.attack.name: {"tries": finding.attack.tries, "held": finding.held, "how": finding.how}
            for finding in siege.findings
        },
        "not_asked": [attack.name for attack in _not_asked(siege)],
    }


def _page(siege: Siege) -> Page:
    from sandbox.cli.tables import Page
    from sandbox.doctor.attacks import THEMES

    page, receipt = Page(), siege.receipt
    runtime = f", runtime {receipt.runtime}" if receipt.runtime else ""
    place = f"backend {receipt.backend}{runtime}, isolation {receipt.isolation.value}"
    page.line(f"{place}, policy {siege.policy.name}", style="dim")
    for theme, attacks in THEMES.items():
        rows = [_row(finding) for finding in siege.findings if finding.attack in attacks]
        if rows:
            page.title(theme)
            page.table(["", "attack", "what it tried", "what came of it"], rows, whole=2)
    page.line("")
    page.line(_conclusion(siege))
    return page


def _row(finding: Finding) -> list[Cell]:
    from sandbox.cli.escape import one_line
    from sandbox.cli.tables import Cell, mark

    attack = finding.attack
    return [mark(finding.held), Cell(attack.name), Cell(attack.tries), Cell(one_line(finding.how, most=400))]


def _conclusion(siege: Siege) -> str:
    asked = len(siege.findings)
    skipped = [attack.name for attack in _not_asked(siege)]
    unasked = f" Not tried, because the policy permits it: {', '.join(skipped)}." if skipped else ""
    if siege.lost:
        return f"{len(siege.lost)} of {asked} attacks got through or told nothing: {', '.join(siege.lost)}.{unasked}"
    return f"All {asked} attacks were held.{unasked}"


def _not_asked(siege: Siege) -> Sequence[Attack]:
    from sandbox.doctor.attacks import ATTACKS

    return [attack for attack in ATTACKS if not attack.is_asked(siege.policy)]
