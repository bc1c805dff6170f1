"""The shipped attacks, and those that only containers are worth: kept ones, single-use ones, and gVisor's.

The shipped ones are tried on containers that are kept from the command line, in `end_to_end/test_cli_containers.py`.
That the attacks would notice a hole is shown on a container with all walls taken down.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from sandbox import Status
from sandbox.doctor.attacks import ATTACKS, PROGRAMS, Attack
from sandbox.doctor.attacks.stage import Stage
from sandbox.images import BaseImage
from sandbox.outcome import EnforcedBy, MeasuredBy
from tests.escape.attempts import ATTEMPT
from tests.escape.container_engines import IN_GVISOR, KEPT, SERVE, SINGLE_USE, Besieged, box, opened, variants

if TYPE_CHECKING:
    from docker import DockerClient

__all__ = ["box", "opened"]

pytestmark = [pytest.mark.slow, pytest.mark.root]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
@variants(SINGLE_USE, IN_GVISOR)
def test_the_shipped_attacks_are_held(box: Besieged, attack: Attack) -> None:
    finding = box.attack(attack)
    assert finding.held, finding.how


RUNTIME: Final = f"""{ATTEMPT}
def write(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY))

def tool() -> list:
    # what a container engine puts into a container, or starts it with: who changes that runs on the host
    places = ["/proc/1/exe", "/proc/1/root/x", "/sbin/docker-init", "/usr/sbin/docker-init", "/etc/hosts",
              "/etc/resolv.conf", "/etc/hostname", "/.dockerenv", "/proc/self/exe", "/usr/bin/python3"]
    places += ["/proc/self/fd/" + number for number in os.listdir("/proc/self/fd") if int(number) > 2]
    return [place for place in places if attempt(write, place) == "done"]
"""


@variants()
def test_what_the_container_engine_put_there_cannot_be_changed(box: Besieged) -> None:
    assert [place for place in box.value(RUNTIME) if not place.startswith("/proc/self/fd/")] == []


DESCRIPTORS: Final = """
import os, stat

def tool() -> list:
    found = []
    for number in range(1024):
        try:
            kind = stat.S_IFMT(os.fstat(number).st_mode)
        except OSError:
            continue
        if kind not in (stat.S_IFIFO, stat.S_IFCHR):
            found.append([number, kind])
    return found
"""


@variants()
def test_no_folder_or_socket_of_the_runtime_is_left_open(box: Besieged) -> None:
    """Through a folder that a runtime forgot to close, a container once had the host's files."""
    assert box.value(DESCRIPTORS) == []


MOUNTED: Final = """
def tool() -> list:
    with open("/proc/self/mounts") as mounts:
        return [line.split()[:4] for line in mounts]
"""
_VIRTUAL: Final = {"tmpfs", "proc", "sysfs", "devpts", "mqueue", "cgroup", "cgroup2", "devtmpfs", "overlay"}
_OF_THE_ENGINE: Final = {
    "/etc/hosts",
    "/etc/hostname",
    "/etc/resolv.conf",
    "/sbin/docker-init",
    "/usr/sbin/docker-init",
}


@variants()
def test_nothing_of_the_host_is_mounted_but_what_cannot_be_written_to(box: Besieged) -> None:
    mounts = box.value(MOUNTED)
    real = [place for _, place, kind, _ in mounts if kind not in _VIRTUAL]
    assert {*real} <= {"/", *_OF_THE_ENGINE}
    writable = {place for _, place, kind, options in mounts if "rw" in options.split(",") and kind != "proc"}
    small = {"/dev", "/dev/pts", "/dev/shm", "/dev/mqueue", "/proc/keys", "/proc/timer_list", "/sys/fs/cgroup"}
    assert writable <= {"/work", "/tmp", "/work/.tmp", *small}


WATCHED: Final = f"""{ATTEMPT}
def open_theirs(pid: str, number: int) -> None:
    os.close(os.open("/proc/" + pid + "/fd/" + str(number), os.O_WRONLY | os.O_NONBLOCK))

def tool() -> list:
    own = os.readlink("/proc/self")
    pids = [name for name in os.listdir("/proc") if name.isdigit() and name != own]
    assert len(pids) > 1
    return [pid + " " + str(number) for pid in pids for number in range(64)
            if attempt(open_theirs, pid, number) == "done"]
"""


