import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.collective_frames import row, table
from tracekit.analysis.collectives import collectives
from tracekit.analysis.slow_groups import SLOW, slow_group_of
from tracekit.columns import records
from tracekit.timeline.timeline import timeline_of

US = 10**6


def rows_of(groups, lengths, steps=10, size=1 << 20, category="all-reduce"):
    """All-reduces of `groups` of devices, told by their names, each of a group's length in us (one for each step)."""
    return [
        row(
            f"gpu:{device}",
            1000 * US * step + at,
            1000 * US * step + at + round(lengths[number][step] * US),
            category,
            sequence=step,
            group=f"{category} {number}",
            ranks=",".join(map(str, group)),
            bytes=size,
        )
        for number, group in enumerate(groups)
        for step in range(steps)
        for device in group
        for at in (500 * US if category != "all-reduce" else 0,)
    ]


def by_group(*rows):
    return collectives(timeline_of(table(*rows))).by_group


def test_a_group_whose_link_is_slow_is_told_from_the_others():
    result = by_group(*rows_of([(0, 1), (2, 3), (4, 5)], [[300] * 10, [100] * 10, [110] * 10]))
    assert result["devices"].tolist() == ["gpu:0, gpu:1", "gpu:2, gpu:3", "gpu:4, gpu:5"]
    assert result["slow"].tolist() == [True, False, False]
    slow, fast, _ = records(result)
    assert slow["bus_bytes_per_s"] == pytest.approx((1 << 20) / 300e-6)
    # Of two others the faster one counts; for the fastest the faster one of the others, too.
    assert slow["others_bytes_per_s"] == pytest.approx((1 << 20) / 100e-6)
    assert fast["others_bytes_per_s"] == pytest.approx((1 << 20) / 110e-6)
    # Nothing hides them: of 10 of 300 us on two devices, two thirds each would be saved.
    assert result["excess_ps"].tolist() == [10 * 2 * 200 * US, 0, pytest.approx(10 * 2 * 10 * US)]
    assert slow_group_of("gpu:1", result) == {"devices": "gpu:0, gpu:1", "ratio": pytest.approx(1 / 3)}
    assert slow_group_of("gpu:2", result) is None


@pytest.mark.parametrize(
    ("lengths", "more"),
    [
        ([[300] * 7 + [100] * 3, [100] * 10], {"steps": 7}),  # too few to be a habit
        ([[140] * 10, [100] * 10], {}),  # within what traffic makes of one link
        ([[300] * 4 + [100] * 6, [100] * 10], {}),  # in most of them it was as fast
    ],
)
def test_no_link_is_called_slow_for_a_few_or_for_a_little(lengths, more):
    assert not by_group(*rows_of([(0, 1), (2, 3)], lengths, **more))["slow"].any()


def test_groups_are_held_against_those_of_their_own_kind_only():
    pairs = rows_of([(0, 1), (2, 3)], [[100] * 10, [100] * 10])
    larger = rows_of([(0, 1)], [[400] * 10], size=1 << 22, category="all-gather")
    result = by_group(*pairs, *larger)
    assert result["category"].tolist() == ["all-reduce", "all-reduce"]
    assert not result["slow"].any()
    assert len(by_group(*rows_of([(0, 1, 2)], [[100] * 10]))) == 0


def test_of_many_devices_the_first_and_the_last_are_named():
    result = by_group(*rows_of([tuple(range(9)), tuple(range(9, 18))], [[100] * 10, [300] * 10]))
    assert result["devices"].tolist() == ["gpu:0 … gpu:8", "gpu:9 … gpu:17"]
    assert slow_group_of("gpu:9", result) is None


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(50, 400), min_size=9, max_size=9), min_size=2, max_size=5))
def test_each_is_held_against_the_middle_one_of_the_others(lengths):
    groups = [(2 * k, 2 * k + 1) for k in range(len(lengths))]
    result = by_group(*rows_of(groups, lengths, steps=9))
    mine = [statistics.median((1 << 20) / (each * 1e-6) for each in its) for its in lengths]
    for at, figures in enumerate(records(result)):
        others = sorted(np.delete(mine, at))
        assert figures["bus_bytes_per_s"] == pytest.approx(mine[at])
        assert figures["others_bytes_per_s"] == pytest.approx(others[len(others) // 2])
        assert figures["slow"] == (figures["bus_bytes_per_s"] < SLOW * figures["others_bytes_per_s"])
