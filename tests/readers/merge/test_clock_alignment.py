"""Clocks compared on the ends of shared collectives: one clock, a corrected one, or none that can be compared."""

import re
import time
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frames import events
from tracekit.columns import concat
from tracekit.readers.merge import shared_ends
from tracekit.readers.merge.clock_alignment import align
from tracekit.readers.merge.clock_fit import UNCHANGED
from tracekit.trace import EVENT_COLUMNS

REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
US = 10**6
SEND_RECV = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t"


def host(name, *rows, op=REDUCE, device="gpu:0", **columns):
    """A host's collectives, each (start, end) in us; `columns` hold one value for all rows, or a list."""
    times = [(round(start * US), round(end * US)) for start, end in rows]
    table = events(*((f"{name}/{device}", "collective", *row, op) for row in times), host=name)
    for column, value in columns.items():
        values = value if isinstance(value, list) else [value] * len(rows)
        table[column] = pd.Series(values).astype(
            table[column].dtype if column in ("run_id", "sequence", "bytes") else "category"
        )
    return table


def alignment(*tables, timed=True):
    rows = concat(EVENT_COLUMNS, list(tables))
    hosts = list(dict.fromkeys(rows["host"].astype("str")))
    return align(rows, hosts, [timed] * len(hosts))


def shifts(*tables, timed=True):
    """What was added to the times of each host, us; null where it is not aligned."""
    clocks = alignment(*tables, timed=timed)[0]
    alone = {clock.host for clock in clocks if sum(other.name == clock.name for other in clocks) == 1}
    return [None if clock.host in alone else clock.shift_ps / US for clock in clocks]


def facts(clock):
    """Host, the one it was compared with, shift and residual in us, and how many collectives said so."""
    return clock.host, clock.name, clock.shift_ps / US, clock.residual_ps / US, clock.collectives


def ending(*ends, long=50):
    return [(end - long, end) for end in ends]


def test_ends_that_differ_no_more_than_they_scatter_are_of_one_clock_and_nothing_is_shifted():
    clocks, notes = alignment(host("a", (0, 100), (200, 300), (400, 503)), host("b", (90, 101), (210, 304), (440, 505)))
    assert facts(clocks[1]) == ("b", "a", 0, 4, 3)
    assert notes == [
        "The clocks of a and b were compared on the ends of 3 shared collectives: one clock, ends differ from a's by "
        "at most 4.00 µs; nothing was shifted."
    ]


def test_an_offset_beyond_the_scatter_is_corrected_by_the_median():
    clocks, notes = alignment(host("a", *ending(100, 300, 503)), host("b", *ending(1_001_100, 1_001_303, 1_001_505)))
    assert facts(clocks[1]) == ("b", "a", -1_001_002, 2, 3)
    assert notes == [
        "The clock of b was 1.00 s ahead of a's by the ends of 3 shared collectives: its times were shifted to fit, "
        "and ends now differ by at most 2.00 µs."
    ]


@pytest.mark.parametrize(("offset", "shift"), [(15, 0), (-15, 0), (40, -40), (-40, 40)])
def test_an_offset_that_the_spread_of_three_ends_leaves_open_is_no_offset(offset, shift):
    first = ending(1000, 2000, 3000, long=400)
    second = ending(1000 + offset, 1996 + offset, 3004 + offset, long=400)
    assert shifts(host("a", *first), host("b", *second)) == [0, shift]


def test_how_long_a_rank_waits_says_nothing_of_its_clock():
    a, b = [(0, 1000), (1990, 2000), (2500, 3000)], [(990, 1001), (1100, 2000), (2990, 3000)]
    assert shifts(host("a", *a), host("b", *b)) == [0, 0]


@pytest.mark.parametrize(("ahead", "shift"), [(1, 0), (-4, 0), (40, -40), (-40, 40)])
def test_microseconds_by_which_ends_differ_every_time_are_of_the_collective_and_no_offset(ahead, shift):
    a, b = (host(name, *ending(*(end + by for end in (100, 307, 500, 760)))) for name, by in (("a", 0), ("b", ahead)))
    assert shifts(a, b) == [0, shift]


def test_collectives_of_no_length_do_not_shift_clocks_that_agree():
    ends = [100, 307, 500, 760]
    assert shifts(host("a", *ending(*ends, long=0)), host("b", *ending(*(end + 0.6 for end in ends), long=0))) == [0, 0]


