"""ROCm's calls stand on lines of their own: which thread made them, where only time tells."""

import numpy as np
import pytest

from tests.readers.xspaces import PlaneText, write
from tracekit.readers import read
from tracekit.readers.xspace.host_threads import callers

CALLS = 12


def threads_of_launches(tmp_path, host):
    trace = read(write(tmp_path / "host.xplane.pb", host.text()))
    return {name: str(thread) for name, thread in zip(trace.launches["name"], trace.launches["thread"], strict=True)}


def rocm(host, line, name, starts, length=4):
    for number, start in enumerate(starts):
        host.event(line, name, start, length, correlation_id=1000 * int(line.rpartition("/")[2]) + number)


def busy_thread(host, thread, starts, length=10):
    for start in starts:
        host.event(thread, "Execute", start, length)


def test_calls_are_those_of_the_thread_whose_events_hold_them(tmp_path):
    begins = range(0, 1200, 100)
    host = PlaneText("/host:CPU")
    busy_thread(host, "python", begins)
    busy_thread(host, "pool", range(50, 1250, 100))
    rocm(host, "Host Threads/1083", "hipModuleLaunchKernel", [begin + 3 for begin in begins])
    rocm(host, "Host Threads/1084", "hipMemcpyAsync", [begin + 53 for begin in begins])
    assert threads_of_launches(tmp_path, host) == {"hipModuleLaunchKernel": "python", "hipMemcpyAsync": "pool"}


def test_of_two_threads_the_one_is_meant_whose_events_are_close_around_the_calls(tmp_path):
    begins = range(0, 1200, 100)
    host = PlaneText("/host:CPU")
    busy_thread(host, "python", begins)
    busy_thread(host, "waiting", begins, length=60)
    rocm(host, "Host Threads/7", "hipLaunchKernel", [begin + 3 for begin in begins])
    assert threads_of_launches(tmp_path, host) == {"hipLaunchKernel": "python"}


def test_a_thread_that_other_calls_are_certain_to_be_of_is_not_that_of_these_too(tmp_path):
    begins = range(0, 1200, 100)
    host = PlaneText("/host:CPU")
    busy_thread(host, "a", begins, length=20)
    busy_thread(host, "b", [begin for begin in begins if begin % 200 == 0], length=15)
    rocm(host, "Host Threads/1", "hipLaunchKernel", [begin + 3 for begin in begins])
    rocm(host, "Host Threads/2", "hipMemcpyAsync", [begin + 9 for begin in begins if begin % 200 == 0])
    assert threads_of_launches(tmp_path, host) == {"hipLaunchKernel": "a", "hipMemcpyAsync": "b"}


@pytest.mark.parametrize(
    ("events", "calls"),
    [
        pytest.param(range(0, 1200, 100), [*range(3, 1103, 100), 1150], id="one lies outside"),
        pytest.param(range(0, 1200, 100), [*range(3, 1103, 100), 1108], id="an event ends during one"),
        pytest.param([0], [1], id="few may lie inside by chance"),
    ],
)
def test_calls_that_no_thread_is_certain_to_have_made_keep_their_own_line(tmp_path, events, calls):
    host = PlaneText("/host:CPU")
    busy_thread(host, "python", events)
    rocm(host, "Host Threads/5", "hipLaunchKernel", calls)
    assert threads_of_launches(tmp_path, host) == {"hipLaunchKernel": "Host Threads/5"}


def test_one_frame_around_everything_proves_nothing(tmp_path):
    host = PlaneText("/host:CPU").event("python", "$main.py:1 <module>", 0, 2000)
    rocm(host, "Host Threads/5", "hipLaunchKernel", range(3, 1203, 100))
    assert threads_of_launches(tmp_path, host) == {"hipLaunchKernel": "Host Threads/5"}


@pytest.mark.parametrize("seed", range(20))
def test_the_threads_of_random_programs_are_found_and_never_mistaken(seed):
    rng = np.random.default_rng(seed)
    threads = int(rng.integers(1, 6))
    names, line, start, end = [], [], [], []

    def events(name, begins, lengths):
        line.extend([len(names)] * len(begins))
        start.extend(begins)
        end.extend(begins + lengths)
        names.append(name)

    for thread in range(threads):
        begins = np.cumsum(rng.integers(200, 900, 60)) + int(rng.integers(0, 500))
        lengths = rng.integers(40, 150, 60)
        events(f"thread {thread}", begins, lengths)
        calling = begins[rng.random(60) < 0.7]
        inside = begins + rng.integers(1, 10, 60)
        inside = inside[np.isin(begins, calling)]
        events(f"Host Threads/{thread}", inside, rng.integers(1, 25, len(inside)))
    order = rng.permutation(len(line))
    columns = (np.array(column, np.int64)[order] for column in (line, start, end))
    for name, caller in zip(names, callers(names, *columns), strict=True):
        assert caller == name.replace("Host Threads/", "thread ")
