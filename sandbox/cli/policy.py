"""`sandbox policy list`, `show` and `explain`.

`explain` reads from the receipt of a real call under the policy which mechanism enforces a limit and which isolation
layers are active. If this host refuses the policy, the call runs under a policy without requirements, which shows what
is present and what is missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sandbox.cli.options import AsJson, Backend
from sandbox.cli.terminal import show_document

if TYPE_CHECKING:
    from sandbox.cli.tables import Cell, ConsolePage
    from sandbox.doctor.report import Trial
    from sandbox.outcome import EnforcedBy, LayerState, Receipt
    from sandbox.policy import Policy
    from sandbox.policy.base_model import Section

    Keeper = tuple[EnforcedBy, str]
    """The word of what enforces a line, and a note."""
    Loose = dict[str, str]
    """For each limit that does not bite here, the end of the call that went beyond it."""

_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s")


def list_policies(as_json: AsJson = False) -> int:
    """List the policies that come with the engine."""
    from sandbox.policy import list_shipped, load

    purposes = {name: _first_sentence(load(name).description) for name in list_shipped()}
    if as_json:
        show_document(json.dumps([{"name": name, "purpose": purpose} for name, purpose in purposes.items()], indent=2))
        return 0
    from sandbox.cli.tables import Cell, ConsolePage

    page = ConsolePage()
    page.table(["policy", "for what"], [[Cell(name, "bold"), Cell(purpose)] for name, purpose in purposes.items()])
    page.show()
    return 0


def _first_sentence(text: str) -> str:
    return _SENTENCE_END.split(text.strip(), maxsplit=1)[0]


PolicyFile = Annotated[
    str, typer.Argument(metavar="NAME|FILE", help="Name of a shipped policy, or path of a policy file.")
]


def show_policy(policy: PolicyFile, as_json: AsJson = False) -> int:
    """Show everything that a policy grants and requires."""
    from sandbox.policy import load

    loaded = load(policy)
    if as_json:
        document = {**loaded.model_dump(mode="json"), "digest": loaded.digest}
        show_document(json.dumps(document, ensure_ascii=False, indent=2))
        return 0
    from sandbox.cli.tables import Cell, ConsolePage

    page = ConsolePage()
    page.title(loaded.name)
    page.line(loaded.description)
    for name, section in loaded.sections().items():
        page.title(f"[{name}]")
        page.table(
            ["", ""], [[Cell(key, "dim"), Cell(section.format_field(key))] for key in type(section).model_fields]
        )
    page.line("")
    page.line(f"digest {loaded.digest}", style="dim")
    page.show()
    return 0


_PROXY: Final = "the engine's proxy"


@dataclass(frozen=True, slots=True)
class Line:
    """Explanation of one line of a policy."""

    key: str
    value: str
    meaning: str
    enforced_by: EnforcedBy
    note: str


@dataclass(frozen=True, slots=True)
class Wall:
    """Explanation of one layer of isolation."""

    name: str
    is_required: bool
    purpose: str
    state: LayerState


def explain(policy: PolicyFile, backend: Backend = None, as_json: AsJson = False) -> int:
    """Explain each line and its enforcement on this host."""
    import asyncio

    from sandbox.policy import load

    loaded = load(policy)
    trial, receipt, loose = asyncio.run(_tried(loaded, backend))
    if as_json:
        show_document(json.dumps(_document(trial, receipt, loose), ensure_ascii=False, indent=2))
    else:
        _page(trial, receipt, loose).show()
    return 0


async def _tried(policy: Policy, backend: str | None) -> tuple[Trial, Receipt, Loose]:
    """Return the policy's own trial, the receipt to explain it with, and the limits that do not bite here."""
    from sandbox.backends.limit_probes import probe_limits, undemanding_policy
    from sandbox.cli.doctor import temporary_sandbox
    from sandbox.doctor.report import try_policies
    from sandbox.errors import BackendUnavailable

    async with temporary_sandbox(backend) as box:
        trial, fallback = await try_policies(box.run, [policy, undemanding_policy()])
        probes = await probe_limits(box.run)
    receipt = trial.receipt or fallback.receipt
    if receipt is None:
        raise fallback.refusal or BackendUnavailable("no box can be opened here")
    return trial, receipt, {probe.limit: probe.message for probe in probes if not probe.bites}


