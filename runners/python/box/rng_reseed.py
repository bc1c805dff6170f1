"""Reseed the random number generators that packages create when they are imported ahead.

Each call must find them as if it had imported the packages itself. So generators that the system seeded, for want of a
seed, are noted while packages are imported, and seeded anew in every call. Generators with a chosen seed stay as they
are. call/call.py reseeds those known by name, such as the one behind the functions of `random`.

Generators of the standard library are noted when they are seeded. NumPy's draw their entropy from `secrets` and keep
it: after the imports, those are found whose entropy was drawn meanwhile.
"""

from __future__ import annotations

import gc
import sys
from _weakrefset import WeakSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_IMPORTLIB: Any = sys.modules["_frozen_importlib"]
_seeded_by_system: WeakSet[Any] = WeakSet()
_of_numpy: list[Any] = []
_drawn: set[int] = set()


class NoteGenerators:
    """A context in which foreign packages are imported and their generators noted.

    The context itself imports neither module: `random` would take time to seed itself in every fork.
    """

    def __init__(self) -> None:
        self._patches: dict[str, Callable[[Any], None]] = {"random": self._note_seeds, "secrets": self._note_draws}
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> None:
        for name, patch in self._patches.items():
            if name in sys.modules:
                patch(sys.modules[name])
        sys.meta_path.insert(0, self)

    def __exit__(self, *_: object) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for undo in self._undo:
            undo()
        _of_numpy.extend(_find_of_numpy())
        _drawn.clear()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find the two modules where they are, and patch each once it is loaded."""
        if name not in self._patches:
            return None
        sys.meta_path.remove(self)
        try:
            spec = _IMPORTLIB._find_spec(name, path, target)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None:
            _patch_when_loaded(spec.loader, self._patches[name])
        return spec

    def _note_seeds(self, random: Any) -> None:
        seed = random.Random.seed
        random.Random.seed = _note_calls_of(seed)
        self._undo.append(lambda: setattr(random.Random, "seed", seed))

    def _note_draws(self, secrets: Any) -> None:
        draw = secrets.randbits
        secrets.randbits = _keep_results_of(draw)
        self._undo.append(lambda: setattr(secrets, "randbits", draw))


def _patch_when_loaded(loader: Any, patch: Callable[[Any], None]) -> None:
    execute = loader.exec_module

    def exec_module(module: Any) -> None:
        del loader.exec_module
        execute(module)
        patch(module)

    loader.exec_module = exec_module


def reseed() -> None:
    """Have the system seed the noted generators once more, in the process of a call."""
    if "random" in sys.modules and _seeded_by_system:
        seed: Any = sys.modules["random"].Random.seed
        for generator in list(_seeded_by_system):
            seed(generator)
    for generator in _of_numpy:
        bits = generator.bit_generator
        bits.state = type(bits)().state


def _note_calls_of(seed: Any) -> Any:
    def noting(self: Any, a: Any = None, *args: Any, **named: Any) -> None:
        seed(self, a, *args, **named)
        try:
            (_seeded_by_system.add if a is None else _seeded_by_system.discard)(self)
        except TypeError:  # no weak reference to the generator is possible, or no hash
            return

    return noting


def _keep_results_of(draw: Any) -> Any:
    """Wrap `randbits`; NumPy keeps the wrapper, which therefore also works for imports after the first."""

    def keeping(bits: int) -> int:
        drawn: int = draw(bits)
        _drawn.add(drawn)
        return drawn

    return keeping


def _find_of_numpy() -> list[Any]:
    kind = getattr(sys.modules.get("numpy.random"), "Generator", None)
    return [each for each in gc.get_objects() if type(each) is kind and _entropy(each) in _drawn] if kind else []


def _entropy(generator: Any) -> int | None:
    bits = generator.bit_generator
    sequence = getattr(bits, "seed_seq", None) or getattr(bits, "_seed_seq", None)
    entropy = getattr(sequence, "entropy", None)
    return entropy if isinstance(entropy, int) else None
