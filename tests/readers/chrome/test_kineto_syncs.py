"""What waits for what in Kineto documents: as far as CUPTI's records and the calls prove it, and no further."""

import pytest

from tests.readers.chrome.kineto_files import event, kernel, made, rows

WHAT = ("name", "start_ps", "device", "lane", "on_device", "on_lane", "recorded_ps")
NONE = 2**32 - 1


def call(name, ts, correlation, dur=5, cat="cuda_runtime", tid=9):
    return event(cat, name, ts, dur, pid=50, tid=tid, correlation=correlation)


def record(kind, correlation, stream=-1, device=0, on=None, by=None):
    """CUPTI's record of a wait; `on` and `by` are the stream and the call that recorded the event waited for."""
    args = {"cuda_sync_kind": kind, "stream": stream, "correlation": correlation, "device": device, "context": 1}
    if on is not None:
        args |= {"wait_on_stream": on, "wait_on_cuda_event_record_corr_id": by, "wait_on_cuda_event_id": 1}
    return event("cuda_sync", kind, 500, 1, pid=device, tid=stream, **args)


@pytest.fixture
def waits(tmp_path):
    def read(*events, devices=(0,)):
        work = [event("kernel", "k", 100 + at, device=at, stream=7) for at in devices]
        trace = made(tmp_path, event("user_annotation", "a", 0), *work, *events)
        return [[one // 10**6 if isinstance(one, int) else one for one in row] for row in rows(trace.syncs, *WHAT)]

    return read


def test_a_stream_waits_for_what_was_launched_before_the_event_was_recorded_on_the_other(waits):
    calls = call("cudaEventRecord", 20, 5), call("cudaStreamWaitEvent", 40, 6)
    assert waits(*calls, record("Stream Wait Event", 6, stream=20, on=7, by=5)) == [
        ["cudaStreamWaitEvent", 40, "gpu:0", "stream 20", "gpu:0", "stream 7", 20]
    ]


@pytest.mark.parametrize(
    "told",
    [
        [],  # no record, as without enable_cuda_sync_events
        [record("Stream Wait Event", 6, stream=20)],  # older files do not say what was recorded
        [record("Stream Wait Event", 6, stream=20, on=-1, by=-1)],
        [record("Stream Wait Event", 6, stream=20, on=7, by=4)],  # recorded before the trace began
        [record("Stream Wait Event", 6, stream=20, on=7, by=8)],  # recorded again after the wait
        [record("Stream Wait Event", 6, stream=NONE, on=7, by=5)],
        [record("Stream Wait Event", 7, stream=20, on=7, by=5)],  # of no call that is there
    ],
)
def test_a_stream_that_waits_for_what_is_not_proven_is_left_out(waits, told):
    calls = call("cudaEventRecord", 20, 5), call("cudaStreamWaitEvent", 40, 6), call("cudaEventRecord", 60, 8)
    assert waits(*calls, *told) == []


def test_a_host_call_waits_for_the_stream_event_or_device_of_its_record(waits):
    calls = [call("cudaEventRecord", 20, 5), call("cudaStreamSynchronize", 40, 6)]
    calls += [call("cudaEventSynchronize", 60, 7), call("cudaDeviceSynchronize", 80, 8)]
    records = [record("Context Sync", 8, NONE, device=1), record("Event Sync", 7, on=20, by=5)]
    assert waits(*calls, *records, record("Stream Sync", 6, stream=7), devices=(0, 1)) == [
        ["cudaStreamSynchronize", 40, None, None, "gpu:0", "stream 7", 40],
        ["cudaEventSynchronize", 60, None, None, "gpu:0", "stream 20", 20],
        ["cudaDeviceSynchronize", 80, None, None, "gpu:1", None, 80],
    ]


@pytest.mark.parametrize("name", ["cudaDeviceSynchronize", "hipDeviceSynchronize", "cuCtxSynchronize"])
def test_without_records_the_one_device_that_worked_is_what_a_whole_wait_is_for(waits, name):
    assert waits(call(name, 40, 6)) == [[name, 40, None, None, "gpu:0", None, 40]]
    assert waits(call(name, 40, 6), devices=(0, 1)) == [[name, 40, None, None, None, None, None]]
    assert waits(call(name, 40, 6), devices=()) == [[name, 40, None, None, None, None, None]]


def test_without_records_what_other_host_calls_wait_for_is_not_known(waits):
    calls = call("cudaEventSynchronize", 40, 6), call("hipStreamSynchronize", 60, 7)
    assert waits(*calls) == [
        ["cudaEventSynchronize", 40, None, None, None, None, None],
        ["hipStreamSynchronize", 60, None, None, None, None, None],
    ]


def test_a_query_is_no_wait_though_cupti_makes_a_record_of_it(waits):
    calls = call("cudaEventRecord", 20, 5), call("cudaEventQuery", 40, 6), call("cudaStreamSynchronizeLater", 50, 7)
    assert waits(*calls, record("Event Sync", 6, on=7, by=5)) == []


def test_of_a_call_of_the_runtime_and_one_of_the_driver_with_one_id_the_outer_one_waits(waits):
    calls = call("cuCtxSynchronize", 41, 6, 7, "cuda_driver"), call("cudaDeviceSynchronize", 40, 6, 9)
    assert [wait[0] for wait in waits(*calls)] == ["cudaDeviceSynchronize"]


def test_a_wait_has_the_thread_and_the_times_of_its_call(tmp_path):
    trace = made(tmp_path, kernel("k", 1), call("cudaDeviceSynchronize", 11, 6, dur=9, tid=77), name="rank3.json")
    assert rows(trace.syncs, "host", "thread", "start_ps", "end_ps") == [["rank3", "thread 77", 10 * 10**6, 19 * 10**6]]
