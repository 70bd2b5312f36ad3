"""What the names of spans prove of the threads that they stand on."""

import pandas as pd
import pytest

from tests.launch_frames import calls, host_spans, waits, work
from tracekit.analysis.host_activity import activity_times, dispatchers, host_activity, unknown_waits
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import Trace
from tracekit.vocabulary.host_calls import Activity

US = 10**6


def test_spans_are_merged_by_thread_and_by_what_they_prove():
    spans = host_spans(
        ("Iterator::Map", 0, 5),
        ("load_batch", 3, 9),
        ("backend_compile", 4, 6),
        ("Iterator::Map", 1, 2, "pool"),
        ("step", 0, 99),
    )
    times = {
        thread: {activity: intervals.tolist() for activity, intervals in kinds.items()}
        for thread, kinds in activity_times(spans).items()
    }
    assert times == {
        ("h", "", "main"): {Activity.LOADING: [[0, 9]], Activity.COMPILING: [[4, 6]]},
        ("h", "", "pool"): {Activity.LOADING: [[1, 2]]},
    }
    assert activity_times(host_spans()) == {}


def test_a_lowering_proves_that_a_compiler_ran_only_before_one_does():
    names = ("lower_sharding_computation", "lower_sharding_computation", "backend_compile")
    for count, times in ((1, {}), (2, {}), (3, {("h", "", "main"): [[2, 3], [4, 6]]})):
        spans = host_spans(*((name, 2 * at, 2 * at + 1 + at // 2) for at, name in enumerate(names[:count])))
        told = activity_times(spans)
        assert {thread: kinds[Activity.COMPILING].tolist() for thread, kinds in told.items()} == times
        assert all([*kinds] == [Activity.COMPILING] for kinds in told.values())


def test_the_dispatcher_of_a_host_is_the_only_thread_that_calls_jitted_functions():
    dispatch_spans = host_spans(("PjitFunction(f)", 0, 1, "python"), ("PJRT_LoadedExecutable_Execute", 0, 1, "python"))
    assert dispatchers(dispatch_spans) == {"h": ("h", "", "python")}
    assert dispatchers(host_spans(("PjitFunction(f)", 0, 1), ("PjitFunction(g)", 0, 1, "other"))) == {}
    assert dispatchers(host_spans(("matmul", 0, 1))) == {}


def test_threads_of_one_name_are_told_apart_by_their_process():
    spans = host_spans(("Iterator::Map", 0, 5), ("Iterator::Map", 3, 9), ("load_batch", 20, 30))
    spans["process"] = pd.Categorical(["1", "2", None])
    times = {thread: kinds[Activity.LOADING].tolist() for thread, kinds in activity_times(spans).items()}
    assert times == {("h", "1", "main"): [[0, 5]], ("h", "2", "main"): [[3, 9]], ("h", "", "main"): [[20, 30]]}


def test_a_thread_was_blocked_by_a_copy_or_by_a_collective_or_work_of_another_device():
    rows = [
        ("gpu:0", "copies", "memcpy", 5, 90),
        ("gpu:0", "collectives", "collective", 5, 90),
        ("gpu:0", "kernels", "compute", 5, 90),
        ("gpu:1", "copies", "memcpy", 5, 90),
        ("gpu:1", "kernels", "compute", 5, 90),
    ]
    names = ("device", "lane", "kind", "start", "end")
    events = work(*({**dict(zip(names, row, strict=True)), "id": at} for at, row in enumerate(rows)))
    launches = calls(*((at, 0, 1) for at in range(len(rows))))
    # Each thread waits for one of the rows; the last of them begins when that has ended.
    syncs = [
        {"thread": f"{device} {lane}", "start": at, "end": at + 85, "on_device": device, "on_lane": lane}
        for device, lane, *_ in rows
        for at in (10, 90)
    ]
    blocked = host_activity(timeline_of(Trace(events, launches=launches, syncs=waits(*syncs)))).blocked
    found = [
        {thread: [times.tolist() for times in both] for (_, _, thread), both in sorted(of_device.items())}
        for _, of_device in sorted(blocked.items())
    ]
    waited, nothing = [[10, 95]], []
    of_both = {"gpu:0 copies": [waited, nothing], "gpu:0 collectives": [nothing, waited],
               "gpu:1 copies": [waited, nothing]}  # fmt: skip
    assert found == [
        of_both | {"gpu:1 kernels": [nothing, waited]},
        {"gpu:0 copies": [waited, nothing], "gpu:0 collectives": [nothing, waited], "gpu:0 kernels": [nothing, waited],
         "gpu:1 copies": [waited, nothing]},
    ]  # fmt: skip


def test_a_copy_of_another_device_blocks_from_its_start_on_and_before_that_its_device_does():
    """A thread that reads a result of one device launches nothing for the other, which waits for the compute."""
    events = work(
        {"device": "gpu:0", "kind": "memcpy", "start": 70, "end": 90, "id": 0},
        {"device": "gpu:1", "start": 0, "end": 5, "id": 1},
    )
    launches = calls((0, 0, 1, "t"), (1, 0, 1, "t"))
    syncs = waits({"thread": "t", "start": 10, "end": 95, "on_device": "gpu:0"})
    blocked = host_activity(timeline_of(Trace(events, launches=launches, syncs=syncs))).blocked
    found = [[times.tolist() for times in both] for of_device in blocked.values() for both in of_device.values()]
    assert found == [[[[10, 95]], []], [[[70, 95]], [[10, 70]]]]
    called = calls((0, 10, 95, "t"), (1, 0, 1, "t"))  # a copy that returns when it is done
    blocked = host_activity(timeline_of(Trace(events, launches=called))).blocked
    found = [[times.tolist() for times in both] for of_device in blocked.values() for both in of_device.values()]
    assert found == [[[[10, 95]], []], [[[70, 95]], [[10, 70]]]]


def test_the_call_that_started_a_copy_was_blocked_by_it_if_it_returned_after_its_end():
    copy = {"device": "gpu:0", "kind": "memcpy", "start": 5, "end": 50}
    events = work(*({**copy, "id": id} for id in range(3)), {**copy, "id": 3, "kind": "compute"})
    launches = calls((0, 0, 60, "t"), (1, 1, 50, "u"), (2, 2, 49, "v"), (3, 3, 99, "w"))
    blocked = host_activity(timeline_of(Trace(events, launches=launches))).blocked[0]
    assert {thread: [times.tolist() for times in both] for (_, _, thread), both in blocked.items()} == {
        "t": [[[0, 60]], []],
        "u": [[[1, 50]], []],
    }


def test_waits_of_which_nothing_tells_what_for_are_merged_by_thread():
    """A call, a wait and a span of one thread, and a span of another; a call so called that is a wait too is that."""
    launches = calls((None, 10 * US, 30 * US, "t", "Wait for it"), (None, 60 * US, 61 * US, "t", "Wait for it"))
    syncs = waits(*({"thread": "t", "start": at * US, "end": (at + 20) * US, "on_device": None} for at in (20, 60)))
    spans = host_spans(("Wait for it", 90 * US, 95 * US, "t"), ("Wait for it", 5 * US, 8 * US, "u"))
    unknown = host_activity(timeline_of(Trace(work(), launches=launches, syncs=syncs, spans=spans))).unknown
    assert {thread: (times // US).tolist() for (_, _, thread), times in unknown.items()} == {
        "t": [[10, 40], [60, 80], [90, 95]],
        "u": [[5, 8]],
    }


@pytest.mark.parametrize(
    ("ends_us", "until_us"),
    [([100], 100), ([40, 100], 100), ([40, 70, 100, 200], 100), ([40], 105), ([200], 105), ([], 105), ([105], 105)],
)
def test_a_span_that_waits_for_nobody_knows_what_lasts_until_the_row_that_ended_right_before_its_return(
    ends_us, until_us
):
    rows = [{"device": "gpu:0", "start": 0, "end": end * US} for end in ends_us]
    other = {"device": "other/gpu:0", "host": "other", "start": 0, "end": 103 * US}
    spans = host_spans(("Wait for it", 10 * US, 105 * US), ("load_batch", 10 * US, 105 * US))
    places, until = unknown_waits(timeline_of(Trace(work(*rows, other), spans=spans))).spans
    assert (places.tolist(), until.tolist()) == ([0], [until_us * US])