@pytest.mark.parametrize(("ahead", "text"), [(9000, "9.00 ms"), (31000, "31.00 ms")])
def test_one_or_two_shared_collectives_prove_no_offset(ahead, text):
    for ends in ([100_000], [100_000, 200_000]):
        a, b = host("a", *ending(*ends)), host("b", *ending(*(end + ahead for end in ends)))
        clocks, notes = alignment(a, b)
        assert [(clock.name, clock.line) for clock in clocks] == [("a", None), ("b", None)]
        count = "1 collective is" if len(ends) == 1 else "2 collectives are"
        assert notes == [
            f"{count} shared by a and b, with ends {text} apart: too few to prove an offset, which takes 3 that agree. "
            "They were not used.",
            "Nothing aligns the clocks of a and b: they are unaligned, and overlap between their devices is not "
            "computed.",
        ]


def test_a_single_shared_collective_that_ends_alike_shows_that_clocks_agree_already():
    assert shifts(host("a", (0, 100)), host("b", (60, 103))) == [0, 0]
    assert shifts(host("a", (0, 100)), host("b", (60, 137))) == [None, None]
    # 332 us after 42 ms, in which both ran.
    assert shifts(host("a", (0, 42_000)), host("b", (100, 42_332))) == [0, 0]


def test_ends_that_agree_on_nothing_shift_no_clock():
    first = [(0, 100), (1000, 1100), (1990, 2000)]
    second = [(60, 160), (1000, 1100), (2055, 2064)]
    assert shifts(host("a", *first), host("b", *second)) == [None, None]


def test_a_clock_that_runs_fast_is_found_and_the_ends_that_it_moved_apart_are_one_again():
    ends = [1000 + 40_000 * k + 700 * (k % 3) for k in range(30)]
    b = host("b", *ending(*(end * (1 + 50e-6) + 20_000 for end in ends)), sequence=list(range(30)))
    clocks, notes = alignment(host("a", *ending(*ends), sequence=list(range(30))), b)
    assert clocks[1].line.drift * 1e6 == pytest.approx(50, abs=0.01)
    assert clocks[1].shift_ps == pytest.approx(-20_029 * US, abs=10 * US)
    assert clocks[1].residual_ps < 1000
    assert notes == [
        "The clock of b was 20.03 ms ahead of a's halfway and ran 50.0 ± 0.7 ppm fast by the ends of 30 shared "
        "collectives, matched by their sequence numbers: its times were shifted to fit, and ends now differ by at most "
        "0 ps."
    ]


@pytest.mark.parametrize("count", [8, 20, 200])
def test_no_drift_is_told_of_clocks_that_keep_one_pace(count):
    draw = np.random.default_rng(count)
    for _ in range(60):
        ends = np.cumsum(draw.uniform(20, 300, count)) + 100
        shown = [ends + draw.uniform(0, 0.3, count), ends + draw.uniform(0, 0.3, count) + 3000]
        tables = [host(name, *ending(*times, long=10)) for name, times in zip("ab", shown, strict=True)]
        assert alignment(*tables)[0][1].line.drift == 0


def test_a_drift_that_is_told_is_right_within_its_error():
    draw = np.random.default_rng(7)
    for drift in (20, 50, 200):
        ends = np.cumsum(draw.uniform(1000, 30_000, 40))
        shown = [ends + draw.uniform(0, 2, 40), ends * (1 + drift * 1e-6) + draw.uniform(0, 2, 40) + 3000]
        tables = [host(name, *ending(*times)) for name, times in zip("ab", shown, strict=True)]
        clocks, (note,) = alignment(*tables)
        told, error = re.search(r"ran ([\d.]+) ± ([\d.]+) ppm fast", note).groups()
        assert abs(float(told) - drift) <= float(error) < drift / 5
        assert clocks[1].line.drift * 1e6 == pytest.approx(float(told), abs=0.6)


@pytest.mark.parametrize(("length", "has_drift"), [(40, True), (5, False)])
def test_a_drift_is_not_that_of_a_host_which_is_compared_with_a_clock_that_drifts_for_a_moment_only(length, has_drift):
    draw = np.random.default_rng(3)
    ends = 1000 + np.arange(40) * 20_000.0
    fast = ends * (1 + 50e-6) + 3000
    pair = (ends + 7000)[:length] * (1 + 50e-6) + 3000
    whole, part = "0,1,2,3", "3,4"
    shown = [("a", ends, whole), ("a2", ends, whole), ("a3", ends, whole), ("b", fast, whole), ("b", pair, part),
             ("c", pair, part)]  # fmt: skip
    clocks, _ = alignment(
        *(host(name, *ending(*(times + draw.uniform(0, 2, len(times)))), ranks=ranks) for name, times, ranks in shown)
    )
    assert [clock.line.drift != 0 for clock in clocks] == [False, False, False, True, has_drift]
    true = (ends + 7000)[:length]
    times = (pair * US).astype(np.int64)
    assert (np.abs(times + clocks[4].line.shifts(times) - true * US) < 9 * US).all()


