"""Attacks on the isolation of this host, shipped so that every user can try them: `sandbox doctor --attack`.

`ATTACKS` are real attempts to break out of a box, to reach a neighbour, or to take more than the policy grants. Each
stops before harm: a program only opens a file that could hurt a host without isolation, asks for values that change
nothing, or aims at a target made for the purpose. `attack_all` tries them and reports for each whether the isolation
held, with the evidence. The project's own tests (`tests/escape`) go further and break their targets.
"""

from sandbox.doctor.attacks.attack import Attack, Program, Verdict
from sandbox.doctor.attacks.campaign import ATTACKS, PROGRAMS, THEMES, AttackFinding, attack_all

__all__ = ["ATTACKS", "PROGRAMS", "THEMES", "Attack", "AttackFinding", "Program", "Verdict", "attack_all"]
