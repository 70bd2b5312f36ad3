"""Columns of wire bytes are what the scalar writer, Python's own numbers and protobuf say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.export import protobuf_encoder as protobuf

INT64 = st.integers(-(2**63), 2**63 - 1)
EDGES = [0, 1, 9, 10, 99, 100, 127, 128, 16383, 16384, 2**31, 2**53 + 1, 10**18 - 1, 10**18, 2**63 - 1]
EDGES = np.array([*EDGES, *(-edge for edge in EDGES), -(2**63)], np.int64)


def texts(pieces: protobuf.Pieces) -> list[bytes]:
    ends = pieces.start + pieces.length
    return [pieces.source[a:b].tobytes() for a, b in zip(pieces.start.tolist(), ends.tolist(), strict=True)]


def decode_varint(varint: bytes) -> int:
    return sum((byte & 127) << 7 * place for place, byte in enumerate(varint))


def test_varints_are_base_128_with_the_last_byte_below_128():
    varints = texts(protobuf.varints(EDGES))
    assert varints == [protobuf.varint(value) for value in EDGES.tolist()]
    assert [decode_varint(varint) for varint in varints] == [value % 2**64 for value in EDGES.tolist()]
    assert all(byte > 127 for varint in varints for byte in varint[:-1])
    assert all(varint[-1] < 128 and (varint[-1] or len(varint) == 1) for varint in varints)


@given(st.lists(INT64, max_size=20))
def test_any_integers_are_the_same_one_by_one_and_in_columns(values):
    column = np.array(values, np.int64)
    assert texts(protobuf.varints(column)) == [protobuf.varint(value) for value in values]
    tags, fixed = protobuf.fixed64s(2, column)
    assert texts(tags) == [b"\x11"] * len(values)
    assert texts(fixed) == [value.to_bytes(8, "little", signed=True) for value in values]


@pytest.mark.parametrize("more", [0, 10], ids=["more codes than texts", "more texts than codes"])
def test_constants_are_looked_up_and_nothing_where_the_code_is_negative(more):
    labels = [b"a", b"", b"ccc", *(b"never" for _ in range(more))]
    assert texts(protobuf.constants(labels, np.array([2, -1, 0, 1, 2]))) == [b"ccc", b"", b"a", b"", b"ccc"]


def test_rows_are_joined_piece_by_piece():
    columns = [
        protobuf.constants([b"ab", b"c"], np.array([0, -1, 1])),
        protobuf.repeated(b"-", 3),
        *protobuf.only([protobuf.constants([b"1", b"22", b"333"], np.arange(3))], np.array([True, False, True])),
    ]
    assert protobuf.join(columns).tobytes() == b"ab-1-c-333"
    assert protobuf.lengths(columns).tolist() == [4, 1, 5]
    assert texts(protobuf.grouped(columns, np.array([0, 2, 1, 0]))) == [b"", b"ab-1-", b"c-333", b""]
    assert protobuf.join([protobuf.repeated(b"-", 0)]).tobytes() == b""


def test_messages_have_their_length_before_them():
    column = protobuf.constants([b"x" * 200, b""], np.array([0, 1]))
    expected = protobuf.message(6, b"x" * 200) + protobuf.message(6, b"")
    assert protobuf.join(protobuf.messages(6, [column])).tobytes() == expected
    assert protobuf.join(protobuf.numbers(3000, np.array([-1]))).tobytes() == protobuf.number(3000, -1)


def test_what_has_no_utf8_and_the_character_0_become_their_escapes():
    assert protobuf.utf8("a\ud800é\0\x1b") == b"a\\ud800\xc3\xa9\\x00\x1b"
