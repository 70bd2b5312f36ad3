"""What allocators keep of this process's memory; but for glibc's, those of systems give it back themselves."""

import atexit
import gc
import os
import re
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

# M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX and M_ARENA_MAX of malloc.h
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -3, -4, -8
_COLLECT_FROM = 100_000
_WORTH_BYTES = 32 << 20
# The most that glibc takes for M_MMAP_THRESHOLD.
_LARGE_BYTES = 32 << 20
# Of a trace of so many bytes a column of integers is larger than that: a third of the events of an XSpace, at 84 bytes
# each, are rows of devices.
_HUGE_TRACE_BYTES = 1 << 30


@cache
def suit_a_command() -> None:
    """Let this process, all of which is one command, use again what it has freed, and look for garbage seldom.

    Threads allocate from one heap, where what others have freed is used again: a report of 5 million events takes 0.8
    of 9.5 s less, in the system, and 0.1 of 1.6 GB. What glibc gives back of large columns stays as it is: where those
    of 16 MB and more went back instead of 24, that of eight GPUs took 0.5 of 12 s more, as the system clears each page
    that it hands out again, and 55 MB less of 1.7 GB. Garbage in cycles is looked for a hundred times less often, as
    what pandas, numba and matplotlib make when they are imported is none, and not at all at the end: 0.2 and 0.3 s of
    any report. Arrow, which reads its choice when it is imported, allocates from that one heap too: with an allocator
    of its own, which keeps much of what it freed, a report of 600,000 different names took 90 to 150 MB more; of 5
    million events it makes no difference. numpy, which reads its choice then too, asks for no huge pages: of 2 MB each
    that are cleared for a column that is soon gone, the system took 0.7 of 2.4 s more, and the report 0.3 of 6.6 s. To
    be called before there are threads, and by no library.
    """
    import ctypes

    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")

    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_TRIM_THRESHOLD, 2 * _LARGE_BYTES)
    gc.set_threshold(_COLLECT_FROM, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)


def suit_a_trace_of(size: int) -> None:
    """Let a process that `suit_a_command` has suited keep what it has freed of larger columns, too, if the trace that
    it is to read is of so many bytes that most are."""
    if size < _HUGE_TRACE_BYTES or not suit_a_command.cache_info().currsize:
        return
    import ctypes

    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_MMAP_MAX, 0)


def give_back(freed_bytes: int = _WORTH_BYTES) -> None:
    """Return to the system what is free: glibc and Arrow keep it, at 5 M events half of what the process holds once the
    trace is analysed, and what comes next would stand on top of it. It takes 3 to 30 ms, which less than 32 MB are not
    worth, if it is told that so much has been freed."""
    if freed_bytes < _WORTH_BYTES:
        return
    import ctypes

    if arrow := sys.modules.get("pyarrow"):
        arrow.default_memory_pool().release_unused()
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def free_bytes() -> int | None:
    """How much memory this process can still take: what Linux has available, with the swap that is free, or what is
    left of the limit of its container, if that is less; None on other systems.

    Kernel documentation: filesystems/proc.rst (MemAvailable) and admin-guide/cgroup-v2.rst (memory.max).
    """
    try:
        meminfo, status = (Path("/proc", name).read_text() for name in ("meminfo", "self/status"))
        free = 1024 * (_kib(meminfo, "MemAvailable") + _kib(meminfo, "SwapFree"))
        held = 1024 * _kib(status, "VmRSS")
    except (OSError, TypeError):
        return None
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # "max" is no number
            free = min(free, max(int(Path(limit).read_text()) - held, 0))
    return free


def _kib(text: str, key: str) -> int:
    """The number of KiB behind a key; raises TypeError where it is not there."""
    return int(re.search(rf"^{key}:\s+(\d+) kB", text, re.MULTILINE)[1])  # type: ignore[index]
