"""Make the tests' own environment, run everything in it, leave nothing behind.

    python3 -m tests [pytest's own arguments]

needs a CPython of at least 3.11 and nothing else; this file and `tests/provision` therefore use the standard library
only, and this file is written so that an older Python can still read it and say what is wrong. The exit code is
pytest's: 0 is all right, 1 a failed test or something left running; 2 also says that the tests could not be prepared.

Where no argument names a file or a folder, everything is run, shared by a few processes; `-n 0` has one do it all.
"""

from __future__ import annotations

import os
import sys

_MOST = 4


def main(arguments: list[str]) -> int:
    if sys.version_info < (3, 11):  # noqa: UP036 - the one place that meets an older Python
        found = ".".join(str(part) for part in sys.version_info[:3])
        print("The tests need Python 3.11 or newer; this is {} ({}).".format(found, sys.executable), file=sys.stderr)  # noqa: UP032
        return 2
    from tests.provision import ProvisionError, environment, offspring

    try:
        python = environment.make_ready()
    except ProvisionError as error:
        print(f"The tests could not be prepared. {error}", file=sys.stderr)
        return 2
    # The command line alone is started hundreds of times: compiling it is for the first time only.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    ending = offspring.run([str(python), "-m", "pytest", *_shared(arguments), *arguments])
    for name in ending.left_running:
        print(f"Left running by the tests, and killed: {name}", file=sys.stderr)
    return ending.exit_code


def _shared(arguments: list[str]) -> list[str]:
    """Pytest's options for a run that is worth it. Many tests wait: there is time for one more than processors."""
    if any(os.path.exists(argument.partition("::")[0]) for argument in arguments):
        return []
    processes = min((os.cpu_count() or 1) + 1, _MOST)
    return ["--dist=loadfile", "--no-loadscope-reorder", "--numprocesses={}".format(processes)]  # noqa: UP032


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
