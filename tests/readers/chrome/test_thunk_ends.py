"""Which `end:` event ends which op: small tables, and a real capture whose ids tell the truth."""

from pathlib import Path

import numpy as np
import pandas as pd

from tracekit.readers import xspace
from tracekit.readers.chrome.jax_planes import thunk_ends
from tracekit.readers.distinct import distinct
from tracekit.readers.xspace import xspace_file

DATA = Path(__file__).parents[2] / "data"


def joined(*events: tuple[str, int, int, int, int]) -> tuple[list[tuple[int, int]], int]:
    """(op, end) of events (name, thread, start, closed, device), by their index; device -1 for what is no op."""
    names, line, start, closed, device = zip(*events, strict=True)
    columns = [np.array(column, np.int64) for column in (line, start, closed, device, device)]
    links, guessed = thunk_ends(pd.Categorical(names), *columns)
    (producer, has_producer), (consumer, has_consumer) = links["_p"], links["_c"]
    ends = {int(consumer[row]): int(row) for row in np.flatnonzero(has_consumer)}
    return [(int(row), ends[int(producer[row])]) for row in np.flatnonzero(has_producer)], guessed


def test_an_end_on_the_ops_own_thread_is_its_own():
    assert joined(
        ("add", 1, 0, 10, 0),
        ("add", 2, 1, 11, 1),
        ("end: add", 2, 10, 11, -1),
        ("end: add", 1, 12, 13, -1),
    ) == ([(0, 3), (1, 2)], 0)


def test_an_end_on_another_thread_is_that_of_the_only_open_op_of_its_name():
    assert joined(
        ("add", 1, 0, 2, 0),
        ("mul", 1, 3, 4, 0),
        ("end: mul", 8, 7, 8, -1),
        ("end: add", 9, 3, 4, -1),
        ("add", 1, 20, 21, 0),
        ("end: add", 9, 25, 26, -1),
    ) == ([(0, 3), (1, 2), (4, 5)], 0)


def test_of_two_devices_that_run_an_op_at_once_the_first_to_start_ends_first_and_both_are_guessed():
    assert joined(
        ("add", 1, 0, 2, 0),
        ("add", 2, 1, 3, 1),
        ("end: add", 8, 9, 9, -1),
        ("end: add", 9, 12, 12, -1),
    ) == ([(0, 2), (1, 3)], 2)


def test_an_op_that_must_have_ended_gets_an_end_only_if_no_other_waits_for_it():
    # Device 0 went on to its next op at 5, so that the end at 9 is device 1's and its own is late.
    assert joined(
        ("add", 1, 0, 2, 0),
        ("mul", 1, 5, 6, 0),
        ("add", 2, 1, 3, 1),
        ("end: add", 8, 9, 9, -1),
        ("end: add", 9, 12, 12, -1),
    ) == ([(0, 4), (2, 3)], 2)


def test_an_end_that_is_missing_does_not_shift_those_of_later_runs():
    assert joined(
        ("add", 1, 0, 2, 0),
        ("add", 1, 10, 12, 0),
        ("end: add", 9, 15, 15, -1),
        ("add", 1, 20, 22, 0),
        ("end: add", 9, 25, 25, -1),
    ) == ([(1, 2), (3, 4)], 0)


def test_an_end_before_any_op_and_an_op_without_end_stay_alone_and_look_unlike_each_other():
    names = pd.Categorical(["end: add", "mul"])
    column = np.array([0, 1], np.int64)
    links, guessed = thunk_ends(names, column, column, column, np.array([-1, 0]), np.array([-1, 0]))
    assert guessed == 0
    assert not links["_p"][1].any()
    assert not links["_c"][1].any()
    assert set(links["_p"][0].tolist()).isdisjoint(links["_c"][0].tolist())


def test_a_real_captures_own_ids_join_the_same_events():
    (plane,) = (
        one
        for one in xspace_file.read(DATA / "two-cpu-devices-jax0.10.2.xplane.pb", xspace.STATS).planes
        if one.name == "/host:CPU"
    )
    thunk = plane.has("hlo_op") & plane.has("device_ordinal")
    device = np.where(thunk, plane.numbers("device_ordinal")[0], -1)
    run = np.where(thunk, distinct(device, plane.numbers("run_id")[0])[0], -1)
    start = plane.start_ps(0)
    found, guessed = thunk_ends(plane.names, plane.line, start, start + plane.duration_ps, device, run)

    def pairs(producer, consumer) -> set[tuple[int, int]]:
        ends = {int(consumer[0][row]): int(row) for row in np.flatnonzero(consumer[1] & ~thunk)}
        ops = np.flatnonzero(producer[1] & thunk)
        return {(int(row), ends[int(producer[0][row])]) for row in ops if int(producer[0][row]) in ends}

    truth = pairs((plane.numbers("_p")[0], plane.has("_p")), (plane.numbers("_c")[0], plane.has("_c")))
    assert len(truth) == thunk.sum() > 60
    assert pairs(found["_p"], found["_c"]) == truth
    assert guessed == 0
