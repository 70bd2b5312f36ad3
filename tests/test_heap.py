"""What a process that is one command does with memory that it has freed, and with garbage."""

import os
import platform
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tracekit import heap

# Whether garbage is seldom looked for while the command runs, and how many objects are left out of that at the end.
WATCHED = """
import atexit, gc, sys
from tracekit.cli import main
threshold = gc.get_threshold()[0]
atexit.register(lambda: print(gc.get_threshold()[0] > 10 * threshold, gc.get_freeze_count() > 1000, flush=True))
sys.argv = ["tracekit", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(
    ("command", "is_suited"), [("read tests/data/two-cpu-devices-jax0.10.2.xplane.pb", True), ("doctor --help", False)]
)
def test_a_command_that_runs_nothing_of_others_seldom_looks_for_garbage_and_not_as_it_ends(command, is_suited):
    process = subprocess.run(
        [sys.executable, "-c", WATCHED, *command.split()], capture_output=True, text=True, check=True
    )
    assert process.stdout.splitlines()[-1] == f"{is_suited} {is_suited}"


MEMINFO, STATUS = "MemTotal: 9000 kB\nMemAvailable:    5000 kB\nSwapFree:  1000 kB\n", "Name: x\nVmRSS:\t   400 kB\n"


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(None, 6000), ("max\n", 6000), (f"{2000 * 1024}\n", 1600), (f"{300 * 1024}\n", 0), (f"{9000 * 1024}", 6000)],
)
@pytest.mark.parametrize("where", ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"])
def test_free_memory_is_what_the_system_and_the_container_leave(monkeypatch, where, limit, expected):
    files = {"/proc/meminfo": MEMINFO, "/proc/self/status": STATUS, where: limit}

    def read_text(path):
        if files.get(str(path)) is None:
            raise FileNotFoundError(path)
        return files[str(path)]

    monkeypatch.setattr(Path, "read_text", read_text)
    assert heap.free_bytes() == expected * 1024


@pytest.mark.parametrize("meminfo", [None, "MemTotal: 9000 kB\n"])
def test_where_a_system_does_not_tell_its_free_memory_none_is_known(monkeypatch, meminfo):
    def read_text(path):
        if meminfo is None:
            raise FileNotFoundError(path)
        return meminfo

    monkeypatch.setattr(Path, "read_text", read_text)
    assert heap.free_bytes() is None


def test_a_command_lets_numpy_ask_for_no_huge_pages_unless_its_user_does():
    code = (
        "import sys; from tracekit.cli import main; sys.argv = ['tracekit', 'read', '--help']; "
        "import atexit; atexit.register(lambda: print(__import__('numpy')._core.multiarray._get_madvise_hugepage()));"
        " main()"
    )
    for chosen, expected in (({}, "False"), ({"NUMPY_MADVISE_HUGEPAGE": "1"}, "True")):
        environment = {key: value for key, value in os.environ.items() if key != "NUMPY_MADVISE_HUGEPAGE"} | chosen
        process = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
        )
        assert process.stdout.splitlines()[-1] == expected


# How many pages the system hands out for a column as large as one that was freed.
COLUMN_AGAIN = """
import resource, sys
import numpy as np
from tracekit import heap
is_command, size = sys.argv[1] == "True", int(sys.argv[2])
if is_command:
    heap.suit_a_command()
heap.suit_a_trace_of(size)
freed, above = np.ones(5_000_000), np.ones(5_000_000)
del freed
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
again = np.ones(5_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators decide themselves")
@pytest.mark.parametrize(
    ("is_command", "size", "are_kept"), [(True, 1 << 30, True), (True, 1 << 29, False), (False, 1 << 30, False)]
)
def test_a_command_keeps_what_it_freed_of_large_columns_if_its_trace_is_huge(is_command, size, are_kept):
    environment = {**os.environ, "NUMPY_MADVISE_HUGEPAGE": "0"}
    process = subprocess.run(
        [sys.executable, "-c", COLUMN_AGAIN, str(is_command), str(size)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    pages_of_a_column = 5_000_000 * 8 / resource.getpagesize()
    assert (int(process.stdout) < pages_of_a_column / 2) == are_kept
