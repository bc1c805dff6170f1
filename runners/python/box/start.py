"""What the runner does first: read its plan, have the box built if there is to be one, and become the zygote."""

from __future__ import annotations

from box import channel as channels
from box import frames
from box.cgroup_cleanup import remove_groups
from box.isolation import WallFault
from kernel.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from box.channel import Channel


def main(argument: str, *groups: str) -> int:
    """Open the box, then serve it."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # what the engine's own thread holds back is no concern of ours
    channel = channels.open_channel(argument)
    if groups and groups[0].startswith("@"):
        return _resume(channel, groups[0])
    try:
        plan = frames.read_message(channel.read)
    except (frames.FrameError, OSError):
        remove_groups(groups)
        return 1
    if plan["protocol"] != frames.PROTOCOL:
        return _fault(channel, "protocol", "this runner speaks protocol %d" % frames.PROTOCOL)
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
        except warden.BoxFault as fault:
            return _fault(channel, fault.layer, fault.reason)
    return _serve(channel, plan, refused)


def _resume(channel: Channel, told: str) -> int:
    """Go on where the same program stopped to start again, inside of its box (see box/warden.py)."""
    from box import warden

    _load()
    try:
        plan, refused = warden.resume(told)
    except warden.BoxFault as fault:
        return _fault(channel, fault.layer, fault.reason)
    return _serve(channel, plan, refused)


def _load() -> Callable[[Channel, dict[str, Any], dict[str, str]], NoReturn]:
    """What serves calls, with all that they need: in the zygote alone, before its box hides this folder. What waits
    outside of the box holds none of it."""
    from zygote import (
        boot,
        template,  # noqa: F401  (the warden's part forks it later on)
    )

    return boot.serve


def _serve(channel: Channel, plan: dict[str, Any], refused: dict[str, str]) -> int:
    try:
        _load()(channel, plan, refused)
    except WallFault as fault:
        return _fault(channel, fault.layer, fault.reason)


def _fault(channel: Channel, layer: str, reason: str) -> int:
    channel.send([frames.message("fault", layer=layer, reason=reason)])
    return 69