@variants(KEPT, SINGLE_USE)
def test_the_stream_to_the_engine_cannot_be_opened(box: Besieged) -> None:
    """The container's init holds it, whose user is the tool's. gVisor has nothing that forbids it; there the shipped
    attack on descriptors writes to it, and is not believed."""
    assert box.value(WATCHED) == []


STOP_THE_OTHERS: Final = f"""{ATTEMPT}
def tool() -> list:
    own = os.readlink("/proc/self")
    pids = [name for name in os.listdir("/proc") if name.isdigit() and name != own]
    assert len(pids) > 1
    return [pid for pid in pids if attempt(os.kill, int(pid), signal.SIGSTOP) == "done"]
"""


@variants(SINGLE_USE)
def test_who_ends_a_call_and_who_measures_it_cannot_be_stopped(box: Besieged) -> None:
    """The guard has the tool's user and isolation, without a pid namespace between them."""
    assert box.value(STOP_THE_OTHERS) == []


GREEDY: Final = """
import os

def tool() -> None:
    # holds next to nothing itself: whoever has most is the runner
    script = "for number in 1 2 3 4 5 6 7 8; do head -c 30000000 /dev/zero > /work/full-$number; done; sleep 5"
    os.execv("/bin/sh", ["sh", "-c", script])
"""


@variants()
def test_a_call_that_gets_its_runner_killed_ends_out_of_memory(box: Besieged) -> None:
    outcome = box.run(GREEDY, limits={"memory": 96 << 20})
    assert (outcome.status, outcome.limit_name) == (Status.MEMORY, "memory"), outcome.error
    box.serves()


FILL: Final = """
def tool(place: str) -> None:
    with open(place + "/full", "wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))
"""
FILL_ALL: Final = """
def tool() -> int:
    written = 0
    for place in ("/work", "/tmp", "/dev/shm"):
        with open(place + "/full", "wb", buffering=0) as file:
            try:
                while True:
                    written += file.write(bytes(1 << 16))
            except OSError:
                pass
    return written
"""


@pytest.mark.parametrize("place", ["/work", "/tmp", "/dev/shm"])
@variants()
def test_a_call_that_fills_any_place_ends_at_its_disk_limit(place: str, box: Besieged) -> None:
    outcome = box.run(FILL, {"place": place}, limits={"disk": 8 << 20})
    assert (outcome.status, outcome.limit_name) == (Status.LIMIT, "disk"), outcome.error


@variants()
def test_all_of_its_places_together_hold_no_more_than_its_disk(box: Besieged) -> None:
    outcome = box.run(FILL_ALL, limits={"disk": 8 << 20})
    assert outcome.status is Status.OK, outcome.error
    assert 0 < int(str(outcome.value)) <= 8 << 20
    assert outcome.receipt is not None
    assert outcome.receipt.limits["disk"].value == 8 << 20


SCATTER: Final = """
import errno, os

def tool() -> int:
    made = 0
    for place in ("/work", "/tmp", "/dev/shm"):
        for number in range(100_000):
            try:
                os.mkdir(f"{place}/{number}")
            except OSError as error:
                assert error.errno == errno.ENOSPC
                break
            made += 1
    return made
"""


@variants(KEPT, SINGLE_USE)
@pytest.mark.parametrize("inodes", [16, 200])
def test_all_places_together_hold_at_most_the_inodes_of_a_call(box: Besieged, inodes: int) -> None:
    outcome = box.run(SCATTER, limits={"inodes": inodes})
    assert outcome.status is Status.OK, outcome.error
    assert 0 < int(str(outcome.value)) <= inodes
    assert outcome.receipt is not None
    assert outcome.receipt.limits["inodes"].value == inodes


SHARED: Final = """
from multiprocessing import Lock
from multiprocessing.shared_memory import SharedMemory

def tool() -> list:
    lock, memory = Lock(), SharedMemory(create=True, size=1 << 20)
    memory.buf[:6] = b"shared"
    again = SharedMemory(memory.name)
    found = bytes(again.buf[:6]).decode()
    memory.unlink()
    return [int(lock.acquire(timeout=1)), found]
"""


