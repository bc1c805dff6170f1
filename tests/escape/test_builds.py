"""Sources that attack the box they are built in, and wheels that attack the box they are used in.

A build from source runs the code of strangers: the code must not reach the host, the store and other tenants, and the
result is the requested wheel, or an error that describes the problem.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from sandbox import Outcome, Sandbox, Status
from sandbox.errors import BuildFailed, EnvironmentUnavailable
from tests.end_to_end.packages import contains, machine_with, publish, requiring, version_of
from tests.escape.attempts import ATTEMPT, DONE
from tests.escape.sources import make_source
from tests.escape.without_root import run_without_root
from tests.indexes import LocalIndex
from tests.unprivileged import AS_NOBODY, NOBODY

pytestmark = pytest.mark.slow

SECRET: Final = "hunter2-of-the-index"
PATIENCE_S: Final = 110.0
_POLICY: Final = """
description = "for tests"
[supply]
sdists = true
[environment]
build_time = "{seconds}s"
build_disk = "{disk}"
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Where this module's sources, wheels and stores are; other users can look into it."""
    folder = Path(tempfile.mkdtemp(prefix="sandbox-builds-"))
    folder.chmod(0o755)
    for name in ("links", "home", "others"):
        (folder / name).mkdir()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def links(folder: Path) -> Path:
    """Where the machine finds packages, besides an index that wants a login."""
    publish(folder / "links", "honest", "1.0")
    return folder / "links"


@pytest.fixture(scope="module")
def index(folder: Path) -> Iterator[LocalIndex]:
    """An index of one package that wants a login."""
    publish(folder / "index", "indexed", "1.0")
    with LocalIndex(folder / "index", login=("user", SECRET)) as index:
        yield index


@contextmanager
def _machine(index: LocalIndex, links: Path) -> Iterator[None]:
    """Has the login of that index, and a folder of sources and wheels."""
    url = index.url.replace("//", f"//user:{SECRET}@")
    with machine_with(url, PIP_FIND_LINKS=str(links), SECRET_OF_THE_ENGINE=SECRET):
        yield


@pytest.fixture(scope="module")
def sandbox(folder: Path) -> Iterator[Sandbox]:
    """Return an engine with a store for this module."""
    with Sandbox(store=folder / "store", policy=_policy(folder)) as engine:
        yield engine


@pytest.fixture
def harmless(sandbox: Sandbox, index: LocalIndex, links: Path, folder: Path) -> Iterator[None]:
    """Assert that the next build is served, and that the test's build leaves no process and no file."""
    with _machine(index, links):
        yield
        assert _value(sandbox.run(version_of("honest", "honest"))) == "1.0"
    assert list((folder / "store" / "building").iterdir()) == []
    assert _running("outlives-the-build") == []


def _policy(folder: Path, *, seconds: int = 60, disk: str = "256MiB") -> str:
    file = folder / f"sources-{seconds}-{disk}.toml"
    file.write_text(_POLICY.format(seconds=seconds, disk=disk))
    return str(file)


def _value(outcome: Outcome) -> Any:
    assert outcome.status is Status.OK, outcome
    return outcome.value


def _running(word: str) -> list[psutil.Process]:
    return [each for each in psutil.process_iter(["cmdline"]) if word in " ".join(each.info["cmdline"] or ())]


def _report_of(name: str) -> str:
    return requiring((name,), f"import {name}\ndef tool():\n    return {name}.REPORT\n")


def _refusal(sandbox: Sandbox, name: str, **fields: Any) -> EnvironmentUnavailable:
    begun = time.monotonic()
    with pytest.raises(EnvironmentUnavailable) as refused:
        sandbox.run(version_of(name, name), **fields)
    assert time.monotonic() - begun < PATIENCE_S
    assert len(str(refused.value)) < 6000
    return refused.value


