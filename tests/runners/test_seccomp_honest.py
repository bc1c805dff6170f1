"""Honest programs live well under the strictest filters: what Python, its libraries, shells and git do every day.

A filter that is too tight is the commonest complaint about sandboxes. Whatever turns out to have been forgotten gets a
program here.
"""

from __future__ import annotations

import sys
from typing import Final

import pytest

from tests.runners.filters import WITH_THE_FILTER, filter_of
from tests.runners.isolated_program import python, start


def honest(program: str) -> str:
    """Run a program with the whole of its standard library under the strictest pair of filters."""
    execute = WITH_THE_FILTER + "os.execv(given['python'], [given['python'], '-I', '-c', given['program']])"
    ended = start(execute, filters=[filter_of("runner"), filter_of("tool")], python=python(), program=program)
    assert ended.returncode == 0, f"{ended.returncode}: {ended.stderr[-3000:]}"
    return ended.stdout


HONEST: Final = {
    "threads": """
import threading
seen = []
threads = [threading.Thread(target=seen.append, args=(n,)) for n in range(20)]
[t.start() for t in threads], [t.join() for t in threads]
assert sorted(seen) == list(range(20))
""",
    "thread pool and locks": """
from concurrent.futures import ThreadPoolExecutor
import queue, threading
with ThreadPoolExecutor(4) as pool:
    assert list(pool.map(abs, range(-50, 0))) == list(range(50, 0, -1))
assert threading.Semaphore(1).acquire(timeout=1) and not threading.Event().wait(0.01)
""",
    "subprocess": """
import subprocess, sys
assert subprocess.run([sys.executable, "-I", "-S", "-c", "print(6*7)"], stdout=-1, check=True).stdout == b"42\\n"
assert subprocess.run("echo hello | tr a-z A-Z", shell=True, stdout=-1, check=True).stdout == b"HELLO\\n"
child = subprocess.Popen(["sleep", "60"], start_new_session=True)
child.terminate()
assert child.wait() == -15
""",
    "fork, wait, exec and pipes": """
import os
r, w = os.pipe()
pid = os.fork()
if not pid:
    os.dup2(w, 1)
    os.execvp("echo", ["echo", "hi"])
assert os.waitpid(pid, 0)[1] == 0 and os.read(r, 10) == b"hi\\n"
assert os.posix_spawn("/bin/true", ["true"], {}) and os.wait()[1] == 0
""",
    "asyncio": """
import asyncio
async def main():
    async def echo(reader, writer):
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"hello\\n")
    assert await reader.readline() == b"hello\\n"
    writer.close()
    server.close()
    child = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    assert (await child.communicate(b"through a pipe"))[0] == b"through a pipe"
    assert await asyncio.get_running_loop().run_in_executor(None, sum, [1, 2]) == 3
asyncio.run(main())
""",
    "sqlite": """
import sqlite3, tempfile, os
with tempfile.TemporaryDirectory() as folder:
    base = sqlite3.connect(os.path.join(folder, "base"))
    assert base.execute("pragma journal_mode=wal").fetchone() == ("wal",)
    base.execute("create table t (n)")
    base.executemany("insert into t values (?)", [(n,) for n in range(100)])
    base.commit()
    assert base.execute("select sum(n) from t").fetchone() == (4950,)
    base.close()
""",
    "mmap and shared memory": """
import mmap, os, tempfile
with tempfile.TemporaryFile() as file:
    file.truncate(1 << 16)
    view = mmap.mmap(file.fileno(), 0)
    view[:5] = b"hello"
    view.flush()
    view.resize(1 << 17)
    assert os.pread(file.fileno(), 5, 0) == b"hello"
anonymous = mmap.mmap(-1, 1 << 20)
anonymous.madvise(mmap.MADV_DONTNEED)
from multiprocessing import shared_memory
block = shared_memory.SharedMemory(create=True, size=100)
block.buf[0] = 7
block.close(), block.unlink()
if hasattr(os, "memfd_create"):
    os.close(os.memfd_create("x"))
""",
    "multiprocessing": """
import multiprocessing
def square(n):
    return n * n
fork = multiprocessing.get_context("fork")
with fork.Pool(2) as pool:
    assert pool.map(square, range(10)) == [n * n for n in range(10)]
lock, queue, value = fork.Lock(), fork.Queue(), fork.Value("i", 0)
def work():
    with lock:
        value.value += 1
    queue.put("done")
children = [fork.Process(target=work) for _ in range(3)]
[c.start() for c in children]
assert [queue.get(timeout=30) for _ in children] == ["done"] * 3
[c.join() for c in children]
assert value.value == 3 and {c.exitcode for c in children} == {0}
""",
    "sockets on localhost": """
import socket, threading
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname(), timeout=10)
peer, _ = server.accept()
client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
client.sendall(b"x" * 1000)
assert peer.recv(1000, socket.MSG_WAITALL) == b"x" * 1000
datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagram.bind(("127.0.0.1", 0))
datagram.sendto(b"hi", datagram.getsockname())
assert datagram.recvfrom(10)[0] == b"hi"
left, right = socket.socketpair()
left.sendmsg([b"a", b"b"])
assert right.recvmsg(10)[0] == b"ab"
""",
    "looking up names": """
import socket
assert ("127.0.0.1", 80) in {found[4] for found in socket.getaddrinfo("localhost", 80, socket.AF_INET)}
assert socket.getaddrinfo("127.0.0.1", 80, type=socket.SOCK_STREAM)
assert socket.gethostname()
for missing in (lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW), lambda: socket.if_nameindex()):
    try:
        missing()
    except OSError as error:
        assert error.errno == 97
""",
    "servers and clients over http": """
import http.server, threading, urllib.request
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = "http://127.0.0.1:%d/" % server.server_port
assert urllib.request.build_opener(urllib.request.ProxyHandler({})).open(address, timeout=10).read() == b"hello"
server.shutdown()
server.server_close()
""",
    "temporary files": """
import os, tempfile
with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile(dir=folder) as file:
    file.write(b"x")
    assert os.listdir(folder) == [os.path.basename(file.name)]
""",
    "imports of native modules": """
import ssl, hashlib, ctypes, decimal, zlib, bz2, lzma, curses, readline, _posixshmem, uuid, secrets, platform, locale
ssl.create_default_context()
assert hashlib.sha256(b"").hexdigest().startswith("e3b0") and hashlib.scrypt(b"a", salt=b"b", n=2, r=1, p=1)
assert ctypes.CDLL(None).getpid() > 0 and uuid.uuid1() and secrets.token_bytes(8) and platform.platform()
""",
    "select, poll and epoll": """
import os, select, selectors
r, w = os.pipe()
os.write(w, b"x")
assert select.select([r], [], [], 1)[0] == [r]
poll = select.poll()
poll.register(r)
assert poll.poll(1000)
with select.epoll() as epoll:
    epoll.register(r)
    assert epoll.poll(1)
with selectors.DefaultSelector() as selector:
    selector.register(r, selectors.EVENT_READ)
    assert selector.select(1)
""",
    "signals and timers": """
import signal, time
seen = []
signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.01)
signal.sigtimedwait([signal.SIGUSR1], 0.2)
time.sleep(0.05)
assert seen
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
signal.raise_signal(signal.SIGUSR1)
assert signal.sigwait([signal.SIGUSR1]) == signal.SIGUSR1
time.clock_gettime(time.CLOCK_MONOTONIC), time.clock_getres(time.CLOCK_REALTIME), time.process_time()
import faulthandler
faulthandler.enable()
""",
    "calls on files": """
import fcntl, os, shutil, stat, tempfile
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    with open("a", "w") as file:
        file.write("hello")
        fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.lockf(file, fcntl.LOCK_EX)
        os.fsync(file.fileno()), os.fdatasync(file.fileno()), os.posix_fallocate(file.fileno(), 0, 10)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
    os.truncate("a", 5), os.chmod("a", 0o600), os.utime("a", (1, 1)), os.chown("a", -1, -1)
    os.symlink("a", "b"), os.link("a", "c"), os.rename("c", "d"), os.replace("d", "e"), os.mkfifo("f"), os.mkdir("g")
    assert os.readlink("b") == "a" and os.access("a", os.R_OK) and os.stat("a").st_size == 5
    assert stat.S_ISFIFO(os.stat("f").st_mode)
    assert {entry.name for entry in os.scandir(".")} == set("abefg")
    with open("a", "rb") as source, open("h", "wb") as target:
        assert os.sendfile(target.fileno(), source.fileno(), 0, 5) == 5
        if hasattr(os, "copy_file_range"):
            os.copy_file_range(source.fileno(), target.fileno(), 5, 0)
    shutil.copytree(".", "../" + os.path.basename(folder) + "/g/k", ignore=lambda *_: ["g", "f"])
    shutil.make_archive("z", "gztar", "g")
    try:
        os.setxattr("a", "user.x", b"1")
    except OSError:
        pass
    os.statvfs("."), os.sync(), os.umask(0o22), os.getxattr, os.removedirs
    descriptor = os.open(".", os.O_RDONLY)
    os.fchdir(descriptor), os.listdir(descriptor), os.unlink("a", dir_fd=descriptor), os.close(descriptor)
    os.chdir("/")
""",
    "questions about oneself": """
import os, resource, pwd, time
os.getpid(), os.getppid(), os.getpgid(0), os.getsid(0), os.getuid(), os.getgroups(), os.getloadavg(), os.uname()
os.cpu_count(), os.sched_getaffinity(0), os.sched_getscheduler(0), os.getpriority(0, 0), os.nice(1), os.times()
resource.getrusage(resource.RUSAGE_CHILDREN), resource.prlimit(0, resource.RLIMIT_NOFILE), os.getrandom(8)
os.sched_setaffinity(0, os.sched_getaffinity(0)), os.sched_yield(), pwd.getpwuid(os.getuid()), time.tzset()
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
""",
    "pseudo terminals": """
import os, pty, sys
master, slave = pty.openpty()
assert os.isatty(slave) and os.get_terminal_size(slave)
pid, descriptor = pty.fork()
if not pid:
    os.execvp("tty", ["tty"])
assert b"/dev/pts" in os.read(descriptor, 100)
os.waitpid(pid, 0)
""",
    "old and new ways to wait": """
import os, signal
pid = os.fork()
if not pid:
    signal.pause()
if hasattr(os, "pidfd_open"):
    descriptor = os.pidfd_open(pid)
    signal.pidfd_send_signal(descriptor, signal.SIGTERM)
else:
    os.kill(pid, signal.SIGTERM)
assert os.waitid(os.P_PID, pid, os.WEXITED).si_status == signal.SIGTERM
""",
    "the idle question for the personality": """
import ctypes
assert ctypes.CDLL(None).personality(ctypes.c_ulong(0xFFFFFFFF)) == 0
""",
    "walls of one's own": """
import ctypes
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(4, 0, 0, 0, 0) == 0
assert libc.syscall(444, None, 0, 1) != 0
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST)
def test_an_honest_program_works(name: str) -> None:
    assert honest(HONEST[name] + "\nprint('well')") == "well\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git --version", "git version"),
        (
            "cd $(mktemp -d) && git init -q . && echo 1 > a && git add a && "
            "git -c user.name=a -c user.email=b commit -qm c && git log --oneline && rm -rf $PWD",
            " c\n",
        ),
        ("echo a b c | tr ' ' '\\n' | sort -r | head -1", "c"),
        ("cp /etc/passwd /dev/null && ls -l /etc | wc -l", ""),
        (
            "d=$(mktemp -d); cp -a /etc/passwd $d/a && mv $d/a $d/b && tar cf $d/c -C $d b && tar tf $d/c; rm -r $d",
            "b",
        ),
        ("stat / && df / && du -s /etc/passwd && id && date && uname -a && nproc && env", "Linux"),
        ("yes | head -3", "y\ny\ny"),
        ("seq 3 | xargs -P 2 -n 1 echo | sort | tail -1", "3"),
        ("timeout 5 sleep 0.01 && nice -n 1 true && nohup true && sync / && echo done", "done"),
        ("find /etc/ssl -maxdepth 1 | grep -c ssl && sed -n 1p /etc/passwd && awk 'BEGIN { print 42 }'", "42"),
        (f"{sys.executable} -c 'import json; print(json.dumps([1]))'", "[1]"),
    ],
)
def test_an_honest_shell_works(command: str, expected: str) -> None:
    program = f"""
import subprocess
ended = subprocess.run(["sh", "-ec", {command!r}], stdout=-1, stderr=-1, universal_newlines=True)
assert ended.returncode == 0, ended
print(ended.stdout)
"""
    assert expected in honest(program)
