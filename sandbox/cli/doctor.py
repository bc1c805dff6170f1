"""`sandbox doctor`: the capabilities of this host, measured by real calls.

The report shows the isolation around a call that demanded none, the shipped policies that run here, and whether each
limit has an effect. The exit code is 0 if the `default` policy runs on this host and 5 if not. `--attack` runs the
shipped attacks instead and shows whether the isolation holds.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sandbox.cli.options import AsJson, Backend
from sandbox.cli.terminal import show_document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox.cli.tables import Cell, ConsolePage
    from sandbox.client.client import AsyncSandbox
    from sandbox.doctor import Checkup
    from sandbox.doctor.attacks import Attack, AttackFinding
    from sandbox.doctor.report import LimitTried, PolicyTried, WallFound
    from sandbox.outcome import Receipt
    from sandbox.policy import Policy

_DEFAULT: Final = "default"


def doctor(
    *,
    backend: Backend = None,
    attack: Annotated[bool, typer.Option("--attack", help="Run the shipped attacks and show which are held.")] = False,
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="NAME|FILE", help="With --attack: policy under attack.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Show which isolation, limits and policies this host offers.

    Runs real calls. Exits with 0 when the default policy runs on this host, and with 5 when it does not; with --attack,
    0 when every attack was held and 5 when one was not.
    """
    import asyncio

    from sandbox.cli.app import UNAVAILABLE

    if attack:
        return attack_host(backend, policy or _DEFAULT, as_json=as_json)
    if policy is not None:
        raise typer.BadParameter("it goes with --attack; without it, every policy is tried", param_hint="--policy")
    checkup = asyncio.run(_checked_up(backend))
    if as_json:
        show_document(checkup.to_json(indent=2))
    else:
        _page(checkup).show()
    return 0 if checkup.default_runs else UNAVAILABLE


async def _checked_up(backend: str | None) -> Checkup:
    from sandbox.client.client import AsyncSandbox

    async with AsyncSandbox(backend=backend) as box:
        return await box.doctor()


def _page(checkup: Checkup) -> ConsolePage:
    from sandbox.cli.tables import ConsolePage
    from sandbox.policy import load

    host, page = checkup.host, ConsolePage()
    system = f"{host.system} {host.release} {host.machine}"
    user = "root" if host.uid == 0 else f"uid {host.uid}"
    page.line(f"{system}, Python {host.python}, {user}, backend {checkup.backend}", style="dim")
    page.title("Walls", note="as measured around a call that demanded none")
    demanded = {layer.value for layer in load(_DEFAULT).isolation.require}
    walls = [_wall_row(name, wall, matters=name in demanded) for name, wall in checkup.layers.items()]
    page.table(["", "layer", "what it is for", "measured"], walls, whole=2)
    page.title("Policies", note="each one tried with a real call")
    policies = [_policy_row(name, tried) for name, tried in checkup.policies.items()]
    page.table(["", "policy", "on this host"], policies, whole=2)
    page.title("Limits", note="a call asked for four times what it may have")
    limits = [_limit_row(name, tried) for name, tried in checkup.limits.items()]
    page.table(["", "limit", "allowed", "what happened", "enforced by"], limits, whole=3)
    page.line("")
    page.line(_conclusion(checkup))
    return page


def _conclusion(checkup: Checkup) -> str:
    blunt = [name for name, tried in checkup.limits.items() if not tried.bites]
    if not checkup.default_runs:
        return "The default policy does not run on this host."
    if blunt:
        return f"The default policy runs on this host, but these limits did not bite: {', '.join(blunt)}."
    return "The default policy runs on this host, and every limit bites."


def _wall_row(name: str, wall: WallFound, *, matters: bool) -> list[Cell]:
    from sandbox.cli.tables import Cell, arrow, mark
    from sandbox.cli.terminal import with_note

    remedy = "" if wall.in_force else arrow(wall.remedy)
    found = Cell(with_note(wall.measured_by, wall.detail))
    return [mark(wall.in_force, matters=matters), Cell(name), Cell(wall.purpose, note=remedy), found]


