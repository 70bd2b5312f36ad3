"""Clocks compared on the ends of shared collectives: one clock, a corrected one, or none that can be compared."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.frames import events
from tracekit.columns import concat
from tracekit.readers.merge.clock_alignment import Clock, align
from tracekit.trace import EVENT_COLUMNS

REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
SEND_RECV = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t"


def host(name, *rows, op=REDUCE, device="gpu:0", **columns):
    """A host's collectives, each (start, end); `columns` hold one value for all rows, or a list."""
    table = events(*((f"{name}/{device}", "collective", *row, op) for row in rows), host=name)
    for column, value in columns.items():
        values = value if isinstance(value, list) else [value] * len(rows)
        table[column] = pd.Series(values).astype(
            table[column].dtype if column in ("run_id", "sequence") else "category"
        )
    return table


def alignment(*tables, timed=True):
    rows = concat(EVENT_COLUMNS, list(tables))
    hosts = list(dict.fromkeys(rows["host"].astype("str")))
    return align(rows, hosts, [timed] * len(hosts))


def shifts(*tables, timed=True):
    return [clock.shift_ps for clock in alignment(*tables, timed=timed)[0]]


def ending(*ends, long=50):
    return [(end - long, end) for end in ends]


def test_ends_that_differ_no_more_than_they_scatter_are_of_one_clock_and_nothing_is_shifted():
    clocks, notes = alignment(host("a", (0, 100), (200, 300), (400, 503)), host("b", (90, 101), (210, 304), (440, 505)))
    assert clocks == [Clock("a", "a", 0), Clock("b", "a", 0, 4, 3)]
    assert notes == [
        "The clocks of a and b were compared on the ends of 3 shared collectives: one clock, ends differ from a's by "
        "at most 4 ps; nothing was shifted."
    ]


def test_an_offset_beyond_the_scatter_is_corrected_by_the_median():
    clocks, notes = alignment(host("a", *ending(100, 300, 503)), host("b", *ending(1_001_100, 1_001_303, 1_001_505)))
    assert clocks == [Clock("a", "a", 0), Clock("b", "a", -1_001_002, 2, 3)]
    assert notes == [
        "The clock of b was 1.00 µs ahead of a's by the ends of 3 shared collectives: its times were shifted to fit, "
        "and ends now differ by at most 2 ps."
    ]


@pytest.mark.parametrize(("offset", "shift"), [(8, 0), (-8, 0), (9, -9), (-9, 9)])
def test_an_offset_as_large_as_the_spread_is_no_offset(offset, shift):
    first = ending(1000, 2000, 3000)
    second = ending(1000 + offset, 1996 + offset, 3004 + offset)
    assert shifts(host("a", *first), host("b", *second)) == [0, shift]


def test_how_long_a_rank_waits_says_nothing_of_its_clock():
    a, b = [(0, 1000), (1990, 2000), (2500, 3000)], [(990, 1001), (1100, 2000), (2990, 3000)]
    assert shifts(host("a", *a), host("b", *b)) == [0, 0]


def test_ends_given_in_microseconds_are_not_told_apart_by_one():
    a, b = [(0, 10), (20, 30), (40, 50)], [(0, 11), (20, 31), (40, 51)]
    assert shifts(*(host(name, *((s * 10**6, e * 10**6) for s, e in rows)) for name, rows in (("a", a), ("b", b)))) == [
        0,
        0,
    ]
    assert shifts(host("a", *a, (60, 67)), host("b", *b, (60, 68))) == [0, 0]
    assert shifts(host("a", *ending(100, 207, 300)), host("b", *ending(102, 209, 302))) == [0, -2]


def test_a_single_shared_collective_is_of_one_clock_as_long_as_no_rank_ends_it_before_the_other_starts():
    assert shifts(host("a", (0, 100)), host("b", (60, 137))) == [0, 0]
    assert shifts(host("a", (0, 100)), host("b", (170, 237))) == [0, -137]


def test_an_offset_within_the_spread_is_still_corrected_if_a_rank_would_end_before_the_other_starts():
    first = [(0, 100), (1000, 1100), (1990, 2000)]
    second = [(60, 160), (1000, 1100), (2055, 2064)]
    assert shifts(host("a", *first), host("b", *second)) == [0, -60]


@pytest.mark.parametrize("op", [SEND_RECV, "ncclDevKernel_Broadcast_RING_LL", "ncclDevKernel_Reduce_Sum_f32", "send.3"])
def test_ends_of_what_lets_a_rank_go_early_compare_no_clocks(op):
    rows = ending(100, 300, 500)
    clocks, notes = alignment(host("a", *rows, op=op), host("b", *rows, op=op))
    assert clocks == [Clock("a", "a"), Clock("b", "b")]
    assert notes == [
        "No shared collective compares the clocks of a and b: they are unaligned, and overlap between their devices is "
        "not computed."
    ]


