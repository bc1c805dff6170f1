"""What attacks begin with: trying something, and telling how the kernel answered."""

from __future__ import annotations

from typing import Final

DONE: Final = "done"
ATTEMPT: Final = f"""
import ctypes, errno, os, signal

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

def attempt(act, *arguments) -> str:
    try:
        act(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return {DONE!r}

def attempt_apart(act, *arguments) -> str:
    # in a process of its own, for what may be answered with a signal
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, attempt(act, *arguments).encode())
        os._exit(0)
    os.close(write)
    status = os.waitpid(child, 0)[1]
    said = os.read(read, 100).decode()
    os.close(read)
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else said or "nothing"

def system_call(number, *arguments) -> int:
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = libc.syscall(ctypes.c_long(number), *wide)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
"""
