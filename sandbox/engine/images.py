"""Images for backends that open containers: every environment as something a container can be made from.

    nothing required     the base image alone, with its own Python
    an environment       the base image, shown the environment's folder of the store, where the daemon is on this
                         machine; otherwise an image with the environment in it, made once

Both forms hold the same files at the same place. An environment is built for an interpreter of this host, so its Python
must be of the same version as the image's, and is asked for that way.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from sandbox.backends.base import Backend, Daemon
from sandbox.environments import Environment
from sandbox.errors import BackendUnavailable, EnvironmentUnavailable
from sandbox.protocols import BoxImage
from sandbox.threads import in_own_thread

if TYPE_CHECKING:
    from sandbox.images import BaseImage

_FORMAT: Final = "1"


class ImageSupply:
    """The images of one engine's environments."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._base: BaseImage | None = None
        self._known: dict[str, Environment] = {}
        self._under_way: dict[str, asyncio.Task[Environment]] = {}

    async def python_version(self) -> str:
        """What environments for containers must be built for, as a requirement on Python: `==3.11.*`."""
        return f"=={'.'.join((await self._base_image()).python.version.split('.')[:2])}.*"

    async def see_that_it_does(self, requires_python: str | None) -> None:
        """Raise where a tool that only requires a Python requires another than the image's."""
        from packaging.specifiers import SpecifierSet

        python = (await self._base_image()).python.version
        if requires_python and not SpecifierSet(requires_python).contains(python, prereleases=True):
            raise EnvironmentUnavailable(
                f"the tool requires Python {requires_python[:80]}, and the image of containers has {python}",
                remedy="use the subprocess backend with an interpreter of that version",
            )

    async def furnished(self, environment: Environment) -> Environment:
        """The same environment with its image."""
        known = self._known.get(environment.key)
        if known is not None and known.copy == environment.copy:
            return known
        task = self._under_way.get(environment.key)
        if task is None:
            task = asyncio.create_task(self._furnish(environment))
            self._under_way[environment.key] = task
            task.add_done_callback(partial(self._note_end, environment.key))
        return await asyncio.shield(task)

    def forget(self) -> None:
        """An image turned out to be gone: look again."""
        self._base = None
        self._known.clear()

    def _note_end(self, key: str, task: asyncio.Task[Environment]) -> None:
        """Who asked for it may be gone, and why it failed is for nobody then."""
        self._under_way.pop(key, None)
        if not task.cancelled():
            task.exception()

    async def _furnish(self, environment: Environment) -> Environment:
        base = await self._base_image()
        magic = bytes.fromhex(base.python.magic)
        image = BoxImage(base.id, magic)
        if environment.installed is not None:
            daemon = await self._daemon()
            await in_own_thread(partial(_check_fit, environment, base))
            if not daemon.sees_our_files:
                image = BoxImage(await self._made(daemon, environment, base), magic, holds_environment=True)
        inside = environment.lock_digest if environment.installed is None else environment.key
        key = hashlib.sha256(f"{_FORMAT} {base.content} {inside}".encode()).hexdigest()
        furnished = replace(environment, key=key, version=base.python.version, image=image)
        self._known[environment.key] = furnished
        return furnished

    async def _made(self, daemon: Daemon, environment: Environment, base: BaseImage) -> str:
        from sandbox.images import environment_image

        made = await daemon.ask("making an image", lambda client: environment_image(client, environment, base=base))
        return made.id

    async def _base_image(self) -> BaseImage:
        if self._base is None:
            from sandbox.images import find

            found = await (await self._daemon()).ask("looking for the base image", find)
            if found is None:
                raise BackendUnavailable(
                    "the daemon has no base image to start containers from", remedy="run `sandbox image bootstrap`"
                )
            self._base = found
        return self._base

    async def _daemon(self) -> Daemon:
        daemon = await self._backend.daemon()
        assert daemon is not None, "only backends with a daemon need images"
        return daemon


def _check_fit(environment: Environment, base: BaseImage) -> None:
    from sandbox.images.fitting import check_fit

    assert environment.installed is not None
    check_fit(environment.installed, base.python, base=base.tag)
