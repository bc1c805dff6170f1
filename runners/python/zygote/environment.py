"""The environment of a box, as its zygote enters it: which process imports what, before the first call.

The zygote imports from the standard library only. What is installed is foreign: a template imports it once for all
calls, or, where there is no template, each call's process for itself.
"""

from __future__ import annotations

from box import isolation, verification
from box.watch import Watch
from zygote import preloading
from zygote.template_control import TemplateControl
from zygote.template_view import TemplateLost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from box.channel import Channel


_IMPORT_S = 30.0


class Ahead:
    """What was imported ahead of all calls, and by which template."""

    __slots__ = ("failed", "template", "unfit", "used")

    def __init__(self) -> None:
        self.template: TemplateControl | None = None
        self.failed: dict[str, str] = {}
        self.unfit = ""
        """Why calls import for themselves, where a template was to do that."""
        self.used: dict[str, Any] | None = None


def enter(plan: dict[str, Any], channel: Channel) -> Ahead:
    """Have everything imported that calls can share; after that, `plan` says what each call's process does itself."""
    wanted = plan.get("template")
    ahead = Ahead()
    if wanted and wanted.get("started"):
        ahead = _enter_by_template(plan, wanted, channel)
        if ahead.template:
            held = verification.data_bytes(str(ahead.template.pid))
            plan["call"].update(template=ahead.template.control, restricted=ahead.template.restricted, held=held)
            return ahead
    standard = [name for name in plan["preload"] if not preloading.is_foreign(name)]
    ahead.failed.update(preloading.preload(standard)[1])
    foreign = [name for name in plan["preload"] if name not in standard]
    give_up_template(plan, modules=foreign, ahead=not ahead.unfit and plan.get("imports_ahead", False))
    return ahead


def give_up_template(plan: dict[str, Any], *, modules: Sequence[str] = (), ahead: bool = False) -> None:
    """From now on each call's process enters the environment itself, once it has its call; with `ahead`, one that
    waits for a call does so before, and imports `modules`."""
    call = plan["call"]
    call.update(template=None, written=None, known=None, restricted=None)
    if plan.get("installed"):
        call["imports"] = {
            "installed": plan["installed"],
            "modules": list(modules),
            "ahead": ahead,
            "wall_s": plan.get("import_s", _IMPORT_S),
        }


def _enter_by_template(plan: dict[str, Any], wanted: dict[str, Any], channel: Channel) -> Ahead:
    isolation.adopt_orphans()
    template, ahead = TemplateControl(wanted["started"]), Ahead()
    hangup = [channel.fileno()] if channel.lifeline is None else [channel.fileno(), channel.lifeline]
    watched = Watch(plan["call"]["watch"])
    try:
        ahead.failed = template.await_import(hangup, watched, wall_s=wanted["wall_s"], cpu_s=wanted["cpu_s"])
    except (TemplateLost, OSError) as lost:
        ahead.unfit = template.explain(str(lost))
        template.end()
        return ahead
    ahead.template, ahead.used = template, template.used
    return ahead
