"""Tools with requirements, from the first call to the tenth engine: each gets what it asked for, and only that.

Installed packages are foreign code like the tool itself: whatever they do when Python starts, or when they are
imported, happens behind the same walls.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox import Outcome, Sandbox, Status
from sandbox.environments.disk.paths import remove
from sandbox.environments.store.store import Store
from sandbox.errors import (
    BuildFailed,
    EnvironmentTampered,
    EnvironmentUnavailable,
    SandboxError,
)
from sandbox.policy import Reuse, ReuseMode, load
from tests.checkout import ROOT
from tests.end_to_end.calls import under_way
from tests.end_to_end.command_line import sandbox as command
from tests.end_to_end.packages import NOTHING, contains, machine_with, publish, publish_files, requiring, version_of
from tests.indexes import LocalIndex

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("harmless")]

CALLERS: Final = 50
SECRET: Final = "hunter2-of-the-index"
_AT_ONCE: Final = """
import asyncio, json, sys
from sandbox import AsyncSandbox

skeletons = []

def note(event, arguments):
    if event == "subprocess.Popen" and "virtualenv" in map(str, arguments[1]):
        skeletons.append(arguments)

async def build(store, *requirements):
    async with AsyncSandbox(store=store) as engine:
        return await asyncio.gather(*(engine.build(requirements=[each]) for each in requirements))

sys.addaudithook(note)
built = asyncio.run(build(*sys.argv[1:]))
print(json.dumps({"environments": len({each.key for each in built}), "skeletons": len(skeletons)}))
"""
UNTIL_TOGETHER_S: Final = (1.0, 5.0, 20.0)
"""How long one of two calls stays: more where it did not on a busy machine until the other was over."""
LAZY: Final = """
import time
def tool(seconds: float) -> str:
    print("ready", flush=True)
    time.sleep(seconds)
    import left
    return left.VERSION
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the packages in the index of this module."""
    folder = tmp_path_factory.mktemp("wheels")
    publish(folder, "left", "1.0", "2.0")
    publish(folder, "right", "1.0", requires=("left<2",))
    publish(folder, "crowd", "1.0")
    publish(folder, "Odd_Name", "1.0")
    return folder


@pytest.fixture(scope="module")
def sandbox(index: LocalIndex, store: Path) -> Iterator[Sandbox]:
    """Open an engine whose store is the module's own."""
    with Sandbox(store=store) as engine:
        yield engine


def _value(outcome: Outcome) -> Any:
    assert outcome.status is Status.OK, outcome
    return outcome.value


def test_a_source_gets_what_its_own_block_requires(sandbox: Sandbox) -> None:
    assert _value(sandbox.run(version_of("left", "left==1.0"))) == "1.0"


def test_a_call_gets_what_it_requires_itself(sandbox: Sandbox) -> None:
    assert _value(sandbox.run(version_of("left"), requirements=["left>=2"])) == "2.0"
    assert _value(sandbox.run(version_of("left"), requirements=[{"name": "left", "version": "1.0"}])) == "1.0"


def test_a_call_gets_what_its_source_and_the_call_require_together(sandbox: Sandbox) -> None:
    source = requiring(("left<2",), "import left, crowd\ndef tool():\n    return [left.VERSION, crowd.VERSION]\n")
    assert _value(sandbox.run(source, requirements=["crowd"])) == ["1.0", "1.0"]


