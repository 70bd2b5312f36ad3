"""The critical path of a trace whose answer is known, what it says without evidence, and real traces."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from tests import traces
from tests.graph_traces import trace
from tests.known_path import US, known_trace, path, step_table
from tracekit.analysis.critical_path.critical_path import PARTS
from tracekit.analysis.critical_path.what_if import MOST_UNEXPLAINED
from tracekit.trace import Trace


def test_the_path_of_a_step_goes_through_the_late_peer_and_the_host_that_waited():
    critical_path = path(known_trace(), step_table((0, 87 * US)))
    assert critical_path.lacking == ""
    assert [(row["part"], row["time_ps"] / US) for row in critical_path.total.to_dict("records")] == [
        ("compute", 40 + 4 + 5),
        ("host work", 3 + 9),
        ("collective transfer", 10.0),
        ("memcpy", 8.0),
        ("unexplained", 2 + 2 + 2),
        ("host launch", 2.0),
    ]
    pieces = critical_path.path[["part", "on", "name", "start_ps", "end_ps"]].to_numpy(object, na_value=None).tolist()
    assert [(*row[:3], row[3] / US, row[4] / US) for row in pieces] == [
        ("host launch", "t", "call", 0, 2),
        ("unexplained", None, None, 2, 4),
        ("unexplained", None, None, 4, 6),
        ("compute", "gpu:1", "gemm", 6, 46),
        ("collective transfer", "gpu:1", "all-reduce", 46, 56),
        ("compute", "gpu:1", "update", 56, 60),
        ("memcpy", "gpu:1", "copy", 60, 68),
        ("host work", "t", "wait", 68, 71),
        ("host work", "t", "until call", 71, 80),
        ("unexplained", None, None, 80, 82),
        ("compute", "gpu:1", "last", 82, 87),
    ]
    (step,) = critical_path.steps.to_dict("records")
    assert (step["wall_ps"], step["replayed_ps"], step["unexplained_ps"]) == (87 * US, 81 * US, 6 * US)
    assert step["error_ratio"] == 81 / 87 - 1
    assert step["example"] == "median"


def test_what_if_takes_from_the_measured_length_what_the_replay_saves():
    critical_path = path(known_trace(), step_table((0, 87 * US)))
    predictions_us = {
        (row["what"] if pd.isna(row["name"]) else row["name"]): row["predicted_ps"] / US
        for row in critical_path.what_if.to_dict("records")
    }
    # With calls of 2 us that nothing holds up, the replay takes 81 us. Without the host gpu:1's gemm begins at 0, and
    # the last kernel follows the copy. Without the gemms the all-reduce begins when it is launched on gpu:1, at 6.
    # Without the last kernel the call that launches it ends last.
    assert predictions_us == {
        "collective_transfers": 77,
        "collectives": 77,
        "copies": 79,
        "host": 87 - (2 + 3 + 9),
        "gemm": 87 - (42 - 6),
        "all-reduce": 77,
        "copy": 79,
        "last": 87 - (5 - 2),
        "update": 83,
    }


def test_steps_that_are_left_out_are_not_looked_at_and_work_at_their_edges_is_cut():
    tpu_trace = trace([("tpu:0", "o", "compute", 0, 40), ("tpu:0", "o", "compute", 40, 95)])
    critical_path = path(tpu_trace, step_table((0, 30, "compiles"), (30, 60), (60, 100)))
    assert critical_path.steps[["step", "wall_ps", "replayed_ps", "example"]].to_numpy(object).tolist() == [
        [1, 30, 30, "median"],
        [2, 40, 35, "longest"],
    ]
    assert critical_path.composition.to_numpy(object).tolist() == [
        [0, "compute", 30, 1.0],
        [1, "compute", 35, 0.875],
        [1, "unexplained", 5, 0.125],
    ]


def test_without_steps_all_rows_of_each_clock_are_one():
    two_clocks = trace(
        [
            ("a/gpu:0", "s", "compute", 5, 9, {"clock": "a"}),
            ("a/gpu:0", "s", "compute", 9, 12, {"clock": "a"}),
            ("b/gpu:0", "s", "compute", 100, 103, {"clock": "b"}),
        ]
    )
    events = two_clocks.events.assign(host=pd.Categorical(["a", "a", "b"]))
    critical_path = path(Trace(events=events))
    columns = ["clock", "start_ps", "end_ps", "replayed_ps"]
    assert critical_path.steps[columns].to_numpy(object).tolist() == [["a", 5, 12, 7], ["b", 100, 103, 3]]


def test_where_too_little_is_explained_no_what_if_is_told():
    two_gpus = trace([("gpu:0", "s", "compute", 0, 10), ("gpu:1", "s", "compute", 30, 40)])
    critical_path = path(two_gpus)
    assert critical_path.steps["unexplained_ps"].tolist() == [30]
    assert MOST_UNEXPLAINED * 40 < 30
    assert critical_path.what_if["predicted_ps"].isna().all()
    assert set(critical_path.what_if["reason"]) == {"no dependency explains 75.0 % of the critical path"}
    assert critical_path.step_what_if["predicted_ps"].isna().all()


def test_of_copies_whose_device_is_unknown_no_what_if_is_told():
    # cpu:? copies: what waited for them may be anything.
    critical_path = path(trace([("cpu:1", "p", "compute", 0, 10), ("cpu:?", "p", "memcpy", 2, 9)]))
    what_if = critical_path.what_if.set_index("what")[["predicted_ps", "reason"]]
    assert what_if.loc["copies", "reason"] == "it is not known what waited for the 1 copies on cpu:?"
    assert what_if["predicted_ps"].isna().to_dict() == {"copies": True, "op": False}
    assert critical_path.step_what_if["predicted_ps"].isna().tolist() == [True, False]


def test_a_collective_whose_peers_the_trace_lacks_holds_its_waiting():
    lone_collective = trace([("gpu:0", "s", "collective", 0, 10, {"category": "all-reduce"})])
    assert path(lone_collective).total["part"].tolist() == ["collective, waiting included"]


def test_what_the_times_contradict_is_noted():
    contradictory = trace(
        [("gpu:0", "s", "compute", 3, 10, {"correlation_id": 1})], [("t", 5, 6, 1)], [], [("t", 7, 9, *[None] * 5)]
    )
    assert path(contradictory).notes == (
        "1 of 1 dependencies (launch) was dropped: the measured times contradict it.",
        "1 wait of the host could not be attributed: on a critical path that time is unexplained.",
    )


NO_DEVICE = "The trace holds no work of a known device, so it has no critical path."


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([], "The trace holds no work of a known device, so it has no critical path."),
        (
            [("cpu:?", "s", "memcpy", 0, 5)],
            "The trace holds no work of a known device, so it has no critical path.",
        ),
        ([("gpu:0", "s", "compute", 5, 5)], "All work of the trace takes no time, so there is no path through it."),
    ],
)
def test_without_work_the_reason_is_told(events, why):
    critical_path = path(trace(events))
    assert critical_path.lacking == why
    assert len(critical_path.steps) == len(critical_path.path) == len(critical_path.what_if) == 0


def test_the_frames_are_left_as_they_were():
    source = known_trace()
    before = [frame.copy(deep=True) for frame in (source.events, source.launches, source.spans, source.syncs)]
    path(source)
    for frame_before, frame_after in zip(
        before, (source.events, source.launches, source.spans, source.syncs), strict=True
    ):
        pd.testing.assert_frame_equal(frame_before, frame_after)


@cache
def whole(case):
    """The path through the whole of a trace, as one step."""
    return path(traces.trace(case))


@pytest.mark.parametrize(
    "case",
    traces.cases(
        "generated/gpu.xplane.pb",
        "generated/gpu.trace.json.gz",
        "generated/rocm.xplane.pb",
        "generated/tpu.xplane.pb",
        "generated/kineto",
        "generated/gpu.sqlite",
        "xplane/tpu-v6e-4chip",
        "xplane/jax-8xMI300X",
        "chrome/jax-tpu-2chip-vllm",
        "kineto/dlrm-8xV100",
        "kineto/hta-nccl_data-A100",
        "nsys/mfu_2gpu_before-2xH100",
    ),
)
def test_the_parts_sum_to_the_length_of_a_trace_and_the_rest_of_the_replay_is_unexplained(case):
    critical_path = whole(case)
    assert critical_path.composition["time_ps"].sum() == critical_path.steps["wall_ps"].sum()
    steps = critical_path.steps
    assert (steps["replayed_ps"] + steps["unexplained_ps"]).tolist() == steps["wall_ps"].tolist()
    assert set(critical_path.total["part"]) <= set(PARTS.values())
    assert (critical_path.what_if["without_ps"] <= critical_path.what_if["replayed_ps"]).all()


# In each step a GPU's stream of compute is busy for 496 us, 4 us of them with a copy, and nothing proves that it waits
# for other streams. An execution on the TPUs is 400 us of additions, the copy that starts after them, and a gather.
# Without collectives 59 us of compute follow the copy; without the copy, the gather follows 600 us of ops and 95 us of
# reducing.
@pytest.mark.parametrize(
    ("case", "without"),
    [
        ("generated/gpu.xplane.pb", {"": 496, "collectives": 496, "copies": 492}),
        ("generated/kineto", {"": 496, "collectives": 496, "copies": 492}),
        ("generated/gpu.sqlite", {"": 496, "collectives": 496, "copies": 492}),
        ("generated/tpu.xplane.pb", {"": 815, "collectives": 799, "copies": 770}),
        ("generated/tpu.trace.json.gz", {"": 815, "collectives": 799, "copies": 770}),
    ],
)
def test_three_steps_are_replayed_as_long_as_their_schedule_has_it(case, without):
    critical_path = whole(case)
    replayed = dict(zip(critical_path.what_if["what"], critical_path.what_if["without_ps"], strict=True))
    assert critical_path.steps["replayed_ps"].tolist() == [3 * without.pop("") * 10**6]
    assert {what: replayed[what] for what in without} == {what: 3 * time * 10**6 for what, time in without.items()}


@traces.needs_real
def test_tpus_that_never_stand_still_are_explained_and_without_collectives_only_their_own_work_is_left():
    case = "chrome/jax-tpu-2chip-vllm"
    source, critical_path = traces.trace(case), whole(case)
    (step,) = critical_path.steps.to_dict("records")
    assert step["unexplained_ps"] < step["wall_ps"] / 1000
    # Without collectives, waiting for nobody, the slower chip does its other work in one go. Of the pairs of copies
    # that ran beside it, four were waited for; the others cost what their done took.
    events = source.events[(source.events["kind"] == "compute")]
    work = (events["end_ps"] - events["start_ps"]).groupby(events["device"], observed=True).sum()
    (without,) = critical_path.what_if.loc[critical_path.what_if["what"] == "collectives", "without_ps"]
    assert 0 <= without - work.max() < step["wall_ps"] / 1000


@traces.needs_real
def test_an_h100_is_never_busy_longer_than_the_path_explains():
    case = "nsys/mfu_2gpu_before-2xH100"
    events, critical_path = traces.trace(case).events, whole(case)
    # Each GPU has one stream, so its rows are one chain; all of it but the waiting in collectives must be explained.
    own = events[events["kind"] != "collective"]
    chain = (own["end_ps"] - own["start_ps"]).groupby(own["device"], observed=True).sum()
    assert critical_path.steps["replayed_ps"].iloc[0] >= chain.max()
    assert np.isclose(critical_path.total.set_index("part")["ratio"].sum(), 1)