def _lines(policy: Policy, receipt: Receipt, loose: Loose) -> dict[str, list[Line]]:
    """Yield every field of the policy, section by section."""
    keepers = {f"{section}.{key}": keeper for section, key, keeper in _keepers(policy, receipt, loose)}
    return {
        name: [_line(section, key, keepers.get(f"{name}.{key}")) for key in type(section).model_fields]
        for name, section in policy.sections().items()
    }


def _line(section: Section, key: str, keeper: Keeper | None) -> Line:
    from sandbox.outcome import EnforcedBy

    word, note = keeper or (EnforcedBy.WATCHER, "the engine")
    meaning = type(section).model_fields[key].description or ""
    return Line(key=key, value=section.format_field(key), meaning=meaning, enforced_by=word, note=note)


def _keepers(policy: Policy, receipt: Receipt, loose: Loose) -> Iterator[tuple[str, str, Keeper]]:
    """Return the enforcement of each (section, key) that something other than the engine enforces."""
    from sandbox.outcome import EnforcedBy

    watched = {
        "limits.output_rate": "the engine takes no more",
        "limits.arguments": "the engine, before anything runs",
        "isolation.minimum": f"the engine refuses weaker boxes; here: {receipt.isolation.value}",
        "isolation.require": "the engine checks every layer before a tool runs",
        "environment.verify": "the engine, against the environment's manifest",
        "environment.build_time": "the engine's clock",
        "environment.build_disk": "the engine counts what a build leaves",
        "environment.packages": "the engine, when it reads the lock",
        "environment.preload": "the box, before the first call",
    }
    for name, note in watched.items():
        section, key = name.split(".")
        yield section, key, (EnforcedBy.WATCHER, note)
    for key, state in receipt.limits.items():
        yield "limits", key, (state.enforced_by, state.note)
    for key, message in loose.items():
        yield "limits", key, (EnforcedBy.NONE, f"a call went beyond it: {message}")
    for key, keeper in _network(policy, receipt).items():
        yield "network", key, keeper
    yield "filesystem", "readable", _files(policy, receipt)
    yield "environment", "build_memory", _build_memory(receipt)


def _files(policy: Policy, receipt: Receipt) -> Keeper:
    from sandbox.outcome import EnforcedBy
    from sandbox.policy import NetworkMode

    namespace, landlock = receipt.layers["mount_namespace"], receipt.layers["landlock"]
    if not namespace.counts and landlock.counts:
        return EnforcedBy.FILESYSTEM, f"Landlock: {landlock.detail}"
    note = f"mount namespace: {namespace.detail}"
    if policy.filesystem.readable and policy.network.mode is NetworkMode.HOST:
        note += "; unix sockets there can be reached, as all of the host's network"
    elif policy.filesystem.readable:
        note += f"; seccomp: {receipt.layers['seccomp'].detail}"
    return EnforcedBy.FILESYSTEM if namespace.counts else EnforcedBy.NONE, note


def _build_memory(receipt: Receipt) -> Keeper:
    """Builds run in subprocess boxes, whatever backend the calls use."""
    from sandbox.outcome import EnforcedBy

    if receipt.backend != "subprocess":
        return EnforcedBy.WATCHER, "the box that builds; a control group where this host has one"
    return receipt.limits["memory"].enforced_by, "the box that builds"


