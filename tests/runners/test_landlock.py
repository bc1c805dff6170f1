"""Landlock in a real kernel, as root and as a user: every attempt fails with the rules and succeeds without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from sandbox.backends.seccomp import compile_profile
from sandbox.backends.seccomp_profiles import Profile, Sockets, load_table
from tests.runners.filters import MACHINE, WITH_THE_FILTER
from tests.runners.isolated_program import USERS, ask, folder_of

FILESYSTEM: Final = """
    execute write_file read_file read_dir remove_dir remove_file make_char make_dir make_reg make_sock make_fifo
    make_block make_sym refer truncate ioctl_dev
""".strip()

# An unrestricted process of the same user, with a port, an abstract socket, and a signal to die by.
NEIGHBOUR: Final = """
def neighbour():
    reading, tell = os.pipe()
    hold, release = os.pipe()
    process = os.fork()
    if process:
        os.close(tell), os.close(hold)
        port, name = json.loads(os.read(reading, 1000))
        return process, port, name
    os.close(reading), os.close(release)
    tcp, local = socket.socket(), socket.socket(socket.AF_UNIX)
    tcp.bind(("127.0.0.1", 0))
    local.bind("")
    tcp.listen(5), local.listen(5)
    os.write(tell, json.dumps([tcp.getsockname()[1], local.getsockname()[1:].decode()]).encode())
    os.read(hold, 1)
    os._exit(0)

process, port, name = neighbour()
"""

PLACES: Final = """
system = [(path, landlock.READ_EXECUTE) for path in ("/usr", "/lib", "/lib64", "/bin") if os.path.exists(path)]
work, outside = given["work"], given["outside"]

def connect(family, address):
    with socket.socket(family) as client:
        client.connect(address)

def bind():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))

def write(path, text="x"):
    with open(path, "w") as file:
        file.write(text)

def read(path):
    with open(path) as file:
        return file.read()

"""

WALL: Final = """
if given["walls"]:
    capabilities.forbid_new_privileges()
    report = landlock.restrict(
        [*system, (work, landlock.READ_WRITE), ("/dev/null", landlock.READ_WRITE)], network=given.get("network", False)
    )
"""


@pytest.fixture(params=USERS, ids=lambda user: f"user-{user}")
def user(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def folders(user: int) -> Iterator[dict[str, str]]:
    """Make the folder to work in, and a neighbour that must stay out of reach; both belong to the user."""
    with folder_of(user) as work, folder_of(user) as outside:
        yield {"work": str(work), "outside": str(outside)}


TARGETS: Final = """
write(outside + "/secret"), write(outside + "/doomed"), write(work + "/own")
os.mkdir(outside + "/empty")
shutil.copy("/bin/true", work + "/program"), os.chmod(work + "/program", 0o755)
"""

ATTEMPTS: Final = """
answer({
    "read a file": error_of(lambda: read(outside + "/secret")),
    "read a file of the system": error_of(lambda: read("/etc/passwd")),
    "read about another process": error_of(lambda: read("/proc/%d/status" % process)),
    "list a folder": error_of(lambda: os.listdir(outside)),
    "write to a file": error_of(lambda: write(outside + "/secret")),
    "make a file": error_of(lambda: write(outside + "/new")),
    "make a folder": error_of(lambda: os.mkdir(outside + "/folder")),
    "make a link": error_of(lambda: os.symlink("a", outside + "/link")),
    "make a fifo": error_of(lambda: os.mkfifo(outside + "/fifo")),
    "shorten a file": error_of(lambda: os.truncate(outside + "/secret", 0)),
    "remove a file": error_of(lambda: os.unlink(outside + "/doomed")),
    "remove a folder": error_of(lambda: os.rmdir(outside + "/empty")),
    "make a device": error_of(lambda: os.mknod(work + "/device", 0o20600, 0)),
    "execute what it wrote": error_of(lambda: subprocess.run([work + "/program"], check=True)),
    "connect to a port": error_of(lambda: connect(socket.AF_INET, ("127.0.0.1", port))),
    "serve a port": error_of(bind),
    "connect to an abstract socket": error_of(lambda: connect(socket.AF_UNIX, "\\0" + name)),
    "signal a process": error_of(lambda: os.kill(process, 0)),
})
"""

BY_SCOPE: Final = {"connect to an abstract socket", "signal a process"}


def test_paths_outside_of_the_rules_are_out_of_reach(user: int, folders: dict[str, str]) -> None:
    outcomes = ask(NEIGHBOUR + PLACES + TARGETS + WALL + ATTEMPTS, user=user, walls=True, **folders)
    assert outcomes == {attempt: "EPERM" if attempt in BY_SCOPE else "EACCES" for attempt in outcomes}


def test_without_the_rules_every_path_is_in_reach(user: int, folders: dict[str, str]) -> None:
    """The rules alone stopped each attempt."""
    outcomes = ask(NEIGHBOUR + PLACES + TARGETS + WALL + ATTEMPTS, user=user, walls=False, **folders)
    assert set(outcomes.values()) == {"done"}


def test_paths_inside_of_the_rules_work(user: int, folders: dict[str, str]) -> None:
    program = """
