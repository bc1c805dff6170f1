"""Every error that the engine raises, as one tree.

A tool's own failure is never an error here: the failure is an `Outcome` with a status. An error says that the engine
could not do its part, or that the request cannot be met::

    SandboxError
    ├── SpecError                 the call is malformed: fix the call                              exit 2
    │   ├── SourceError           the source is not a readable tool (line and column)              exit 2
    │   └── SchemaRefused         a JSON schema cannot be used for this purpose                    exit 2
    ├── PolicyError               a policy is wrong, unknown, or grants less than was asked        exit 2
    ├── EnvironmentUnavailable    the tool's requirements cannot be provided                       exit 4
    │   ├── RequirementRefused    a requirement is malformed, or the policy does not allow it      exit 4
    │   ├── ResolutionFailed      no set of packages fits all the requirements                     exit 4
    │   ├── IndexUnavailable      the package index gives no usable answer: try again later        exit 4
    │   │   └── IndexRefused      the index settings are wrong: a wrong login, no such folder      exit 4
    │   ├── BuildFailed           the packages are known but could not be installed                exit 4
    │   │   ├── WheelGone         a locked wheel no longer exists anywhere                         exit 4
    │   │   └── StoreUnwritable   the store has no room, or the engine may not write to it         exit 4
    │   └── EnvironmentTampered   the content of the store is not what was built                   exit 4
    ├── BackendUnavailable        no box can be opened on this host                                exit 5
    │   ├── HostExhausted         processes, descriptors or memory have run out, for now           exit 5
    │   └── IsolationUnavailable  a box could open, but without the required isolation             exit 5
    ├── BoxLost                   the box went away, and the call is not the cause                 exit 5
    │   ├── CallNotStarted        the box went away before the call began: retry the call          exit 5
    │   └── ProtocolError         the bytes from the box do not follow the protocol                exit 5
    ├── ArtifactsUnavailable      artifacts cannot be kept or read here                            exit 5
    │   └── ArtifactMissing       no artifact has that id, or not any more                         exit 2
    ├── EngineClosed              the engine was closed before or during the request               exit 5
    ├── CallCancelled             the outcome of a cancelled call, as the cause of the error        exit 130
    ├── BatchCancelled            the outcomes of a batch that was cut short, as the cause         exit 130
    └── CallFailed                raised only by `Outcome.raise_for_status()`                      exit 1, 2, 3, 130

Every message names the thing, its problem, and a remedy. The remedy is also an attribute, so that a terminal can show
the remedy on a line of its own. Text from a tool never enters a message unbounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox.outcome import Outcome
    from sandbox.tools.schemas.nodes import SchemaFinding

Found = TypeVar("Found", bound=BaseException)


class SandboxError(Exception):
    """The root of all errors that the engine raises on purpose."""

    exit_code: int = 5
    retryable: bool = False
    """True if the same call may succeed a little later, with no change on this host."""

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} ({self.remedy})" if self.remedy else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the attributes without calling `__init__`, which would build the message a second time."""
        return BaseException.__new__, (type(self), *self.args), vars(self)


class SpecError(SandboxError):
    """A field of the call is wrong. The engine started nothing."""

    exit_code = 2


