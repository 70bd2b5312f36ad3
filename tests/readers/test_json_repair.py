"""Damaged JSON: what is whole of a text stays, what is none goes, and what is given is JSON."""

import json
import random

import pytest

from tracekit.readers.json_repair import repaired, whole

DOCUMENT = {
    "records": [{"a": 1, "b": {"c": [1, 2, {"x": "y,]}"}]}, "s": 't\\"{'} for _ in range(4)],
    "tables": {"names": [{"m": number} for number in range(3)]},
    "end": None,
}
TEXT = json.dumps(DOCUMENT).encode()


def test_what_is_json_stays_as_it_is():
    assert whole(TEXT) == (TEXT, "")


def is_beginning(part, of):
    """Whether a value holds what another does, up to some place."""
    if isinstance(part, dict) and isinstance(of, dict):
        keys = [*part]
        alike = [key for key in keys[:-1] if part[key] != of[key]]
        return keys == [*of][: len(keys)] and not alike and all(is_beginning(part[key], of[key]) for key in keys[-1:])
    if isinstance(part, list) and isinstance(of, list):
        whole_parts = part[:-1] == of[: len(part[:-1])]
        return whole_parts and all(is_beginning(*pair) for pair in zip(part[-1:], of[len(part) - 1 :], strict=False))
    return part == of


def test_a_cut_text_is_closed_without_what_is_not_whole():
    for end in range(1, len(TEXT)):
        text, why = whole(TEXT[:end])
        found = json.loads(text)
        assert why == "it ends within a value"
        assert is_beginning(found, DOCUMENT), TEXT[:end]
        ends = [at for at in range(end) if TEXT[:at].endswith((b'{"}, {"a"', b'{"}], "t'))]
        assert sum(record in DOCUMENT["records"] for record in found.get("records", [])) >= len(ends), TEXT[:end]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("damage", [b'"s" "t', b'"s": 1x', b'"s": "t\\q', b'"s": {{', b"'s': 1", b'"s": \x01'])
def test_a_broken_entry_of_a_list_is_empty_and_the_others_stay(number, damage):
    at = -1
    for _ in range(number + 1):
        at = TEXT.index(b'"s"', at + 1)
    text, why = whole(TEXT[:at] + damage + TEXT[at + len(damage) :])
    assert why == ""
    found = json.loads(text)
    expected = json.loads(TEXT)
    kept = found["records"][number]
    assert kept == {} or {**kept, "s": ""} == {**expected["records"][number], "s": ""}
    for document in (found, expected):
        document["records"][number] = None
    assert found == expected


@pytest.mark.parametrize("word", ["NaN", "-Infinity", "undefined"])
def test_words_that_json_lacks_are_null(word):
    assert whole(f'{{"a": [{word}, "{word}",]}}'.encode()) == (f'{{"a": [null, "{word}"]}}'.encode(), "")


def test_what_is_nested_too_deep_is_null_and_what_follows_a_value_goes():
    text, why = whole(b'{"a": ' + b"[" * 3000 + b"]" * 3000 + b', "b": 1}')
    assert (json.loads(text)["b"], why) == (1, "")
    assert whole(b'{"a": 1}]x') == (b'{"a": 1}', "it is damaged from byte 9 on")


@pytest.mark.parametrize("start", [b'{"a": [nan, {"b": 1}, {"x": "', b'[{"a":', b'{"a": nan, "b": ['])
@pytest.mark.parametrize("part", [b'\\"', b'{"a":"', b",  ", b'"', b"}, {", b"[", b"\0"])
def test_time_grows_with_the_size_of_what_is_never_closed(start, part):
    """Each takes a second or less; where every part is looked at from each other one, an hour."""
    text, _ = whole(start + part * 200_000)
    json.loads(text or b"0")


@pytest.mark.parametrize("seed", range(200))
def test_whatever_is_damaged_json_is_given(seed):
    chance = random.Random(seed)
    damaged = bytearray(TEXT)
    for _ in range(chance.randrange(1, 4)):
        damaged[chance.randrange(1, len(damaged))] = chance.randrange(256)
    text, _ = whole(bytes(damaged))
    json.loads(text.decode("utf-8", "replace"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"\ud800", "\ufffd"),
        (r"a\uDFFFb", "a\ufffdb"),
        (r"\ud83d\ude00", "\U0001f600"),
        (r"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (r"\ude00\ud83d", "\ufffd\ufffd"),
        (r"\ud83d\u0041\ud7ff\ue000", "\ufffdA\ud7ff\ue000"),
        (r"\\ud800", r"\ud800"),
    ],
)
def test_half_of_a_character_is_replaced_and_a_pair_stays(text, expected):
    assert json.loads(repaired(f'["{text}"]'.encode())) == [expected]
