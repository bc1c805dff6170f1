"""A tool that leaves marks of every kind it can think of, and a look for them.

The same source plants and looks, so that a look that finds nothing is known to find what is there.
"""

from __future__ import annotations

from typing import Final

KEPT_KINDS: Final = {
    *("file in the workplace", "file in /tmp", "file in /dev/shm", "open file", "process", "variable"),
    *("abstract socket", "path socket", "TCP port", "UDP port", "shared memory", "semaphore", "message queue"),
}
"""What a call can plant and another process of the same call can see."""
REFUSED_KINDS: Final = {"shared memory", "semaphore", "message queue"}
"""Those of them that a call without a control group is refused."""

MARKS: Final = """
import ctypes, errno, json, os, socket, time

libc = ctypes.CDLL(None, use_errno=True)
NAME, KEY, PORT, CREATE = "planted-mark", 0x5AFE, 40123, 0o1600
PLACES = {"file in the workplace": "/work/", "file in /tmp": "/tmp/", "file in /dev/shm": "/dev/shm/"}
FILES = {kind: place + NAME for kind, place in PLACES.items()}
held, refused = [], []

def listen(family: int, kind: int, address: object) -> None:
    held.append(socket.socket(family, kind))
    held[-1].bind(address)
    if kind == socket.SOCK_STREAM:
        held[-1].listen()

def reaches(family: int, address: object) -> bool:
    with socket.socket(family) as near:
        return near.connect_ex(address) == 0

def udp_is_taken() -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as near:
        near.connect(("127.0.0.1", PORT))
        near.settimeout(0.05)
        try:
            near.send(b"x")
            near.recv(1)
        except ConnectionRefusedError:
            return False
        except TimeoutError:
            return True
    return True

def texts_of_processes(file: str) -> list:
    found = []
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                with open("/proc/" + pid + "/" + file, "rb") as text:
                    found.append(text.read().decode(errors="replace"))
            except OSError:
                continue
    return found

def links() -> list:
    found = []
    for pid in os.listdir("/proc"):
        folder = "/proc/" + pid + "/fd"
        try:
            found += [os.readlink(folder + "/" + number) for number in os.listdir(folder)] if pid.isdigit() else []
        except OSError:
            continue
    return found

def plant() -> None:
    for path in FILES.values():
        with open(path, "w") as file:
            file.write(NAME)
    held.append(open("/work/opened-" + NAME, "w"))
    listen(socket.AF_UNIX, socket.SOCK_STREAM, "\\0" + NAME)
    listen(socket.AF_UNIX, socket.SOCK_STREAM, "/tmp/socket-" + NAME)
    listen(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", PORT))
    listen(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", PORT))
    for number in (libc.shmget(KEY, 4096, CREATE), libc.semget(KEY, 1, CREATE), libc.msgget(KEY, CREATE)):
        if number < 0:
            assert ctypes.get_errno() == errno.ENOSYS, "no System V object can be made"
            refused.append(number)
    os.environ[NAME] = "set"
    child = os.fork()
    if child == 0:
        libc.prctl(15, b"marked-process", 0, 0, 0)
        os.execve("/bin/sleep", ["sleep", "20"], {"VARIABLE": NAME}) if os.fork() else time.sleep(20)

def seen() -> list:
    found = {kind: os.path.exists(path) for kind, path in FILES.items()}
    found["open file"] = any("opened-" in link for link in links())
    found["abstract socket"] = reaches(socket.AF_UNIX, "\\0" + NAME)
    found["path socket"] = reaches(socket.AF_UNIX, "/tmp/socket-" + NAME)
    found["TCP port"] = reaches(socket.AF_INET, ("127.0.0.1", PORT))
    found["UDP port"] = udp_is_taken()
    found["shared memory"] = libc.shmget(KEY, 0, 0) >= 0
    found["semaphore"] = libc.semget(KEY, 0, 0) >= 0
    found["message queue"] = libc.msgget(KEY, 0) >= 0
    found["process"] = any("marked-process" in text for text in texts_of_processes("comm"))
    found["variable"] = any(NAME in text for text in texts_of_processes("environ"))
    return sorted(kind for kind, is_seen in found.items() if is_seen)

def all_is_there() -> list:
    # the child needs a moment
    deadline = time.monotonic() + 5
    while len(seen()) < %d - len(refused) and time.monotonic() < deadline:
        time.sleep(0.005)
    return seen()

def leave() -> list:
    plant()
    return all_is_there()

def stay() -> None:
    plant()
    print(json.dumps(all_is_there()), flush=True)
    time.sleep(20)

def look() -> list:
    return seen()
""" % len(KEPT_KINDS)  # noqa: UP031 - the source is full of braces