def _network(policy: Policy, receipt: Receipt) -> dict[str, Keeper]:
    from sandbox.egress import NETWORK
    from sandbox.outcome import EnforcedBy
    from sandbox.policy import NetworkMode

    mode, rest = policy.network.mode, [name for name in type(policy.network).model_fields if name != "mode"]
    namespace = f"network namespace: {receipt.layers['network_namespace'].detail}"
    if receipt.network == NETWORK:
        proxy = (EnforcedBy.NETWORK, _PROXY)
        return {"mode": (EnforcedBy.NETWORK, f"{namespace}; {_PROXY}"), **dict.fromkeys(rest, proxy)}
    nothing = (EnforcedBy.NONE, "nothing here can enforce this")
    unused = dict.fromkeys(rest, (EnforcedBy.NONE, "only policies of mode public use this"))
    if receipt.network != mode.value:
        return {"mode": nothing, **(dict.fromkeys(rest, nothing) if mode is NetworkMode.PUBLIC else unused)}
    if mode is NetworkMode.HOST:
        return {"mode": (EnforcedBy.NONE, "the host's network is open"), **unused}
    return {"mode": (EnforcedBy.NETWORK, namespace), **unused}


def _walls(policy: Policy, receipt: Receipt) -> list[Wall]:
    """Yield every layer of isolation."""
    from sandbox.backends.hints import PURPOSES

    required = {layer.value for layer in policy.isolation.require}
    return [Wall(name, name in required, purpose, receipt.layers[name]) for name, purpose in PURPOSES.items()]


def _document(trial: Trial, receipt: Receipt, loose: Loose) -> dict[str, Any]:
    policy, refusal = trial.policy, trial.refusal
    return {
        "name": policy.name,
        "description": policy.description,
        "digest": policy.digest,
        "runs": refusal is None,
        "refusal": None if refusal is None else {"message": refusal.message, "remedy": refusal.remedy},
        "lines": {
            f"{section}.{line.key}": {
                "value": line.value,
                "meaning": line.meaning,
                "enforced_by": line.enforced_by,
                "note": line.note,
            }
            for section, lines in _lines(policy, receipt, loose).items()
            for line in lines
        },
        "walls": {
            wall.name: {"required": wall.is_required, "purpose": wall.purpose, **wall.state.model_dump(mode="json")}
            for wall in _walls(policy, receipt)
        },
    }


def _page(trial: Trial, receipt: Receipt, loose: Loose) -> ConsolePage:
    from sandbox.cli.tables import ConsolePage, arrow

    page = ConsolePage()
    page.title(trial.policy.name)
    page.line(trial.policy.description)
    if trial.refusal is not None:
        page.line(f"\nRefused on this host: {trial.refusal.message}", style="red")
        page.line(arrow(trial.refusal.remedy), style="dim")
        page.line("What follows is what a policy that demands nothing would get here.")
    for name, lines in _lines(trial.policy, receipt, loose).items():
        page.title(f"[{name}]")
        page.table(["", "", "what it means", "enforced here by"], [_row(line) for line in lines])
    page.title("Walls", note="as measured around a real call")
    rows = [_wall_row(wall) for wall in _walls(trial.policy, receipt)]
    page.table(["", "layer", "demand", "what it is for", "measured"], rows, whole=3)
    return page


def _row(line: Line) -> list[Cell]:
    from sandbox.cli.tables import Cell
    from sandbox.cli.terminal import with_note

    # `require` is shown among the isolation layers.
    value = "see below" if line.key == "require" and line.value != "nothing" else line.value
    keeper = with_note(line.enforced_by, line.note)
    return [Cell(line.key), Cell(value, "bold"), Cell(line.meaning), Cell(keeper, "dim")]


def _wall_row(wall: Wall) -> list[Cell]:
    from sandbox.cli.tables import Cell, mark
    from sandbox.cli.terminal import with_note

    return [
        mark(wall.state.counts, matters=wall.is_required),
        Cell(wall.name),
        Cell("required" if wall.is_required else "optional"),
        Cell(wall.purpose),
        Cell(with_note(wall.state.measured_by, wall.state.detail)),
    ]
