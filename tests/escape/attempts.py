"""The start of most attacks: attempts that return the kernel's answer, as in the shipped attacks."""

from __future__ import annotations

from typing import Final

from sandbox.doctor.attacks.attack import ANSWERS

DONE: Final = "done"
ATTEMPT: Final = f"""{ANSWERS}
attempt, attempt_apart = answer_to, answer_apart
"""
