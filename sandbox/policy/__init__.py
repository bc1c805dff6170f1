"""Policies: the limits, network, files and isolation of a box.

`model` defines a policy, `load` reads one from its TOML file, and `tighten` compares two policies and lowers one for a
call. This package enforces nothing: backends enforce a policy, and the receipt shows what was in force.
"""

from sandbox.policy.load import list_shipped, load, resolve_policy_name
from sandbox.policy.model import (
    Filesystem,
    Isolation,
    Layer,
    Limits,
    Network,
    NetworkMode,
    Output,
    OverflowAction,
    Policy,
    Reuse,
    ReuseMode,
    SlowReader,
    Strength,
)
from sandbox.policy.quantities import Bytes, Seconds, format_bytes, format_seconds
from sandbox.policy.supply import Environments, Supply
from sandbox.policy.tighten import find_widenings, keep_settings, tighten

__all__ = [
    "Bytes",
    "Environments",
    "Filesystem",
    "Isolation",
    "Layer",
    "Limits",
    "Network",
    "NetworkMode",
    "Output",
    "OverflowAction",
    "Policy",
    "Reuse",
    "ReuseMode",
    "Seconds",
    "SlowReader",
    "Strength",
    "Supply",
    "find_widenings",
    "format_bytes",
    "format_seconds",
    "keep_settings",
    "list_shipped",
    "load",
    "resolve_policy_name",
    "tighten",
]