def test_a_store_that_is_removed_under_a_living_engine_is_made_again(index: LocalIndex, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with Sandbox(store=store) as engine:
        assert _value(engine.run(version_of("left", "left==1.0"))) == "1.0"
        remove(store)
        assert _value(engine.run(version_of("crowd", "crowd"))) == "1.0"
        assert _value(engine.run(version_of("left", "left==1.0"))) == "1.0"
        remove(store)
        assert engine.lock(requirements=["crowd", "left"]).packages
        assert engine.build(requirements=["left<2"]).installed
        kept = Store(store)
        assert kept.prune(older_than_s=0).in_use == tuple(each.key for each in kept.list())


@pytest.mark.parametrize("mode", ReuseMode)
@pytest.mark.parametrize("what", [".", "envs/1", "envs/1/*"])
def test_parts_removed_from_a_store_in_use_are_made_again_for_boxes(
    index: LocalIndex, tmp_path: Path, mode: ReuseMode, what: str
) -> None:
    policy = load("default").model_copy(update={"reuse": Reuse(mode=mode)})
    source = requiring(("left==1.0",), "def tool():\n    import left\n    return left.VERSION\n")
    with Sandbox(store=tmp_path / "store", policy=policy) as engine:
        assert _value(engine.run(source)) == "1.0"
        for place in list(tmp_path.glob(f"store/{what}")):
            remove(place)
        assert [_value(engine.run(source)) for _ in range(3)] == ["1.0"] * 3


def test_a_dependency_comes_along(sandbox: Sandbox) -> None:
    assert _value(sandbox.run(version_of("left", "right"))) == "1.0"


def test_a_tool_sees_its_own_requirements_only(sandbox: Sandbox) -> None:
    assert _value(sandbox.run(version_of("crowd", "crowd"))) == "1.0"
    outcome = sandbox.run(version_of("crowd", "left"))
    assert (outcome.status, outcome.error and outcome.error.type) == (Status.EXCEPTION, "ModuleNotFoundError")


def test_importlib_metadata_lists_the_installed_packages(sandbox: Sandbox) -> None:
    code = """
from importlib.metadata import distributions
def tool():
    return sorted(each.metadata["Name"].lower() + " " + each.version for each in distributions())
"""
    assert _value(sandbox.run(requiring(("right",), code))) == ["left 1.0", "right 1.0"]


def test_two_tools_with_two_versions_of_a_package_run_at_the_same_time(sandbox: Sandbox) -> None:
    other = requiring(("left==2.0",), LAZY)
    sandbox.prepare(other)
    for seconds in UNTIL_TOGETHER_S:
        with under_way(sandbox, requiring(("left==1.0",), LAZY), args={"seconds": seconds}) as first:
            assert _value(sandbox.run(other, {"seconds": 0.0})) == "2.0"
            were_together = not first.done()
        assert _value(first.result()) == "1.0"
        if were_together:
            return
    pytest.fail("they did not run at the same time: this test can tell nothing")


def test_prepared_tools_ask_the_index_for_nothing_more(sandbox: Sandbox, index: LocalIndex) -> None:
    source = version_of("left", "left==1.0", "crowd")
    sandbox.prepare(source)
    asked = len(index.asked)
    assert _value(sandbox.run(source)) == "1.0"
    sandbox.prepare(version_of("left"), requirements=["left==1.0", "crowd"])
    assert len(index.asked) == asked


def test_order_case_and_spelling_of_requirements_do_not_matter(sandbox: Sandbox) -> None:
    ways: list[list[Any]] = [
        ["left==1.0", "odd-name"],
        ["Odd_Name", "LEFT == 1.0"],
        ["odd.name", " left ==1.0 ", "left==1.0"],
        [{"name": "Left", "version": "1.0"}, "ODD--NAME"],
    ]
    outcomes = [sandbox.run(version_of("left"), requirements=way) for way in ways]
    assert [_value(outcome) for outcome in outcomes] == ["1.0"] * len(ways)
    assert len({outcome.receipt.environment_digest for outcome in outcomes if outcome.receipt}) == 1


def test_different_versions_are_different_environments(sandbox: Sandbox) -> None:
    outcomes = [sandbox.run(version_of("left", f"left=={version}")) for version in ("1.0", "2.0")]
    assert len({outcome.receipt.environment_digest for outcome in outcomes if outcome.receipt}) == 2


def test_a_marker_that_excludes_this_platform_leaves_its_package_out(sandbox: Sandbox) -> None:
    source = version_of("left", 'left==1.0; sys_platform == "linux"', 'crowd; sys_platform == "win32"')
    assert _value(sandbox.run(source)) == "1.0"
    outcome = sandbox.run(source.replace("import left", "import crowd as left"))
    assert (outcome.status, outcome.error and outcome.error.type) == (Status.EXCEPTION, "ModuleNotFoundError")


def test_a_tool_whose_every_requirement_is_for_another_platform_runs(sandbox: Sandbox) -> None:
    source = requiring(('nowhere-to-be-found; sys_platform == "win32"',), "def tool():\n    return 1\n")
    assert _value(sandbox.run(source)) == 1


def test_what_is_in_the_store_is_there_offline_too(sandbox: Sandbox, index: LocalIndex, tmp_path: Path) -> None:
    source = version_of("left", "left==1.0", "odd-name")
    assert _value(sandbox.run(source)) == "1.0"
    offline = tmp_path / "offline.toml"
    offline.write_text('description = "for tests"\nextends = "default"\n[supply]\noffline = true\n')
    asked = len(index.asked)
    assert _value(sandbox.run(source, policy=str(offline))) == "1.0"
    assert len(index.asked) == asked


def test_a_packages_own_tests_can_be_imported_and_are_not_compiled_ahead(sandbox: Sandbox, wheels: Path) -> None:
    publish_files(wheels, "tested", {"tested/__init__.py": "", "tested/tests/__init__.py": "VERSION = 'of tests'\n"})
    assert _value(sandbox.run(version_of("tested.tests", "tested"))) == "of tests"
    folder = sandbox.build(requirements=["tested"]).installed
    assert folder is not None
    assert [path.parent.parent.name for path in folder.rglob("*.pyc")] == ["tested"]


def test_packages_that_bring_different_files_of_one_name_are_refused(sandbox: Sandbox, wheels: Path) -> None:
    for name in ("alpha", "omega"):
        publish_files(wheels, name, {"both.py": f"VERSION = {name!r}\n", f"{name}.py": ""})
    with pytest.raises(BuildFailed, match=r"both\.py") as refused:
        sandbox.run(version_of("both", "alpha", "omega"))
    assert "alpha" in refused.value.message or "omega" in refused.value.message
    assert [_value(sandbox.run(version_of("both", name))) for name in ("alpha", "omega")] == ["alpha", "omega"]


def test_many_callers_of_one_new_environment_build_it_once(wheels: Path, tmp_path: Path) -> None:
    source = version_of("crowd", "crowd==1.0", "left")
    with LocalIndex(wheels) as index, machine_with(index.url), Sandbox(store=tmp_path / "store") as engine:
        index.tells_metadata = True  # so that only a build needs the wheels themselves
        with ThreadPoolExecutor(CALLERS) as threads:
            outcomes = list(threads.map(lambda _: engine.run(source), range(CALLERS)))
        assert [_value(outcome) for outcome in outcomes] == ["1.0"] * CALLERS
        fetched = [asked for asked in index.asked if asked.endswith(".whl")]
        assert sorted(fetched) == ["GET /files/crowd-1.0-py3-none-any.whl", "GET /files/left-2.0-py3-none-any.whl"]
        assert len(list((tmp_path / "store").glob("envs/*/*"))) == 1


def test_environments_built_at_the_same_time_share_one_skeleton(wheels: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _AT_ONCE, str(tmp_path / "store"), "left==1.0", "left==2.0", "crowd"]
    with LocalIndex(wheels) as index, machine_with(index.url):
        answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout) == {"environments": 3, "skeletons": 1}


