"""Clocks compared on the ends of what one host sends and another receives, where nothing else is shared."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.readers.merge.test_clock_alignment import US, alignment, facts, host, shifts
from tracekit.columns import concat
from tracekit.trace import EVENT_COLUMNS


def exchanging(name, ranks="0,1", numbered=False, **ways):
    """A host that sends and receives, each ending at so many us after a start 50 us before."""
    tables = []
    for way, ends in ways.items():
        # The two count together what goes either way.
        number = [2 * k + (way == ("send" if name < "b" else "recv")) for k in range(len(ends))]
        columns = {"category": way, "ranks": ranks, "group": "pp"} | ({"sequence": number} if numbered else {})
        tables.append(host(name, *((end - 50, end) for end in ends), op="ncclDevKernel_SendRecv(x)", **columns))
    return concat(EVENT_COLUMNS, tables)


FORTH, BACK = [100, 307, 500, 760], [210, 411, 655, 899]


@pytest.mark.parametrize("numbered", [(False, False), (True, True), (True, False), (False, True)])
@pytest.mark.parametrize(("ahead", "shift"), [(0, 0), (4, 0), (5000, -5000)])
def test_what_two_hosts_send_to_each_other_tells_how_their_clocks_are_apart(numbered, ahead, shift):
    a = exchanging("a", send=FORTH, recv=BACK, numbered=numbered[0])
    b = exchanging("b", recv=[end + ahead for end in FORTH], send=[end + ahead for end in BACK], numbered=numbered[1])
    assert shifts(a, b) == [0, shift]


@pytest.mark.parametrize(("numbered", "shift"), [(True, -5000), (False, None)])
def test_of_sends_that_follow_each_other_evenly_only_numbers_tell_which_one_host_did_not_record(numbered, shift):
    forth, back = range(1000, 9000, 1000), range(1500, 9500, 1000)
    a = exchanging("a", send=forth, recv=back, numbered=numbered)
    late = ([end + 5000 for end in ends] for ends in (forth, back))
    b = exchanging("b", **dict(zip(("recv", "send"), late, strict=True)), numbered=numbered)
    b = b[(b["start_ps"] >= 7000 * US).to_numpy()].reset_index(drop=True)
    assert shifts(a, b)[1] == shift
    assert ("matched by their sequence numbers" in alignment(a, b)[1][0]) == numbered


@pytest.mark.parametrize(("ahead", "shift"), [(4, 0), (500, None)])
def test_what_is_sent_one_way_shifts_no_clock_but_shows_that_clocks_agree(ahead, shift):
    """A recv that always comes 500 us after its send, as a stage that is slower, looks like a clock."""
    a, b = exchanging("a", send=FORTH), exchanging("b", recv=[end + ahead for end in FORTH])
    assert shifts(a, b)[1] == shift
    if shift is None:
        assert alignment(a, b)[1][0] == (
            "4 sends between a and b tell no offset: a recv may end after its send, so that takes 3 each way whose "
            "ends agree. They were not used."
        )


def test_receives_that_come_as_late_both_ways_shift_no_clock():
    a = exchanging("a", send=FORTH, recv=[end + 300 for end in BACK])
    b = exchanging("b", recv=[end + 300 for end in FORTH], send=BACK)
    assert shifts(a, b) == [None, None]


def test_a_recv_that_ends_before_its_send_shows_that_the_clocks_are_not_one_as_they_stand():
    a, b = exchanging("a", send=FORTH), exchanging("b", recv=[FORTH[0] - 40, *FORTH[1:]])
    assert shifts(a, b) == [None, None]


def test_sends_of_more_than_two_ranks_compare_no_clocks():
    a, b = (exchanging(name, "0,1,2", **{way: FORTH}) for name, way in (("a", "send"), ("b", "recv")))
    assert shifts(a, b) == [None, None]


def test_work_that_is_no_collective_compares_no_clocks_whatever_ranks_are_told_of_it():
    a, b = exchanging("a", send=FORTH, recv=BACK), exchanging("b", recv=FORTH, send=BACK)
    late = exchanging("b", recv=[end + 30 for end in FORTH], send=[end + 30 for end in BACK])
    late["kind"] = pd.Categorical(["compute"] * len(late), categories=late["kind"].cat.categories)
    assert shifts(a, concat(EVENT_COLUMNS, [b, late])) == [0, 0]


def test_the_residual_along_a_chain_of_stages_is_that_of_all_its_pairs():
    def up(name, ranks):
        return exchanging(name, ranks, send=FORTH, recv=BACK)

    def down(name, ranks):
        return exchanging(name, ranks, recv=[end + 3 for end in FORTH], send=[end + 3 for end in BACK])

    stages = [up("a", "0,1"), down("b", "0,1"), up("b", "1,2"), down("c", "1,2"), up("c", "2,3"), down("d", "2,3")]
    clocks, notes = alignment(*stages)
    assert [(clock.name, clock.residual_ps) for clock in clocks] == [
        ("a", None),
        ("a", 3 * US),
        ("a", 6 * US),
        ("a", 9 * US),
    ]
    assert notes == [
        "The clocks of a, b, c and d were compared on the ends of 8 sends with their receives: one clock, ends differ "
        "from a's by at most 9.00 µs; nothing was shifted."
    ]


def test_collectives_that_all_ranks_meet_in_count_before_sends():
    reduces = [host(name, *((end - 50 + by, end + by) for end in FORTH)) for name, by in (("a", 0), ("b", 2000))]
    sends = exchanging("a", send=FORTH, recv=BACK), exchanging("b", recv=FORTH, send=BACK)
    clocks, _ = alignment(*(concat(EVENT_COLUMNS, list(pair)) for pair in zip(reduces, sends, strict=True)))
    assert facts(clocks[1]) == ("b", "a", -2000, 0, 4)


@given(
    st.integers(0, 1000),
    st.sampled_from([0, 30, -2000, 40_000]),
    st.sampled_from([0, 40, -100]),
    st.sampled_from([0, 2, 60, 1000]),
    st.sampled_from([0, 0.3, 1]),
)
@settings(deadline=None, max_examples=60)
def test_a_clock_that_is_aligned_is_right_within_its_residual_however_late_receives_are(
    seed, ahead, drift_ppm, late, share
):
    """Some receives end up to `late` us after their sends, in a run of a few steps; truth against what is told."""
    draw = np.random.default_rng(seed)
    ends = np.cumsum(draw.uniform(200, 3000, 60))
    after = draw.uniform(0, 2, 60) + np.where(draw.random(60) < share, draw.uniform(0.5, 1, 60) * late, 0)
    is_forth = draw.random(60) < draw.choice([0.3, 0.5, 1.0])
    on_a, on_b = np.where(is_forth, ends, ends + after), np.where(is_forth, ends + after, ends)
    shown = on_b * (1 + drift_ppm * 1e-6) + ahead
    a = exchanging("a", send=on_a[is_forth].tolist(), recv=on_a[~is_forth].tolist())
    b = exchanging("b", recv=shown[is_forth].tolist(), send=shown[~is_forth].tolist())
    for timed in (True, False):
        clock = alignment(a, b, timed=timed)[0][1]
        if clock.name == "b":
            continue
        times = np.rint(shown * US).astype(np.int64)
        error = (
            np.abs(times + clock.line.shifts(times) - np.rint(on_b * US)) if clock.line else np.abs(times - on_b * US)
        )
        assert error.max() <= clock.residual_ps + 15 * US
