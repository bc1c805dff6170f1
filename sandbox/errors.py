"""Every error the engine raises, as one tree.

A tool's own failure is never here: it is an `Outcome` with a status. What is raised says that *we* could not do our
part, or that we were asked for something that cannot be done::

    SandboxError
    ├── SpecError                 the call is malformed: fix the call                              exit 2
    │   ├── SourceError           the tool's text cannot be read as a tool (line and column)       exit 2
    │   └── SchemaRefused         a JSON schema cannot be used for what was asked of it            exit 2
    ├── PolicyError               a policy is wrong, unknown, or grants less than was asked        exit 2
    ├── EnvironmentUnavailable    what the tool requires cannot be provided                        exit 4
    │   ├── RequirementRefused    a requirement is malformed, or not one the policy allows         exit 4
    │   ├── ResolutionFailed      no set of packages fits all the requirements                     exit 4
    │   ├── IndexUnavailable      the package index does not answer as one: try again later        exit 4
    │   │   └── IndexRefused          nor will it, as it is set here: a wrong login, no such folder    exit 4
    │   ├── BuildFailed           the packages are known but could not be installed                exit 4
    │   │   ├── WheelGone         a wheel that was locked is nowhere any more                      exit 4
    │   │   └── StoreUnwritable   there is no room for them in the store, or no right to write     exit 4
    │   └── EnvironmentTampered   what is in the store is not what was built                       exit 4
    ├── BackendUnavailable        no box can be opened here at all                                 exit 5
    │   ├── HostExhausted         nor now: processes, descriptors or memory have run out           exit 5
    │   └── IsolationUnavailable  a box could, but not with the walls the policy requires          exit 5
    ├── BoxLost                   the box went away for a reason that is not the call's            exit 5
    │   ├── CallNotStarted        it went before the call began: the same call may be made again   exit 5
    │   └── ProtocolError         what came out of the box is not the protocol                     exit 5
    ├── ArtifactsUnavailable      artifacts cannot be kept or read here                            exit 5
    │   └── ArtifactMissing       there is none of that id, or not any more                        exit 2
    ├── EngineClosed              the engine was closed while, or before, it was asked             exit 5
    └── CallFailed                raised only by `Outcome.raise_for_status()`                      exit 1, 2, 3, 130

Every message says what, which, and what to do about it; the remedy is also kept apart, so that a terminal can show it
on a line of its own. Text that came from a tool never enters a message unbounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from sandbox.outcome import Outcome
    from sandbox.tools.schemas.nodes import SchemaFinding


class SandboxError(Exception):
    """The root: catch this to catch everything the engine raises on purpose."""

    exit_code: int = 5
    retryable: bool = False
    """Whether the same call may succeed a little later, with nothing changed here."""

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} ({self.remedy})" if self.remedy else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied and pickled as it is, for other threads and processes; `__init__` words the message, and did so."""
        return BaseException.__new__, (type(self), *self.args), vars(self)


class SpecError(SandboxError):
    """The call's own fields are wrong; nothing was started."""

    exit_code = 2


class SourceError(SpecError):
    """The text handed over cannot be read as a tool."""

    def __init__(
        self, message: str, *, line: int | None = None, column: int | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.line = line
        self.column = column


class SchemaRefused(SpecError):
    """A JSON schema cannot be taken, or not for this; `reasons` says where and why, each with a path."""

    _SHOWN: ClassVar[int] = 3

    def __init__(self, message: str, *, reasons: tuple[SchemaFinding, ...], remedy: str | None = None) -> None:
        shown = "; ".join(str(reason) for reason in reasons[: self._SHOWN])
        rest = f"; and {len(reasons) - self._SHOWN} more" if len(reasons) > self._SHOWN else ""
        super().__init__(f"{message}: {shown}{rest}", remedy=remedy)
        self.reasons = reasons


class PolicyError(SandboxError):
    """A policy is unknown or malformed, or the call asks for more than it grants."""

    exit_code = 2


class EnvironmentUnavailable(SandboxError):
    """What the tool requires to be installed cannot be provided."""

    exit_code = 4


class RequirementRefused(EnvironmentUnavailable):
    """Some of the requirements are malformed or not allowed; the message names each. Nothing was resolved."""


class ResolutionFailed(EnvironmentUnavailable):
    """The requirements are well-formed, and no set of packages satisfies them all."""


class IndexUnavailable(EnvironmentUnavailable):
    """A package index is down, slow, or answers with something else than packages."""

    retryable = True


class IndexRefused(IndexUnavailable):
    """A package index refuses us, or cannot be asked as this machine is set up: waiting changes nothing."""

    retryable = False


class BuildFailed(EnvironmentUnavailable):
    """The packages were resolved but could not be made into an environment; `log` has more of what was said."""

    def __init__(self, message: str, *, remedy: str | None = None, log: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.log = log


class WheelGone(BuildFailed):
    """No index and no folder has a wheel of the lock any more, nor another one of its name."""


class StoreUnwritable(BuildFailed):
    """The store's disk is full, or may not be written to: nothing that the packages are to blame for."""


class EnvironmentTampered(EnvironmentUnavailable):
    """An environment or a package of the store differs from what was published."""


class BackendUnavailable(SandboxError):
    """This backend cannot open any box on this host."""


class HostExhausted(BackendUnavailable):
    """The host, or the limits that the engine runs under, have no more of what a box or a call takes; the tool has not
    run."""

    retryable = True


class IsolationUnavailable(BackendUnavailable):
    """The policy requires walls that this host cannot put up; `missing` names them."""

    def __init__(self, message: str, *, missing: tuple[str, ...] = (), remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.missing = missing


class BoxLost(SandboxError):
    """The box is gone, and not through the doing of the call that ran in it."""


class CallNotStarted(BoxLost):
    """The box died while it was opened, or before it had the call: nothing has run."""

    retryable = True


class ProtocolError(BoxLost):
    """Bytes from a box are not a frame, not a message, or not one that may come now."""


class ArtifactsUnavailable(SandboxError):
    """The store of artifacts cannot be written to, or not be searched."""


class ArtifactMissing(ArtifactsUnavailable):
    """No artifact has that id: it was never kept for this tenant, or was removed to make room."""

    exit_code = 2


class EngineClosed(SandboxError):
    """The engine is closed: open a new one."""


class CallFailed(SandboxError):
    """The outcome is not `ok`; raised by `raise_for_status`, never by `run`. Its outcome says how to exit, and whether
    to try again."""

    exit_code = 1

    def __init__(self, message: str, *, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.exit_code = outcome.exit_code
        self.retryable = outcome.retryable
