"""Attacks on files: the host's own, those of the kernel, devices, and what is not the tool's to change.

What could do harm if it succeeded is only opened, never written to; what was made is removed at once.
"""

from __future__ import annotations

from typing import Final

from sandbox.doctor.attacks.attack import Attack, nothing_gained
from sandbox.doctor.attacks.prelude import TRYING

_READ_HOST: Final = f"""{TRYING}
WAYS = ["", "/proc/self/root", "/proc/1/root", "/proc/1/cwd", "/proc/self/cwd/..", "/.host", "/.old_root", "/oldroot",
        "/host", "/mnt", "/work/../..", "/dev/fd/0/../../..", "/dev/shm/../.."]
ENGINES = ["/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock",
           "/run/crio/crio.sock"]
PRIVATE = ["/etc/shadow", "/etc/gshadow", "/root/.ssh/id_rsa", "/root/.bash_history", "/etc/ssh/ssh_host_rsa_key"]

def attack(secrets: list) -> dict:
    must(attempt("reading itself", open_only, __file__, os.O_RDONLY))
    for path in [*secrets, *PRIVATE]:
        for way in WAYS:
            attempt(way + path, open_only, way + path, os.O_RDONLY)
    for path in ENGINES:
        attempt(path, os.stat, path)
    return report()
"""
_OTHERS: Final = f"""{TRYING}
FILES = ["environ", "mem", "maps", "auxv", "io", "stack", "syscall", "pagemap", "exe", "cwd", "root"]

def read(path) -> None:
    if os.path.islink(path):
        os.readlink(path)
        return
    with open(path, "rb", buffering=0) as file:
        if path.endswith("/mem"):
            file.seek(0x400000)
        file.read(16)

def read_links(folder) -> None:
    for number in os.listdir(folder):
        os.readlink(folder + "/" + number)

def attack() -> dict:
    must(attempt("its own environment", read, "/proc/self/environ"))
    must(attempt("its own descriptors", os.readlink, "/proc/self/fd/0"))
    own = os.readlink("/proc/self")
    pids = [name for name in os.listdir("/proc") if name.isdigit() and name != own]
    for pid in pids or ["1"]:
        for file in FILES:
            attempt("/proc/" + pid + "/" + file, read, "/proc/" + pid + "/" + file)
        attempt("/proc/" + pid + "/fd", read_links, "/proc/" + pid + "/fd")
    return report()
"""
_SETTINGS: Final = f"""{TRYING}
PLACES = ["/proc/sysrq-trigger", "/proc/acpi", "/proc/bus", "/proc/irq/default_smp_affinity", "/proc/mtrr",
          "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug",
          "/proc/sys/kernel/randomize_va_space", "/proc/sys/kernel/panic", "/proc/sys/kernel/sysrq",
          "/proc/sys/vm/overcommit_memory", "/proc/sys/vm/panic_on_oom", "/proc/sys/vm/drop_caches",
          "/proc/sys/fs/binfmt_misc/register", "/proc/sys/fs/file-max", "/proc/sys/fs/suid_dumpable",
          "/sys/kernel/uevent_helper", "/sys/kernel/mm/ksm/run", "/sys/power/state", "/sys/module",
          "/sys/devices/system/cpu/cpu0/online", "/sys/firmware/efi/efivars", "/sys/fs/selinux/enforce"]

def attack() -> dict:
    must(attempt("writing its own", open_only, "/proc/self/comm", os.O_WRONLY))
    for place in PLACES:
        attempt(place, open_only, place, os.O_WRONLY)
    return report()
"""
_KERNEL_FILES: Final = f"""{TRYING}
PLACES = ["/proc/kcore", "/proc/kmsg", "/dev/kmsg", "/dev/mem", "/dev/port", "/proc/timer_list", "/proc/sched_debug",
          "/proc/scsi/scsi", "/proc/vmallocinfo", "/proc/slabinfo", "/proc/1/pagemap", "/sys/firmware/acpi/tables/DSDT",
          "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security/lsm", "/boot/vmlinuz"]

def read(path) -> None:
    if os.path.isdir(path):
        found = os.listdir(path)
    else:
        with open(path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            found = file.read(64)
    if not found:
        raise OSError(errno.ENODATA, "empty")

def find_addresses() -> None:
    with open("/proc/kallsyms") as names:
        if int(names.readline().split()[0] or "0", 16) == 0:
            raise OSError(errno.ENODATA, "hidden")

def attack() -> dict:
    must(attempt("its own map", read, "/proc/self/maps"))
    for place in PLACES:
        attempt(place, read, place)
    attempt("addresses in /proc/kallsyms", lambda: find_addresses() if os.path.exists("/proc/kallsyms") else read(""))
    return report()
"""
_DEVICES: Final = f"""{TRYING}
import stat

NAMES = ["mem", "kmem", "port", "kmsg", "kvm", "fuse", "net/tun", "vhost-net", "vhost-vsock", "vsock", "loop-control",
         "loop0", "sda", "vda", "nvme0n1", "xvda", "dm-0", "mapper/control", "tty", "tty0", "ttyS0", "console", "ptmx",
         "autofs", "btrfs-control", "hpet", "rtc0", "uinput", "input/event0", "dri/card0", "snapshot", "userfaultfd"]
HARMLESS = ["null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts/ptmx", "console"]
KINDS = {{"the memory": (stat.S_IFCHR, 1, 1), "the kernel's log": (stat.S_IFCHR, 1, 11), "a disk": (stat.S_IFBLK, 8, 0),
         "a virtual disk": (stat.S_IFBLK, 254, 0), "a tunnel": (stat.S_IFCHR, 10, 200)}}

def make(path, kind, major, minor) -> None:
    os.mknod(path, kind | 0o600, os.makedev(major, minor))
    try:
        open_only(path, os.O_RDONLY)
    finally:
        os.unlink(path)

def attack() -> dict:
    must(attempt("/dev/null", open_only, "/dev/null", os.O_RDWR))
    for name in NAMES:
        if name not in HARMLESS:
            attempt("/dev/" + name, open_only, "/dev/" + name, os.O_RDONLY)
    for parent, _, names in os.walk("/dev"):
        for name in names:
            path = os.path.join(parent, name)
            if stat.S_ISBLK(os.lstat(path).st_mode):
                attempt(path, open_only, path, os.O_RDONLY)
    for place in ("/work", "/tmp", "/dev/shm", "/dev"):
        for what, numbers in KINDS.items():
            attempt(what + " in " + place, make, place + "/attack-" + what.replace(" ", "-"), *numbers)
    return report()
"""
_WRITE: Final = f"""{TRYING}
import sysconfig

def make_file(path) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    os.unlink(path)

def make_folder(path) -> None:
    os.mkdir(path)
    os.rmdir(path)

def attack() -> dict:
    must(attempt("/work", make_file, "/work/attack-file"))
    library = sysconfig.get_paths()["stdlib"]
    for place in ["/", "/bin", "/usr", "/usr/bin", "/usr/lib", "/lib", "/etc", "/var", "/opt", "/srv", "/root", "/home",
                  "/dev", "/proc", "/sys", "/run", "/environment", "/dev/mqueue", library, sys.prefix]:
        attempt(place, make_file, place + "/sandbox-attack")
        attempt("a folder in " + place, make_folder, place + "/sandbox-attack-folder")
    status = os.stat("/proc/self/exe")
    for file in (os.path.realpath(sys.executable), library + "/os.py", "/etc/passwd", "/etc/ld.so.cache"):
        attempt(file, open_only, file, os.O_WRONLY)
    # the times it has already: nothing changes if that is allowed
    attempt("the interpreter's times", lambda: os.utime("/proc/self/exe", ns=(status.st_atime_ns, status.st_mtime_ns)))
    attempt("the interpreter's mode", os.chmod, "/proc/self/exe", status.st_mode & 0o7777)
    return report()
"""
_EXECUTE: Final = f"""{TRYING}
import shutil, subprocess

def run(path) -> None:
    subprocess.run([path], check=False, stdout=subprocess.DEVNULL)

def attack() -> dict:
    program = shutil.which("true")
    if program:
        must(attempt("a program that is there", run, program))
    for place in ("/work", "/tmp", "/dev/shm"):
        script = place + "/attack.sh"
        with open(script, "w") as file:
            file.write("#!/bin/sh\\n")
        os.chmod(script, 0o4777)
        attempt("a script in " + place, run, script)
        if program:
            shutil.copy(program, place + "/attack")
            os.chmod(place + "/attack", 0o6777)
            attempt("a program in " + place, run, place + "/attack")
    return report()
"""
_CONTROL_GROUPS: Final = f"""{TRYING}
FILES = ["cgroup.procs", "tasks", "release_agent", "notify_on_release", "memory.max", "memory.limit_in_bytes",
         "pids.max", "cpu.max", "cpu.cfs_quota_us", "devices.allow", "cgroup.subtree_control", "cgroup.freeze"]

def folders(root, deepest=3) -> list:
    found = [root]
    try:
        names = os.listdir(root) if deepest else []
    except OSError:
        names = []
    for name in names[:100]:
        if os.path.isdir(root + "/" + name) and not os.path.islink(root + "/" + name):
            found += folders(root + "/" + name, deepest - 1)
    return found

def make_group(folder) -> None:
    os.mkdir(folder)
    os.rmdir(folder)

def attack() -> dict:
    must(attempt("its own", open_only, "/proc/self/cgroup", os.O_RDONLY))
    for folder in folders("/sys/fs/cgroup"):
        for file in FILES:
            attempt(folder + "/" + file, open_only, folder + "/" + file, os.O_WRONLY)
        attempt("a group in " + folder, make_group, folder + "/sandbox-attack")
    return report()
"""
_LEASES: Final = f"""{TRYING}
import fcntl, sysconfig

SET_DELEGATION = 1040

def lock_own() -> None:
    with open("/work/attack-lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

def ask(path, command, argument) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.fcntl(descriptor, command, argument)
    finally:
        os.close(descriptor)

def attack() -> dict:
    must(attempt("a lock on a file of its own", lock_own))
    library = sysconfig.get_paths()["stdlib"]
    for path in (os.path.realpath(sys.executable), library + "/os.py", library + "/encodings/__init__.py", "/bin/sh"):
        attempt("a lease on " + path, ask, path, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        attempt("a delegation of " + path, ask, path, SET_DELEGATION, bytes(8))
    for path in (os.path.dirname(os.path.realpath(sys.executable)), library, "/"):
        attempt("notices of " + path, ask, path, fcntl.F_NOTIFY, fcntl.DN_MODIFY | fcntl.DN_MULTISHOT)
    return report()
"""