def test_collectives_of_no_length_say_nothing_beside_others():
    draw = np.random.default_rng(1)
    ends = [100, 307, 500, 760, 999]
    tables = []
    for ahead in (0, 9000):
        early = [(end - by, end - by) for end, by in zip(ends, draw.uniform(10, 40, 5), strict=True)]
        rows = [row for pair in zip(early, ending(*ends), strict=True) for row in pair]
        rows = [(start + ahead, end + ahead) for start, end in rows]
        tables.append(rows)
    for numbers in ({"sequence": list(range(10))}, {}):
        clocks, _ = alignment(*(host(name, *rows, **numbers) for name, rows in zip("ab", tables, strict=True)))
        assert facts(clocks[1]) == ("b", "a", -9000, 0, 5)


def test_no_clock_runs_as_fast_as_ends_that_have_nothing_in_common():
    ends = [1000 * k for k in range(1, 30)]
    assert shifts(host("a", *ending(*ends)), host("b", *ending(*(end * 1.1 for end in ends)))) == [None, None]


def test_shared_collectives_that_scatter_more_than_others_are_not_used_and_their_number_and_distance_told():
    steady, scattered = (100, 300, 500, 700), (1200, 1400, 1600, 1800)
    late = [end + 5000 + by for end, by in zip(scattered, (0, -40, 63, 30), strict=True)]
    a = concat(
        EVENT_COLUMNS, [host("a", *ending(*steady)), host("a", *ending(*scattered), op="ncclDevKernel_AllGather_RING")]
    )
    b = concat(
        EVENT_COLUMNS,
        [
            host("b", *ending(*(end + 5000 for end in steady))),
            host("b", *ending(*late), op="ncclDevKernel_AllGather_RING"),
        ],
    )
    clocks, notes = alignment(a, b)
    assert facts(clocks[1]) == ("b", "a", -5000, 0, 4)
    assert notes[1] == (
        "3 of 8 shared collectives do not agree with the others on b's clock, by up to 63.00 µs: they were not used."
    )


def test_collectives_that_disagree_are_not_used_where_most_others_agree():
    ends = [1000 * k + 37 * (k % 5) for k in range(1, 13)]
    off = [end + 5000 + (900 if k in (3, 8) else 0) for k, end in enumerate(ends)]
    numbers = list(range(12))
    a, b = host("a", *ending(*ends), sequence=numbers), host("b", *ending(*off), sequence=numbers)
    clocks, notes = alignment(a, b)
    assert facts(clocks[1]) == ("b", "a", -5000, 0, 10)
    assert notes[1] == (
        "2 of 12 shared collectives do not agree with the others on b's clock, by up to 900.0 µs: they were not used."
    )


def test_collectives_of_one_number_and_other_sizes_are_not_the_same():
    ends, numbers, sizes = [1000, 2300, 3100, 4700, 5200], [1, 2, 3, 4, 5], [8, 8, 64, 8, 8]
    a = host("a", *ending(*ends), sequence=numbers, bytes=sizes)
    b = host("b", *ending(*(end + 70 * (end == 3100) for end in ends)), sequence=numbers, bytes=[8] * 5)
    clock = alignment(a, b)[0][1]
    assert (clock.collectives, clock.disagreeing, clock.shift_ps) == (4, 0, 0)


@pytest.mark.parametrize("op", [SEND_RECV, "ncclDevKernel_Broadcast_RING_LL", "ncclDevKernel_Reduce_Sum_f32", "send.3"])
def test_ends_of_what_lets_a_rank_go_early_compare_no_clocks(op):
    rows = ending(100, 300, 500)
    clocks, notes = alignment(host("a", *rows, op=op), host("b", *rows, op=op))
    assert [(clock.name, clock.line) for clock in clocks] == [("a", None), ("b", None)]
    assert notes == [
        "No shared collective compares the clocks of a and b: they are unaligned, and overlap between their devices is "
        "not computed."
    ]


