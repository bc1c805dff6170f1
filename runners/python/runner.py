"""What the runner does first: read its plan, have the box built if there is to be one, and become the zygote."""

from __future__ import annotations

import binascii
import os
import signal
import sys

import call
import channel as channels
import egress
import frames
import installed
import kit
import preloading
import zygote
from leftovers import remove_groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from channel import Channel


def main(argument: str, *groups: str) -> int:
    """Open the box, then serve it. Everything of ours is loaded by now: the box does not show this folder."""
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
        import warden

        try:
            if plan["box"].get("stands"):
                warden.settle_in(plan["box"])
            else:
                refused = warden.open_box(plan, channel=channel.fileno(), groups=groups)
        except warden.BoxFault as fault:
            return _fault(channel, fault.layer, fault.reason)
    return _serve(channel, plan, refused)


def _resume(channel: Channel, told: str) -> int:
    """Go on where the same program stopped to start again, inside of its box (see warden.py)."""
    import warden

    try:
        plan, refused = warden.resume(told)
    except warden.BoxFault as fault:
        return _fault(channel, fault.layer, fault.reason)
    return _serve(channel, plan, refused)


def _serve(channel: Channel, plan: dict[str, Any], refused: dict[str, str]) -> NoReturn:
    _step_aside()
    os.environ.clear()
    os.environ.update(plan.get("environment", {}))
    call.count_processors()
    if plan["call"].get("egress"):
        try:
            egress.find_the_way(plan["call"]["egress"])
        except OSError as error:
            sys.exit(_fault(channel, "egress filter", str(error)))
    if plan.get("installed"):
        installed.enter(*plan["installed"])
    if plan.get("kit"):
        kit.offer(plan["kit"])
    _, failed = preloading.preload(plan["preload"])
    walls = plan["call"]
    walls["namespaces"] = [kind for kind in walls["namespaces"] if kind + "_namespace" not in refused]
    walls["outputs"] = plan.get("outputs")
    if walls["workplace"] and "covered" in walls["workplace"]:
        walls["workplace"]["covered"] = [place.format(runner=os.getpid()) for place in walls["workplace"]["covered"]]
    walls["filter"] = binascii.a2b_base64(walls["filter"])
    hello = frames.message(
        "hello",
        protocol=frames.PROTOCOL,
        python=sys.version.split()[0],
        implementation=sys.implementation.name,
        threads=preloading.threads(),
        failed=failed,
        refused=refused,
    )
    channel.send([hello])
    zygote.Zygote(channel, plan).run()


def _step_aside() -> None:
    """Nothing foreign finds our modules: it may have some of the same names. They stay alive in each other's hands."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    sys.meta_path[:] = [finder for finder in sys.meta_path if not getattr(finder, "finds_the_runner", False)]
    sys.argv[:] = [""]
    getattr(sys, "orig_argv", []).clear()
    _forget_arguments()
    for name, module in list(sys.modules.items()):
        if os.path.abspath(getattr(module, "__file__", None) or os.sep).startswith(here + os.sep):
            del sys.modules[name]
    sys.modules["__main__"] = type(sys)("__main__")


def _forget_arguments() -> None:
    """/proc shows every process in the box what this one was started with: where we are installed, and our groups."""
    try:
        with open("/proc/self/stat") as file:
            start, end = (int(place) for place in file.read().rpartition(")")[2].split()[45:47])
    except (OSError, ValueError):
        return
    if 0 < start < end:
        import ctypes

        ctypes.memset(start, 0, end - start)


def _fault(channel: Channel, layer: str, reason: str) -> int:
    channel.send([frames.message("fault", layer=layer, reason=reason)])
    return 69
