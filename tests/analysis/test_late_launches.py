"""What the host did instead of launching: a trace for each, the parts together, and a brute-force oracle."""

import numpy as np
import pytest

from tests.idle_frames import US, call, row
from tests.launch_frames import calls, host_spans, waits, work
from tracekit.analysis.idle import idle
from tracekit.analysis.late_launches import LateLaunches, late_launches
from tracekit.columns import frame
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import HOST_WORK_COLUMNS, Trace


def operators(*times):
    """Operators (start, end) in us of the launching thread."""
    return frame(
        HOST_WORK_COLUMNS,
        {
            "host": ["h"] * len(times),
            "process": [None] * len(times),
            "thread": ["main"] * len(times),
            "start_ps": [start * US for start, _ in times],
            "end_ps": [end * US for _, end in times],
        },
    )


def parts(launched, begins=(0, 1000), syncs=None, spans=None, host_work=None):
    """What the host did, in us, while gpu:0 ran rows of 100 us from `begins`, launched by calls of 5 us."""
    timeline = timeline_of(
        Trace(
            work(*(row("gpu:0", begin, begin + 100, number) for number, begin in enumerate(begins))),
            launches=calls(*(call(number, start, start + 5) for number, start in enumerate(launched))),
            syncs=waits() if syncs is None else syncs,
            spans=host_spans() if spans is None else spans,
            host_work=operators() if host_work is None else host_work,
        )
    )
    result = late_launches(timeline, idle(timeline))
    assert (result.copying_ps, result.allocating_ps) == (0, 0)
    return tuple(value / US for value in (result.after_wait_ps, result.launching_ps, result.working_ps))


def own_work(*spans, pool="main"):
    """What LateLaunches tells, in us, of a gap of 900 us that a launch after 890 us ended, with spans of the caller;
    the thread that launched is that one, or one of a `pool`."""
    timeline = timeline_of(
        Trace(
            work(row("gpu:0", 0, 100, 0), row("gpu:0", 1000, 1100, 1)),
            launches=calls(call(0, -9, -4, pool), call(1, 990, 995, pool)),
            spans=host_spans(*((name, start * US, end * US) for name, start, end in spans)),
        )
    )
    result = late_launches(timeline, idle(timeline))
    return {part.removesuffix("_ps"): time / US for part, time in result.parts().items() if time}, result.calls


def test_a_launch_after_other_work_came_late_for_that():
    assert parts(launched=(-9, 990)) == (0, 0, 890)


def test_a_host_that_waited_when_the_device_fell_idle_could_not_launch_ahead():
    wait = {"start": 20 * US, "end": 104 * US, "on_device": "gpu:0"}
    assert parts(launched=(-9, 990), syncs=waits(wait)) == (890, 0, 0)
    assert parts(launched=(-9, 990), spans=host_spans(("block_until_ready", 20 * US, 104 * US))) == (890, 0, 0)


def test_a_wait_that_began_later_or_of_another_thread_held_up_nothing():
    # What it waited for is not known, so that much of the idle time is not host-bound at all.
    assert parts(launched=(-9, 990), spans=host_spans(("block_until_ready", 120 * US, 300 * US))) == (0, 0, 890 - 180)
    other = host_spans(("block_until_ready", 20 * US, 104 * US, "other"))
    assert parts(launched=(-9, 990), spans=other) == (0, 0, 890)


def test_a_thread_that_launches_again_soon_only_launches():
    assert parts(launched=(-9, 190), begins=(0, 200)) == (0, 0, 90)  # 194 us after the call before
    assert parts(launched=(-9, 190, 290), begins=(0, 200, 301)) == (0, 0, 90)
    assert parts(launched=(-9, 90, 190), begins=(0, 20, 200)) == (0, 70, 0)


DISPATCHED = ("PjitFunction(step)", 300, 998), ("[0] PjRtStreamExecutorRawLoadedExecutable::Execute", 310, 996)