def test_send_recv_kernels_that_end_as_the_collectives_do_count_as_all_to_alls_beside_them():
    ends = [1000, 2300, 3100]
    reduces = host("a", *ending(*ends)), host("b", *ending(*(end + 40 for end in ends)))
    a = host("a", *ending(100, 240, 300), op=SEND_RECV)
    joint = a, host("b", *ending(141, 280, 341), op=SEND_RECV)
    single = a, host("b", *ending(140, 520, 380), op=SEND_RECV)
    assert [facts(alignment(*reduces, *more)[0][1])[2:] for more in ((), joint, single)] == [
        (-40, 0, 3),
        (-40, 1, 6),
        (-40, 0, 3),
    ]


def test_a_window_that_began_earlier_is_matched_by_the_ends_that_differ_evenly():
    ends = [1000, 2300, 3100, 4700, 5900, 6600]
    late = [end + 70_000 for end in ends[2:]]
    clocks, _ = alignment(host("a", *ending(*ends)), host("b", *ending(*late)))
    assert facts(clocks[1]) == ("b", "a", -70_000, 0, 4)
    assert shifts(host("a", *ending(*ends[2:])), host("b", *ending(*ends[:5]))) == [0, 0]


def test_windows_of_equal_length_that_began_a_step_apart_are_of_one_clock():
    ends = [1000, 2000, 3001, 4000, 5002, 6000]
    assert shifts(host("a", *ending(*ends[1:])), host("b", *ending(*ends[:-1]))) == [0, 0]


def test_collectives_that_one_file_lost_do_not_keep_the_others_from_being_compared():
    ends = [1000, 2300, 3100, 4700, 5900, 6600, 7800]
    a, b = host("a", *ending(*ends)), host("b", *ending(*(end + 3 for end in ends if end not in (2300, 5900))))
    assert facts(alignment(a, b)[0][1]) == ("b", "a", 0, 3, 5)


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
        "3 collectives of a and b look shared, but too few of their ends agree on one clock offset and drift: they "
        "were not used."
    )


def test_ranks_are_compared_through_others_where_their_groups_do_not_meet():
    first = {"group": "1", "ranks": "[0, 1]"}
    second = {"group": "2", "ranks": "[1, 2]"}
    a = host("a", *ending(1000, 2000, 3000), **first)
    b = host("b", *ending(51_000, 52_000, 53_000), **first), host("b", *ending(54_000, 55_000, 56_001), **second)
    c = host("c", *ending(4000, 5000, 6001), **second)
    clocks, _ = alignment(a, *b, c)
    assert [(clock.name, clock.shift_ps / US) for clock in clocks] == [("a", 0), ("a", -50_000), ("a", 0)]


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
    assert shifts(a, b, timed=False) == [0, -5000.5]
    assert shifts(
        a.assign(sequence=pd.NA).astype(a.dtypes), b.assign(sequence=pd.NA).astype(b.dtypes), timed=False
    ) != [0, -5000.5]


def test_ops_within_each_host_do_not_hide_those_that_hosts_share():
    own = {"op": "all-reduce.1", "hlo_op": "all-reduce.1", "category": "all-reduce"}
    shared = {"op": "all-reduce.2", "hlo_op": "all-reduce.2", "category": "all-reduce"}
    a = host("a", *ending(500, 1500, 2500), **own), host("a", *ending(1000, 2000, 3000), **shared)
    b = host("b", *ending(640, 1580, 2700), **own), host("b", *ending(1050, 2050, 3051), **shared)
    assert shifts(*a, *b) == [0, -50]


def test_hosts_without_unix_time_are_aligned_by_what_they_share():
    rows = [1000, 2300, 3100]
    clocks, notes = alignment(host("a", *ending(*rows)), host("b", *ending(*(end + 9000 for end in rows))), timed=False)
    assert [clock.shift_ps / US for clock in clocks] == [0, -9000]
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
        "was 7.00 ms ahead of it: their times were shifted to fit, and ends now differ by at most 0 ps."
    )


@settings(max_examples=30)
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
    rest = [offset + clock.shift_ps / US for offset, clock in zip(ahead, clocks, strict=True)]
    # Each is off by what four ends leave open, of which each pair differs by at most 3.
    reference = next(ahead[at] for at, clock in enumerate(clocks) if clock.host == clock.name)
    assert max(abs(residual - reference) for residual in rest) <= 30


