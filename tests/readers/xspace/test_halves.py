"""Pairing the halves of asynchronous ops, against a queue for each op."""

from collections import defaultdict, deque

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracekit.readers.xspace.tpu_plane import paired_halves

HALVES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6), st.booleans()), max_size=14)


@given(HALVES)
def test_halves_are_paired_as_one_queue_for_each_op_would(rows):
    key, time, done = (np.array([row[at] for row in rows], kind) for at, kind in enumerate((np.int64, np.int64, bool)))
    waiting, expected = defaultdict(deque), []
    for row in sorted(range(len(rows)), key=lambda at: (rows[at][1], rows[at][2], at)):
        if not done[row]:
            waiting[key[row]].append(row)
        elif waiting[key[row]]:
            expected.append((waiting[key[row]].popleft(), row))
    starts, ends = paired_halves(key, time, done)
    assert sorted(zip(starts.tolist(), ends.tolist(), strict=True)) == sorted(expected)
