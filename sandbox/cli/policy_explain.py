"""`sandbox policy explain`: what each line of a policy means, and what enforces it on this host.

What enforces a limit, and which walls are up, is read from the receipt of a real call under this policy. A policy that
this host has to refuse is explained all the same: the call then runs under one that demands nothing, which shows what
is there and what is missing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sandbox.cli.policy_show import PolicyFile
from sandbox.cli.run import AsJson, Backend
from sandbox.cli.terminal import show_document

if TYPE_CHECKING:
    from sandbox.checkup.probe import Trial
    from sandbox.cli.tables import Cell, Page
    from sandbox.outcome import Receipt
    from sandbox.policy import Policy

_BY_THE_ENGINE: Final = {
    "output_rate": "the engine, which takes no more",
    "arguments": "the engine, before anything runs",
}
_BY_BUILDS: Final = {
    "verify": "the engine, against the environment's manifest",
    "build_time": "the engine's clock",
    "build_memory": "the box that builds",
    "build_disk": "the box that builds",
    "packages": "the engine, when it reads the lock",
    "preload": "the box, before the first call",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a policy, explained."""

    key: str
    value: str
    meaning: str
    enforced_by: str
    is_in_force: bool = True


def explain(policy: PolicyFile, backend: Backend = None, as_json: AsJson = False) -> int:
    """Explain each line, and what enforces it on this host."""
    import asyncio

    from sandbox.policy import load

    loaded = load(policy)
    trial, receipt = asyncio.run(_tried(loaded, backend))
    if as_json:
        show_document(json.dumps(_document(trial, receipt), ensure_ascii=False, indent=2))
    else:
        _page(trial, receipt).show()
    return 0


async def _tried(policy: Policy, backend: str | None) -> tuple[Trial, Receipt]:
    """The policy's own trial, and the receipt to explain it with."""
    from sandbox.checkup.probe import try_policies, undemanding
    from sandbox.cli.forgetful_sandbox import forgetful_sandbox
    from sandbox.errors import BackendUnavailable

    async with forgetful_sandbox(backend) as box:
        trial, fallback = await try_policies(box.run, [policy, undemanding()])
    receipt = trial.receipt or fallback.receipt
    if receipt is None:
        raise fallback.refusal or BackendUnavailable("no box can be opened here")
    return trial, receipt


def _lines(policy: Policy, receipt: Receipt) -> dict[str, list[Line]]:
    """Every field of the policy by its section, and every wall there is."""
    enforcers = {
        "limits": {name: state.enforced_by for name, state in receipt.limits.items()} | _BY_THE_ENGINE,
        "network": _network(policy, receipt),
        "filesystem": {"readable": _filesystem(policy, receipt)},
        "isolation": {
            "minimum": f"boxes here are walled by: {receipt.isolation.value}",
            "require": "the engine, which reads every wall back before a tool runs",
        },
        "environment": _BY_BUILDS,
    }
    return {
        name: [
            Line(key, section.spelled(key), field.description or "", enforcers.get(name, {}).get(key, "the engine"))
            for key, field in type(section).model_fields.items()
        ]
        for name, section in policy.sections().items()
    }


def _filesystem(policy: Policy, receipt: Receipt) -> str:
    from sandbox.policy import NetworkMode

    namespace = f"mount namespace: {receipt.layers['mount_namespace'].detail}"
    if not policy.filesystem.readable:
        return namespace
    if policy.network.mode is NetworkMode.HOST:
        return f"{namespace}; unix sockets there can be reached, as all of the host's network"
    return f"{namespace}; seccomp: {receipt.layers['seccomp'].detail}"


def _network(policy: Policy, receipt: Receipt) -> dict[str, str]:
    from sandbox.egress import NETWORK
    from sandbox.policy import NetworkMode

    namespace = f"network namespace: {receipt.layers['network_namespace'].detail}"
    rest = [name for name in type(policy.network).model_fields if name != "mode"]
    if receipt.network == NETWORK:
        return {"mode": f"{namespace}; the engine's proxy", **dict.fromkeys(rest, "the engine's proxy")}
    unused = dict.fromkeys(rest, "nobody: it is for policies whose mode is public")
    if receipt.network != policy.network.mode.value:
        is_public = policy.network.mode is NetworkMode.PUBLIC
        return {"mode": "nothing here", **(dict.fromkeys(rest, "nothing here") if is_public else unused)}
    is_open = policy.network.mode is NetworkMode.HOST
    return {"mode": "nothing: the host's network is open" if is_open else namespace, **unused}


def _walls(policy: Policy, receipt: Receipt) -> list[Line]:
    from sandbox.backends.remedies import PURPOSES

    required = {layer.value for layer in policy.isolation.require}
    return [
        Line(
            key=name,
            value="required" if name in required else "optional",
            meaning=purpose,
            enforced_by=receipt.layers[name].detail,
            is_in_force=receipt.layers[name].in_force,
        )
        for name, purpose in PURPOSES.items()
    ]


def _document(trial: Trial, receipt: Receipt) -> dict[str, Any]:
    policy, refusal = trial.policy, trial.refusal
    return {
        "name": policy.name,
        "description": policy.description,
        "digest": policy.digest,
        "runs": refusal is None,
        "refusal": None if refusal is None else {"message": refusal.message, "remedy": refusal.remedy},
        "lines": {
            f"{section}.{line.key}": {"value": line.value, "meaning": line.meaning, "enforced_by": line.enforced_by}
            for section, lines in _lines(policy, receipt).items()
            for line in lines
        },
        "walls": {
            line.key: {
                "required": line.value == "required",
                "in_force": line.is_in_force,
                "purpose": line.meaning,
                "measured": line.enforced_by,
            }
            for line in _walls(policy, receipt)
        },
    }


def _page(trial: Trial, receipt: Receipt) -> Page:
    from sandbox.cli.tables import Cell, Page, arrow, mark

    page = Page()
    page.title(trial.policy.name)
    page.line(trial.policy.description)
    if trial.refusal is not None:
        page.line(f"\nRefused on this host: {trial.refusal.message}", style="red")
        page.line(arrow(trial.refusal.remedy), style="dim")
        page.line("What follows is what a policy that demands nothing would get here.")
    for name, lines in _lines(trial.policy, receipt).items():
        page.title(f"[{name}]")
        page.table(["", "", "what it means", "enforced here by"], [_row(line) for line in lines])
    page.title("Walls", note="as measured around a real call")
    rows = [
        [
            mark(wall.is_in_force, matters=wall.value == "required"),
            Cell(wall.key),
            Cell(wall.value),
            Cell(wall.meaning),
            Cell(wall.enforced_by),
        ]
        for wall in _walls(trial.policy, receipt)
    ]
    page.table(["", "layer", "demand", "what it is for", "measured"], rows, whole=3)
    return page


def _row(line: Line) -> list[Cell]:
    from sandbox.cli.tables import Cell

    value = "see below" if line.key == "require" and line.value != "nothing" else line.value  # with the walls
    return [Cell(line.key), Cell(value, "bold"), Cell(line.meaning), Cell(line.enforced_by, "dim")]
