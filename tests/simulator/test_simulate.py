"""When the activities of jobs made by hand happen, and what is true of them."""

import pytest

from tests.simulator.job import COMMUNICATION_STREAM, COPY_STREAM, MAIN, Builder, Part, Sort
from tests.simulator.random_jobs import DEVICE_ROWS, habits, random_job
from tests.simulator.simulate import Removal, simulate
from tests.simulator.truth import REMOVED, Truth

QUICK = {"call_ns": 2, "latency_ns": 3, "gap_ns": 1}


def three_kernels():
    """One rank: 10 of work, then three launches with 5 of work before each, and a wait for the device.

    Calls from 10 on: 15 to 17, 22 to 24, 29 to 31; kernels of 30, 4 and 20 from 20 to 50, 51 to 55, 56 to 76. The wait
    begins at 31 and ends 3 + 6 after 76.
    """
    builder = Builder(1)
    first = builder.work(0, 10)
    for name, ns in (("a", 30), ("b", 4), ("c", 20)):
        builder.work(0, 5)
        builder.launch(0, Sort.KERNEL, name, ns, **QUICK)
    builder.sync(0, call_ns=6, wake_ns=3)
    builder.span(Sort.STEP, "step", 0, first)
    return builder.job()


def times(job, *sorts, removal=None):
    recording = simulate(job, removal) if removal else simulate(job)
    return [recording.times(row) for row in job.rows if row.sort in sorts]


def test_items_follow_their_call_and_the_item_ahead_of_them():
    job = three_kernels()
    assert times(job, Sort.LAUNCH) == [(15, 17), (22, 24), (29, 31)]
    assert times(job, Sort.KERNEL) == [(20, 50), (51, 55), (56, 76)]
    assert times(job, Sort.SYNC) == [(31, 85)]
    assert times(job, Sort.STEP) == [(0, 85)]


def test_the_path_of_three_kernels_is_known_on_paper():
    truth = Truth(three_kernels())
    (window,) = truth.steps()
    assert window == (0, 85)
    assert {part: ns for part, ns in truth.composition(window).items() if ns} == {
        Part.COMPUTE: 54,
        Part.WORK: 15,
        Part.CALL: 2 + 6,
        Part.LATENCY: 3,
        Part.GAP: 2,
        Part.WAKE: 3,
    }


def test_what_would_be_without_the_host_or_a_kernel_is_known_on_paper():
    truth = Truth(three_kernels())
    (window,) = truth.steps()
    assert truth.what_if(window, "host") == 56 / 85
    # The second would start at 27, the third at 34.
    assert truth.what_if(window, "op", "a") == (34 + 20 + 9) / 85
    assert truth.what_if(window, "copies") == 1


def test_idle_time_goes_to_what_led_to_the_work_that_ends_it():
    builder = Builder(1)
    builder.work(0, 10)
    builder.launch(0, Sort.KERNEL, "a", 30, **QUICK)
    builder.sync(0, call_ns=6, wake_ns=4)
    builder.work(0, 50, loads=True)
    builder.launch(0, Sort.KERNEL, "b", 30, **QUICK)
    (stretch,) = Truth(builder.job()).idle(0)
    assert (stretch.start, stretch.end) == (45, 110)
    assert [(piece.part, piece.end - piece.start) for piece in stretch.pieces] == [
        (Part.LATENCY, 3),
        (Part.CALL, 2),
        (Part.WORK, 50),
        (Part.CALL, 6),
        (Part.WAKE, 4),
    ]


def two_ranks():
    """Both ranks compute, 40 and 90, then meet in an all-reduce of 10 on another stream; kernels of 5 wait for it."""
    builder = Builder(2)
    for rank, ns in enumerate((40, 90)):
        first = builder.work(rank, 1)
        builder.launch(rank, Sort.KERNEL, "a", ns, **QUICK)
        builder.hold(rank, COMMUNICATION_STREAM, builder.record(rank, 7, call_ns=1), call_ns=1)
        builder.launch(rank, Sort.KERNEL, "nccl", 10, stream=COMMUNICATION_STREAM, collective=0, **QUICK)
        builder.hold(rank, 7, builder.record(rank, COMMUNICATION_STREAM, call_ns=1), call_ns=1)
        builder.launch(rank, Sort.KERNEL, "b", 5, **QUICK)
        builder.span(Sort.STEP, "step", rank, first)
    return builder.job()


