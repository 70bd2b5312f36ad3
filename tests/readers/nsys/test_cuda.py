"""What waits for what in Nsight Systems exports: as far as the export proves it, and no further."""

import pytest

from tests import traces
from tests.readers.nsys.exports import Tables, pid, rows
from tracekit.readers import nsys

WAIT_COLUMNS = ("name", "start_ps", "device", "lane", "on_device", "on_lane", "recorded_ps")
ALL = 2**32 - 1


@pytest.fixture
def waits(tmp_path):
    def read(tables):
        trace = nsys.read(tables.write(tmp_path / "report.sqlite"))
        return [
            [value // 1000 if isinstance(value, int) else value for value in row]
            for row in rows(trace.syncs, *WAIT_COLUMNS)
        ]

    return read


def two_streams(**second):
    """A kernel on stream 13 and one on stream 20, launched at 10 and at 60, which is the time of the first event."""
    tables = Tables().call("cudaLaunchKernel", 0, 1, 1).kernel("a", 100, 200, correlationId=1)
    tables.call("cudaLaunchKernel", 60, 61, 2)
    return tables.kernel("b", 300, 400, **{"streamId": 20, "correlationId": 2, **second})


def with_wait(tables, **record):
    """`tables` with an event that is recorded at 20 on stream 13 and that stream 20 is told at 40 to wait for."""
    tables.call("cudaEventRecord_v3020", 20, 22, 5).call("cudaStreamWaitEvent_v3020", 40, 43, 6)
    return tables.event(9, 5, stream=13).sync(6, stream=20, eventId=9, syncType=2, **record)


def test_a_stream_waits_for_what_was_launched_before_the_event_was_recorded_on_the_other(waits):
    assert waits(with_wait(two_streams())) == [
        ["cudaStreamWaitEvent", 40, "gpu:0", "stream 20", "gpu:0", "stream 13", 20],
    ]


def test_the_id_that_join_a_wait_and_a_record_counts_more_than_the_order_of_their_calls(waits):
    tables = two_streams().call("cudaEventRecord", 20, 22, 5).call("cudaEventRecord", 30, 32, 7)
    tables.call("cudaStreamWaitEvent", 40, 43, 8)
    tables.event(9, 5, eventSyncId=71).event(9, 7, eventSyncId=72).sync(8, stream=20, eventId=9, eventSyncId=71)
    assert waits(tables)[0][-2:] == ["stream 13", 20]


def test_without_that_id_the_last_record_of_the_event_before_the_wait_is_meant(waits):
    tables = two_streams()
    for correlation, at in ((5, 10), (7, 20), (9, 50)):
        tables.call("cudaEventRecord", at, at + 2, correlation).event(9, correlation)
    tables.call("cudaEventRecord", 30, 32, 7).event(8, 7)
    tables.call("cudaStreamWaitEvent", 40, 43, 8).sync(8, stream=20, eventId=9)
    assert waits(tables)[0][-2:] == ["stream 13", 20]


@pytest.mark.parametrize(
    "tables",
    [
        two_streams().call("cudaStreamWaitEvent", 40, 43, 6).sync(6, stream=20, eventId=9),  # no record of the event
        two_streams().call("cudaStreamWaitEvent", 40, 43, 6).event(9, 5).sync(6, stream=20, eventId=9),  # no call of it
        with_wait(two_streams(), contextId=2),  # a context of which nothing ran
        with_wait(two_streams(streamId=21)),  # nothing ran on the stream that waits
        with_wait(two_streams(), globalPid=pid(8)),  # another process
        two_streams().call("cudaEventRecord", 20, 22, 5).call("cudaStreamWaitEvent", 40, 43, 6).event(9, 5),
    ],
)
def test_a_stream_that_waits_for_what_is_not_proven_is_left_out(waits, tables):
    assert waits(tables) == []


def test_a_host_call_waits_for_the_stream_or_event_of_its_record(waits):
    tables = two_streams().call("cudaEventRecord", 70, 72, 5).event(9, 5, stream=20)
    tables.call("cudaStreamSynchronize", 80, 210, 6).sync(6, stream=13)
    tables.call("cudaEventSynchronize", 220, 410, 7).sync(7, stream=ALL, eventId=9)
    assert waits(tables) == [
        ["cudaStreamSynchronize", 80, None, None, "gpu:0", "stream 13", 80],
        ["cudaEventSynchronize", 220, None, None, "gpu:0", "stream 20", 70],
    ]


def test_what_a_host_call_without_a_record_waits_for_is_not_known(waits):
    tables = two_streams().call("cudaStreamSynchronize", 80, 210, 6).call("cuCtxSynchronize", 300, 310, 7)
    assert waits(tables) == [
        ["cudaStreamSynchronize", 80, None, None, None, None, None],
        ["cuCtxSynchronize", 300, None, None, None, None, None],
    ]


def test_calls_that_do_not_wait_are_none_whatever_record_they_left(waits):
    tables = two_streams().call("cudaEventQuery", 80, 82, 6).sync(6, stream=ALL, eventId=9)
    tables.call("cudaStreamSynchronizeLater", 90, 91, 7).call("cudaEventRecord", 92, 93, 8).event(9, 8)
    assert waits(tables) == []


def test_a_wait_for_a_whole_device_is_told_by_its_context_not_by_the_device_of_the_record(waits):
    tables = two_streams(deviceId=1, contextId=2).call("cudaDeviceSynchronize", 80, 410, 6).sync(6, ALL, contextId=2)
    assert waits(tables) == [["cudaDeviceSynchronize", 80, None, None, "gpu:1", None, 80]]


@pytest.mark.parametrize("second", [{"contextId": 2}, {"globalPid": pid(8), "correlationId": 0}])
def test_a_device_that_ran_work_of_another_context_too_is_not_waited_for_as_a_whole(waits, second):
    tables = two_streams(**second).call("cudaDeviceSynchronize", 80, 210, 6).sync(6, ALL)
    assert waits(tables) == [["cudaDeviceSynchronize", 80, None, None, None, None, None]]


def test_what_the_driver_moves_of_unified_memory_is_no_work_of_a_stream_or_another_context(waits):
    tables = Tables().copy(11, 0, 50).copy(11, 60, 70, contextId=0, streamId=0).kernel("a", 100, 200, correlationId=1)
    tables.call("cudaDeviceSynchronize", 80, 210, 6).sync(6, ALL).call("cudaStreamSynchronize", 220, 230, 7).sync(7)
    assert [wait[4:6] for wait in waits(tables)] == [["gpu:0", None], ["gpu:0", "stream 13"]]


def test_of_a_call_of_the_runtime_and_one_of_the_driver_with_one_id_the_outer_one_waits(waits):
    tables = two_streams().call("cuStreamSynchronize", 82, 209, 6).call("cudaStreamSynchronize_v3020", 80, 210, 6)
    assert waits(tables.sync(6)) == [["cudaStreamSynchronize", 80, None, None, "gpu:0", "stream 13", 80]]


def test_lanes_are_called_as_their_rows_are(waits):
    tables = two_streams(streamId=13, contextId=2).call("cudaStreamSynchronize", 40, 43, 6).sync(6, contextId=2)
    assert waits(tables)[0][4:6] == ["gpu:0", "stream 13, context 2"]


def test_an_event_of_another_context_is_another_event(waits):
    assert waits(with_wait(two_streams(contextId=2), contextId=2)) == []


def test_a_wait_before_all_work_begins_the_trace(waits):
    tables = Tables().call("cudaDeviceSynchronize", 50, 60, 1).kernel("a", 100, 200)
    assert waits(tables)[0][1] == 0


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        # The call of each step returns 2 us after the stream's last copy.
        traces.param("generated/gpu.sqlite", {"gpu:0": (3, 2, 2), "gpu:1": (3, 2, 2)}),
        # The clock of the first GPU runs up to 15 us ahead of the host's.
        traces.param("nsys/mfu_2gpu_before-2xH100", {"gpu:0": (16, -7, 9), "gpu:1": (17, 7, 10)}),
    ],
)
def test_in_a_whole_export_host_calls_return_when_the_stream_that_they_wait_for_is_done(case, expected):
    trace = traces.trace(case)
    calls = trace.launches.set_index("correlation_id")["end_ps"]
    events = trace.events[trace.events["correlation_id"].isin(calls.index)]
    events = events.assign(called_ps=calls.loc[events["correlation_id"]].to_numpy())
    delays = {"gpu:0": [], "gpu:1": []}
    for wait in trace.syncs.itertuples():
        rows_of_lane = events[(events["device"] == wait.on_device) & (events["lane"] == wait.on_lane)]
        last_end = rows_of_lane.loc[rows_of_lane["called_ps"] <= wait.recorded_ps, "end_ps"].max()
        delays[wait.on_device].append((wait.end_ps - last_end) // 10**6)
    assert {device: (len(values), min(values), max(values)) for device, values in delays.items()} == expected
