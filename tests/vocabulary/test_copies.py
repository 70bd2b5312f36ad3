"""In which direction a copy goes, by its ends, by texts, and by the devices that its record names."""

import pytest

from tracekit.vocabulary.copies import DIRECTIONS, direction, host_memory
from tracekit.vocabulary.kinds import Kind, classify

TEXTS = {
    # profilers' names of copies and streams
    "MemcpyH2D": "H2D",
    "MemcpyP2P": "P2P",
    "MemcpyOther": None,
    "MEMCPYDtoH": "D2H",
    "Memcpy HtoD (Pageable -> Device)": "H2D",
    "Memcpy DtoH (Device -> Pinned)": "D2H",
    "Memcpy DtoD (Device -> Device)": "D2D",
    "Memcpy PtoP (Device -> Device)": "P2P",
    "Memcpy HtoH (Pinned -> Pageable)": None,
    "Memcpy HtoA (Pinned -> Array)": "H2D",
    "Memcpy AtoH (Array -> Pageable)": "D2H",
    "Memcpy DtoA (Device -> Array)": "D2D",
    "Memcpy AtoA (Array -> Array)": "D2D",
    "Memcpy M2D(Memory -> Device)": "H2D",
    "Memcpy D2M(Device -> Memory)": "D2H",
    "[CUDA memcpy Device-to-Host]": "D2H",
    "[CUDA memcpy Peer-to-Peer]": "P2P",
    "Stream #8(MemcpyH2D)": "H2D",
    "Stream #8(MemcpyH2D,MemcpyD2H)": None,
    "MEMORY_COPY_HOST_TO_DEVICE": "H2D",
    "CopyDeviceToDevice": "D2D",
    # what the driver moves of unified memory goes between two devices
    "UM_BYTES_TRANSFER_HTOD": "H2D",
    "UM_BYTES_TRANSFER_DTOH": "D2H",
    "UM_BYTES_TRANSFER_DTOD": "P2P",
    "UM_GPU_PAGE_FAULT": None,
    "[CUDA Unified Memory memcpy DtoD]": "P2P",
    # CUPTI's kinds, as Nsight Systems writes them
    "HTOD": "H2D",
    "DTOH": "D2H",
    "HTOA": "H2D",
    "ATOH": "D2H",
    "ATOA": "D2D",
    "ATOD": "D2D",
    "DTOA": "D2D",
    "DTOD": "D2D",
    "HTOH": None,
    "PTOP": "P2P",
    "UVM_HTOD": "H2D",
    "UVM_DTOH": "D2H",
    "UVM_DTOD": "P2P",
    "UNKNOWN": None,
    "CUDA_MEMCPY_KIND_DTOD": "D2D",
    # calls
    "cuMemcpyHtoDAsync_v2": "H2D",
    "cudaMemcpyHostToDevice": "H2D",
    "hipMemcpyDtoHAsync": "D2H",
    "hipMemcpyDtoD": "D2D",
    "cudaMemcpyPeerAsync": "P2P",
    "cudaMemcpy2DToArrayAsync": None,
    "cuMemcpy2DUnaligned": None,
    "hipMemcpyAsync": None,
    "cuLaunchKernel": None,
    "hipStreamWaitEvent": None,
    # MXNet, XLA
    "CopyCPU2GPU": "H2D",
    "_copyto_GPU2CPU": "D2H",
    "CopyGPU2GPU": None,
    "MoveToHost": "D2H",
    "MoveToDevice": "H2D",
    "both H2D and D2H": None,
    "": None,
    **{way: way for way in DIRECTIONS},
}


@pytest.mark.parametrize(("text", "way"), TEXTS.items())
def test_a_text_tells_the_direction_that_it_alone_names(text, way):
    assert direction(text) == way
    assert classify("x", typed=Kind.MEMCPY, lane=text).direction == way


@pytest.mark.parametrize(
    ("source", "target", "way"),
    [
        ("pinned", "device", "H2D"),
        ("pageable", "array", "H2D"),
        ("device_static", "host", "D2H"),
        ("device", "array", "D2D"),
        ("peer", "peer", "P2P"),
        ("pinned", "pageable", None),
        ("managed", "device", None),
        ("device", "", None),
        ("", "", None),
    ],
)
def test_the_memories_at_both_ends_tell_it(source, target, way):
    assert direction(source=source, target=target) == way


def test_the_ends_count_more_than_texts_and_the_first_text_that_tells_it_counts():
    assert direction("MemcpyD2H", source="host", target="device") == "H2D"
    assert direction("MemcpyD2H", source="host", target="host") is None
    assert direction("MemcpyD2H", source="managed", target="device") == "D2H"
    assert direction("memcpy", "", "MemcpyD2H", "MemcpyH2D") == "D2H"
    assert direction("Memcpy HtoH", "MemcpyH2D") is None


def test_two_devices_in_the_record_make_a_copy_one_between_them():
    assert direction("Memcpy DtoD", apart=True) == direction(apart=True) == "P2P"
    assert direction("Memcpy PtoP", apart=False) == direction(apart=False) == "D2D"
    assert direction("Memcpy HtoD", apart=True) == "H2D"
    assert direction("Memcpy HtoH", apart=True) is None


def test_a_writer_who_calls_both_the_same_tells_neither():
    assert direction("hipMemcpyDtoD", either=True) is None
    assert direction("hipMemcpyDtoD", either=True, apart=True) == "P2P"
    assert direction("hipMemcpyHtoD", either=True) == "H2D"


@pytest.mark.parametrize(
    ("text", "memory"),
    [
        ("CUDA memcpy Host-to-Device (Pageable to Device)", "pageable"),
        ("Memcpy HtoD (Pinned -> Device)", "pinned"),
        ("Memcpy HtoH (Pinned -> Pageable)", "pageable"),
        ("Memcpy DtoD (Device -> Device)", None),
    ],
)
def test_pageable_memory_counts_more_than_pinned(text, memory):
    assert host_memory(text) == memory
