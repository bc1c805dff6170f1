"""/proc/self/status: what the kernel itself says is in force, for receipts that are measured and not copied."""

from __future__ import annotations


def fields(*names: str) -> dict[str, str]:
    """The named lines; a name is missing where this kernel does not write it. OSError where /proc is not there."""
    with open("/proc/self/status", encoding="utf-8", errors="replace") as status:
        lines = dict(line.split(":", 1) for line in status if ":" in line)
    return {name: lines[name].strip() for name in names if name in lines}