def test_send_recv_kernels_that_end_as_the_collectives_do_count_as_all_to_alls_beside_them():
    reduces = host("a", *ending(1000, 2000, 3000)), host("b", *ending(1003, 2002, 3003))
    assert shifts(*reduces) == [0, -3]
    sends = host("a", *ending(100, 200, 300), op=SEND_RECV), host("b", *ending(100, 201, 299), op=SEND_RECV)
    assert shifts(*reduces, *sends) == [0, 0]
    single = host("a", *ending(100, 260, 300), op=SEND_RECV), host("b", *ending(140, 220, 380), op=SEND_RECV)
    assert shifts(*reduces, *single) == [0, -3]


def test_a_window_that_began_earlier_is_matched_by_the_ends_that_differ_evenly():
    ends = [1000, 2300, 3100, 4700, 5900, 6600]
    late = [end + 70_000 for end in ends[2:]]
    clocks, _ = alignment(host("a", *ending(*ends)), host("b", *ending(*late)))
    assert clocks == [Clock("a", "a", 0), Clock("b", "a", -70_000, 0, 4)]
    assert shifts(host("a", *ending(*ends[2:])), host("b", *ending(*ends[:5]))) == [0, 0]


def test_windows_of_equal_length_that_began_a_step_apart_are_of_one_clock():
    ends = [1000, 2000, 3001, 4000, 5002, 6000]
    assert shifts(host("a", *ending(*ends[1:])), host("b", *ending(*ends[:-1]))) == [0, 0]


def test_collectives_that_one_file_lost_do_not_keep_the_others_from_being_compared():
    ends = [1000, 2300, 3100, 4700, 5900, 6600, 7800]
    a, b = host("a", *ending(*ends)), host("b", *ending(*(end + 3 for end in ends if end not in (2300, 5900))))
    assert alignment(a, b)[0][1] == Clock("b", "a", -3, 0, 5)


def test_ends_as_near_as_chance_brings_them_are_no_evidence():
    a, b = host("a", *ending(*range(1000, 9000, 100))), host("b", *ending(*range(1000, 8800, 102)))
    assert [clock.name for clock in alignment(a, b)[0]] == ["a", "b"]


def test_several_collectives_in_another_number_that_could_be_any_of_them_are_no_evidence():
    clocks, _ = alignment(host("a", *ending(100, 200, 300)), host("b", *ending(10_000)))
    assert [clock.name for clock in clocks] == ["a", "b"]


def test_collectives_that_no_shift_lets_end_after_all_have_started_are_not_used():
    clocks, notes = alignment(host("a", *ending(100, 2000, 3000, long=5)), host("b", *ending(900, 1200, 3900, long=5)))
    assert [clock.name for clock in clocks] == ["a", "b"]
    assert notes[0] == (
        "3 collectives of a and b look shared, but no single clock offset fits their ends: they were not used."
    )


def test_ranks_are_compared_through_others_where_their_groups_do_not_meet():
    first = {"group": "1", "ranks": "[0, 1]"}
    second = {"group": "2", "ranks": "[1, 2]"}
    a = host("a", *ending(1000, 2000, 3000), **first)
    b = host("b", *ending(51_000, 52_000, 53_000), **first), host("b", *ending(54_000, 55_000, 56_001), **second)
    c = host("c", *ending(4000, 5000, 6001), **second)
    clocks, _ = alignment(a, *b, c)
    assert [(clock.name, clock.shift_ps) for clock in clocks] == [("a", 0), ("a", -50_000), ("a", 0)]


def test_groups_of_other_ranks_are_other_collectives():
    rows = ending(1000, 2000, 3000)
    clocks, _ = alignment(host("a", *rows, ranks="[0, 2]"), host("b", *rows, ranks="[1, 3]"))
    assert [clock.name for clock in clocks] == ["a", "b"]


def test_two_sets_of_hosts_are_a_clock_each():
    rows = ending(1000, 2000, 3000)
    names = {"a": "1", "b": "2", "c": "1", "d": "2"}
    clocks, notes = alignment(*(host(name, *rows, group=group) for name, group in names.items()))
    assert [clock.name for clock in clocks] == ["a", "b", "a", "b"]
    assert notes[-1] == (
        "No shared collective compares the clocks of a (with 1 more) and b (with 1 more): they are unaligned, and "
        "overlap between their devices is not computed."
    )


