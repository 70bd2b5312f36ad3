"""Devices in natural order, and windows of any number of pieces."""

import numpy as np

from tests.frames import events
from tracekit.unions import unions


def test_devices_stand_in_natural_order():
    names = ["gpu:10", "gpu:2", "host10/gpu:1", "host2/gpu:1", "3/gpu:0", "cpu:?", "gpu:0"]
    seen = unions(events(*((name, "compute", 0, 1) for name in names)))
    assert list(seen.devices) == ["3/gpu:0", "gpu:0", "gpu:2", "gpu:10", "host2/gpu:1", "host10/gpu:1"]
    assert list(seen.unplaced) == ["cpu:?"]


def test_inside_several_windows_only_their_parts_remain():
    seen = unions(events(("gpu:0", "compute", 0, 10), ("gpu:0", "memcpy", 8, 20, "c", "H2D")))
    cut = seen.inside(np.array([[1, 2], [9, 12]]))
    assert cut.devices["gpu:0"].compute.tolist() == [[1, 2], [9, 10]]
    assert cut.devices["gpu:0"].directions["H2D"].tolist() == [[9, 12]]
    assert cut.devices["gpu:0"].busy.tolist() == [[1, 2], [9, 12]]
    assert unions(cut) is cut
