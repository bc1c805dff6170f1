"""The environment of a box: which process imports and compiles ahead of calls, before the first call and later.

The zygote imports from the standard library only. Installed packages are foreign: a template imports them once for all
calls (see zygote/template.py), or, without a template, the process of each call imports them for itself.
"""

from __future__ import annotations

import os

from box import verification
from box.processes import LimitWatch
from call import call, compiled, guard, preloading
from zygote.template_control import TemplateControl
from zygote.template_view import TemplateLost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from box.channel import Channel
    from zygote.template_children import TemplateChildren

_IMPORT_S = 30.0
_REHEARSALS = 12


class SharedImports:
    """The result of importing ahead of all calls, and the template that did it."""

    __slots__ = ("failed", "template", "unfit", "used")

    def __init__(self) -> None:
        self.template: TemplateControl | None = None
        self.failed: dict[str, str] = {}
        self.unfit = ""
        """Why calls import for themselves, where a template should have imported."""
        self.used: dict[str, Any] | None = None


def enter(plan: dict[str, Any], channel: Channel) -> SharedImports:
    """Import everything that calls can share, and set in `plan` what the process of each call does for itself."""
    wanted = plan.get("template")
    shared = SharedImports()
    if wanted and wanted.get("started"):
        shared = _enter_by_template(plan, wanted, channel)
        if shared.template:
            held = verification.data_bytes(str(shared.template.pid))
            plan["call"].update(template=shared.template.control, restricted=shared.template.restricted, held=held)
            return shared
    standard = [name for name in plan["preload"] if not preloading.is_foreign(name)]
    shared.failed.update(preloading.preload(standard)[1])
    foreign = [name for name in plan["preload"] if name not in standard]
    give_up_template(plan, modules=foreign, ahead=not shared.unfit and plan.get("imports_ahead", False))
    return shared


def give_up_template(plan: dict[str, Any], *, modules: Sequence[str] = (), ahead: bool = False) -> None:
    """Have the process of each call enter the environment itself, once it has its call.

    With `ahead`, a process that waits for a call enters before, and imports `modules`.
    """
    call_plan = plan["call"]
    call_plan.update(template=None, written=None, known=None, restricted=None)
    if plan.get("installed"):
        call_plan["imports"] = {
            "installed": plan["installed"],
            "modules": list(modules),
            "ahead": ahead,
            "wall_s": plan.get("import_s", _IMPORT_S),
        }


def _enter_by_template(plan: dict[str, Any], wanted: dict[str, Any], channel: Channel) -> SharedImports:
    template, shared = TemplateControl(wanted["started"]), SharedImports()
    hangup = [channel.fileno()] if channel.lifeline is None else [channel.fileno(), channel.lifeline]
    watch = LimitWatch(plan["call"]["watch"])
    try:
        shared.failed = template.await_import(hangup, watch, wall_s=wanted["wall_s"], cpu_s=wanted["cpu_s"])
    except (TemplateLost, OSError) as lost:
        shared.unfit = template.explain(str(lost))
        template.end()
        return shared
    shared.template, shared.used = template, template.used
    return shared


# Later, at the engine's request


def preload_more(plan: dict[str, Any], modules: list[str], template: TemplateChildren | None) -> bool:
    """Import more modules; return whether processes that exist already lack some of them."""
    if template:
        template.order({"preload": modules}, within_s=plan["template"]["wall_s"])
        return False
    new = preloading.preload([name for name in modules if not preloading.is_foreign(name)])[0]
    note_held(plan, None)
    return bool(new)


def compile_ahead(plan: dict[str, Any], said: dict[str, Any], template: TemplateChildren | None) -> None:
    """Compile a tool, where all calls have its file at the same path, which is part of the compiled code."""
    place = plan["call"]["workplace"]
    if not place:
        return
    path = os.path.join(place["path"], said["filename"])
    if template:
        template.order({"compile": said["source"], "path": path})
        return
    compiled.keep(said["source"], path)
    preloading.freeze()
    note_held(plan, None)


def note_held(plan: dict[str, Any], template: TemplateChildren | None) -> None:
    """Note how much memory is shared, and therefore not a call's; without descriptors to ask with, the amount stays."""
    number = template.number if template else verification.OWN
    plan["call"]["held"] = verification.data_bytes(number) or plan["call"]["held"]


# Rehearsal


def rehearse(plan: dict[str, Any]) -> Iterator[bool]:
    """Do what every child does, so that no child has to create, or copy, what all can share.

    Once is not enough, because the interpreter rewrites code that runs repeatedly. The iterator yields False after each
    part, so that a call which comes meanwhile does not wait for the rest. Work that fails here, for want of descriptors
    for example, is left to each child.
    """
    for _ in range(_REHEARSALS):
        yield False
        try:
            call.rehearse()
            guard.rehearse(plan)
        except OSError:
            continue
    preloading.freeze()


def rehearse_calls() -> None:
    """Do the same in a template, which forks no guards."""
    for _ in range(_REHEARSALS):
        try:
            call.rehearse()
        except OSError:
            continue
    preloading.freeze()
