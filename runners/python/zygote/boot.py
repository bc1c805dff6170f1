"""What the runner does in its box before it becomes the zygote: step aside, and import what calls will need.

This is loaded, and everything with it that calls need, when the warden has forked: what only waits outside of the box
holds none of it. The box does not show the runner's folder, so it is all loaded before the box stands.
"""

from __future__ import annotations

import os
import sys

from box import egress, frames, pipes, workdir
from box.isolation import WallFault
from call import authoring_module, call
from zygote import environment, zygote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from box.channel import Channel


def serve(channel: Channel, plan: dict[str, Any], refused: dict[str, str]) -> NoReturn:
    """Say hello, then serve calls. `WallFault` for a way out that is not to be had."""
    prepare(plan)
    walls = plan["call"]
    walls["namespaces"] = [kind for kind in walls["namespaces"] if kind + "_namespace" not in refused]
    if walls.get("egress"):
        try:
            egress.find_the_way(walls["egress"])
        except OSError as error:
            raise WallFault("egress filter", str(error)) from error
    ahead = environment.enter(plan, channel)
    hello = frames.message(
        "hello",
        protocol=frames.PROTOCOL,
        python=sys.version.split()[0],
        implementation=sys.implementation.name,
        failed=ahead.failed,
        refused=refused,
        unfit=ahead.unfit,
        preload=ahead.used,
    )
    channel.send([hello])
    zygote.Zygote(channel, plan, ahead.template).run()


def prepare(plan: dict[str, Any]) -> None:
    """Become an interpreter that a tool can be run in a fork of; a template does so, too."""
    _step_aside()
    os.environ.clear()
    os.environ.update(plan.get("environment", {}))
    call.count_processors()
    if plan.get("kit"):
        authoring_module.offer(plan["kit"])
    walls = plan["call"]
    if "mount" in walls["namespaces"]:
        workdir.make_own(walls["workplace"]["path"])
    pipes.keep_numbers_free()
    call.open_streams()
    walls["outputs"] = plan.get("outputs")
    walls["is_counted"], walls["home"] = plan["slots"], None
    if walls["workplace"] and "covered" in walls["workplace"]:
        walls["workplace"]["covered"] = [place.format(runner=os.getpid()) for place in walls["workplace"]["covered"]]
    walls["filter"] = bytes.fromhex(walls["filter"])


def _step_aside() -> None:
    """Nothing foreign finds our modules: it may have some of the same names. They stay alive in each other's hands."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
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