@dataclass(frozen=True)
class Job:
    """Collectives of some ranks: when each truly ended (n,), and of each rank its clock, what it recorded, and which of
    that is `right` (ranks, n)."""

    ends: np.ndarray
    clocks: tuple[tuple[float, float], ...]
    jitter: float
    tables: list[pd.DataFrame]
    recorded: np.ndarray
    right: np.ndarray

    @property
    def is_evident(self):
        """Whether any two ranks have enough in common, and most of it right."""
        both = [(a, b) for a in range(len(self.right)) for b in range(a)]
        return all(
            (self.right[a] & self.right[b]).sum() >= max(8, 0.75 * (self.recorded[a] & self.recorded[b]).sum())
            for a, b in both
        )


def random_job(seed, numbered):
    """A job of a seed, times in us: clocks that are off and drift, ends that scatter, rows that lack or are wrong."""
    draw = np.random.default_rng(seed)
    count = int(draw.integers(8, 80))
    ends = 1000 + np.cumsum(draw.choice([300.0, 3000.0, 60_000.0]) * draw.lognormal(0, 0.7, count))
    jitter = draw.choice([0.0, 0.5, 3.0])
    lacking, wrong = draw.choice([0.0, 0.05, 0.2]), draw.choice([0.0, 0.03, 0.1])
    clocks, tables, masks = [], [], []
    for rank in range(int(draw.integers(2, 5))):
        offset, drift = (draw.uniform(-20_000, 20_000), draw.uniform(-50e-6, 50e-6)) if rank else (0.0, 0.0)
        is_recorded, is_wrong = draw.random(count) >= lacking, draw.random(count) < wrong
        recorded = np.flatnonzero(is_recorded)
        shown = ends * (1 + drift) + offset + draw.normal(0, jitter, count)
        shown += np.where(is_wrong, draw.choice([-1, 1], count) * draw.uniform(50, 5000, count), 0)
        long = draw.uniform(20, 250, count)
        rows = [(shown[k] - long[k], shown[k]) for k in recorded]
        tables.append(host(f"r{rank}", *rows, **({"sequence": recorded.tolist()} if numbered else {})))
        clocks.append((offset, drift))
        masks.append((is_recorded, is_recorded & ~is_wrong))
    return Job(ends, tuple(clocks), jitter, tables, *np.swapaxes(masks, 0, 1))


def errors(job, clocks):
    """How far apart two ranks show the same moment at the most, of all that are on one clock, us."""
    moments = np.array([job.ends[0], job.ends[-1]])
    shown = {}
    for clock, (offset, drift) in zip(clocks, job.clocks, strict=True):
        times = np.rint((moments * (1 + drift) + offset) * US).astype(np.int64)
        line = clock.line or UNCHANGED
        shown.setdefault(clock.name, []).append((times + line.shifts(times)) / US)
    return max(float(np.ptp(times, axis=0).max()) for times in shown.values())


def left_open(job, clocks):
    """What the scatter of the ends leaves open of two ranks' clocks, in five errors of a line; at the ends of the span,
    what a drift does that chance may explain in one of 10,000 cases (Student's t): it is not told; and what ends may be
    apart that agree, where they are (10 us), and beyond them up to the others (10 us). Of fewer than five nothing tells
    a drift from scatter: the clock is right to within what it says that their ends differ by."""
    counts = [len(table) for table in job.tables]
    fewest = max(min(counts) - (max(counts) - min(counts)) // 2, 5)
    student = np.interp(fewest - 2, [3, 4, 5, 6, 8, 10, 20, 30], [28.0, 15.5, 11.2, 9.1, 7.1, 6.2, 4.8, 4.5])
    untold = max(student * np.sqrt(12 * (fewest - 1) / (fewest * (fewest + 1))), 4) / 2
    deviation = np.sqrt(2) * max(job.jitter, 0.01)
    apart = max((clock.residual_ps or 0 for clock in clocks if clock.collectives < 5), default=0)
    return deviation * (15 * 2 / np.sqrt(fewest) + 2 * untold) + 22 + apart / US


def test_a_drift_is_found_where_four_of_ten_ends_are_wrong_and_one_of_these_is_near_to_no_drift():
    job = random_job(20320, numbered=True)
    assert (job.right[0] & job.right[2]).sum() == 6
    clocks, _ = alignment(*job.tables)
    assert clocks[2].line.drift == pytest.approx(job.clocks[2][1], abs=1e-6)
    assert errors(job, clocks) <= 2


@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_numbered_collectives_find_offset_and_drift_whatever_is_lacking_or_wrong(seed):
    job = random_job(seed, numbered=True)
    clocks, _ = alignment(*job.tables)
    assert not job.is_evident or {clock.name for clock in clocks} == {clocks[0].name}
    assert errors(job, clocks) <= left_open(job, clocks)


@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_collectives_without_numbers_align_clocks_rightly_or_not_at_all(seed):
    job = random_job(seed, numbered=False)
    clocks, _ = alignment(*job.tables)
    assert errors(job, clocks) <= left_open(job, clocks)


@given(st.data())
def test_the_spread_at_all_shifts_at_once_is_that_at_each(data):
    def occurrences(number):
        ends = np.sort(data.draw(st.lists(st.integers(0, 10**9), min_size=number, max_size=number)))
        spans = data.draw(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=number, max_size=number))
        apart, length = np.array(spans, np.int64).reshape(-1, 2).T
        return np.column_stack([ends, ends + apart, ends + apart - length])

    a, b = (occurrences(data.draw(st.integers(1, 12))) for _ in range(2))
    lags = range(1 - len(b), len(a))
    resolution = data.draw(st.sampled_from([1, 1000]))
    each = [shared_ends.at_shift(a, b, lag, resolution).spread for lag in lags]
    assert shared_ends._spreads(a, b, lags, resolution) == each


