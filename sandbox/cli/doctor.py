"""`sandbox doctor`: what this host can do, measured by running real calls.

Which walls were up around a call that demanded none, which of the shipped policies would run here, and whether each
limit bites: see `sandbox.doctor`. The exit code answers one question: 0 when the `default` policy runs here, 5 when it
does not.

`--attack` asks another: do the walls hold when they are attacked? See attack_report.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from sandbox.cli.run import AsJson, Backend
from sandbox.cli.terminal import show_document

if TYPE_CHECKING:
    from sandbox.cli.tables import Cell, Page
    from sandbox.doctor import Checkup
    from sandbox.doctor.report import LimitTried, PolicyTried, WallFound


_DEFAULT: Final = "default"


def doctor(
    *,
    backend: Backend = None,
    attack: Annotated[
        bool, typer.Option("--attack", help="Attack the walls instead, and see which of them hold.")
    ] = False,
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="NAME|FILE", help="With --attack: the policy under attack.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """See which walls, limits and policies this host has.

    Runs real calls. Exits with 0 when the default policy runs on this host, and with 5 when it does not; with --attack,
    0 when every wall held and 5 when one did not.
    """
    import asyncio

    from sandbox.cli.exit_codes import UNAVAILABLE

    if attack:
        from sandbox.cli.attack_report import attack_host

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


def _page(checkup: Checkup) -> Page:
    from sandbox.cli.tables import Page
    from sandbox.policy import load

    host, page = checkup.host, Page()
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
    from sandbox.cli.format import with_note
    from sandbox.cli.tables import Cell, arrow, mark

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
    from sandbox.cli.escape import one_line
    from sandbox.cli.format import limit_figure, with_note
    from sandbox.cli.tables import Cell, mark

    told = one_line(tried.message, most=100)
    return [
        mark(tried.bites),
        Cell(name),
        Cell(limit_figure(name, tried.limit, exact=True)),
        Cell(told if tried.bites else f"does not bite: {told}"),
        Cell(with_note(tried.enforced_by, tried.note), "dim"),
    ]
