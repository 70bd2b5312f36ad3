"""Blocks that are compressed apart are one gzip file."""

import gzip
import os
import random
import zlib

import pytest

from tracekit.export import gz


@pytest.fixture
def packed(tmp_path):
    def pack(blocks) -> bytes:
        gz.write(tmp_path / "blocks.gz", blocks, gzip=True)
        return (tmp_path / "blocks.gz").read_bytes()

    return pack


def test_the_blocks_come_back_as_one(packed):
    blocks = [random.Random(1).randbytes(3_000_000), b"", b"a" * 5_000_000, b"end"]
    assert gzip.decompress(packed(blocks)) == b"".join(blocks)
    assert gzip.decompress(packed([])) == b""


def test_it_is_one_member_so_that_readers_of_the_first_only_have_all(packed):
    reader = zlib.decompressobj(wbits=31)
    assert reader.decompress(packed([b"one", b"two"])) == b"onetwo"
    assert (reader.eof, reader.unused_data) == (True, b"")


def test_bytes_depend_neither_on_the_time_nor_on_the_threads(packed, monkeypatch):
    blocks = [bytes([n]) * 100_000 for n in range(20)]
    many = packed(blocks)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0}, raising=False)
    assert packed(blocks) == many
    assert many[4:8] == bytes(4)
