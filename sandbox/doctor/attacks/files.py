"""Attacks on files: the host's own, those of the kernel, devices, and files that a tool may not change.

A program only opens a file whose change could do harm, and never writes to it; it removes at once what it creates.
"""

from __future__ import annotations

from typing import Final

from sandbox.doctor.attacks.attack import TRYING, Attack, Program

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

FILES: Final = (
    Attack(
        "files of the host",
        "read secrets, keys and sockets of the host; write to the system; hold up other programs with leases",
        (
            Program("files of the host", _READ_HOST, facts=("secrets",)),
            Program("writing elsewhere", _WRITE),
            Program("lease on a shown file", _LEASES),
        ),
    ),
    Attack(
        "files of the kernel",
        "change sysrq, core_pattern and the like; read kernel memory, logs, addresses, tracing",
        (
            Program("settings of the kernel", _SETTINGS),
            Program("files of the kernel", _KERNEL_FILES),
        ),
    ),
    Attack(
        "devices",
        "open disks, memory, terminals and tunnels, and create their nodes again",
        (Program("devices", _DEVICES, in_a_machine="only of its own kernel"),),
    ),
)
