"""Which call started which row, where ids stand once, repeat over time, or stand in several processes."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit import correlation
from tracekit.correlation import EARLY_PS, Calls, DeviceRows, calls_of_rows, outer_calls

US = 10**6


def calls(*each: tuple, launches: list[bool] | None = None) -> Calls:
    """Calls as (id, start us, length us, process)."""
    ids, start, length, process = (np.array(column, np.int64) for column in zip(*each, strict=True))
    return Calls(ids, start * US, (start + length) * US, process, np.array(launches or [True] * len(each), bool))


def rows(*each: tuple) -> DeviceRows:
    """Rows as (id, start us, device[, lane])."""
    columns = zip(*((*row, 0)[:4] for row in each), strict=True)
    ids, start, device, lane = (np.array(column, np.int64) for column in columns)
    return DeviceRows(ids, start * US, device, lane)


def match(some_rows: DeviceRows, some_calls: Calls) -> tuple[list[int], list[bool]]:
    call, is_doubtful = calls_of_rows(some_rows, some_calls)
    return call.tolist(), is_doubtful.tolist()


def test_an_id_that_stands_once_tells_the_call_whatever_the_times():
    few = rows((7, 0, 0), (9, 100, 0), (8, 100, 0))
    assert match(few, calls((9, 50, 4, 0), (7, 60, 4, 0))) == ([1, 0, -1], [False] * 3)
    assert match(few, calls((9, 50, 4, 0), (7, 60, 4, 0), (10**9, 0, 1, 0))) == ([1, 0, -1], [False] * 3)


def test_an_id_of_more_calls_than_there_are_processes_tells_none(monkeypatch):
    monkeypatch.setattr(correlation, "_MOST_CALLS", 2)
    few, many = rows((7, 1, 0), (9, 100, 0)), calls((7, 0, 1, 0), (7, 20, 1, 1), (7, 40, 1, 2), (9, 99, 1, 0))
    assert match(few, many) == ([-1, 3], [True, False])
    assert match(few, calls((7, 0, 1, 0), (7, 20, 1, 0), (9, 99, 1, 0))) == ([0, 2], [False, False])


def test_of_the_calls_of_runtime_and_driver_in_each_other_the_outer_counts():
    nested = calls((5, 11, 2, 0), (5, 10, 4, 0), (6, 20, 4, 0), (6, 20, 2, 0))
    assert outer_calls(nested).tolist() == [1, 2]
    assert match(rows((5, 0, 0), (6, 30, 0)), nested) == ([1, 2], [False, False])


def test_of_calls_of_one_process_that_repeat_an_id_the_last_before_the_row_started_it():
    wrapped = calls((5, 0, 4, 0), (5, 1000, 4, 0), (5, 2000, 4, 0))
    some = rows((5, 10, 0), (5, 1990, 0), (5, 2500, 0), (5, 2501, 0))
    assert match(some, wrapped) == ([0, 2, 2, 2], [False] * 4)
    assert EARLY_PS == 10 * US  # so the row at 1990 us may be of the call at 2000 us
    assert match(rows((5, 1980, 0), (5, -100, 0)), wrapped) == ([1, -1], [False, True])


def test_only_a_call_that_launches_started_a_row_where_another_process_uses_its_id_otherwise():
    both = calls((5, 0, 4, 0), (5, 2, 4, 1), launches=[True, False])
    assert match(rows((5, 50, 0)), both) == ([0], [False])


def test_a_device_is_of_the_process_that_its_other_rows_tell():
    two = calls((1, 0, 4, 0), (2, 100, 4, 1), (5, 200, 4, 0), (5, 205, 4, 1), (6, 300, 4, 1))
    some = rows((1, 10, 0), (2, 110, 1), (5, 290, 1), (5, 291, 0))
    assert match(some, two) == ([0, 1, 3, 2], [False] * 4)


def test_a_row_whose_call_is_missing_is_of_no_other_process():
    own = [(number, 10 * number, 4, 0) for number in range(10, 30)]
    two = calls(*own, (10, 0, 4, 1), (40, 300, 4, 1))
    some = rows(*((number, 10 * number + 5, 0) for number in range(11, 30)), (10, 103, 0), (40, 400, 0), (40, 401, 1))
    assert match(some, two) == ([*range(1, 20), 0, -1, 21], [False] * 22)


def test_what_began_before_only_one_call_tells_the_process_of_its_device():
    two = calls((5, 0, 4, 0), (5, 100, 4, 1), (6, 200, 4, 0), (6, 201, 4, 1))
    some = rows((5, 10, 0), (5, 110, 1), (6, 300, 1), (6, 301, 0))
    assert match(some, two) == ([0, 1, 3, 2], [False] * 4)


def test_streams_of_one_device_may_be_of_two_processes():
    two = calls((1, 0, 4, 0), (2, 100, 4, 1), (5, 200, 4, 0), (5, 205, 4, 1))
    some = rows((1, 10, 0, 7), (2, 110, 0, 8), (5, 290, 0, 8), (5, 291, 0, 7))
    assert match(some, two) == ([0, 1, 3, 2], [False] * 4)


def test_a_device_that_nothing_else_tells_is_of_the_process_that_is_left_over():
    # Both calls of id 5 came before both rows; device 0 is of process 0, so device 1 is of the other.
    two = calls((1, 0, 4, 0), (5, 200, 4, 0), (5, 205, 4, 1))
    assert match(rows((1, 10, 0), (5, 290, 0), (5, 291, 1)), two) == ([0, 1, 2], [False] * 3)


def test_where_neither_process_nor_time_tells_no_call_is_taken():
    two = calls((5, 200, 4, 0), (5, 205, 4, 1))
    assert match(rows((5, 290, 0), (5, 291, 1)), two) == ([-1, -1], [True, True])


@settings(deadline=None)
@given(st.data())
def test_no_row_is_given_to_the_call_of_another_process(data):
    """Up to three processes with devices of their own, whose ids start anew each; calls run ahead by random times."""
    truth, call_table, row_table = [], [], []
    for process in range(data.draw(st.integers(1, 3))):
        at, free_at = data.draw(st.integers(0, 300)), 0
        for number in range(data.draw(st.integers(1, 8))):
            at += data.draw(st.integers(1, 200))
            call_table.append((number, at, 1, process))
            if data.draw(st.integers(0, 5)):
                free_at = max(free_at, at) + data.draw(st.integers(0, 300))
                truth.append(len(call_table) - 1)
                row_table.append((number, free_at, 10 - process, data.draw(st.integers(0, 1))))
    if not row_table:
        return
    call, is_doubtful = calls_of_rows(rows(*row_table), calls(*call_table))
    wrong = (call != np.array(truth)) & (call >= 0)
    assert not wrong.any()
    assert (is_doubtful | (call >= 0)).all()
    # Without another process nothing is doubtful.
    assert not is_doubtful.any() or len({each[3] for each in call_table}) > 1


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 60)), min_size=1), st.data())
def test_calls_of_one_process_are_told_apart_as_one_by_one(some, data):
    """Calls one after the other with random ids: each row is of the last with its id that began 10 us after it or
    before, as a search one by one has it."""
    starts = np.cumsum([gap for _, gap in some]) + np.arange(len(some))
    table = [(number, int(start), 1, 0) for (number, _), start in zip(some, starts, strict=True)]
    pairs = data.draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 400)), min_size=1, max_size=8))
    expected = []
    for number, time in pairs:
        same = [place for place, each in enumerate(table) if each[0] == number]
        before = [place for place in same if table[place][1] <= time + 10]
        expected.append(same[0] if len(same) == 1 else before[-1] if before else -1)
    assert match(rows(*((*row, 0) for row in pairs)), calls(*table))[0] == expected
