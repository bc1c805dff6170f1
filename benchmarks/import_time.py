"""The cost of `import sandbox`, and a check that the import loads no package that only some programs need.

The public names are imported at their first use, so the benchmark measures the first `Sandbox` as well.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from benchmarks.alone import run_alone
from benchmarks.report import Report, at_most, build_report, spread
from benchmarks.turns import Case, take_turns

_IMPORT: Final = "import sandbox"
_FROM_IMPORT: Final = "from sandbox import Sandbox"
_STATEMENTS: Final = (_IMPORT, _FROM_IMPORT, "import asyncio, pydantic")
_UNWANTED: Final = ("docker", "fastapi", "redis")
_ROOT: Final = Path(__file__).resolve().parent.parent
_PROGRAM: Final = """
import json, sys
from time import perf_counter
begun = perf_counter()
exec(sys.argv[1])
print(json.dumps([(perf_counter() - begun) * 1000, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def measure(*, is_quick: bool) -> Report:
    """Measure imports."""
    found = asyncio.run(take_turns({each: _case(each) for each in _STATEMENTS}, rounds=1 if is_quick else 20))
    cases = {name: spread(values) for name, values in found.items()}
    unwanted = [name for name in _UNWANTED if name in _time_import(_FROM_IMPORT)[1]]
    return build_report(
        "import_time",
        cases=cases,
        floors={},
        goals=[
            at_most(f"milliseconds of {_IMPORT}", cases[_IMPORT].p50, 150),
            at_most(f"imports of {', '.join(_UNWANTED)}", len(unwanted), 0),
        ],
    )


def _case(statement: str) -> Case:
    async def measured() -> float:
        return _time_import(statement)[0]

    return measured


def _time_import(statement: str) -> tuple[float, list[str]]:
    """Return the milliseconds of the statement in a fresh process, and the packages that are loaded afterwards."""
    command = [sys.executable, "-c", _PROGRAM, statement]
    answer = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True)
    milliseconds, modules = json.loads(answer.stdout)
    return milliseconds, modules


if __name__ == "__main__":
    run_alone(measure)