def test_a_second_engine_finds_the_environment_without_asking_anyone(
    sandbox: Sandbox, index: LocalIndex, store: Path
) -> None:
    source = version_of("left", "right")
    first = sandbox.run(source)
    asked = len(index.asked)
    with Sandbox(store=store) as other:
        second = other.run(source)
    assert len(index.asked) == asked
    assert (_value(first), _value(second)) == ("1.0", "1.0")
    assert first.receipt is not None
    assert second.receipt is not None
    assert first.receipt.environment_digest == second.receipt.environment_digest


def test_an_environment_cannot_be_changed_by_the_tool_that_uses_it(sandbox: Sandbox) -> None:
    code = """
import left, os, sys
def tool():
    folder = os.path.dirname(left.__file__)
    tried = {}
    for name, do in {
        "append": lambda: open(left.__file__, "a").write("VERSION = 'mine'"),
        "create": lambda: open(os.path.join(folder, "random.py"), "w").write(""),
        "remove": lambda: os.unlink(left.__file__),
        "rename": lambda: os.rename(left.__file__, left.__file__ + "x"),
        "chmod": lambda: os.chmod(left.__file__, 0o777),
        "link": lambda: os.link(left.__file__, os.path.join(folder, "again.py")),
    }.items():
        try:
            do()
            tried[name] = "done"
        except OSError as error:
            tried[name] = "refused"
    return tried
"""
    tried = _value(sandbox.run(requiring(("left==1.0",), code)))
    assert set(tried.values()) == {"refused"}
    assert _value(sandbox.run(version_of("left", "left==1.0"))) == "1.0"


SHADOWS: Final = ("json", "random", "box", "call", "zygote", "kernel")