SNOOP: Final = (
    ATTEMPT
    + """
import socket, sys, sysconfig

PLACES = {places!r}
WORD = "".join({word!r})
PORT, ABSTRACT, INDEX = {port!r}, {abstract!r}, {index!r}

def look(place):
    if os.path.isdir(place):
        return "lists " + str(os.listdir(place)) if os.listdir(place) else "empty"
    with open(place) as file:
        return "reads " + file.read(100)

def tried(act, *arguments):
    try:
        return act(*arguments) or "done"
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "refused")

def create(place):
    with open(os.path.join(place, "planted") if os.path.isdir(place) else place, "ab") as file:
        file.write(b"x")

def connect(family, address):
    with socket.socket(family) as near:
        near.settimeout(2)
        near.connect(address)
        near.sendall(b"planted")

def ask(line, host="127.0.0.1"):
    with socket.create_connection(("127.0.0.1", 8479), timeout=10) as proxy:
        proxy.settimeout(10)
        said = b""
        try:
            proxy.sendall("\\r\\n".join([line, "Host: " + host, "Connection: close", "", ""]).encode("latin-1"))
            while piece := proxy.recv(65536):
                said += piece
        except ConnectionError:
            pass
    return said.decode("latin-1")

ASKED = [
    "GET http://127.0.0.1:" + str(PORT) + "/ HTTP/1.1",
    "GET http://localhost:" + str(PORT) + "/ HTTP/1.1",
    "GET //127.0.0.1:" + str(PORT) + "/ HTTP/1.1",
    "CONNECT 127.0.0.1:" + str(PORT) + " HTTP/1.1",
    "CONNECT 127.0.0.1:80 HTTP/1.1",
    "CONNECT 169.254.169.254:80 HTTP/1.1",
    "GET http://169.254.169.254/latest/meta-data/ HTTP/1.1",
    "GET /../../../../etc/passwd HTTP/1.1",
    "GET file:///etc/passwd HTTP/1.1",
    "GET " + INDEX + "@127.0.0.1:" + str(PORT) + "/ HTTP/1.1",
    "POST http://127.0.0.1:" + str(PORT) + "/ HTTP/1.1",
    "GET /" + 70000 * "a" + " HTTP/1.1",
    "GET / HTTP/9.9",
    "\\0\\xff\\xfe",
]

def texts():
    yield "environment", repr(dict(os.environ))
    for process in [each for each in os.listdir("/proc") if each.isdigit()]:
        for name in ("environ", "cmdline", "mountinfo", "maps"):
            yield "/proc/" + process + "/" + name, None
    for root in ("/etc", "/work", "/tmp", "/build", "/root", "/home", "/var", "/dev/shm"):
        for parent, _, names in os.walk(root):
            for name in names:
                yield os.path.join(parent, name), None

def holds_word(place, text):
    try:
        if text is None:
            with open(place, errors="replace") as file:
                text = file.read(1 << 20)
    except OSError:
        return False
    return WORD in text

def snoop():
    library = sysconfig.get_paths()["stdlib"]
    kept = ["/uv", "/environment", "/gateway", library, library + "/os.py", os.path.realpath(sys.executable)]
    return {{
        "looked": {{place: tried(look, place) for place in PLACES}},
        "wrote": {{place: tried(create, place) for place in [*kept, "/usr/bin", "/usr/include", "/etc", "/", *PLACES]}},
        "connected": {{
            "loopback": tried(connect, socket.AF_INET, ("127.0.0.1", PORT)),
            "abstract": tried(connect, socket.AF_UNIX, "\\0" + ABSTRACT),
            "outside": tried(connect, socket.AF_INET, ("1.1.1.1", 53)),
            "metadata": tried(connect, socket.AF_INET, ("169.254.169.254", 80)),
        }},
        "page": ask("GET " + INDEX + "/simple/indexed/ HTTP/1.1", INDEX.partition("//")[2]),
        "asked": {{line[:60]: ask(line, line.partition("//")[2].partition("/")[0] or "127.0.0.1") for line in ASKED}},
        "word": [place for place, text in texts() if holds_word(place, text)],
    }}
"""
)
IN_THE_BUILD: Final = "\ndef attack(folder):\n    return snoop()\n"
IN_THE_RESOLUTION: Final = """
def metadata():
    global METADATA
    METADATA += "Summary: " + __import__("json").dumps(snoop()) + "\\n"

def attack(folder):
    return {}
"""


@contextmanager
def _listeners() -> Iterator[tuple[int, str, list[bytes]]]:
    """A port of the host's loopback and an abstract name, and what was sent to either."""
    heard: list[bytes] = []
    abstract = f"sandbox-builds-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as port, socket.socket(socket.AF_UNIX) as name:
        name.bind(f"\0{abstract}")
        name.listen()
        yield port.getsockname()[1], abstract, heard
        for listener in (port, name):
            listener.setblocking(False)
            with suppress(BlockingIOError):
                connection, _ = listener.accept()
                heard.append(connection.recv(1000))
                connection.close()