HOST_FILES: Final = (
    Attack(
        "files of the host",
        "read secrets in your home and temporary folders, /etc/shadow, keys, and container engines' sockets",
        _READ_HOST,
        nothing_gained,
        facts=("secrets",),
    ),
    Attack(
        "other processes' secrets",
        "read the environment, memory and descriptors of every process it sees",
        _OTHERS,
        nothing_gained,
        in_a_machine="only of its own box, which has no other call",
    ),
    Attack(
        "settings of the kernel",
        "open sysrq, core_pattern, modprobe and the like for writing",
        _SETTINGS,
        nothing_gained,
    ),
    Attack(
        "files of the kernel",
        "read kernel memory, its log, its addresses, its tracing",
        _KERNEL_FILES,
        nothing_gained,
    ),
    Attack(
        "devices",
        "open disks, memory, terminals and tunnels, and make their nodes anew",
        _DEVICES,
        nothing_gained,
        in_a_machine="only of its own kernel",
    ),
    Attack(
        "writing elsewhere",
        "write outside its own folders: the system, the interpreter, the installed packages",
        _WRITE,
        nothing_gained,
    ),
    Attack(
        "lease on a shown file",
        "take leases on the interpreter's files, which hold up other programs, and notices of its folders",
        _LEASES,
        nothing_gained,
    ),
    Attack(
        "programs of its own",
        "run a file it has written, with the bit that makes it its owner's",
        _EXECUTE,
        nothing_gained,
    ),
    Attack(
        "control groups",
        "leave its control group, raise its limits there, set a release agent",
        _CONTROL_GROUPS,
        nothing_gained,
    ),
)