@pytest.fixture(scope="module")
def shadowing(wheels: Path, index: LocalIndex) -> tuple[str, ...]:
    """A package of modules that are called as the standard library's and the runner's are."""
    publish_files(wheels, "shadows", {f"{name}.py": f"VERSION = 'theirs: {name}'\n" for name in SHADOWS})
    return ("shadows==1.0",)


@pytest.mark.parametrize("name", ["json", "random"])
def test_a_package_does_not_stand_in_for_the_standard_library(
    name: str, sandbox: Sandbox, shadowing: tuple[str, ...]
) -> None:
    code = f"import {name}\ndef tool():\n    return getattr({name}, 'VERSION', 'the standard one')\n"
    assert _value(sandbox.run(requiring(shadowing, code))) == "the standard one"


@pytest.mark.parametrize("name", ["box", "call", "zygote", "kernel"])
def test_a_package_may_have_modules_that_are_called_like_the_runners(
    name: str, sandbox: Sandbox, shadowing: tuple[str, ...]
) -> None:
    source = requiring(shadowing, f"import {name}\ndef tool(word: str):\n    return [word, {name}.VERSION]\n")
    outcomes = sandbox.map(source, [{"word": str(number)} for number in range(4)])
    assert [_value(outcome) for outcome in outcomes] == [[str(number), f"theirs: {name}"] for number in range(4)]


AT_START: Final = """
import os, socket
gained = []
for place in {places!r}:
    try:
        open(place, "w").write("was here")
        gained.append("wrote " + place)
    except OSError:
        pass
try:
    socket.create_connection(("127.0.0.1", {port}), timeout=1).sendall(b"was here")
    gained.append("reached the host")
except OSError:
    pass
os.environ["STARTED"] = "yes"
os.environ["GAINED"] = ",".join(gained)
"""
STARTED: Final = "import os\ndef tool():\n    return [os.environ.get('STARTED'), os.environ.get('GAINED')]\n"


@pytest.mark.parametrize("way", ["pth", "sitecustomize"])
def test_code_that_a_package_runs_at_start_is_walled_like_the_tool(
    way: str, sandbox: Sandbox, wheels: Path, tmp_path: Path
) -> None:
    places = [str(tmp_path / "pwned"), str(wheels / "pwned"), "/environment/pwned", "/etc/pwned"]
    with socket.create_server(("127.0.0.1", 0)) as host:
        name = _starting(wheels, f"starts_{way}", AT_START.format(places=places, port=host.getsockname()[1]), way=way)
        host.settimeout(0)
        assert _value(sandbox.run(requiring((name,), STARTED))) == ["yes", ""]
        with pytest.raises(BlockingIOError):
            host.accept()
    assert not any(os.path.exists(place) for place in places)


DEEDS: Final = {
    "raises": "raise RuntimeError('broken')",
    "leaves": "raise SystemExit(4)",
    "dies": "import os; os._exit(3)",
}


def _starting(wheels: Path, name: str, code: str, *, way: str = "pth") -> str:
    """The name of a package that runs this code when Python starts."""
    start = {"started.pth": f"import {name}_code\n"} if way == "pth" else {"sitecustomize.py": f"import {name}_code\n"}
    publish_files(wheels, name, {f"{name}_code.py": code, **start})
    return name


@pytest.mark.parametrize("way", ["pth", "sitecustomize"])
@pytest.mark.parametrize("deed", DEEDS)
def test_code_that_fails_at_start_harms_only_its_own_call(way: str, deed: str, sandbox: Sandbox, wheels: Path) -> None:
    name = _starting(wheels, f"{deed}_{way}", DEEDS[deed], way=way)
    with suppress(SandboxError):
        outcome = sandbox.run(requiring((name,), NOTHING))
        assert outcome.status is not Status.OK or outcome.value == 1
    assert _value(sandbox.run(version_of("left", "left==1.0"))) == "1.0"


@pytest.mark.parametrize(("deed", "code"), [("leaves", 4), ("dies", 3)])
def test_a_start_hook_that_ends_python_ends_the_call(deed: str, code: int, sandbox: Sandbox, wheels: Path) -> None:
    name = _starting(wheels, f"{deed}_at_once", DEEDS[deed])
    outcome = sandbox.run(requiring((name,), NOTHING))
    assert (outcome.status, outcome.evidence["exit_code"]) == (Status.EXITED, code)
    noted: Any = outcome.evidence["environment"]
    assert noted["key"] == outcome.environment.key if outcome.environment else False


