"""Attacks on the walls of this host, shipped so that everybody can try them: `sandbox doctor --attack`.

`ATTACKS` are real attempts to get out of a box, to reach a neighbour, or to take what is not granted. Each stops before
harm: what could hurt a host without walls is opened but not written to, asked for with values that change nothing, or
aimed at something that was made for it. `attack_all` tries them and says of each whether the wall held and how it
showed. They are a subset: the project's own tests (`tests/escape`) go further and break what they attack.
"""

from sandbox.doctor.attacks.attack import Attack, Verdict
from sandbox.doctor.attacks.campaign import ATTACKS, THEMES, Finding, attack_all

__all__ = ["ATTACKS", "THEMES", "Attack", "Finding", "Verdict", "attack_all"]
