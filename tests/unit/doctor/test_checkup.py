"""A checkup examines the sandbox's own backend, and leaves both unchanged."""

from __future__ import annotations

import asyncio
import inspect
import json
from pathlib import Path

import pytest

from sandbox import AsyncSandbox, Checkup, IsolationUnavailable, Sandbox
from sandbox.backends.hints import PURPOSES
from sandbox.backends.limit_probes import PROBED
from sandbox.policy import list_shipped
from sandbox.testing import FakeBackend, leaves, returns, script


def test_every_check_uses_the_backend_that_calls_run_on(tmp_path: Path) -> None:
    backend = FakeBackend(lambda *_: script(leaves({"left.txt": "x"}), returns(1)), missing=["seccomp"])
    with Sandbox(backend=backend, artifact_store=tmp_path) as sandbox:
        checkup = sandbox.doctor()
        assert (checkup.backend, backend.open_boxes) == ("fake", ())
        assert sandbox.artifacts.list() == ()
        sandbox.run("def tool(): pass\n", policy="trusted").raise_for_status()
    assert (set(checkup.layers), set(checkup.policies)) == (set(PURPOSES), set(list_shipped()))
    assert (checkup.default_runs, checkup.policies["default"].missing) == (False, ("seccomp",))
    assert {name: tried.bites for name, tried in checkup.limits.items()} == dict.fromkeys(PROBED, False)


def test_both_kinds_of_sandbox_give_the_same_document() -> None:
    async def asked() -> Checkup:
        async with AsyncSandbox(backend=FakeBackend(lambda *_: 1)) as sandbox:
            return await sandbox.doctor()

    with Sandbox(backend=FakeBackend(lambda *_: 1)) as sandbox:
        document = sandbox.doctor().to_json()
    assert json.loads(document) == json.loads(asyncio.run(asked()).to_json())
    assert inspect.signature(Sandbox.doctor) == inspect.signature(AsyncSandbox.doctor)


def test_a_host_that_cannot_open_boxes_is_reported() -> None:
    async def refuse(_: object) -> None:
        raise IsolationUnavailable("there is no kernel here")

    with (
        Sandbox(backend=FakeBackend(opening=refuse)) as sandbox,
        pytest.raises(IsolationUnavailable, match="no kernel"),
    ):
        sandbox.doctor()