def _policy_row(name: str, tried: PolicyTried) -> list[Cell]:
    from sandbox.cli.tables import Cell, arrow, mark

    if tried.runs:
        return [mark(True), Cell(name), Cell(f"runs; isolation: {tried.isolation}, network: {tried.network}")]
    told = Cell(f"refused: {tried.message}", note=arrow(tried.remedy))
    return [mark(False, matters=name == _DEFAULT), Cell(name), told]


def _limit_row(name: str, tried: LimitTried) -> list[Cell]:
    from sandbox.cli.tables import Cell, mark
    from sandbox.cli.terminal import limit_figure, one_line, with_note

    told = one_line(tried.message, most=100)
    return [
        mark(tried.bites),
        Cell(name),
        Cell(limit_figure(name, tried.limit, exact=True)),
        Cell(told if tried.bites else f"does not bite: {told}"),
        Cell(with_note(tried.enforced_by, tried.note), "dim"),
    ]


@dataclass(frozen=True, slots=True)
class Siege:
    """The results of all attacks and the isolation they were tried against."""

    policy: Policy
    receipt: Receipt
    findings: list[AttackFinding]

    @property
    def lost(self) -> list[str]:
        """Return the attacks that the isolation did not hold."""
        return [finding.attack.name for finding in self.findings if not finding.held]


def attack_host(backend: str | None, policy: str, *, as_json: bool) -> int:
    """Run every attack and show the results; return 0 if all were held, 5 otherwise."""
    import asyncio

    from sandbox.cli.app import UNAVAILABLE

    siege = asyncio.run(_besiege(backend, policy))
    if as_json:
        show_document(json.dumps(_document(siege), ensure_ascii=False, indent=2))
    else:
        _report_page(siege).show()
    return UNAVAILABLE if siege.lost else 0


async def _besiege(backend: str | None, name: str) -> Siege:
    from sandbox.doctor.attacks import attack_all
    from sandbox.errors import BackendUnavailable
    from sandbox.policy import load

    policy = load(name)
    async with temporary_sandbox(backend) as engine:
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


def _report_page(siege: Siege) -> ConsolePage:
    from sandbox.cli.tables import ConsolePage
    from sandbox.doctor.attacks import THEMES

    page, receipt = ConsolePage(), siege.receipt
    runtime = f", runtime {receipt.runtime}" if receipt.runtime else ""
    place = f"backend {receipt.backend}{runtime}, isolation {receipt.isolation.value}"
    page.line(f"{place}, policy {siege.policy.name}", style="dim")
    for theme, attacks in THEMES.items():
        rows = [_row(finding) for finding in siege.findings if finding.attack in attacks]
        if rows:
            page.title(theme)
            page.table(["", "attack", "what it tried", "result"], rows, whole=2)
    page.line("")
    page.line(_report_conclusion(siege))
    return page


def _row(finding: AttackFinding) -> list[Cell]:
    from sandbox.cli.tables import Cell, mark
    from sandbox.cli.terminal import one_line

    attack = finding.attack
    return [mark(finding.held), Cell(attack.name), Cell(attack.tries), Cell(one_line(finding.how, most=400))]


def _report_conclusion(siege: Siege) -> str:
    asked = len(siege.findings)
    skipped = [attack.name for attack in _not_asked(siege)]
    unasked = f" Not tried, because the policy permits it: {', '.join(skipped)}." if skipped else ""
    if siege.lost:
        return f"{len(siege.lost)} of {asked} attacks got through or gave no result: {', '.join(siege.lost)}.{unasked}"
    return f"All {asked} attacks were held.{unasked}"


def _not_asked(siege: Siege) -> Sequence[Attack]:
    from sandbox.doctor.attacks import ATTACKS

    return [attack for attack in ATTACKS if not attack.is_asked(siege.policy)]


@asynccontextmanager
async def temporary_sandbox(backend: str | None) -> AsyncIterator[AsyncSandbox]:
    """Yield a sandbox that deletes what its calls leave."""
    from sandbox.client.client import AsyncSandbox

    with TemporaryDirectory(prefix="sandbox-") as folder:
        async with AsyncSandbox(backend=backend, artifact_store=folder) as box:
            yield box
