"""Times as users type them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit import units
from tracekit.errors import TracekitError
from tracekit.times import parse

MS, S = 10**9, 10**12


@pytest.mark.parametrize(
    ("text", "ps"),
    [
        ("12ms", 12 * MS),
        ("1.5 s", 1_500_000_000_000),
        ("300us", 300_000_000),
        ("300 µs", 300_000_000),
        (" .5ns ", 500),
        ("7PS", 7),
        ("1_000us", MS),
        ("1e-3s", MS),
        ("-2s", -2 * S),
        ("2min", 120 * S),
        ("1.5h", 5400 * S),
        ("0", 0),
        ("0.000000000001s", 1),
        ("1.0000000000019s", S + 1),
    ],
)
def test_a_time_is_exact_to_the_picosecond(text, ps):
    assert parse(text, "--from") == ps


@pytest.mark.parametrize("text", ["", "ms", "1,5s", "12 parsecs", "nan", "inf s", "1e999s", "0x10s", "1s2"])
def test_what_is_no_time_is_one_sentence_with_an_example(text):
    with pytest.raises(TracekitError) as caught:
        parse(text, "--to")
    assert str(caught.value) == (
        f"--to {text!r} is not a time: give a number and ps, ns, us, ms, s, min or h, as in 12.5ms."
    )


def test_a_number_without_a_unit_is_ambiguous():
    with pytest.raises(TracekitError, match=r"--from '12' could be of any unit: say 12s, 12ms, 12us, 12ns or 12ps\."):
        parse("12", "--from")


@settings(max_examples=50)
@given(st.integers(-(2**63), 2**63))
def test_a_time_told_exactly_is_read_back_exactly(ps):
    assert parse(units.exact(ps), "--from") == ps
