"""Generators of random numbers that packages make when they are imported ahead.

Each call is to find them as if it had imported the packages itself. So those that the system seeded, because nobody
said what with, are noted while packages are imported, and seeded anew in every call; those that were seeded on purpose
are left alone. What is known of by name, such as the one behind the functions of `random`, is seen to in call.py.

The standard library's are noted as they are seeded. NumPy's draw their entropy from `secrets`, and keep it: those are
found, when all is imported, whose entropy was drawn meanwhile.
"""

from __future__ import annotations

import gc
import sys
from _weakrefset import WeakSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_seeded_by_system: WeakSet[Any] = WeakSet()
_of_numpy: list[Any] = []
_drawn: set[int] = set()


class Noting:
    """In its `with`, foreign packages are imported."""

    def __enter__(self) -> None:
        import random
        import secrets

        self._seed, self._draw = random.Random.seed, secrets.randbits
        _put(_noted(self._seed), _kept(self._draw))

    def __exit__(self, *_: object) -> None:
        _put(self._seed, self._draw)
        _of_numpy.extend(_found_of_numpy())
        _drawn.clear()


def seed_anew() -> None:
    """In a call: what was seeded by the system is seeded by it once more."""
    if "random" in sys.modules and _seeded_by_system:
        seed: Any = sys.modules["random"].Random.seed
        for generator in list(_seeded_by_system):
            seed(generator)
    for generator in _of_numpy:
        bits = generator.bit_generator
        bits.state = type(bits)().state


def _put(seed: Any, draw: Any) -> None:
    sys.modules["random"].Random.seed = seed
    vars(sys.modules["secrets"])["randbits"] = draw


def _noted(seed: Any) -> Any:
    def noting(self: Any, a: Any = None, *args: Any, **named: Any) -> None:
        seed(self, a, *args, **named)
        try:
            (_seeded_by_system.add if a is None else _seeded_by_system.discard)(self)
        except TypeError:  # it cannot be referred to weakly, or looked up
            return

    return noting


def _kept(draw: Any) -> Any:
    """NumPy takes this one along, and it keeps what is drawn later as well, when the next are imported."""

    def keeping(bits: int) -> int:
        drawn: int = draw(bits)
        _drawn.add(drawn)
        return drawn

    return keeping


def _found_of_numpy() -> list[Any]:
    kind = getattr(sys.modules.get("numpy.random"), "Generator", None)
    return [each for each in gc.get_objects() if type(each) is kind and _entropy(each) in _drawn] if kind else []


def _entropy(generator: Any) -> int | None:
    bits = generator.bit_generator
    sequence = getattr(bits, "seed_seq", None) or getattr(bits, "_seed_seq", None)
    entropy = getattr(sequence, "entropy", None)
    return entropy if isinstance(entropy, int) else None
