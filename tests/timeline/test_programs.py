"""Which processes run one program, on random evidence, against the rules applied one pair after the other."""

import random
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from tests.stepped import work
from tracekit.columns import frame
from tracekit.timeline.instances import MATCHED_BY, CollectiveInstances
from tracekit.timeline.programs import Evidence, programs
from tracekit.timeline.rows import rows
from tracekit.trace import LAUNCH_COLUMNS

PROCESSES = [("a", "1"), ("a", "2"), ("a", "3"), ("b", ""), ("b", "1")]
DEVICES = ["gpu:0", "gpu:1", "gpu:2", "gpu:3", "cpu:?"]


def run(rng):
    """Processes (how many steps, from which number and time on, how long each is), the devices that each launched on, a
    call each, collectives (their devices, what matched them, how many ranks are told), and the ranks of the job."""
    chosen = rng.sample(PROCESSES, rng.randrange(2, 6))
    counts, lengths = rng.sample([3, 6, 10, 14, 19, 20], len(chosen)), rng.sample([1, 2, 4, 5, 9, 20], len(chosen))
    begins = rng.choices([(0, 0), (0, 11), (30, 0), (30, 500)], [12, 3, 3, 1], k=len(chosen))
    marked = {
        process: (count, *begin, length)
        for process, count, begin, length in zip(chosen, counts, begins, lengths, strict=True)
    }
    devices = rng.choices([[0], [1], [2], [3], [0, 1], [4], []], [9, 9, 9, 9, 2, 1, 1], k=len(chosen))
    launched = [(process, device) for process, used in zip(chosen, devices, strict=True) for device in used]
    collectives = [
        (rng.sample(range(4), rng.choice([2, 2, 3])), rng.choice(MATCHED_BY[:3]), rng.choice([0, 0, 2]))
        for _ in range(rng.randrange(4))
    ]
    alone = rng.choice([0, 0, 20])
    collectives += [([rng.randrange(4)], MATCHED_BY[3], rng.choice([0, 0, 2])) for _ in range(rng.randrange(alone + 1))]
    rng.shuffle(collectives)
    return marked, launched, collectives, rng.choice([None, None, None, 3])


def found(marked, launched, collectives, world_size):
    """What `programs` says: the processes and devices of each, and its label."""
    steps = [
        (*process, "step", first + k, 0, start + k * length, start + (k + 1) * length)
        for process, (count, first, start, length) in marked.items()
        for k in range(count)
    ]
    marks = pd.DataFrame(steps, columns=["host", "process", "name", "step", "occurrence", "start_ps", "end_ps"])
    # All devices have a row that no call launched.
    device = [*range(4), *(device for _, device in launched), *(device for its, *_ in collectives for device in its)]
    events, _ = work(*((DEVICES[number], "compute", at, at + 1) for at, number in enumerate(device)))
    ordered = rows(events)
    launch, instance = np.full((2, len(device)), -1)
    launch[4 : 4 + len(launched)] = np.arange(len(launched))
    instance[4 + len(launched) :] = [number for number, (its, *_) in enumerate(collectives) for _ in its]
    calls = {
        "host": [host for (host, _), _ in launched],
        "process": [process or None for (_, process), _ in launched],
        "start_ps": [*range(len(launched))],
        "end_ps": [*range(len(launched))],
    }
    met = CollectiveInstances(
        instance[ordered.at],
        np.array([MATCHED_BY.index(how) for _, how, _ in collectives], np.int64),
        np.array([ranks for *_, ranks in collectives], np.int64),
        *(np.zeros(len(collectives), dtype) for dtype in (np.int64, bool)),
        (),
        (),
    )
    evidence = Evidence(ordered, launch[ordered.at], frame(LAUNCH_COLUMNS, calls), lambda: met, world_size)
    return [(each.processes, each.devices, each.label) for each in programs(marks, evidence)]


def alike(counts):
    return max(counts) - min(counts) <= max(2, max(counts) / 10)


def times(steps):
    count, first, start, length = steps
    return {first + k: (start + k * length, start + (k + 1) * length) for k in range(count)}


def in_step(a, b):
    a, b = times(a), times(b)
    both = a.keys() & b.keys()
    if not both:
        (start, end), (other_start, other_end) = ((min(its.values())[0], max(its.values())[1]) for its in (a, b))
        return end <= other_start or other_end <= start
    return 2 * sum(a[k][0] < b[k][1] and b[k][0] < a[k][1] for k in both) >= len(both)


@pytest.mark.parametrize("seed", range(100))
def test_processes_are_of_one_program_that_share_a_device_meet_mark_as_many_steps_or_are_in_them_together(seed):
    drawn = marked, launched, collectives, world_size = run(random.Random(seed))
    together = [{process} for process in sorted(marked)]

    def join(those):
        united = set().union(*(group for group in together if group & set(those)))
        if united:
            together[:] = [group for group in together if not group & united] + [united]

    known = [(process, device) for process, device in launched if device != 4]
    for number in range(4):
        join([process for process, device in known if device == number])
    told = [ranks > 0 or how in ("sequence", "run") for _, how, ranks in collectives]
    untold = [len(its) for (its, *_), is_told in zip(collectives, told, strict=True) if not is_told]
    all_count = sum(size for size in untold if size > 1) >= 0.25 * sum(untold)
    for (its, *_), is_told in zip(collectives, told, strict=True):
        if is_told or all_count:
            join([process for process, device in known if device in its])
    for a, b in combinations(marked, 2):
        if alike([marked[a][0], marked[b][0]]) or in_step(marked[a], marked[b]):
            join([a, b])
    working = [process for process in sorted(marked) if any(process == by for by, _ in known)]
    if working:
        largest = max(working, key=lambda process: marked[process][0])
        for group in [group for group in together if not group & set(working)]:
            join([largest, *group])
    counts = [count for count, *_ in marked.values()]
    is_job = len(marked) <= (world_size or 0) or alike(counts) or not working or len(together) == 1
    several_hosts = len({host for host, _ in marked}) > 1
    expected = []
    for group in [] if is_job else sorted(map(sorted, together)):
        host, process = group[0]
        name = f"process {process}" if process else host
        label = f"{host}/{name}" if several_hosts and process else name
        more = {0: "", 1: " and 1 other"}.get(len(group) - 1, f" and {len(group) - 1} others")
        devices = frozenset(DEVICES[device] for by, device in known if by in group)
        expected.append((frozenset(group), devices, label + more))
    assert found(*drawn) == expected