def test_a_collective_begins_its_transfer_when_the_last_rank_has_come():
    truth = Truth(two_ranks())
    recording = truth.recording
    assert [recording.times(row) for row in truth.job.rows if row.name == "nccl"] == [(47, 107), (97, 107)]
    (collective,) = truth.collectives()
    assert (collective.waiting, collective.last_rank, collective.transfer) == ({0: 50, 1: 0}, 1, 10)
    (window,) = truth.steps()
    assert window == (0, 113)
    assert truth.composition(window)[Part.COMPUTE] == 95
    assert truth.composition(window)[Part.TRANSFER] == 10
    assert truth.what_if(window, "collective_transfers") == 103 / 113
    assert truth.what_if(window, "collectives") == 103 / 113


def test_a_removal_begins_where_its_window_does():
    removal = Removal(frozenset({Part.TRANSFER}), apart=True, since_ns=60)
    # The first rank has waited since 47; from 60 on nobody does.
    assert times(two_ranks(), Sort.KERNEL, removal=removal)[1] == (47, 60)
    assert times(three_kernels(), Sort.KERNEL, removal=Removal(name="a", since_ns=30)) == [(20, 30), (31, 35), (36, 56)]


def test_a_full_queue_makes_the_next_call_wait_for_its_first_item():
    builder = Builder(1, depth=2)
    for _ in range(3):
        builder.launch(0, Sort.KERNEL, "a", 100, **QUICK)
    assert times(builder.job(), Sort.LAUNCH) == [(0, 2), (2, 4), (4, 107)]


def test_a_copy_whose_call_returns_after_it_holds_its_thread():
    builder = Builder(1)
    builder.launch(0, Sort.MEMCPY, "copy", 100, stream=COPY_STREAM, wake_ns=4, **QUICK)
    builder.work(0, 10)
    assert times(builder.job(), Sort.LAUNCH, Sort.MEMCPY) == [(0, 609), (5, 105)]


def test_a_thread_goes_on_when_another_has_come_so_far():
    builder = Builder(1)
    builder.work(0, 10)
    builder.hand_over(0, MAIN, 1, 3)
    builder.launch(0, Sort.KERNEL, "a", 100, thread=1, **QUICK)
    builder.hand_over(0, 1, MAIN, 3)
    builder.launch(0, Sort.KERNEL, "b", 100, **QUICK)
    assert times(builder.job(), Sort.LAUNCH) == [(13, 15), (18, 20)]


@pytest.mark.parametrize("seed", range(12))
def test_the_truth_of_random_jobs_adds_up(seed):
    truth = Truth(random_job(seed))
    windows = truth.steps()
    assert len(windows) == habits(seed).steps
    assert sum(row.sort in ("kernel", "memcpy", "memset") for row in truth.job.rows) <= 1.3 * DEVICE_ROWS
    for window in [(windows[0][0], windows[-1][1]), (windows[0][1], windows[-1][1]), windows[2]]:
        assert sum(truth.composition(window).values()) == window[1] - window[0]
        ratios = {what: truth.what_if(window, what) for what in REMOVED}
        assert all(0 <= ratio <= 1 for ratio in ratios.values())
        assert ratios["collectives"] <= ratios["collective_transfers"]
        # What is on the path is a chain of waits, whatever else takes no time; only peers may no longer be waited for.
        path = truth.composition(window)
        for what, (parts, apart) in REMOVED.items():
            if not apart:
                remaining = sum(ns for part, ns in path.items() if part not in parts)
                assert remaining <= ratios[what] * (window[1] - window[0]) + 1e-6
    for rank in range(truth.job.ranks):
        for stretch in truth.idle(rank):
            assert sum(piece.end - piece.start for piece in stretch.pieces) == stretch.end - stretch.start
    for collective in truth.collectives():
        assert collective.waiting[collective.last_rank] == 0 == min(collective.waiting.values())