@pytest.mark.parametrize("pool", ["main", "pjrt_async_work_runner"])
def test_calling_a_program_is_launching_but_not_placing_its_arguments(pool):
    """As on an H100: XLA took 150 us to update a graph before it launched it."""
    assert own_work(*DISPATCHED, pool=pool) == ({"launching": 690, "working": 200}, {})
    told = own_work(*DISPATCHED, ("shard_args", 400, 700), pool=pool)
    assert told == ({"launching": 390, "working": 500}, {})


@pytest.mark.parametrize("pool", ["main", "pjrt_async_work_runner"])
def test_copying_results_into_pageable_memory_is_the_hosts_own_work_whatever_it_waited_for(pool):
    """As on an H100: of 93 ms between two copies of 64 MB JAX took 83 to prepare the second one."""
    wait, copy = ("np.asarray(jax.Array)", 50, 200), ("ArrayImpl.copy_to_host_async", 200, 980)
    called = "PjitFunction(f)", -20, -1
    told = own_work(called, wait, copy, pool=pool)
    assert told == ({"after_wait": 10, "copying": 780}, {"copying_ps": "ArrayImpl.copy_to_host_async"})


def test_getting_memory_from_the_runtime_is_neither_launching_nor_copying():
    called = ("ArrayImpl.copy_to_host_async", 150, 985), ("cuMemHostAlloc", 160, 900)
    told, names = own_work(*DISPATCHED, *called)
    assert told == {"allocating": 740, "copying": 95, "launching": 5, "working": 50}
    assert names == {"allocating_ps": "cuMemHostAlloc", "copying_ps": "ArrayImpl.copy_to_host_async"}


@pytest.mark.parametrize("call", ["cudaFree", "cuMemFreeHost", "cudaHostUnregister"])
def test_giving_memory_back_counts_as_getting_it(call):
    assert own_work((call, 160, 900)) == ({"allocating": 740, "working": 150}, {"allocating_ps": call})


@pytest.mark.parametrize(("operator", "expected"), [((95, 390), (0, 290, 0)), ((200, 390), (0, 190, 100))])
def test_an_operator_may_take_longer_for_its_launch(operator, expected):
    assert parts(launched=(-9, 390), begins=(0, 400), host_work=operators(operator)) == expected


def test_an_operator_that_hardly_launches_is_other_work():
    assert parts(launched=(-9, 990), host_work=operators((0, 985))) == (0, 0, 890)


def test_without_late_launches_there_are_none():
    assert parts(launched=(-9, -4), begins=(0, 101)) == (0, 0, 0)
    assert late_launches(timeline_of(Trace(work())), idle(timeline_of(Trace(work())))) == LateLaunches()


@pytest.mark.parametrize("seed", range(5))
def test_the_parts_are_those_of_each_microsecond(seed):
    random = np.random.default_rng(seed)
    launched = np.cumsum(random.choice([10, 60, 150, 700], 12)).tolist()
    begins = np.maximum.accumulate([start + 8 + 30 * number for number, start in enumerate(launched)])
    begins = [int(begin) + 100 * number for number, begin in enumerate(begins)]
    told = parts([start + 100 * number for number, start in enumerate(launched)], begins)
    starts = [start + 100 * number for number, start in enumerate(launched)]
    expected = [0, 0]
    for before, begin, start in zip(begins, begins[1:], starts[1:], strict=False):
        for moment in range(before + 100, min(start, begin)):
            last = max((own for own in starts if own <= moment), default=None)
            following = min(own for own in starts if own > moment)
            launches = last is not None and (moment < last + 5 or following - last - 5 <= 100)
            expected[not launches] += 1
    assert told == (0, *expected)


def test_getting_memory_inside_the_call_of_a_program_is_not_launching():
    """As on 8 MI300X: XLA allocated for a third of its call before it launched anything."""
    told, names = own_work(*DISPATCHED, ("Build buffer allocations", 320, 600), ("DeviceMemAllocator::Alloc", 330, 590))
    assert told == {"allocating": 280, "launching": 410, "working": 200}
    assert names == {"allocating_ps": "Build buffer allocations"}