def _places(folder: Path) -> list[str]:
    """Return files and sockets of the host that a build must not reach."""
    for name in ("home/secret", "others/theirs-1.0-py3-none-any.whl"):
        (folder / name).write_text(SECRET)
    host = ["/etc/shadow", "/root/.netrc", "/root/.ssh", "/proc/1/root/etc/shadow", "/proc/1/cwd"]
    return [*host, *(str(folder / name) for name in ("home", "home/secret", "others", "links", "store", "index"))]


def _make_snoop(folder: Path, links: Path, name: str, *, port: int, abstract: str, index: LocalIndex) -> str:
    code = SNOOP.format(places=_places(folder), word=list(SECRET), port=port, abstract=abstract, index=index.root)
    return make_source(links, name, code + IN_THE_BUILD)


@pytest.fixture(scope="module", params=["ours", "without_root"])
def report(request: pytest.FixtureRequest, folder: Path, links: Path, index: LocalIndex) -> dict[str, Any]:
    """Return the report of a build, in a box of the tests' engine and of an engine without root."""
    engine = request.getfixturevalue("sandbox" if request.param == "ours" else "unprivileged_python")
    with _listeners() as (port, abstract, heard), _machine(index, links):
        name = _make_snoop(folder, links, f"snoop_{request.param}", port=port, abstract=abstract, index=index)
        if isinstance(engine, Sandbox):
            found = _value(engine.run(_report_of(name)))
        else:
            found = _report_without_root(engine, folder, name)
    return {**found, "heard": heard}


