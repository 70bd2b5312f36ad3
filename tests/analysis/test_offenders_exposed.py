"""What each row exposes, against a sweep over every picosecond that hands it to one row."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frames import events
from tests.offender_frames import exposed_costs
from tracekit import intervals as iv
from tracekit.analysis.offenders import exposed, subtract_blocks
from tracekit.analysis.overlap import partition
from tracekit.timeline.rows import rows
from tracekit.timeline.timeline import timeline_of
from tracekit.timeline.unions import unions

KINDS = ["compute", "collective", "memcpy", "memset"]

some_rows = st.lists(
    st.tuples(
        st.sampled_from(["gpu:0", "gpu:1", "cpu:?"]), st.sampled_from(KINDS), st.integers(0, 25), st.integers(0, 9)
    ),
    max_size=12,
).map(lambda row_tuples: [(device, kind, start, start + size) for device, kind, start, size in row_tuples])


@settings(max_examples=60)
@given(some_rows)
def test_every_exposed_picosecond_belongs_to_the_row_that_started_first(row_tuples):
    timeline = timeline_of(events(*row_tuples))
    result = exposed(timeline.rows, timeline.unions)
    costs = exposed_costs(row_tuples)
    of_row = dict(zip(timeline.rows.at[result.row].tolist(), result.cost.tolist(), strict=True))
    assert [of_row.get(place, 0) for place in range(len(row_tuples))] == costs
    assert (np.diff(result.row) > 0).all()
    for row in partition(timeline).to_dict("records"):
        of_device = {
            kind: sum(
                cost
                for (device, row_kind, *_), cost in zip(row_tuples, costs, strict=True)
                if (device, row_kind) == (row["device"], kind)
            )
            for kind in KINDS
        }
        assert of_device["collective"] == row["collective"] + row["collective+memory"]
        assert of_device["memcpy"] + of_device["memset"] == row["memory"]


def test_a_copy_inside_another_has_nothing_to_itself():
    sorted_rows = rows(events(("gpu:0", "memcpy", 0, 10), ("gpu:0", "memcpy", 2, 5), ("gpu:0", "memcpy", 8, 14)))
    result = exposed(sorted_rows, unions(sorted_rows))
    assert (result.start.tolist(), result.end.tolist(), result.cost.tolist()) == ([0, 10, 10], [10, 10, 14], [10, 0, 4])


def test_costs_beyond_2_to_53_stay_exact():
    far = 2**53 + 1
    sorted_rows = rows(events(("gpu:0", "collective", 0, far), ("gpu:0", "compute", 3, 4)))
    result = exposed(sorted_rows, unions(sorted_rows))
    assert (result.row.tolist(), result.cost.tolist()) == ([0], [far - 1])


spans = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8)).map(lambda span: (span[0], sum(span))), max_size=6)


@settings(max_examples=60)
@given(spans, spans)
def test_what_remains_of_each_span_is_what_the_blocks_do_not_hold(some, blocks):
    blocked = iv.union(iv.intervals([a for a, _ in blocks], [b for _, b in blocks]))
    parts, owner = subtract_blocks(iv.intervals([a for a, _ in some], [b for _, b in some]), blocked)
    free = set(range(40)) - {point for a, b in blocks for point in range(a, b)}
    assert owner.tolist() == sorted(owner.tolist())
    for place, (start, end) in enumerate(some):
        mine = parts[owner == place].tolist()
        assert [point for a, b in mine for point in range(a, b)] == sorted(free & set(range(start, end)))
        assert all(a < b for a, b in mine)
        assert all(before[1] < after[0] for before, after in pairwise(mine))
