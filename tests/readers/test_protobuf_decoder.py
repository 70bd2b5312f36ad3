"""The wire format: every 64-bit value, and nothing read past the end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.readers import protobuf_decoder as protobuf


def encode(value: int) -> bytes:
    """A varint as protobuf writes it: 7 bits a byte, negative values as 64 bits."""
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_a_varint_is_read_wherever_it_stands(value, before, after):
    data = encode(value)
    buf = before + data + after
    assert protobuf.varint(buf, len(before), len(buf)) == (value, len(before) + len(data))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 9, b"\xff" * 9 + b"\x02", b"\xff" * 11])
def test_a_cut_or_endless_varint_is_broken(data):
    with pytest.raises(protobuf.Broken):
        protobuf.varint(data, 0, len(data))


@pytest.mark.parametrize(
    ("data", "wire_type", "end"), [(b"\x05", 0, 1), (b"12345678", 1, 8), (b"\x02ab", 2, 3), (b"1234", 5, 4)]
)
def test_each_wire_type_is_skipped_whole_and_broken_if_cut(data, wire_type, end):
    assert protobuf.skip(data + b"rest", 0, len(data) + 4, wire_type) == end
    with pytest.raises(protobuf.Broken):
        protobuf.skip(data, 0, len(data) - 1, wire_type)


@pytest.mark.parametrize("wire_type", [3, 4, 6, 7])
def test_groups_and_unknown_wire_types_are_broken(wire_type):
    with pytest.raises(protobuf.Broken):
        protobuf.skip(b"12345678", 0, 8, wire_type)


def test_fields_come_with_number_type_and_span_of_their_value():
    buf = b"\x08\x96\x01" + b"\x12\x03abc" + b"\x1d1234"
    assert list(protobuf.fields(buf, 0, len(buf))) == [(1, 0, 1, 3), (2, 2, 5, 8), (3, 5, 9, 13)]


@pytest.mark.parametrize("tag", [b"\x8a\x00", b"\x8a\x80\x80\x80\x10", b"\x8a\x80\x80\x80\x00"])
def test_a_tag_may_have_bytes_too_many_as_other_readers_take_it(tag):
    buf = tag + b"\x03abc"
    assert list(protobuf.fields(buf, 0, len(buf))) == [(1, 2, len(tag) + 1, len(buf))]


def test_text_keeps_bytes_that_are_no_utf8_visible():
    assert protobuf.text(b"a\xffb", 0, 3) == "a\\xffb"