def test_an_unreadable_pth_file_is_skipped_and_the_others_are_followed(sandbox: Sandbox, wheels: Path) -> None:
    places = {"a.pth": b"# caf\xe9\n", "b.pth": b"/environment/lib\n", ".c.pth": b"import nothing\n"}
    publish_files(wheels, "odd_places", {"odd_places.py": "", **places})
    code = "import sys\ndef tool():\n    return '/environment/lib' in sys.path\n"
    assert _value(sandbox.run(requiring(("odd-places",), code))) is True


def test_a_start_hook_that_never_ends_is_the_calls_timeout(sandbox: Sandbox, wheels: Path, tmp_path: Path) -> None:
    name = _starting(wheels, "hangs", "while True: pass")
    policy = tmp_path / "impatient.toml"
    policy.write_text('description = "for tests"\nextends = "default"\n[limits]\nwall = "1s"\n')
    outcome = sandbox.run(requiring((name,), NOTHING), policy=str(policy))
    assert outcome.status is Status.TIMEOUT
    assert "importing took longer" in str(outcome.evidence["environment"])


def test_code_that_prints_at_start_cannot_speak_for_the_runner(sandbox: Sandbox, wheels: Path) -> None:
    name = _starting(
        wheels, "prints", "import os\nprint('x' * 1000)\nos.write(1, bytes(64))\nos.write(2, b'\\xff' * 64)"
    )
    assert _value(sandbox.run(requiring((name,), NOTHING))) == 1


def _env(*words: object, code: int = 0) -> Any:
    answer = command("env", *words, "--json")
    assert answer.returncode == code, answer.stderr
    return json.loads(answer.stdout) if code == 0 else answer.stderr


