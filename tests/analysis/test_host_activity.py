"""What the names of spans prove of the threads that they stand on."""

import pandas as pd

from tests.launch_frames import host_spans
from tracekit.analysis.host_activity import activity_times, dispatchers
from tracekit.vocabulary.host_calls import Activity


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