@variants()
def test_shared_memory_serves_what_python_needs_it_for(box: Besieged) -> None:
    assert box.value(SHARED) == [1, "shared"]


CROWD: Final = """
import os, time

def tool() -> None:
    # all but the first go on when there is no room for more
    first, end = os.getpid(), time.monotonic() + 60
    while time.monotonic() < end:
        try:
            if os.fork() == 0:
                os.setsid()
        except OSError:
            if os.getpid() == first:
                raise
            time.sleep(0.001)
"""


@variants(KEPT, SINGLE_USE)
def test_a_container_that_was_full_of_processes_serves_the_next_call(box: Besieged) -> None:
    outcome = box.run(CROWD)
    assert (outcome.status, outcome.limit_name) == (Status.LIMIT, "processes"), outcome.error
    assert bool(outcome.evidence.get("refused_forks")) == (box.variant is SINGLE_USE)  # elsewhere it is not counted
    box.serves()


FORKS: Final = """
import os, time

def tool(count: int) -> int:
    pids = []
    for _ in range(count):
        pid = os.fork()
        if pid == 0:
            time.sleep(0.5)
            os._exit(0)
        pids.append(pid)
    return sum(os.waitpid(pid, 0)[1] == 0 for pid in pids)
"""


START: Final = """
import threading

def tool(count: int) -> int:
    end = threading.Event()
    threads = [threading.Thread(target=end.wait) for _ in range(count)]
    try:
        for thread in threads:
            thread.start()
        return sum(thread.is_alive() for thread in threads)
    finally:
        end.set()
"""


@variants(KEPT, SINGLE_USE)
@pytest.mark.parametrize("source", [FORKS, START], ids=["processes", "threads"])
def test_a_call_has_exactly_its_processes(source: str, box: Besieged) -> None:
    for _ in range(3):  # in the same container, where it is kept
        outcome = box.run(source, {"count": 19}, limits={"processes": 20})
        assert (outcome.status, outcome.value) == (Status.OK, 19), outcome.error
        assert outcome.receipt is not None
        assert outcome.receipt.limits["processes"].value == 20
        outcome = box.run(source, {"count": 20}, limits={"processes": 20})
        assert (outcome.status, outcome.limit_name) == (Status.LIMIT, "processes"), outcome.error
        assert outcome.usage.processes_peak in (None, 20)


NOT_READY: Final = """
import os

def tool() -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.read(read, 1)
"""


@variants(KEPT, SINGLE_USE)
def test_what_is_only_not_ready_is_not_taken_for_a_lack_of_processes(box: Besieged) -> None:
    outcome = box.run(NOT_READY, limits={"processes": 21})
    assert outcome.status is Status.EXCEPTION
    assert outcome.error is not None
    assert outcome.error.type == "BlockingIOError"


@variants(IN_GVISOR)
def test_gvisor_gives_a_call_all_of_its_processes_and_no_more(box: Besieged) -> None:
    """Each is several to the host; were the host to refuse it one of those, it would end."""
    granted = box.variant.policy.limits.processes
    outcome = box.run(FORKS, {"count": granted - 1})
    assert (outcome.status, outcome.value) == (Status.OK, granted - 1), outcome.error
    assert outcome.receipt is not None
    state = outcome.receipt.limits["processes"]
    assert (state.value, state.enforced_by) == (granted, EnforcedBy.RUNTIME)
    outcome = box.run(FORKS, {"count": granted + 8})
    assert (outcome.status, outcome.limit_name) == (Status.LIMIT, "processes"), outcome.error


READ_OUTSIDE: Final = ("seccomp", "no_new_privs", "capabilities", "rlimits")