def test_an_environment_in_use_is_not_pruned(wheels: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with LocalIndex(wheels) as index, machine_with(index.url), Sandbox(store=store) as engine:
        with under_way(engine, requiring(("left==1.0",), LAZY), args={"seconds": 2.0}) as call:
            _env("prune", "--older-than", "0s", "--max-size", "1B", "--store", store)
            assert len(list(store.glob("envs/*/*"))) == 1
        assert _value(call.result()) == "1.0"
    _env("prune", "--older-than", "0s", "--max-size", "1B", "--store", store)
    assert list(store.glob("envs/*/*")) == []


def test_every_command_about_environments_answers_in_json(wheels: Path, tmp_path: Path) -> None:
    store, tool = tmp_path / "store", tmp_path / "tool.py"
    tool.write_text(version_of("left", "right"))
    with LocalIndex(wheels) as index, machine_with(index.url):
        locked = _env("lock", "--file", tool, "--store", store)
        assert {each["name"]: each["version"] for each in locked["packages"]} == {"left": "1.0", "right": "1.0"}
        key = _env("build", "--file", tool, "--store", store)["key"]
    assert [each["key"] for each in _env("list", "--store", store)] == [key]
    assert "right" in json.dumps(_env("show", key, "--store", store))
    (verified,) = _env("verify", key, "--store", store)
    assert (verified["key"], verified["is_intact"]) == (key, True)
    bundle, elsewhere = tmp_path / "bundle", tmp_path / "elsewhere"
    exported = _env("export", key, bundle, "--store", store)
    assert _env("import", bundle, "--store", elsewhere)["digest"] == exported["digest"]
    assert _env("prune", key, "--dry-run", "--store", store)["environments"] == [key]
    assert [each["key"] for each in _env("list", "--store", store)] == [key]
    assert _env("prune", key, "--store", store)["environments"] == [key]
    assert _env("list", "--store", store) == []


def test_a_changed_file_is_found_and_refused_where_the_policy_verifies(wheels: Path, tmp_path: Path) -> None:
    store, policy = tmp_path / "store", tmp_path / "verified.toml"
    policy.write_text('description = "for tests"\nextends = "default"\n[environment]\nverify = true\n')
    source = version_of("left", "left==1.0")
    with LocalIndex(wheels) as index, machine_with(index.url):
        with Sandbox(store=store, policy=str(policy)) as engine:
            assert _value(engine.run(source)) == "1.0"
        changed = next(path for path in store.glob("envs/**/left.py"))
        changed.chmod(0o644)
        changed.write_text("VERSION = 'changed'\n")
        with Sandbox(store=store, policy=str(policy)) as engine, pytest.raises(EnvironmentTampered, match=r"left\.py"):
            engine.run(source)
    (key,) = [each["key"] for each in _env("list", "--store", store)]
    assert "left.py" in command("env", "verify", key, "--store", str(store)).stdout


def test_an_exported_environment_runs_elsewhere_without_an_index(wheels: Path, tmp_path: Path) -> None:
    tool, bundle = tmp_path / "tool.py", tmp_path / "bundle.zip"
    tool.write_text(version_of("left", "right"))
    with LocalIndex(wheels) as index, machine_with(index.url):
        key = _env("build", "--file", tool, "--store", tmp_path / "here")["key"]
        _env("export", key, bundle, "--store", tmp_path / "here")
    with machine_with("http://127.0.0.1:9/simple"):
        _env("import", bundle, "--store", tmp_path / "there")
        ran = command("run", tool, "--offline", "--store", tmp_path / "there")
    assert (ran.returncode, ran.stdout) == (0, "1.0\n"), ran.stderr


def test_a_folder_of_wheels_is_enough_without_an_index(wheels: Path, tmp_path: Path) -> None:
    tool = tmp_path / "tool.py"
    tool.write_text(version_of("left", "right"))
    with machine_with("http://127.0.0.1:9/simple", PIP_FIND_LINKS=str(wheels)):
        ran = command("run", tool, "--offline", "--store", tmp_path / "store")
    assert (ran.returncode, ran.stdout) == (0, "1.0\n"), ran.stderr


def test_the_command_line_adds_requirements(wheels: Path, tmp_path: Path) -> None:
    tool = tmp_path / "tool.py"
    tool.write_text(version_of("left"))
    with LocalIndex(wheels) as index, machine_with(index.url):
        ran = command("run", tool, "--with", "left == 2.0", "--with", "crowd", "--store", tmp_path / "store")
    assert (ran.returncode, ran.stdout) == (0, "2.0\n"), ran.stderr


SNOOP: Final = """
import glob, os
def tool(word: str) -> list[str]:
    found = [name for name, value in os.environ.items() if word in value]
    for place in glob.glob("/proc/*/environ") + glob.glob("/proc/*/cmdline") + glob.glob("/environment/*"):
        try:
            if word in open(place, errors="replace").read():
                found.append(place)
        except OSError:
            pass
    return found
"""


@contextmanager
def _locked_index(wheels: Path, *, password: str) -> Iterator[None]:
    """An index that wants this password, on a machine that has the secret."""
    index = LocalIndex(wheels, login=("user", password))
    with index, machine_with(index.url.replace("//", f"//user:{SECRET}@")):
        yield


def test_a_credential_of_the_index_is_never_shown(wheels: Path, tmp_path: Path) -> None:
    store, tool = tmp_path / "store", tmp_path / "tool.py"
    tool.write_text(version_of("left", "left==1.0"))
    with _locked_index(wheels, password=SECRET):
        with Sandbox(store=store) as engine:
            outcome = engine.run(requiring(("left==1.0",), SNOOP), {"word": SECRET})
            with pytest.raises(SandboxError) as unknown:
                engine.run(version_of("left", "nowhere-to-be-found"))
            with pytest.raises(SandboxError) as conflicting:
                engine.run(version_of("left", "right", "left==2.0"))
        said = [
            command("env", "lock", "--file", tool, "--store", store),
            command("env", "build", "--file", tool, "--store", store),
        ]
        said += [command("run", tool, "--with", "nowhere-to-be-found", "--store", store)]
        said += [command("env", "list", "--store", store), command("env", "list", "--json", "--store", store)]
        key = json.loads(said[-1].stdout)[0]["key"]
        said += [command("env", "show", key, *as_json, "--store", store) for as_json in ((), ("--json",))]
    assert _value(outcome) == []
    told = [outcome.model_dump_json(), repr(unknown.value), repr(conflicting.value)]
    assert not [text for text in told if SECRET in text]
    assert not [answer.args for answer in said if SECRET in answer.stdout + answer.stderr]
    assert contains(store, SECRET) == []


def test_a_wrong_credential_is_an_unavailable_index_and_is_not_shown(wheels: Path, tmp_path: Path) -> None:
    engine = Sandbox(store=tmp_path / "store")
    with _locked_index(wheels, password="right"), engine, pytest.raises(EnvironmentUnavailable) as refused:
        engine.run(version_of("left", "left"))
    assert SECRET not in repr(refused.value)
    assert contains(tmp_path / "store", SECRET) == []
