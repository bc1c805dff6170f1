"""Removes what dead engines left in a daemon, and nothing else.

A container goes when its owner is proved dead, or when nothing can be known of its owner and it has expired long ago
(see ownership.py). A living owner's stays, however long its expiry has passed and whatever the clock says: its engine
removes it. Strangers' containers, and those with labels that are not as we write them, are never touched.

Several engines may sweep one daemon at the same moment. Who comes too late finds the container gone or going; that is
what was wanted. A container that the daemon cannot remove now is left for the next sweep, so that one that is stuck
keeps no others from going.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from sandbox.backends.container.ownership import Owner, expires_at
from sandbox.backends.docker.daemon import OWNER_LABEL, translated

if TYPE_CHECKING:
    from docker import DockerClient

GRACE_S: Final = 3600.0
"""For clocks that differ, and engines that are slow."""


class Reaper:
    """Sweeps one daemon; from several threads too, when each has a client of its own."""

    def __init__(
        self, client: DockerClient, *, grace_s: float = GRACE_S, clock: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._grace_s = grace_s
        self._clock = clock

    def sweep(self) -> list[str]:
        """Kill and remove what nobody owns any more; the ids of what this sweep removed.

        Raises `BackendUnavailable` when the daemon does not answer.
        """
        with translated("looking for containers of dead engines"):
            listed = self._client.api.containers(all=True, filters={"label": OWNER_LABEL})
            return [str(found["Id"]) for found in listed if self._is_left(found) and self._remove(str(found["Id"]))]

    def _is_left(self, found: Mapping[str, Any]) -> bool:
        labels: Mapping[str, str] = found.get("Labels") or {}
        owner = Owner.from_labels(labels)
        if owner is None or not any(owner.gave_name(name.removeprefix("/")) for name in found.get("Names") or ()):
            return False
        return owner.is_dead() or (not owner.is_of_this_host() and self._has_expired(labels))

    def _has_expired(self, labels: Mapping[str, str]) -> bool:
        return self._clock() > expires_at(labels) + self._grace_s

    def _remove(self, id: str) -> bool:
        from docker.errors import APIError

        try:
            self._client.api.remove_container(id, force=True, v=True)
        except APIError:  # somebody else was quicker, or it cannot be removed now
            return False
        return True
