"""What a device did in each of many windows, against a count of points."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.any_rows import KINDS, some_rows
from tests.frames import events
from tracekit import intervals as iv
from tracekit.analysis.steps import time_spent
from tracekit.timeline.timeline import timeline_of
from tracekit.timeline.unions import CELLS


@settings(max_examples=60)
@given(some_rows(), st.lists(st.tuples(st.integers(-5, 45), st.integers(0, 30)), max_size=5))
def test_every_cell_counts_points(rows, some):
    windows = [(start, start + size) for start, size in some]
    for name, device in timeline_of(events(*rows)).unions.devices.items():
        did = time_spent(device, iv.intervals([a for a, _ in windows], [b for _, b in windows]))
        for place, window in enumerate(windows):
            by_point = [
                {KINDS[row[1]] for row in rows if row[0] == name and row[2] <= p < row[3]} for p in range(*window)
            ]
            for cell in CELLS:
                assert did[cell][place] == sum(kinds == set(cell.split("+")) - {"idle"} for kinds in by_point)
            assert did["busy_ps"][place] == sum(bool(kinds) for kinds in by_point)
            for other in ("collective", "memory"):
                assert did[f"hidden_{other}_ps"][place] == sum({"compute", other} <= kinds for kinds in by_point)
            assert did["exposed_collective_ps"][place] == sum(
                "collective" in kinds and "compute" not in kinds for kinds in by_point
            )
            assert did["exposed_memory_ps"][place] == sum(kinds == {"memory"} for kinds in by_point)


def test_a_device_that_did_nothing_idles_in_every_window():
    device = timeline_of(events(("gpu:0", "compute", 3, 3))).unions.devices["gpu:0"]
    assert time_spent(device, np.array([[0, 10], [5, 5]]))["idle"].tolist() == [10, 0]
