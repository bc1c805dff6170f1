"""Preloads are existing modules that are safe to import early, whatever a source names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.engine.plan import preloadable
from sandbox.environments import Environment, bare_environment
from sandbox.tools import read_tool

TOOL = "\n\ndef tool():\n    pass\n"


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """Return an environment with modules, compiled and not, and packages."""
    site = tmp_path / "lib" / "site-packages"
    for file in (
        "plots/__init__.py",
        "plots/simple.py",
        "plots/fast.cpython-311-x86_64-linux-gnu.so",
        "plots/slower.pyd",
        "plots/inner/__init__.py",
        "plots/inner/deep.py",
        "plots/notes.txt",
        "plots/__main__.py",
        "hidden/part.py",
    ):
        (site / file).parent.mkdir(parents=True, exist_ok=True)
        (site / file).touch()
    modules = frozenset({"plots", "_private"})
    return replace(bare_environment(), installed=tmp_path, site="lib/site-packages", modules=modules)


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        ("import plots", ["plots"]),
        ("import plots.simple as p", ["plots", "plots.simple"]),
        (
            "from plots import simple, fast, slower, inner",
            ["plots", "plots.fast", "plots.inner", "plots.simple", "plots.slower"],
        ),
        ("from plots.inner import deep", ["plots", "plots.inner", "plots.inner.deep"]),
        ("from plots import Figure, notes, fas, fast_one", ["plots"]),
        ("from plots import *", ["plots"]),
        ("from plots.inner.deep import function", ["plots", "plots.inner.deep"]),
        ("import plots.__main__\nfrom plots import __main__, __path__", ["plots"]),
        ("import hidden.part, _private, numpy, own", []),
        ("from . import plots\nfrom .plots import simple", []),
        ("import json, csv, antigravity, tkinter, _thread, idlelib.run, test.support", ["csv", "json"]),
        ("import urllib.request, os.path", ["os", "urllib", "urllib.request"]),
        ("from xml.etree import ElementTree", ["xml", "xml.etree", "xml.etree.ElementTree"]),
        ("from concurrent.futures import ThreadPoolExecutor", ["concurrent", "concurrent.futures"]),
        ("from __future__ import annotations", []),
        (f"import plots.{'x' * 300}, json.{'.'.join(['y'] * 300)}", ["json", "plots"]),
    ],
)
def test_existing_modules_are_preloaded(imports: str, expected: list[str], environment: Environment) -> None:
    assert preloadable(read_tool(imports + TOOL), environment=environment) == tuple(expected)


def test_an_environment_without_preloading_has_none() -> None:
    assert preloadable(read_tool("import json, plots.simple" + TOOL)) == ("json",)


def test_a_source_with_very_many_names_gets_few_preloads(environment: Environment) -> None:
    names = ", ".join(f"n{number}" for number in range(20_000))
    assert preloadable(
        read_tool(f"from plots import simple\nfrom plots import {names}" + TOOL), environment=environment
    )
    many = "\n".join(f"import json.decoder as a{number}, n{number}.x" for number in range(2_000))
    assert preloadable(read_tool(many + TOOL), environment=environment) == ("json", "json.decoder")


def test_an_async_tool_has_its_loop_preloaded() -> None:
    assert preloadable(read_tool("async def tool():\n    pass\n")) == ("asyncio",)
