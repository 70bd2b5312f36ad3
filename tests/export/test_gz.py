"""Blocks that are compressed apart are one gzip file."""

import gzip
import io
import os
import random
import zlib

from tracekit.export import gz


def written(blocks) -> bytes:
    file = io.BytesIO()
    gz.write(file, blocks)
    return file.getvalue()


def test_the_blocks_come_back_as_one():
    blocks = [random.Random(1).randbytes(3_000_000), b"", b"a" * 5_000_000, b"end"]
    assert gzip.decompress(written(blocks)) == b"".join(blocks)
    assert gzip.decompress(written([])) == b""


def test_it_is_one_member_so_that_readers_of_the_first_only_have_all():
    reader = zlib.decompressobj(wbits=31)
    assert reader.decompress(written([b"one", b"two"])) == b"onetwo"
    assert (reader.eof, reader.unused_data) == (True, b"")


def test_bytes_depend_neither_on_the_time_nor_on_the_threads(monkeypatch):
    blocks = [bytes([n]) * 100_000 for n in range(20)]
    many = written(blocks)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0}, raising=False)
    assert written(blocks) == many
    assert many[4:8] == bytes(4)