def in_pairs(steps, lag=150, off=0, told=False):
    """Two hosts of a job that all-reduces eight times a step within a host, of which the second is `lag` us later, and
    once between both, the second host's clock ahead by `off` us."""
    ends = {"a": [], "b": []}
    for step in range(steps):
        for number in range(9):
            at = 10_000 * (step + 1) + 1000 * number + 13 * (step % 7)
            ends["a"].append(at)
            ends["b"].append(at + off + (lag if number < 8 else 0))
    groups = {"group": [["pair", "both"][k % 9 == 8] for k in range(9 * steps)]} if told else {}
    return [host(name, *ending(*its, long=300), **groups) for name, its in ends.items()]


def test_collectives_of_groups_inside_each_host_that_come_later_on_one_shift_no_clock():
    clocks, notes = alignment(*in_pairs(12))
    assert facts(clocks[1]) == ("b", "a", 0, 0, 12)
    assert notes[1] == (
        "96 of 108 shared collectives do not agree with the others on b's clock, by up to 150.0 µs: they were not used."
    )


def test_a_clock_that_is_off_shows_in_all_of_them():
    """Where no group is told, 150 us of lateness are none of 150 us of the clock, if what is shared says otherwise."""
    assert shifts(*in_pairs(12, lag=0, off=150)) == [0, -150]
    # Two of a hundred may be at one moment by chance.
    assert shifts(*in_pairs(2, lag=150)) == [0, -150]
    # Told to be of one group on both hosts, they are: the others are at fault.
    assert shifts(*in_pairs(12, told=True)) == [0, -150]


def test_hundreds_of_hosts_whose_collectives_are_numbered_take_a_moment():
    times = [(10 * turn, 10 * turn + 8) for turn in range(6)]
    hosts = [host(f"h{number}", *times, sequence=list(range(6)), bytes=8) for number in range(400)]
    rows = concat(EVENT_COLUMNS, hosts)
    names = [f"h{number}" for number in range(400)]
    start_s = time.process_time()
    clocks, _ = align(rows, names, [True] * 400)
    assert time.process_time() - start_s < 2
    assert {clock.name for clock in clocks} == {"h0"}


@given(
    st.lists(st.tuples(*(st.integers(0, most) for most in (3, 1, 50, 50, 2)), st.booleans()), max_size=12),
)
def test_numbered_collectives_are_those_of_a_look_at_each(rows):
    """Each row is (number, device, start, length, size, whether it is sure)."""
    number, device, start, length, size = (np.array([row[at] for row in rows], np.int64) for at in range(5))
    is_sure = np.array([row[5] for row in rows], bool)
    found = shared_ends.Host(
        shared_ends.Rows({}, device, start, start + length, number, number - 1, is_sure, size - 1), 1
    ).numbers
    expected = []
    for each in range(3):
        own = [row for row in rows if row[0] - 1 == each and row[5]]
        if own and len({row[1] for row in own}) == len(own):
            ends = [row[2] + row[3] for row in own]
            times = [min(ends), max(ends), max(row[2] for row in own)]
            expected.append((each, times, max(row[4] for row in own) - 1))
    assert [*zip(found.number.tolist(), found.times.tolist(), found.size.tolist(), strict=True)] == expected
