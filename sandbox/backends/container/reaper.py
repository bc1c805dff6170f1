"""Remove the containers that dead engines left in a daemon, and nothing else.

The reaper removes a container if its owner is proved dead, or if its owner is on another host and the container expired
long ago (see ownership.py). The reaper leaves the containers of a living owner, even after their expiry, because their
engine removes them, and never touches containers of strangers or with malformed labels.

Several engines may sweep one daemon at the same moment. An engine that comes too late finds the container gone, which
is the goal. A container that the daemon cannot remove now stays until the next sweep, so that a stuck container does
not keep others from being removed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from sandbox.backends.container.docker.failures import translate_failures
from sandbox.backends.ownership import OWNER_LABEL, ContainerOwner, expiry_of

if TYPE_CHECKING:
    from docker import DockerClient

GRACE_S: Final = 3600.0
"""A margin for clocks that differ, and for slow engines."""


class Reaper:
    """Sweep one daemon; several threads may do so, each with a client of its own."""

    def __init__(
        self, client: DockerClient, *, grace_s: float = GRACE_S, clock: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._grace_s = grace_s
        self._clock = clock

    def sweep(self) -> list[str]:
        """Kill and remove orphaned containers, and return the ids of those that this sweep removed.

        Raises `BackendUnavailable` if the daemon does not answer.
        """
        with translate_failures("looking for containers of dead engines"):
            listed = self._client.api.containers(all=True, filters={"label": OWNER_LABEL})
            return [str(found["Id"]) for found in listed if self._is_orphan(found) and self._remove(str(found["Id"]))]

    def _is_orphan(self, found: Mapping[str, Any]) -> bool:
        labels: Mapping[str, str] = found.get("Labels") or {}
        owner = ContainerOwner.from_labels(labels)
        if owner is None or not any(owner.gave_name(name.removeprefix("/")) for name in found.get("Names") or ()):
            return False
        return owner.is_dead() or (not owner.is_of_this_host() and self._has_expired(labels))

    def _has_expired(self, labels: Mapping[str, str]) -> bool:
        return self._clock() > expiry_of(labels) + self._grace_s

    def _remove(self, id: str) -> bool:
        from docker.errors import APIError

        try:
            self._client.api.remove_container(id, force=True, v=True)
        except APIError:  # another engine was quicker, or the daemon cannot remove it now
            return False
        return True
