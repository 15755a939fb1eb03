"""Runs a program that can be held up: on SIGUSR1 all its threads stop but the one named `watchdog`, on SIGUSR2 they go on.

No signal does that to single threads, but a debugger does: this is one, of its own child. SIGTERM is passed on, and the
child ends with its parent.
"""

import ctypes
import os
import signal
import subprocess
import sys

SEIZE, INTERRUPT, DETACH, ALL_THREADS, DIE_WITH_PARENT = 0x4206, 0x4207, 17, 0x40000000, 1
HEEDED = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGCHLD}

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def ptrace(request, thread):
    if libc.ptrace(request, thread, None, None) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x} of thread {thread}")


def is_watchdog(tasks, thread):
    with open(f"{tasks}/{thread}/comm") as name:
        return name.read().strip() == "watchdog"


def begin():
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    libc.prctl(DIE_WITH_PARENT, signal.SIGKILL)


signal.pthread_sigmask(signal.SIG_BLOCK, HEEDED)
child = subprocess.Popen(sys.argv[1:], preexec_fn=begin)
tasks, held = f"/proc/{child.pid}/task", []
while True:
    heard = signal.sigwait(HEEDED)
    if heard == signal.SIGUSR1:
        held = [int(thread) for thread in os.listdir(tasks) if not is_watchdog(tasks, thread)]
        for thread in held:
            ptrace(SEIZE, thread)
            ptrace(INTERRUPT, thread)
            os.waitpid(thread, ALL_THREADS)
    elif heard == signal.SIGUSR2:
        for thread in held:
            ptrace(DETACH, thread)
        held = []
    elif heard == signal.SIGTERM:
        child.terminate()
    # A thread that stops is told of in the same way.
    elif not held and child.poll() is not None:
        sys.exit(child.returncode)