class SourceError(SpecError):
    """The source is not a readable tool."""

    def __init__(
        self, message: str, *, line: int | None = None, column: int | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.line = line
        self.column = column


class SchemaRefused(SpecError):
    """A JSON schema cannot be used for this purpose; `reasons` holds a path and a reason for each problem."""

    _SHOWN: ClassVar[int] = 3

    def __init__(self, message: str, *, reasons: tuple[SchemaFinding, ...], remedy: str | None = None) -> None:
        shown = "; ".join(str(reason) for reason in reasons[: self._SHOWN])
        rest = f"; and {len(reasons) - self._SHOWN} more" if len(reasons) > self._SHOWN else ""
        super().__init__(f"{message}: {shown}{rest}", remedy=remedy)
        self.reasons = reasons


class PolicyError(SandboxError):
    """A policy is unknown or malformed, or the call asks for more than the policy grants."""

    exit_code = 2


class EnvironmentUnavailable(SandboxError):
    """The requirements of the tool cannot be provided."""

    exit_code = 4


class RequirementRefused(EnvironmentUnavailable):
    """Some requirements are malformed or not allowed; the message names each. The engine resolved nothing."""


class ResolutionFailed(EnvironmentUnavailable):
    """The requirements are well-formed, but no set of packages satisfies them all."""


class IndexUnavailable(EnvironmentUnavailable):
    """A package index is down, slow, or answers with something other than packages."""

    retryable = True


class IndexRefused(IndexUnavailable):
    """A package index refuses the engine, or this machine's settings for it are wrong. Waiting does not help."""

    retryable = False


class BuildFailed(EnvironmentUnavailable):
    """The resolved packages could not be made into an environment; `log` holds more of the build's output."""

    def __init__(self, message: str, *, remedy: str | None = None, log: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.log = log


class WheelGone(BuildFailed):
    """No index and no folder has a wheel of the lock any more, nor another wheel of its name."""


class StoreUnwritable(BuildFailed):
    """The store's disk is full or not writable. The packages are not the cause."""


class EnvironmentTampered(EnvironmentUnavailable):
    """An environment or a package in the store differs from what was published."""


class BackendUnavailable(SandboxError):
    """The backend cannot open any box on this host."""


class HostExhausted(BackendUnavailable):
    """The host, or the limits of the engine's own process, leave too few resources for a box or a call. The tool has
    not run."""

    retryable = True


class IsolationUnavailable(BackendUnavailable):
    """The policy requires isolation that this host cannot provide; `missing` names the layers."""

    def __init__(self, message: str, *, missing: tuple[str, ...] = (), remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.missing = missing


class BoxLost(SandboxError):
    """The box is gone, and the call that ran in it is not the cause."""


class CallNotStarted(BoxLost):
    """The box died while it was opened, or before the call reached it. The tool has not run."""

    retryable = True


class ProtocolError(BoxLost):
    """Bytes from a box are not a frame, not a message, or a message at the wrong time."""


class ArtifactsUnavailable(SandboxError):
    """The artifact store cannot be written or searched."""


class ArtifactMissing(ArtifactsUnavailable):
    """No artifact has that id: the tenant never had it, or the store removed it to make room."""

    exit_code = 2


class EngineClosed(SandboxError):
    """The engine is closed. Open a new one."""


class CallCancelled(SandboxError):
    """Carries the outcome of a call until it was cancelled or interrupted.

    The engine never raises this itself. `asyncio.timeout` and `TaskGroup` compare the type of a cancellation with
    `asyncio.CancelledError` exactly, so no subclass of that would survive them. The engine raises a plain
    `CancelledError`, or the caller's own `KeyboardInterrupt`, with this as its cause; `CallCancelled.of` finds it.
    """

    exit_code = 130

    def __init__(self, message: str, *, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome

    @classmethod
    def of(cls, error: BaseException) -> CallCancelled | None:
        """Return the exception of this type in the chain of `error`, or None."""
        return _find(cls, error)


class BatchCancelled(SandboxError):
    """Carries the outcomes of a batch until an error, a cancellation or an interrupt ended it.

    Like `CallCancelled`, this is only the cause of another exception; `BatchCancelled.of` finds it.
    """

    exit_code = 130

    def __init__(self, message: str, *, outcomes: Sequence[Outcome | None]) -> None:
        super().__init__(message)
        self.outcomes = list(outcomes)
        """The outcome of each call in the order of its arguments, None for a call without one."""

    @classmethod
    def of(cls, error: BaseException) -> BatchCancelled | None:
        """Return the exception of this type in the chain of `error`, or None."""
        return _find(cls, error)


def _find(kind: type[Found], error: BaseException) -> Found | None:
    """Search the causes and contexts of `error` for an exception of that type."""
    waiting: list[BaseException | None] = [error]
    seen = set[int]()
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        if isinstance(each, kind):
            return each
        seen.add(id(each))
        waiting += (each.__context__, each.__cause__)
    return None


class CallFailed(SandboxError):
    """The outcome is not `ok`. Only `Outcome.raise_for_status` raises this error; the outcome decides the exit code and
    whether a retry may help."""

    exit_code = 1

    def __init__(self, message: str, *, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.exit_code = outcome.exit_code
        self.retryable = outcome.retryable
