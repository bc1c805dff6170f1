"""The runner in its box, before it becomes the zygote: hide its own modules, and import modules that calls need.

The process that the warden forks loads this module, together with all code for calls, so that the warden, which only
waits outside of the box, holds none of it. The box does not show the runner's folder, so everything is loaded before
the box is set up.
"""

from __future__ import annotations

import os
import sys

from box import egress, frames, pipes, workdir
from box.isolation import IsolationFault
from call import authoring_module, call
from zygote import environment, zygote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from box.channel import Channel


def serve(channel: Channel, plan: dict[str, Any], refused: dict[str, str]) -> NoReturn:
    """Say hello, then serve calls; raise IsolationFault if the engine's egress proxy cannot be reached."""
    prepare(plan)
    call_plan = plan["call"]
    call_plan["namespaces"] = [kind for kind in call_plan["namespaces"] if kind + "_namespace" not in refused]
    if call_plan.get("egress"):
        try:
            egress.connect(call_plan["egress"])
        except OSError as error:
            raise IsolationFault("egress filter", str(error)) from error
    shared = environment.enter(plan, channel)
    hello = frames.message(
        "hello",
        protocol=frames.PROTOCOL,
        python=sys.version.split()[0],
        implementation=sys.implementation.name,
        failed=shared.failed,
        refused=refused,
        unfit=shared.unfit,
        preload=shared.used,
    )
    channel.send([hello])
    zygote.Zygote(channel, plan, shared.template).run()


def prepare(plan: dict[str, Any]) -> None:
    """Become an interpreter whose forks can run tools; a template does the same."""
    _hide_runner()
    os.environ.clear()
    os.environ.update(plan.get("environment", {}))
    call.count_processors()
    if plan.get("kit"):
        authoring_module.offer(plan["kit"])
    call_plan = plan["call"]
    place = call_plan["workplace"]
    if "mount" in call_plan["namespaces"]:
        workdir.make_own(place["path"])
    pipes.keep_numbers_free()
    call.open_streams()
    call_plan["outputs"] = plan.get("outputs")
    call_plan["is_counted"], call_plan["home"] = plan["slots"], None
    if place and "covered" in place:
        place["covered"] = [path.format(runner=os.getpid()) for path in place["covered"]]
    call_plan["filter"] = bytes.fromhex(call_plan["filter"])


def _hide_runner() -> None:
    """Hide our modules from foreign code, which may have modules of the same names; our references keep ours alive."""
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
    """Erase the arguments that /proc shows to every process in the box: our folder, and the control groups."""
    try:
        with open("/proc/self/stat") as file:
            start, end = (int(place) for place in file.read().rpartition(")")[2].split()[45:47])
    except (OSError, ValueError):
        return
    if 0 < start < end:
        import ctypes

        ctypes.memset(start, 0, end - start)
