"""Policies: what a box may use, reach and see, and the walls without which a call is refused.

`model` says what a policy is, `load` reads one from its TOML file, `tighten` lowers it for one call and compares two.
Nothing here enforces anything: backends do, and the receipt tells what they really did.
"""

from sandbox.policy.load import load, named, shipped
from sandbox.policy.model import (
    Excess,
    Filesystem,
    Isolation,
    Layer,
    Limits,
    Network,
    NetworkMode,
    Output,
    Policy,
    Reuse,
    ReuseMode,
    SlowReader,
    Strength,
)
from sandbox.policy.quantities import Bytes, Seconds, format_bytes, format_seconds
from sandbox.policy.supply import Environments, Supply
from sandbox.policy.tighten import tighten, widenings

__all__ = [
    "Bytes",
    "Environments",
    "Excess",
    "Filesystem",
    "Isolation",
    "Layer",
    "Limits",
    "Network",
    "NetworkMode",
    "Output",
    "Policy",
    "Reuse",
    "ReuseMode",
    "Seconds",
    "SlowReader",
    "Strength",
    "Supply",
    "format_bytes",
    "format_seconds",
    "load",
    "named",
    "shipped",
    "tighten",
    "widenings",
]