def test_the_majority_of_clocks_stays_and_the_first_host_may_be_the_one_that_is_off():
    rows = ending(1000, 2000, 3000)
    off = ending(91_000, 92_000, 93_000)
    assert shifts(host("a", *off), host("b", *rows), host("c", *rows)) == [-90_000, 0, 0]


def test_the_last_end_over_the_devices_of_a_host_counts():
    a = host("a", *ending(990, 1998, 3000)), host("a", *ending(1000, 2000, 2992), device="gpu:1")
    assert shifts(*a, host("b", *ending(41_000, 42_000, 43_000))) == [0, -40_000]


def test_ops_of_the_executions_that_both_hosts_number_alike_are_compared():
    op = {"op": "all-reduce.1", "hlo_op": "all-reduce.1", "hlo_module": "jit_step", "category": "all-reduce"}
    a = host("a", *ending(1000, 2000, 3000, 4000), run_id=[7, 8, 9, 10], **op)
    b = host("b", *ending(52_000, 53_000, 54_000, 55_000), run_id=[8, 9, 10, 11], **op)
    assert shifts(a, b) == [0, -50_000]


def test_numbers_within_a_group_tell_which_collectives_are_the_same():
    every = [1000 * k for k in range(1, 9)]
    # Evenly spaced, so that every shift in k fits: only the numbers tell that b's window began two collectives later.
    a = host("a", *ending(*every), sequence=list(range(1, 9)))
    b = host("b", *ending(*(end + 5000 + end // 1000 % 2 for end in every[2:])), sequence=list(range(3, 9)))
    assert shifts(a, b, timed=False) == [0, -5000]
    assert shifts(
        a.assign(sequence=pd.NA).astype(a.dtypes), b.assign(sequence=pd.NA).astype(b.dtypes), timed=False
    ) != [
        0,
        -5000,
    ]


def test_ops_within_each_host_do_not_hide_those_that_hosts_share():
    own = {"op": "all-reduce.1", "hlo_op": "all-reduce.1", "category": "all-reduce"}
    shared = {"op": "all-reduce.2", "hlo_op": "all-reduce.2", "category": "all-reduce"}
    a = host("a", *ending(500, 1500, 2500), **own), host("a", *ending(1000, 2000, 3000), **shared)
    b = host("b", *ending(640, 1580, 2700), **own), host("b", *ending(1020, 2020, 3021), **shared)
    assert shifts(*a, *b) == [0, -20]


def test_hosts_without_unix_time_are_aligned_by_what_they_share():
    rows = [1000, 2300, 3100]
    clocks, notes = alignment(host("a", *ending(*rows)), host("b", *ending(*(end + 9000 for end in rows))), timed=False)
    assert [clock.shift_ps for clock in clocks] == [0, -9000]
    assert notes == [
        "The times of b and a are not all Unix times: they were aligned by the ends of 3 shared collectives, which now "
        "differ by at most 0 ps."
    ]


def test_many_corrected_clocks_are_told_in_one_sentence():
    rows = [1000, 2300, 3100]
    tables = [host("r0", *ending(*rows)), host("r1", *ending(*rows)), host("r2", *ending(*rows))]
    off = [host(f"r{at}", *ending(*(end + at * 1000 for end in rows))) for at in range(3, 8)]
    _, notes = alignment(*tables, *off, *[host(f"r{at}", *ending(*rows)) for at in range(8, 12)])
    assert len(notes) == 2
    assert notes[1] == (
        "The clocks of r3, r4, r5, r6 and r7 were off from r0's by the ends of 3 shared collectives, r7's most, which "
        "was 7.00 ns ahead of it: their times were shifted to fit, and ends now differ by at most 0 ps."
    )


@given(
    st.lists(st.integers(500, 5000), min_size=4, max_size=8, unique=True),
    st.lists(st.integers(-(10**9), 10**9), min_size=2, max_size=4),
    st.data(),
)
def test_any_clocks_are_found_to_within_the_jitter_of_the_ends(gaps, ahead, data):
    jitter = st.integers(0, 3)
    tables, now = [], 0
    for at, offset in enumerate(ahead):
        now, rows = 0, []
        for gap in gaps:
            now += gap
            end = now + offset + data.draw(jitter)
            rows.append((end - data.draw(st.integers(5, 400)), end))
        tables.append(host(f"h{at}", *rows))
    clocks, _ = alignment(*tables)
    assert {clock.name for clock in clocks} == {clocks[0].name}
    residuals = [offset + clock.shift_ps for offset, clock in zip(ahead, clocks, strict=True)]
    # Each is within the spread of its ends (at most 6) of the host it was compared with.
    reference = next(ahead[at] for at, clock in enumerate(clocks) if clock.host == clock.name)
    assert all(abs(residual - reference) <= 12 for residual in residuals)
