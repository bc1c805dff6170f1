"""The front door of the tests: make what they need, run them, leave nothing behind.

    python3 -m tests [--quick] [--no-install] [arguments of pytest]

needs a CPython of at least 3.11 and nothing else; this file and `tests/provision` therefore use the standard library
only, and this file is written so that an older Python can still read it and say what is wrong. The exit code is that of
pytest: 0 if all is right, 1 for a failed test or something left running; 2 also says that the tests could not be
prepared.

The result depends on nothing that the caller sets by accident: standard streams may be closed, signals blocked, `CI`
set or not.
"""

from __future__ import annotations

import os
import signal
import sys

_HELP = """\
Run the tests in an environment of their own.

usage: python3 -m tests [--quick] [--no-install] [arguments of pytest]

  (nothing)      run all tests, several at a time
  FILE ...       run the tests of these files or folders only
  --quick        run only the tests that are fast and need no containers
  --no-install   install no system packages; skip what this machine cannot test
  -h, --help     print this

As root on Debian, a run of all tests first installs the packages that are
missing, and names them. On other machines, and for other users, tests that
need more than the machine has are skipped with the reason.

A test that fails is run again once, alone, after all others. The run passes
if at most three tests failed and all of them pass then; they are listed last,
as UNSTEADY. Nothing that a run starts outlives it.
"""
_MAX_PROCESSES = 4


def main(arguments: list[str]) -> int:
    if sys.version_info < (3, 11):  # noqa: UP036 - the one place that meets an older Python
        found = ".".join(str(part) for part in sys.version_info[:3])
        print("The tests need Python 3.11 or newer; this is {} ({}).".format(found, sys.executable), file=sys.stderr)  # noqa: UP032
        return 2
    if {"-h", "--help"} & set(arguments):
        print(_HELP, end="")
        return 0
    from tests.provision import ProvisionError, offspring

    try:
        python = _prepare(arguments)
    except ProvisionError as error:
        print("The tests could not be prepared. {}".format(error), file=sys.stderr)  # noqa: UP032
        return 2
    ending = offspring.run([str(python), "-m", "pytest", *pytest_options(arguments)])
    for name in ending.left_running:
        print("Left running by the tests, and killed: {}".format(name), file=sys.stderr)  # noqa: UP032
    return ending.exit_code


def _prepare(arguments: list[str]) -> os.PathLike[str]:
    """Make what the tests need, and return the Python to run them with."""
    from tests.provision import debian, docker_daemon, earlier_runs, environment, podman

    _forget_the_caller()
    debian.use_system_folders()
    debian.allow(is_allowed=debian.can_install() and not {"--no-install", "--quick"} & set(arguments))
    for process in earlier_runs.end_earlier_runs():
        print("Left by an earlier run that was killed, and ended: {}".format(process), file=sys.stderr)  # noqa: UP032
    kept = [*docker_daemon.remove_abandoned(), *podman.remove_abandoned(), *earlier_runs.remove_abandoned()]
    for folder in kept:
        print("Left by an earlier run, and not to be removed: {}".format(folder), file=sys.stderr)  # noqa: UP032
    earlier_runs.mark_this_run()
    python = environment.make_ready()
    if debian.may_install() and not _names_files(arguments):
        debian.require(*debian.PACKAGES)
    return python


def _forget_the_caller() -> None:
    """Make streams, signals and the environment those of an ordinary terminal, however the tests were started."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.umask(0o022)
    # The command line alone is started hundreds of times: compiling it is for the first time only.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.pop("CI", None)  # which pytest, Hypothesis and rich look at


def pytest_options(arguments: list[str]) -> list[str]:
    """Return the options of pytest. Most tests wait, so that two processors serve four processes."""
    given = [argument for argument in arguments if argument not in {"--quick", "--no-install"}]
    chosen = ["--run-failed-again"]
    if "--quick" in arguments:
        chosen += ["-m", "not slow and not containers"]
    if not _names_files(arguments):
        processes = min((os.cpu_count() or 1) + 2, _MAX_PROCESSES)
        chosen += ["--hypothesis-profile=repeatable", "--dist=loadfile", "--no-loadscope-reorder"]
        chosen += ["--numprocesses={}".format(processes)]  # noqa: UP032
    return [*chosen, *given]


def _names_files(arguments: list[str]) -> bool:
    return any(os.path.exists(argument.partition("::")[0]) for argument in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