os.chdir(work)
write("a", "hello")
assert read("a") == "hello"
os.mkdir("one"), os.mkdir("two"), os.rename("a", "one/a"), os.link("one/a", "two/b"), os.rename("one/a", "two/c")
os.symlink("two/b", "link"), os.mkfifo("fifo"), os.truncate("two/b", 2)
assert read("link") == "he"
local = socket.socket(socket.AF_UNIX)
local.bind("socket"), local.listen(1), connect(socket.AF_UNIX, "socket"), local.close()
for name in ("two/b", "two/c", "link", "fifo", "socket"):
    os.unlink(name)
os.rmdir("one"), os.rmdir("two")
assert os.listdir(".") == []
write("/dev/null")
text = subprocess.run(["/bin/echo", "hi"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True).stdout.decode()
child = subprocess.Popen(["/bin/sleep", "60"])
child.kill()
threads = [threading.Thread(target=os.listdir, args=("/usr",)) for _ in range(4)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
answer([text, child.wait()])
"""
    assert ask(PLACES + WALL + program, user=user, walls=True, **folders) == ["hi\n", -9]


def test_tcp_is_left_alone_where_the_network_is_allowed(user: int, folders: dict[str, str]) -> None:
    program = """
answer([error_of(lambda: connect(socket.AF_INET, ("127.0.0.1", port))), error_of(bind), report["network"]])
"""
    assert ask(NEIGHBOUR + PLACES + WALL + program, user=user, walls=True, network=True, **folders) == [
        "done",
        "done",
        [],
    ]


def test_children_and_executed_programs_stay_restricted(user: int, folders: dict[str, str]) -> None:
    program = """
ended = subprocess.run(["/bin/cat", "/etc/passwd"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
answer([ended.returncode, ended.stdout.decode()])
"""
    assert ask(PLACES + WALL + program, user=user, walls=True, **folders) == [1, ""]
    code, text = ask(PLACES + WALL + program, user=user, walls=False, **folders)
    assert (code, "root:" in text) == (0, True)


@pytest.mark.parametrize("walls", [True, False])
def test_mounts_cannot_be_changed_behind_the_wall(user: int, folders: dict[str, str], walls: bool) -> None:
    program = """
answer(error_of(lambda: calls.check(calls.libc.mount(b"tmpfs", work.encode(), b"tmpfs", 0, None), "mount")))
"""
    in_its_own_namespace = "calls.syscall('unshare', 0x10020000)\n"
    expected = "EPERM" if walls else "done"
    assert ask(in_its_own_namespace + PLACES + WALL + program, user=user, walls=walls, **folders) == expected


def test_open_descriptors_stay_usable(user: int, folders: dict[str, str]) -> None:
    early = "opened = open('/etc/passwd')\n"
    assert ask(early + PLACES + WALL + "answer(len(opened.read()) > 0)", user=user, walls=True, **folders) is True


KEPT_IN: Final = """
def try_both():
    landlock.keep_signals_in()
    started = subprocess.Popen(["/bin/sleep", "60"])
    started.kill()
    return [error_of(lambda: os.kill(first, 0)), started.wait()]

first = os.getpid()
reading, writing = os.pipe()
second = os.fork()
if not second:
    os.write(writing, json.dumps(try_both()).encode())
    signal.pause()
found = json.loads(os.read(reading, 1000))
os.kill(second, signal.SIGKILL)
answer([*found, os.waitpid(second, 0)[1]])
"""


def test_a_scoped_process_signals_its_children_but_not_its_parent(user: int, folders: dict[str, str]) -> None:
    """Both are in the same domain, and the parent can signal the child."""
    assert ask(PLACES + WALL + KEPT_IN, user=user, walls=True, **folders) == ["EPERM", -9, 9]


def test_the_report_lists_the_restrictions_in_force(user: int, folders: dict[str, str]) -> None:
    abi, report = ask(PLACES + WALL + "answer([landlock.abi(), report])", user=user, walls=True, **folders)
    assert abi >= 6, "this kernel's Landlock is too old for the tests: a Linux of at least 6.12 is needed"
    assert report == {
        "abi": abi,
        "filesystem": FILESYSTEM.split(),
        "network": ["bind_tcp", "connect_tcp"],
        "scoped": ["abstract_unix_socket", "signal"],
        "missing": [],
    }


def test_a_path_that_is_not_there_puts_nothing_in_force(user: int, folders: dict[str, str]) -> None:
    program = """
capabilities.forbid_new_privileges()
missing = error_of(lambda: landlock.restrict([("/usr", landlock.READ), ("/nothing", landlock.READ)], network=False))
answer([missing, error_of(lambda: open("/etc/passwd").close()), os.listdir("/proc/self/fd")])
"""
    missing, reading, descriptors = ask(program, user=user)
    assert (missing, reading) == ("ENOENT", "done")
    assert len(descriptors) == 4  # three, and that of the listing


def test_a_wall_needs_new_privileges_forbidden() -> None:
    """Root's power would do as well."""
    program = "answer(error_of(lambda: landlock.restrict([('/usr', landlock.READ)], network=False)))"
    assert ask(program, user=USERS[-1]) == ("EPERM" if USERS[-1] else "done")


@pytest.mark.parametrize("version", range(1, 7))
def test_an_older_kernel_gets_only_accesses_it_knows(version: int) -> None:
    """A ruleset for that kernel has no newer access, and restricts files in any case."""
    program = """
capabilities.forbid_new_privileges()
with landlock.Ruleset(version=given["version"], network=False) as ruleset:
    ruleset.allow("/usr", landlock.READ_EXECUTE)
    ruleset.enforce()
served = socket.socket()
answer([
    error_of(lambda: open("/etc/passwd").close()),
    error_of(lambda: open("/usr/bin/env").close()),
    error_of(lambda: os.truncate(given["file"], 0)),
    error_of(lambda: served.bind(("127.0.0.1", 0))),
    error_of(lambda: os.kill(os.getppid(), 0)),
])
"""
    with folder_of(USERS[0]) as folder:
        file = folder / "file"
        file.touch()
        outcome = ask(program, version=version, file=str(file))
    assert outcome == [
        "EACCES",
        "done",
        "EACCES" if version >= 3 else "done",
        "EACCES" if version >= 4 else "done",
        "EPERM" if version >= 6 else "done",
    ]


def test_without_landlock_nothing_is_in_force_and_the_report_says_so() -> None:
    """A filter hides the calls, as on a kernel that was built without them."""
    landlock = tuple(name for name in load_table()[MACHINE] if name.startswith("landlock"))
    others = tuple(name for name in load_table()[MACHINE] if name not in landlock)
    profile = Profile(description="a kernel without Landlock", allow=others, absent=landlock)
    hidden = compile_profile(profile, machine=MACHINE, sockets=Sockets.INTERNET).hex()
    program = (
        WITH_THE_FILTER
        + """
report = landlock.restrict([("/usr", landlock.READ)], network=False)
answer([landlock.abi(), error_of(lambda: open("/etc/passwd").close()), report])
"""
    )
    assert ask(program, filters=[hidden]) == [
        0,
        "done",
        {
            "abi": 0,
            "filesystem": [],
            "network": [],
            "scoped": [],
            "missing": [*FILESYSTEM.split(), "bind_tcp", "connect_tcp", "abstract_unix_socket", "signal"],
        },
    ]
