"""The start of the runner: read the plan, have the box built if one is wanted, and become the zygote."""

from __future__ import annotations

from box import channel as channels
from box import frames
from box.isolation import IsolationFault
from kernel.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from box.channel import Channel


def main(argument: str, *groups: str) -> int:
    """Open the box, then serve it."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # the thread of the engine that started us may block signals
    channel = channels.open_channel(argument)
    if groups and groups[0].startswith("@"):
        return _resume(channel, groups[0])
    try:
        plan = frames.read_message(channel.read)
    except (frames.FrameError, OSError):
        if groups:
            from box import warden

            warden.remove_groups(groups)
        return 1
    if plan["protocol"] != frames.PROTOCOL:
        return _report_fault(channel, "protocol", "this runner speaks protocol %d" % frames.PROTOCOL)
    refused: dict[str, str] = {}
    if plan["box"]:
        from box import warden

        try:
            if plan["box"].get("stands"):
                _load()
                warden.start_template(plan)
                warden.settle_in(plan["box"])
            else:
                refused = warden.open_box(plan, channel=channel.fileno(), groups=groups, load=_load)
        except IsolationFault as fault:
            return _report_fault(channel, fault.layer, fault.reason)
    return _serve(channel, plan, refused)


def _resume(channel: Channel, argument: str) -> int:
    """Continue in the new interpreter that the runner executed inside of its box (see box/warden.py)."""
    from box import warden

    _load()
    try:
        plan, refused = warden.resume(argument)
    except IsolationFault as fault:
        return _report_fault(channel, fault.layer, fault.reason)
    return _serve(channel, plan, refused)


def _load() -> Callable[[Channel, dict[str, Any], dict[str, str]], NoReturn]:
    """Load everything that calls need, before the box hides this folder, and return the function that serves them.

    Only the zygote loads: the warden, which waits outside of the box, holds none of it.
    """
    from zygote import (
        boot,
        template,  # noqa: F401  (loaded now, because the warden's part forks it in the box)
    )

    return boot.serve


def _serve(channel: Channel, plan: dict[str, Any], refused: dict[str, str]) -> int:
    try:
        _load()(channel, plan, refused)
    except IsolationFault as fault:
        return _report_fault(channel, fault.layer, fault.reason)


def _report_fault(channel: Channel, layer: str, reason: str) -> int:
    channel.send([frames.message("fault", layer=layer, reason=reason)])
    return 69