def _report_without_root(python: Path, folder: Path, name: str) -> Any:
    store = folder / "store-of-nobody"
    store.mkdir()
    if AS_NOBODY:
        os.chown(store, NOBODY, NOBODY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SANDBOX_STORE", str(store))
        patch.setenv("HOME", str(store))
        outcome = run_without_root(python, _report_of(name), policy=_policy(folder))
    assert outcome["status"] == "ok", outcome
    assert contains(store, SECRET) == []
    return outcome["value"]


def test_a_build_reads_nothing_of_the_host(report: dict[str, Any]) -> None:
    assert {place: said for place, said in report["looked"].items() if said.startswith(("lists", "reads"))} == {}


def test_a_build_writes_nowhere_but_into_its_own_folders(report: dict[str, Any]) -> None:
    assert {place for place, said in report["wrote"].items() if said == DONE} == set()


def test_a_build_reaches_no_address_of_the_host_or_outside(report: dict[str, Any]) -> None:
    assert DONE not in report["connected"].values()
    assert report["heard"] == []


def test_a_build_reaches_only_the_machines_index_without_a_login(report: dict[str, Any]) -> None:
    assert report["page"].startswith("HTTP/1.1 401"), report["page"]
    for line, answer in report["asked"].items():
        assert not answer.startswith("HTTP/1.1 2"), (line, answer)
        assert "root:" not in answer


def test_a_build_sees_no_credentials(report: dict[str, Any]) -> None:
    assert report["word"] == []
    assert SECRET not in repr(report)


def test_a_source_states_its_requirements_inside_the_same_isolation(
    sandbox: Sandbox, folder: Path, links: Path, index: LocalIndex, harmless: None
) -> None:
    with _listeners() as (port, abstract, heard):
        code = SNOOP.format(places=_places(folder), word=list(SECRET), port=port, abstract=abstract, index=index.root)
        name = make_source(links, "asked", code + IN_THE_RESOLUTION, is_dynamic=True)
        (links / "asked-result").unlink(missing_ok=True)
        assert _value(sandbox.run(version_of(name, name))) == "1.0"
    assert heard == []
    assert contains(folder / "store", SECRET) == []


ACCOMPLICE: Final = """
def attack(folder):
    folder = "/build/{victim}"
    place = folder + "/{victim}-1.0-py3-none-any.whl"
    beside = lambda name: folder + "/" + name
    {deed}
"""
SWAPPED: Final = {
    "a link to the host": ("os.unlink(place); os.symlink('/etc/shadow', place)", "cannot be kept"),
    "a pipe": ("os.unlink(place); os.mkfifo(place)", "no file"),
    "a socket": ("os.unlink(place); s = __import__('socket'); s.socket(s.AF_UNIX).bind(place)", "cannot be kept"),
    "a folder": ("os.unlink(place); os.mkdir(place)", "cannot be kept|no file"),
    "another package": ("os.rename(place, beside('honest-1.0-py3-none-any.whl'))", "something else"),
    "another version": ("os.rename(place, beside('{victim}-2.0-py3-none-any.whl'))", "something else"),
    "another platform": ("os.rename(place, beside('{victim}-1.0-cp27-cp27m-win32.whl'))", "does not fit"),
    "an invalid name": ("os.rename(place, beside('x' * 200))", "something else"),
    "two wheels": ("write_wheel(beside('{victim}-1.0-py2.py3-none-any.whl'), {{}})", "left 2 files"),
    "no wheel": ("os.unlink(place)", "left 0 files"),
    "no archive": ("os.unlink(place); open(place, 'w').write('no archive')", "unpacked"),
    "an empty file": ("open(place, 'w').close()", "unpacked"),
    "another wheel": ("write_wheel(place, {{'honest-1.0.dist-info/METADATA': METADATA}})", "unpacked"),
    "a link instead of its folder": ("os.rename(folder, '/build/aside'); os.symlink('/etc', folder)", "left nothing"),
    "a file instead of its folder": ("os.rename(folder, '/build/aside'); open(folder, 'w').close()", "left nothing"),
}


@pytest.mark.parametrize("what", SWAPPED)
def test_what_a_build_leaves_in_place_of_a_wheel_is_refused(
    what: str, sandbox: Sandbox, links: Path, harmless: None
) -> None:
    deed, said = SWAPPED[what]
    victim = make_source(links, f"victim{list(SWAPPED).index(what)}", "def attack(folder): pass\n")
    attack = ACCOMPLICE.replace("{deed}", deed).format(victim=victim)
    accomplice = make_source(links, f"with-{victim}".replace("-", ""), attack)
    refusal = _refusal(sandbox, victim, requirements=[accomplice])
    assert isinstance(refusal, BuildFailed)
    assert victim in refusal.message
    assert re.search(said, refusal.message), refusal.message


def test_the_error_of_a_failed_build_quotes_its_output(sandbox: Sandbox, links: Path, harmless: None) -> None:
    name = make_source(links, "failing", "def attack(folder): raise RuntimeError('no such compiler')\n")
    refusal = _refusal(sandbox, name)
    assert isinstance(refusal, BuildFailed)
    assert "no such compiler" in refusal.message
    assert name in refusal.message


FORKS: Final = """
def attack(folder):
    while True:
        try:
            os.fork()
        except OSError:
            pass
"""
ENDLESS: Final = "def attack(folder):\n    while True: pass\n"


@pytest.mark.parametrize("code", [FORKS, ENDLESS], ids=["forks", "loops"])
def test_a_build_that_never_ends_is_ended(
    code: str, sandbox: Sandbox, folder: Path, links: Path, harmless: None
) -> None:
    name = make_source(links, "forking" if code is FORKS else "looping", code)
    refusal = _refusal(sandbox, name, policy=_policy(folder, seconds=3))
    assert isinstance(refusal, BuildFailed)
    assert "timeout" in refusal.message


STAYS: Final = """
def attack(folder):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 100)
            os.execv("/bin/sh", ["outlives-the-build", "-c", "while :; do echo x >> /build/stays; done"])
        os._exit(0)
"""


def test_what_a_build_leaves_running_ends_with_its_box(sandbox: Sandbox, links: Path, harmless: None) -> None:
    assert _value(sandbox.run(version_of("stays", make_source(links, "stays", STAYS)))) == "1.0"


FILLS: Final = {
    "its folder": ("fill(folder + '/large')", "disk"),
    "its workplace": ("fill('/work/large')", "No space left|File too large"),
    "a folder without rights": ("hide(folder + '/hidden')", "disk"),
}
FILLING: Final = """
import time

def fill(place, is_named=True):
    with open(place, "wb") as file:
        is_named or os.unlink(place)
        while True:
            file.write(bytes(1 << 20))
            time.sleep(0.002)

def hide(place):
    os.mkdir(place)
    os.chmod(place, 0o300)
    fill(place + "/large")

def attack(folder):
    {deed}
"""


@pytest.mark.parametrize("what", FILLS)
def test_a_build_that_fills_the_disk_is_ended(
    what: str, sandbox: Sandbox, folder: Path, links: Path, harmless: None
) -> None:
    deed, said = FILLS[what]
    name = make_source(links, f"fills{list(FILLS).index(what)}", FILLING.format(deed=deed))
    refusal = _refusal(sandbox, name, policy=_policy(folder, seconds=50, disk="64MiB"))
    assert isinstance(refusal, BuildFailed)
    assert re.search(said, refusal.message), refusal.message
