"""What profilers write of copies, form by form."""

import pytest

from tracekit.readers.xspace.memcpy import Details, details


@pytest.mark.parametrize(
    ("text", "expected", "memory"),
    [
        ("kind_src:pinned kind_dst:device size:112 dest:2 async:1", Details("pinned", "device", 112), "pinned"),
        ("kind_src:pageable kind_dst:array size:1 dest:2 async:0", Details("pageable", "array", 1), "pageable"),
        ("kind_src:device kind_dst:pageable size:9 dest:2 async:1", Details("device", "pageable", 9), "pageable"),
        ("kind_src:device kind_dst:device_static size:9 dest:2 async:1", Details("device", "device_static", 9), None),
        ("kind_src:device kind_dst:device size:9 dest:3 async:1", Details("device", "device", 9, True), None),
        ("kind_src:managed kind_dst:device size:9 dest:2 async:1", Details("managed", "device", 9), None),
        ("size:6144 dest:2 async:1", Details(bytes=6144), None),
        ("size:6144 dest:6 async:1", Details(bytes=6144, leaves=True), None),
        ("src:2 dest:1 size:7", Details(bytes=7, leaves=True), None),
        ("src:2 dest:2 size:7", Details(bytes=7), None),
        # ROCm: `dest` counts the processors of the host too, and no size is 0.
        ("kind:Unknown size:655360 dest:4 async:1", Details(bytes=655360), None),
        ("kind:Unknown size:0 dest:512 async:1", Details(), None),
        ("kind:Unknown num_bytes:64", Details(bytes=64), None),
        ("", Details(), None),
    ],
)
def test_details_tell_ends_and_size_of_a_copy_on_gpu_2(text, expected, memory):
    assert (details(text, ordinal=2), details(text, ordinal=2).host_memory) == (expected, memory)