@variants()
def test_a_receipt_of_a_container_says_who_vouches_for_what(box: Besieged) -> None:
    receipt = box.run(SERVE).receipt
    assert receipt is not None
    layers = {name: state.measured_by for name, state in receipt.layers.items()}
    assert {layers[name] for name in READ_OUTSIDE} == {MeasuredBy.READ_OUTSIDE}
    assert {layers["cgroup"], layers["own_uid"]} == {MeasuredBy.DAEMON_CONFIG}
    own = MeasuredBy.READ_OUTSIDE if box.variant is KEPT else MeasuredBy.DAEMON_CONFIG
    assert {layers["mount_namespace"], layers["pid_namespace"], layers["network_namespace"]} == {own}
    is_tried = receipt.layers["landlock"].in_force
    assert layers["landlock"] is (MeasuredBy.SET_BY_ENGINE if is_tried else MeasuredBy.NONE)
    keepers = {name: state.enforced_by for name, state in receipt.limits.items()}
    is_machine = box.variant is IN_GVISOR
    assert keepers["memory"] is EnforcedBy.CGROUP
    counts_processes = {KEPT: EnforcedBy.RLIMIT, IN_GVISOR: EnforcedBy.RUNTIME}
    assert keepers["processes"] is counts_processes.get(box.variant, EnforcedBy.CGROUP)
    assert keepers["disk"] is EnforcedBy.FILESYSTEM
    assert keepers["inodes"] is (EnforcedBy.NONE if is_machine else EnforcedBy.FILESYSTEM)


NAME_SERVERS: Final = """
def tool() -> list:
    with open("/etc/resolv.conf") as file:
        return [line.split() for line in file if line.strip() and not line.startswith("#")]
"""


@variants()
def test_the_name_servers_of_the_host_are_hidden(box: Besieged) -> None:
    assert [words for words in box.value(NAME_SERVERS) if words[0] != "options"] == [["nameserver", "127.0.0.1"]]


_NOTICED: Final = {
    *("settings of the kernel", "files of the kernel", "devices", "writing elsewhere", "programs of its own"),
    *("rights", "namespaces", "mounts", "memory of others", "code in the kernel", "keys"),
    *("doors past the filter", "clock and name", "its own limits", "other sockets", "other processes' secrets"),
}
_WITHOUT_WALLS: Final[dict[str, Any]] = {
    "CapAdd": ["SYS_ADMIN", "SYS_PTRACE", "SYS_TIME", "SYS_NICE", "NET_RAW"],
    "SecurityOpt": ["seccomp=unconfined"],
    "MaskedPaths": [],
    "ReadonlyPaths": [],
    "NetworkMode": "none",
    "Tmpfs": {"/work": "exec", "/work/.tmp": "exec"},  # /tmp leads there
    "PidsLimit": 100,
    "Memory": 256 << 20,
}
_ALONE: Final = "\nimport json\nprint(json.dumps(attack(**json.loads(sys.argv[1]))))\n"


@pytest.mark.parametrize("name", sorted(_NOTICED))
def test_the_attacks_notice_a_container_without_walls(name: str, open_container: Any) -> None:
    """With root's privileges, and none of what we add: the same program gets through, and says so."""
    program = next(program for program in PROGRAMS if program.name == name)
    with Stage() as stage:
        facts = {fact: stage.facts[fact] for fact in program.facts}
        said = open_container(program.source, facts)
    assert said["gained"], said


@pytest.fixture(scope="module")
def open_container(docker_client: DockerClient, base_image: BaseImage) -> Iterator[Any]:
    """Run a program in a container that nothing walls."""
    with _container(docker_client, base_image) as container:

        def run(source: str, facts: dict[str, Any]) -> Any:
            program = f"__file__ = '/usr/bin/env'\n{source}{_ALONE}"
            answer = container.exec_run(["python3", "-I", "-c", program, json.dumps(facts)], workdir="/work")
            assert answer.exit_code == 0, answer.output.decode()
            return json.loads(answer.output)

        yield run


@contextmanager
def _container(client: DockerClient, image: BaseImage) -> Iterator[Any]:
    wanted = {
        "Image": image.tag,
        "Entrypoint": [],
        "Cmd": ["sleep", "600"],
        "User": "0:0",
        "HostConfig": _WITHOUT_WALLS,
    }
    api: Any = client.api
    made = client.containers.get(api.create_container_from_config(wanted)["Id"])
    try:
        made.start()
        yield made
    finally:
        made.remove(force=True)
