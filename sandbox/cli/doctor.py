"""`sandbox doctor`: what this host can do, measured by running real calls.

Three questions: which walls were up around a call that demanded none; which of the shipped policies would run here, and
what the others lack; and whether each limit bites when a call goes far beyond it. The exit code answers one: 0 when the
`default` policy runs here, 5 when it does not.

`--attack` asks another: do the walls hold when they are attacked? See attack_report.py.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sandbox.cli.run import AsJson, Backend
from sandbox.cli.terminal import show_document

if TYPE_CHECKING:
    from sandbox.cli.probe import Bite, Trial
    from sandbox.cli.tables import Cell, Page
    from sandbox.outcome import Receipt


_DEFAULT: Final = "default"


@dataclass(frozen=True, slots=True)
class Checkup:
    """Everything that was found out."""

    backend: str
    receipt: Receipt
    trials: list[Trial]
    bites: list[Bite]

    @property
    def default_runs(self) -> bool:
        """Whether a call that names no policy would run here."""
        return any(trial.receipt is not None for trial in self.trials if trial.policy.name == _DEFAULT)

    @property
    def demanded(self) -> Collection[str]:
        """The walls without which such a call is refused."""
        return {
            layer.value
            for trial in self.trials
            if trial.policy.name == _DEFAULT
            for layer in trial.policy.isolation.require
        }


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

    from sandbox.cli.ending import UNAVAILABLE

    if attack:
        from sandbox.cli.attack_report import attack_host

        return attack_host(backend, policy or _DEFAULT, as_json=as_json)
    if policy is not None:
        raise typer.BadParameter("it goes with --attack; without it, every policy is tried", param_hint="--policy")
    checkup = asyncio.run(_examine(backend))
    if as_json:
        show_document(json.dumps(_document(checkup), ensure_ascii=False, indent=2))
    else:
        _page(checkup).show()
    return 0 if checkup.default_runs else UNAVAILABLE


async def _examine(backend: str | None) -> Checkup:
    from sandbox.cli.probe import try_limits, try_policies, undemanding
    from sandbox.errors import BackendUnavailable
    from sandbox.policy import load, shipped

    first, *trials = await try_policies(backend, [undemanding(), *map(load, shipped())])
    if first.receipt is None:
        raise first.refusal or BackendUnavailable("no box can be opened here")
    return Checkup(first.receipt.backend, first.receipt, trials, await try_limits(backend))


def _document(checkup: Checkup) -> dict[str, Any]:
    from sandbox.backends.remedies import PURPOSES, REMEDIES

    receipt = checkup.receipt
    return {
        "backend": checkup.backend,
        "host": _host(),
        "isolation": receipt.isolation.value,
        "default_runs": checkup.default_runs,
        "layers": {
            name: {
                "in_force": receipt.layers[name].in_force,
                "purpose": purpose,
                "detail": receipt.layers[name].detail,
                "remedy": None if receipt.layers[name].in_force else REMEDIES.get(name),
            }
            for name, purpose in PURPOSES.items()
        },
        "policies": {trial.policy.name: _trial_document(trial) for trial in checkup.trials},
        "limits": {
            bite.limit: {
                "bites": bite.bites,
                "limit": bite.allowed,
                "status": bite.outcome.status.value,
                "enforced_by": _enforcer(receipt, bite.limit),
            }
            for bite in checkup.bites
        },
        "notes": list(receipt.notes),
    }


def _trial_document(trial: Trial) -> dict[str, Any]:
    refusal = trial.refusal
    return {
        "runs": trial.receipt is not None,
        "isolation": trial.receipt.isolation.value if trial.receipt else None,
        "missing": list(refusal.missing) if refusal else [],
        "message": refusal.message if refusal else None,
        "remedy": refusal.remedy if refusal else None,
    }


def _host() -> dict[str, Any]:
    return {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "uid": os.geteuid(),
        "processors": os.cpu_count(),
    }


def _page(checkup: Checkup) -> Page:
    from sandbox.cli.tables import Page

    host = _host()
    page = Page()
    system = f"{host['system']} {host['release']} {host['machine']}"
    user = "root" if host["uid"] == 0 else f"uid {host['uid']}"
    page.line(f"{system}, Python {host['python']}, {user}, backend {checkup.backend}", style="dim")
    page.title("Walls", note="as measured around a call that demanded none")
    page.table(
        ["", "layer", "what it is for", "measured"], _wall_rows(checkup.receipt, demanded=checkup.demanded), whole=2
    )
    page.title("Policies", note="each one tried with a real call")
    page.table(["", "policy", "on this host"], [_policy_row(trial) for trial in checkup.trials], whole=2)
    page.title("Limits", note="a call asked for four times what it may have")
    page.table(
        ["", "limit", "allowed", "what happened", "enforced by"],
        [_limit_row(bite, checkup.receipt) for bite in checkup.bites],
        whole=3,
    )
    page.line("")
    page.line(*_conclusion(checkup))
    return page


def _conclusion(checkup: Checkup) -> tuple[str]:
    blunt = [bite.limit for bite in checkup.bites if not bite.bites]
    if not checkup.default_runs:
        return ("The default policy does not run on this host.",)
    if blunt:
        return (f"The default policy runs on this host, but these limits did not bite: {', '.join(blunt)}.",)
    return ("The default policy runs on this host, and every limit bites.",)


def _wall_rows(receipt: Receipt, *, demanded: Collection[str]) -> list[list[Cell]]:
    from sandbox.backends.remedies import PURPOSES, REMEDIES
    from sandbox.cli.tables import Cell, arrow, mark

    rows = []
    for name, purpose in PURPOSES.items():
        state = receipt.layers[name]
        remedy = "" if state.in_force else arrow(REMEDIES.get(name))
        rows.append(
            [mark(state.in_force, matters=name in demanded), Cell(name), Cell(purpose, note=remedy), Cell(state.detail)]
        )
    return rows


def _policy_row(trial: Trial) -> list[Cell]:
    from sandbox.cli.tables import Cell, arrow, mark

    if trial.receipt is not None:
        told = Cell(f"runs; isolation: {trial.receipt.isolation.value}, network: {trial.receipt.network}")
        return [mark(True), Cell(trial.policy.name), told]
    assert trial.refusal is not None
    is_default = trial.policy.name == _DEFAULT
    told = Cell(f"refused: {trial.refusal.message}", note=arrow(trial.refusal.remedy))
    return [mark(False, matters=is_default), Cell(trial.policy.name), told]


def _limit_row(bite: Bite, receipt: Receipt) -> list[Cell]:
    from sandbox.cli.figures import limit_figure
    from sandbox.cli.tables import Cell, mark
    from sandbox.cli.visible import one_line

    failure = bite.outcome.error
    told = one_line(failure.message or failure.type, most=100) if failure else "it got all it asked for"
    return [
        mark(bite.bites),
        Cell(bite.limit),
        Cell(limit_figure(bite.limit, bite.allowed, exact=True)),
        Cell(told if bite.bites else f"does not bite: {told}"),
        Cell(_enforcer(receipt, bite.limit), "dim"),
    ]


def _enforcer(receipt: Receipt, limit: str) -> str:
    state = receipt.limits.get(limit)
    return state.enforced_by if state else "the engine"
