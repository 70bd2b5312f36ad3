"""Loops of queries: what is one and what it saw end, what is none, and any calls against a search one by one."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracekit.readers.polling import PAUSE_PS, Calls, Work, waits

US = 10**6


def calls(*each: tuple) -> Calls:
    """Calls as (start us, length us[, what[, thread]]): what is `query`, `aside` or `other`; all of process 0."""
    full = [(*call, *("query", 0)[len(call) - 2 :]) for call in each]
    start, length, what, thread = zip(*full, strict=True)
    starts = np.array(start, np.int64) * US
    return Calls(
        np.array(thread, np.int64),
        np.zeros(len(full), np.int64),
        starts,
        starts + np.array(length, np.int64) * US,
        np.array([name == "query" for name in what]),
        np.array([name == "aside" for name in what]),
    )


def work(*each: tuple) -> Work:
    """Rows as (call, end us[, lane])."""
    call, end, lane = (np.array(column, np.int64) for column in zip(*((*row, 0)[:3] for row in each), strict=True))
    return Work(call, lane, end * US)


def loops(some: Calls, rows: Work) -> list[tuple[int, int, int]]:
    return list(zip(*(places.tolist() for places in waits(some, rows)), strict=True))


LAUNCH = (0, 2, "other")
TIGHT = [(10 + at, 1) for at in range(500)]


def test_queries_until_a_row_ends_are_one_wait_for_it_with_and_without_pauses():
    # What rests three times of four may stand still once; and a single long rest is none.
    assert loops(calls(LAUNCH, (10, 2), (30, 2), (50, 2), (54, 2), (74, 2)), work((0, 1))) == [(1, 5, -1)]
    assert loops(calls(LAUNCH, (10, 2), (200, 2), (203, 2), (206, 2), (209, 2)), work((0, 1))) == []
    for queries in (TIGHT, [(10 + 20 * at, 2) for at in range(25)], [(10 + 1500 * at, 2) for at in range(8)]):
        start, length = queries[-1]
        last_look = work((0, start + length - 1))
        assert loops(calls(LAUNCH, *queries), last_look) == [(1, len(queries), 0)]


def test_queries_that_no_row_ends_at_are_no_wait_unless_they_rest_between_two_looks():
    early = work((0, 100))
    assert loops(calls(LAUNCH, *TIGHT), early) == []
    assert loops(calls(LAUNCH, *((10 + 20 * at, 2) for at in range(25))), early) == [(1, 25, -1)]
    assert loops(calls(LAUNCH, *((10 + 200 * at, 2) for at in range(25))), early) == []
    # Nor do they say anything of a thread that launches nothing.
    assert loops(calls(LAUNCH, *((10 + 20 * at, 2, "query", 1) for at in range(25))), early) == []


def test_a_row_that_was_not_launched_before_or_is_another_process_s_was_not_waited_for():
    late = [*TIGHT, (520, 2, "other"), LAUNCH]
    assert loops(calls(*late), work((len(TIGHT), 510))) == []
    some = calls(LAUNCH, *TIGHT)
    other = Calls(
        some.thread, np.append(1, np.zeros(len(TIGHT), np.int64)), *(some.start, some.end), *(some.queries, some.aside)
    )
    assert loops(other, work((0, 510))) == []


def test_of_many_short_rows_only_the_last_of_its_lane_is_proven_to_have_been_waited_for():
    rows = [(0, 10 + 10 * at) for at in range(100)]
    assert loops(calls(LAUNCH, *TIGHT), work(*rows)) == []
    assert loops(calls(LAUNCH, *TIGHT), work(*rows[:51])) == [(1, 500, 50)]
    # Few long rows do not end just then by chance, though the lane has more to do.
    assert loops(calls(LAUNCH, *TIGHT), work((0, 10), (0, 509), (0, 2000))) == [(1, 500, 1)]


def test_few_or_short_queries_are_looks():
    assert loops(calls(LAUNCH, (10, 2), (50, 2), (90, 2)), work((0, 91))) == []
    assert loops(calls(LAUNCH, (10, 2), (20, 2), (30, 2), (40, 2)), work((0, 41))) == []
    assert loops(calls(LAUNCH, (10, 2), (30, 2), (50, 2), (70, 2)), work((0, 71))) == [(1, 4, 0)]


def test_another_call_ends_a_loop_but_one_that_gets_the_device_does_not():
    queries = [(20 * at + 10, 2) for at in range(8)]
    ends = work((0, 71), (0, 151))
    assert loops(calls(LAUNCH, *queries, (75, 2, "other")), work((0, 71), (9, 151))) == [(1, 4, 0), (5, 8, 1)]
    assert loops(calls(LAUNCH, *queries, (75, 2, "aside")), ends) == [(1, 8, 1)]
    assert loops(calls(LAUNCH, *queries, (75, 2, "other", 1)), ends) == [(1, 8, 1)]
    assert PAUSE_PS == 2000 * US
    far = [(2003 * at + 10, 2) for at in range(8)]
    assert loops(calls(LAUNCH, *far), work((0, 14032))) == []


what = st.sampled_from(["query", "query", "query", "query", "aside", "other"])


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30), what, st.integers(0, 1)), min_size=1, max_size=40))
def test_any_calls_have_the_loops_of_a_search_one_by_one(some):
    """The calls that rest between their looks: no row ends near them."""
    at, table = [10, 10], [(0, 1, "other", 0), (0, 1, "other", 1)]
    for pause, length, name, thread in some:
        at[thread] += pause
        table.append((at[thread], length, name, thread))
        at[thread] += length
    expected = []
    for thread in (0, 1):
        run: list[int] = []
        own = [place for place, call in enumerate(table) if call[3] == thread and call[2] != "aside"]
        for place in [*own, None]:
            name = table[place][2] if place is not None else "other"
            if run and name != "query":
                length = sum(table[run[-1]][:2]) - table[run[0]][0]
                pauses = [table[b][0] - sum(table[a][:2]) for a, b in itertools.pairwise(run)]
                rests = sum(pause >= 5 for pause in pauses) >= 0.75 * len(pauses)
                if len(run) >= 4 and length >= 50 and rests and sum(pauses) <= 50 * len(pauses):
                    expected.append((table[run[0]][0], run[0], run[-1], -1))
                run = []
            if name == "query":
                run.append(place)
    assert sorted(loops(calls(*table), work((0, 10**6), (1, 10**6)))) == sorted(each[1:] for each in expected)
