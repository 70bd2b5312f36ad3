"""What profilers write of copies, form by form."""

import pytest

from tracekit.readers.xspace.memcpy import Details, details, launched, unified


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kind_src:pinned kind_dst:device size:112 dest:2 async:1", Details("H2D", 112, host_memory="pinned")),
        ("kind_src:pageable kind_dst:array size:1 dest:2 async:0", Details("H2D", 1, host_memory="pageable")),
        ("kind_src:device kind_dst:pageable size:9 dest:2 async:1", Details("D2H", 9, host_memory="pageable")),
        ("kind_src:device kind_dst:device_static size:9 dest:2 async:1", Details("D2D", 9)),
        ("kind_src:device kind_dst:device size:9 dest:3 async:1", Details("P2P", 9, leaves=True)),
        ("kind_src:managed kind_dst:device size:9 dest:2 async:1", Details(None, 9)),
        ("kind_src:unknown kind_dst:unknown size:9 dest:2 async:1", Details(None, 9)),
        ("size:6144 dest:2 async:1", Details(None, 6144)),
        ("size:6144 dest:6 async:1", Details(None, 6144, leaves=True)),
        ("src:2 dest:1 size:7", Details(None, 7, leaves=True)),
        ("src:2 dest:2 size:7", Details(None, 7)),
        # ROCm: `dest` counts the processors of the host too, and no size is 0.
        ("kind:Unknown size:655360 dest:4 async:1", Details(None, 655360)),
        ("kind:Unknown size:0 dest:512 async:1", Details()),
        ("kind:Unknown num_bytes:64", Details(None, 64)),
        ("", Details()),
    ],
)
def test_details_tell_direction_and_size_of_a_copy_on_gpu_2(text, expected):
    assert details(text, ordinal=2) == expected


@pytest.mark.parametrize(
    ("call", "way"),
    [
        ("cuMemcpyHtoDAsync_v2", "H2D"),
        ("hipMemcpyDtoHAsync", "D2H"),
        ("hipMemcpyDtoD", "D2D"),
        ("cudaMemcpyPeerAsync", "P2P"),
        ("hipMemcpyAsync", None),
        ("cuLaunchKernel", None),
        ("hipStreamWaitEvent", None),
    ],
)
def test_the_name_of_the_call_tells_the_direction_where_it_holds_one(call, way):
    assert launched(call) == way


def test_only_transfers_of_unified_memory_are_copies():
    assert [unified(f"UM_{what}") for what in ("BYTES_TRANSFER_HTOD", "BYTES_TRANSFER_DTOH", "GPU_PAGE_FAULT")] == [
        "H2D",
        "D2H",
        None,
    ]
