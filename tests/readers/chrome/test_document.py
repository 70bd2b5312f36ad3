"""The Chrome JSON container: every legal shape, every break that is repaired, and the standard library as oracle."""

import gzip
import json
import re
import time
from decimal import Decimal

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.errors import TraceError
from tracekit.readers import chrome
from tracekit.readers.chrome import json_text
from tracekit.vocabulary.losses import Loss


@pytest.fixture(autouse=True, params=["msgspec", "scanner"])
def reader(request, monkeypatch):
    """Every file is read both ways, that of small files and that of large ones."""
    monkeypatch.setattr(json_text, "SCAN_FROM_BYTES", 0 if request.param == "scanner" else 1 << 62)


def load(tmp_path, text, name="t.json"):
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return chrome.load(path)


def values_of(column):
    return [None if pd.isna(value) else value for value in column]


def test_times_are_exact_where_a_float_would_lose_nanoseconds(tmp_path):
    first, second = '"ts": 1712195495505582.988, "dur": 4.928', '"ts": 1712195495505582.9885, "dur": 2'
    document = load(tmp_path, f'[{{"ph": "X", {first}}}, {{"ph": "X", {second}}}]')
    assert document.base_ps == 1712195495505582988000
    assert document.start_ps.tolist() == [0, 500]
    assert document.duration_ps.tolist() == [4_928_000, 2_000_000]


@pytest.mark.parametrize(
    ("number", "start_ps"),
    [
        ('"12.5"', 12_500_000),
        ("1.25e1", 12_500_000),
        ("0.30000000000000004", 300_000),
        ("-3", -3_000_000),
        ("1e-07", 0),
    ],
)
def test_a_number_may_be_written_in_any_way(tmp_path, number, start_ps):
    document = load(tmp_path, f'[{{"ph": "X", "ts": {number}}}]')
    assert (document.base_ps, document.timed.tolist()) == (start_ps, [True])


@pytest.mark.parametrize(
    "value", ["null", '"soon"', '""', "[1]", '"NaN"', '"-Infinity"', "1" + "0" * 40, "1e400", '"\udcff"']
)
def test_what_is_no_time_leaves_the_event_untimed(tmp_path, value):
    text = f'[{{"ph": "X", "ts": {value}, "dur": {value}}}, {{"ph": "X", "ts": 7}}]'
    document = load(tmp_path, text.encode(errors="surrogateescape"))
    assert (document.timed.tolist(), document.start_ps.tolist(), document.base_ps) == ([False, True], [0, 0], 7_000_000)


def test_a_duration_is_0_where_absent_and_negative_where_broken(tmp_path):
    overflowed = "18446744073709551.615"
    text = f'[{{"ph": "X", "ts": 1}}, {{"ph": "X", "ts": 1, "dur": -2}}, {{"ph": "X", "ts": 1, "dur": {overflowed}}}]'
    assert load(tmp_path, text).duration_ps.tolist() == [0, -1, -1]


def test_metadata_has_no_time_whatever_its_ts_says(tmp_path):
    document = load(tmp_path, '[{"ph": "M", "ts": 0.0}, {"ph": "X", "ts": 1694128201426602}]')
    assert (document.timed.tolist(), document.base_ps) == ([False, True], 1694128201426602 * 10**6)


def test_times_that_no_axis_holds_together_are_left_out_and_noted(tmp_path):
    document = load(
        tmp_path, '[{"ph": "i", "ts": 0}, {"ph": "X", "ts": 1694128201426602}, {"ph": "X", "ts": 1694128201426603}]'
    )
    assert (document.timed.tolist(), document.start_ps.tolist()) == ([False, True, True], [0, 0, 1_000_000])
    assert document.notes == (
        "1 events are more than a day from the others, so their times are wrong: they were skipped.",
    )


def test_numbers_stand_as_text_since_ids_exceed_int64(tmp_path):
    text = (
        '[{"ph": "b", "pid": 0, "tid": 17343844709549807314, "id": "0x1f"}, {"ph": "e", "pid": "Spans", "cat": null}]'
    )
    document = load(tmp_path, text)
    assert values_of(document.tid) == ["17343844709549807314", None]
    assert [values_of(document.pid), values_of(document.cat)] == [
        ["0", "Spans"],
        [None, None],
    ]


def test_escapes_and_characters_of_names_are_decoded(tmp_path):
    document = load(tmp_path, '[{"ph": "X", "name": "a\\n\\u00e9\\"b"}, {"ph": "X", "name": "é\\\\"}]')
    assert values_of(document.name) == ['a\né"b', "é\\"]


EVENTS = '[{"ph": "X", "name": "a"}, {"ph": "X", "name": "b", "args": {"x": [{"y": 1}, {"y": "}, {"}]}}]'
KEYS = '"deviceProperties": [{"id": 0}, {"id": 1}], "schemaVersion": 1'


@pytest.mark.parametrize(
    ("text", "head"),
    [
        (EVENTS, {}),
        (f'{{"traceEvents": {EVENTS}}}', {}),
        (f'{{"traceEvents": {EVENTS}, {KEYS}}}\n', {"deviceProperties": [{"id": 0}, {"id": 1}], "schemaVersion": 1}),
        (f'{{{KEYS}, "traceEvents":\n {EVENTS}}}', {"deviceProperties": [{"id": 0}, {"id": 1}], "schemaVersion": 1}),
        (f'{{"a": "\\"traceEvents\\": [", "traceEvents": {EVENTS}, "b": []}}', {"a": '"traceEvents": [', "b": []}),
        (f'\ufeff {{"traceEvents": {EVENTS}}}\0\0', {}),
    ],
)
@pytest.mark.parametrize("piece", [16, 100, 1 << 20])
def test_events_may_stand_before_or_after_the_other_keys_or_alone(tmp_path, monkeypatch, text, head, piece):
    monkeypatch.setattr(json_text, "_PIECE_BYTES", piece)
    document = load(tmp_path, text)
    assert (values_of(document.name), document.head, document.notes) == (["a", "b"], head, ())


CUT = "The file is truncated: {}. Its {} complete events were read."
REPAIRED = "{} events were not valid JSON (NaN, bad escapes or similar) and were repaired."
LEFT_OUT = "{} events were not valid JSON and could not be repaired: they were skipped."
OTHERS = "{} values among the events are no events: they were skipped."


def event(name, value="1"):
    return f'{{"ph": "X", "name": "{name}", "args": {{"v": {value}}}}}'


A, B, C = event("a"), event("b"), event("c")


@pytest.mark.parametrize(
    ("text", "names", "notes"),
    [
        (f"[{A}, {B}, {{}}]", ["a", "b", None], []),
        (f"[{A}, 7, null, {B}, []]", ["a", "b"], [OTHERS.format(3)]),
        (f"[{A}, {B},]", ["a", "b"], []),
        (f'{{"traceEvents": [{A}, {B}, \n ], "k": 1, }}', ["a", "b"], []),
        (f"[{A}, {B}", ["a", "b"], [CUT.format("its list of events is not closed", 2)]),
        (f"[{A}, {B},\n", ["a", "b"], [CUT.format("its list of events is not closed", 2)]),
        (f"[{A}, {B}, {C[:-2]}", ["a", "b"], [CUT.format("it ends within an event", 2)]),
        (f"[{A}, {B}, {C[:20]}", ["a", "b"], [CUT.format("it ends within an event", 2)]),
        (
            f'{{"traceEvents": [{A}], "k": "v',
            ["a"],
            [CUT.format("the keys beside its events are truncated or not valid JSON", 1)],
        ),
        (f"[{A}, {event('b', 'NaN')}, {C}]", ["a", "b", "c"], [REPAIRED.format(1)]),
        (f"[{event('a', '-Infinity')}, {B}, {event('c', '[N/A,]')}]", ["a", "b", "c"], [REPAIRED.format(2)]),
        (f"[{A}, {event('b', '{]')}, {C}]", ["a", "c"], [LEFT_OUT.format(1)]),
        (f"[{A}, {event('f {`d`: 1} g')}, {C}]".replace("`", '"'), ["a", "c"], [LEFT_OUT.format(1)]),
        ('{"traceEvents": [' + f"{A}, {event('b', '01')}], {KEYS}}}", ["a"], [LEFT_OUT.format(1)]),
        (
            f"[{A}, {event('b', '[01, {}], `x`: [{}], `y`: 2')}, {C}]".replace("`", '"'),
            ["a", "c"],
            [LEFT_OUT.format(1)],
        ),
    ],
)
@pytest.mark.parametrize("piece", [16, 1 << 20])
def test_what_is_broken_costs_no_more_than_itself(tmp_path, monkeypatch, text, names, notes, piece):
    monkeypatch.setattr(json_text, "_PIECE_BYTES", piece)
    document = load(tmp_path, text)
    assert (values_of(document.name), document.notes) == (names, tuple(notes))


def test_a_part_of_the_file_that_was_never_written_is_lost_and_told(tmp_path):
    text = f"[{A}, {B}, {C}, {A}]".encode()
    begin, end = text.index(b'"b"') + 2, text.index(b'"c"') + 2
    document = load(tmp_path, text[:begin] + bytes(end - begin) + text[end:])
    assert (len(document.name), document.lost[0][:2]) == (3, (Loss.BYTES, end - begin))
    skipped = load(tmp_path, text[:10] + bytes(20) + text[30:])
    assert [lost[:2] for lost in skipped.lost] == [(Loss.BYTES, 20), (Loss.EVENTS, 1)]


def test_a_file_that_is_damaged_in_too_many_places_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(json_text, "_MOST_TRIED", 1000)
    # What is open holds all the others, so that no end of an event is one.
    with pytest.raises(TraceError, match="contains no trace events: it is damaged in too many places"):
        load(tmp_path, "[" + '[{"a": [' * 3 + ", ".join([C] * 50) + event("d", "01") + "]")


def test_bad_characters_and_escapes_cost_a_character(tmp_path):
    text = b'[{"ph": "X", "name": "\xff\xfe"}, {"ph": "X", "name": "C:\\q\tz"}, {"ph": "X", "args": {"v": "\xff"}}]'
    document = load(tmp_path, text)
    assert values_of(document.name) == ["\ufffd\ufffd", "C:\\q\tz", None]
    assert document.args(np.array([2]), dict) == [{"v": "\ufffd"}]


def test_half_of_a_pair_of_escapes_costs_a_character(tmp_path):
    document = load(tmp_path, r'[{"ph": "X", "name": "a\ud800", "ts": 1, "dur": 2}, {"ph": "X", "name": "b"}]')
    assert values_of(document.name) == ["a\ufffd", "b"]
    assert document.duration_ps.tolist() == [2_000_000, 0]
    assert document.notes == (REPAIRED.format(1),)


@pytest.mark.parametrize("size", [0.5, 0.9])
def test_a_compressed_file_is_known_by_its_content_and_read_as_far_as_it_goes(tmp_path, size):
    text = "[" + ", ".join(f'{{"ph": "X", "name": "{at * 7919 % 10007}"}}' for at in range(5000)) + "]"
    packed = gzip.compress(text.encode())
    whole = load(tmp_path, packed, "t.json")
    assert (len(whole), whole.notes) == (5000, ())
    cut = load(tmp_path, packed[: int(len(packed) * size)])
    assert 1000 < len(cut) < 5000
    assert values_of(cut.name) == values_of(whole.name)[: len(cut)]
    assert cut.notes == (CUT.format("its compressed stream ends early", len(cut)),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (gzip.compress(b"[]" * 99, mtime=0)[:10], "is empty: its compressed stream ends early"),
        (b"SQLite format 3\0", "does not begin with { or ["),
        (b'{"nodes": []}', "has no array `traceEvents`"),
        (b'{"traceEvents": {}}', "has no array `traceEvents`"),
        (b"[]", "contains no trace events"),
        (b'{"traceEvents": [{"ph": "X", "na', "contains no trace events"),
        (b"[[1, 2], [3, 4]]", "contains no trace events"),
        (b'[{"a": 1}]', "contains no trace events"),
        (b"{not JSON", "has no array `traceEvents`"),
    ],
)
def test_what_is_no_chrome_trace_gets_one_sentence(tmp_path, text, message):
    with pytest.raises(TraceError, match=re.escape(message)):
        load(tmp_path, text)


def test_an_empty_array_of_events_is_a_document_of_none(tmp_path):
    document = load(tmp_path, '{"traceEvents": [], "schemaVersion": 1}')
    assert (len(document), document.head, document.notes) == (0, {"schemaVersion": 1}, ())


class Copy(msgspec.Struct):
    bytes: int | None = None
    to: int | None = msgspec.field(name="to device", default=None)


def test_args_are_decoded_for_the_rows_that_are_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(json_text, "_PIECE_BYTES", 64)
    args = ['{"bytes": 5, "to device": "1"}', "null", '{"bytes": [1]}', '{"bytes": NaN}', '{"bytes": 7, "more": {}}']
    document = load(tmp_path, "[" + ", ".join(f'{{"ph": "X", "args": {value}}}' for value in args) + ', {"ph": "X"}]')
    assert document.args(np.array([4, 0, 1, 2, 3, 5]), Copy) == [Copy(7), Copy(5, 1), Copy(), Copy(), Copy(), Copy()]
    assert document.args(np.array([4, 5]), dict) == [{"bytes": 7, "more": {}}, {}]
    assert document.args(np.array([], int), dict) == []


TEXT = st.text(st.sampled_from('ab"\\{}[],: \n\té\u2028'), max_size=8)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
EVENT = st.fixed_dictionaries(
    {"ph": st.sampled_from("XMi")},
    optional={
        "name": TEXT,
        "tid": st.integers() | TEXT,
        "ts": st.decimals(0, 10**9, places=3),
        "args": st.dictionaries(TEXT, VALUE, max_size=3),
        "more": VALUE,
    },
)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    ("number", "time_ps"),
    [
        ("1050." + "0" * 150, 1050 * 10**6),
        ("1050." + "0" * 33 + "9", 1050 * 10**6),
        ("0" * 0 + "1050.25" + "0" * 31, 1050_250_000),
        ("1050.1234565000001" + "0" * 60, 1050_123_457),
        ("1" + "0" * 200, None),
        ("1" + "0" * 37, None),
    ],
)
def test_a_number_of_many_digits_is_the_number_that_it_is(tmp_path, number, time_ps, is_first):
    """Arrow makes another number of more than 38 digits, and says nothing."""
    odd, plain = (
        f'{{"ph": "X", "name": "a", "ts": {number}, "dur": {number}}}',
        '{"ph": "X", "name": "b", "ts": 1, "dur": 2}',
    )
    events = [odd, plain] if is_first else [plain, odd]
    document = load(tmp_path, f'{{"traceEvents": [{", ".join(events)}]}}')
    at = document.name.tolist().index("a")
    if time_ps is None:
        assert not document.timed[at]
    else:
        assert document.base_ps + int(document.start_ps[at]) == time_ps
        assert int(document.duration_ps[at]) == time_ps


def json_of(value, **style):
    """`value` as JSON, its decimals as numbers with all their digits."""
    text = json.dumps(value, default=lambda number: f"<{number}>", **style)
    return re.sub(r'"<([0-9.]+)>"', r"\1", text)


@given(
    st.lists(EVENT, min_size=1, max_size=6),
    st.dictionaries(TEXT, VALUE, max_size=3),
    st.sampled_from([{}, {"indent": 1}, {"separators": (",", ":")}, {"ensure_ascii": False}]),
    st.integers(1, 200),
    st.booleans(),
)
def test_any_file_gives_what_the_standard_library_reads(tmp_path_factory, events, head, style, piece, last):
    head.pop("traceEvents", None)
    content = {**head, "traceEvents": events} if last else {"traceEvents": events, **head}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_text, "_PIECE_BYTES", piece)
        document = load(tmp_path_factory.getbasetemp(), json_of(content, **style))
    expected = json.loads(json_of(content), parse_float=Decimal)["traceEvents"]
    assert (document.head, document.notes) == (json.loads(json.dumps(head)), ())
    assert values_of(document.name) == [event.get("name") for event in expected]
    assert values_of(document.tid) == [None if "tid" not in event else str(event["tid"]) for event in expected]
    assert document.args(np.arange(len(document)), dict) == [event.get("args", {}) for event in expected]
    assert [
        document.base_ps + int(start) if timed else None
        for start, timed in zip(document.start_ps, document.timed, strict=True)
    ] == [int(event["ts"] * 10**6) if "ts" in event and event["ph"] != "M" else None for event in expected]


@pytest.mark.parametrize(
    ("field", "value", "evidence"),
    [
        *(("args", value, "arguments that are no object") for value in ([1], "x", 1e300, True)),
        *((field, [1], "names, categories, processes or threads of another type") for field in ("pid", "tid", "cat")),
        *(("name", value, "names, categories, processes or threads of another type") for value in ([1], {}, -5)),
    ],
)
def test_values_of_another_type_than_the_format_has_are_counted(tmp_path, field, value, evidence):
    usual = {"ph": "X", "cat": "c", "name": "n", "pid": 1, "tid": "t", "ts": 0, "dur": 1, "args": {"a": 1}}
    nothing = usual | {"args": None, "cat": None}
    document = load(tmp_path, json.dumps([usual, usual | {field: value}, nothing, {"ph": "X", "ts": 1}]))
    assert [(lost.what, lost.lost, lost.total, lost.evidence) for lost in document.lost] == [
        ("details", 1, 4, evidence)
    ]
    assert len(document.notes) == 1


def test_what_stands_before_the_events_is_searched_once(tmp_path, monkeypatch):
    searched = []

    def search(text, begin):
        searched.append(len(text) - begin)
        return its(text, begin)

    its = json_text._events_key
    monkeypatch.setattr(json_text, "_events_key", search)
    monkeypatch.setattr(json_text, "_PIECE_BYTES", 100)
    (tmp_path / "a.json").write_text(
        '{"traceEvents": {"a": ' + '"x", "y": ' * 1000 + '1}, "traceEvents" \n : [{"ph": "X"}]}'
    )
    text = json_text.Text(tmp_path / "a.json")
    assert sum(map(len, text.events())) == 1
    assert len(searched) > 50
    assert sum(searched) < 2 * (tmp_path / "a.json").stat().st_size


def never(*args):
    raise AssertionError("what takes long, of a file that is no trace")


@pytest.mark.parametrize(
    ("text", "slow", "reason"),
    [
        ('{"a": [%s1]}', (json_text, "_EVENTS_KEY"), "it has no array `traceEvents`"),
        ('[%s{"a": 1}]', (json_text.Text, "_decode"), "contains no trace events"),
    ],
)
def test_of_other_json_only_the_bytes_of_a_key_are_looked_for(tmp_path, monkeypatch, text, slow, reason):
    monkeypatch.setattr(json_text, "_PIECE_BYTES", 100)
    monkeypatch.setattr(*slow, never)
    with pytest.raises(TraceError, match=reason):
        load(tmp_path, text % ('{"b": "p"}, ' * 100))


@pytest.mark.parametrize("piece", [1, 3, 7, 100])
def test_the_first_event_of_a_list_may_stand_behind_much_else(tmp_path, monkeypatch, piece):
    monkeypatch.setattr(json_text, "_PIECE_BYTES", piece)
    document = load(tmp_path, "[" + '{"a": 1}, ' * 50 + '{"ph": "X", "name": "a", "ts": 1, "pid": 1, "tid": 1}]')
    assert values_of(document.name)[-1] == "a"


@pytest.mark.parametrize("end", ["}]", ", ]", "]}", "]"])
def test_blanks_before_what_does_not_belong_there_are_looked_through_once(tmp_path, end):
    begun = time.perf_counter()
    load(tmp_path, f'{{"traceEvents": [{A}, {B}{end}' + " " * 100_000 + "x")
    assert time.perf_counter() - begun < 5  # of what looks through them from each of them on, half a minute


LIST = '"traceEvents": [{}]'.format
BAD_KEYS = CUT.format("the keys beside its events are truncated or not valid JSON", 2)
UNREAD = "{} events could not be read (in another list of events)."


@pytest.mark.parametrize(
    ("lists", "names", "notes"),
    [
        ([LIST(A), LIST(f"{B}, {C}")], ["a"], [UNREAD.format("2 of 3")]),
        ([LIST(A), KEYS, LIST(B)], ["a"], [UNREAD.format("1 of 2")]),
        ([LIST(A), LIST(f"{B}, {C}"), LIST("")], ["a"], [UNREAD.format("Some")]),
        ([LIST(""), KEYS, LIST(f"{A}, {B}")], ["a", "b"], []),
        ([LIST("\n"), LIST(f"{A}, {event('b', 'NaN')}"), KEYS], ["a", "b"], [BAD_KEYS]),
        ([LIST(""), LIST(A), LIST(B)], ["b"], [UNREAD.format("Some")]),
        ([LIST(A), LIST("")], ["a"], []),
        ([LIST(A), f'"more": {{{LIST(B)}}}', KEYS], ["a"], []),
        ([f'"more": {{{LIST(B)}, "again": [{{{LIST(C)}}}]}}', KEYS, LIST(A)], ["a"], []),
        ([f'"text": "]}}{{[ \\\\\\"", "more": [{{{LIST(B)}}}]', LIST(A), KEYS], ["a"], []),
        ([LIST(event("a", f"{{{LIST(B)}}}")), KEYS], ["a"], []),
    ],
)
@pytest.mark.parametrize("piece", [16, 1 << 20])
def test_of_two_lists_of_events_the_other_is_told_or_read_where_the_first_is_empty(
    tmp_path, monkeypatch, lists, names, notes, piece
):
    monkeypatch.setattr(json_text, "_PIECE_BYTES", piece)
    document = load(tmp_path, f"{{{', '.join(lists)}}}")
    assert (values_of(document.name), document.notes) == (names, tuple(notes))
    assert [lost.what for lost in document.lost] == [Loss.BYTES if note == BAD_KEYS else Loss.EVENTS for note in notes]
    assert "traceEvents" not in document.head
    assert ("deviceProperties" in document.head) == (KEYS in lists)


@pytest.mark.parametrize("piece", [16, 1 << 20])
def test_a_list_of_events_in_an_object_is_read_where_there_is_no_other(tmp_path, monkeypatch, piece):
    monkeypatch.setattr(json_text, "_PIECE_BYTES", piece)
    document = load(tmp_path, f'{{"broken": [", "more": {{{LIST(A)}, "text": "no list"}}')
    assert values_of(document.name) == ["a"]
    assert document.lost


@pytest.mark.parametrize("piece", [16, 1 << 20])
@pytest.mark.parametrize(
    "text",
    [
        '{"data": %s}',
        '{"text": "]}", "data": {"list": 0, "more": %s}, "last": {}}',
        '{"runs": [1, {"data": []}, {"of": [%s]}]}',
        '{"more": {"traceEvents": 5}, "data": %s}',
        '{"more": {"traceEvents": [ ]}, "data": {"run": %s}}',
    ],
)
def test_a_valid_file_whose_only_list_is_in_another_object_is_read_as_that_object(tmp_path, monkeypatch, text, piece):
    monkeypatch.setattr(json_text, "_PIECE_BYTES", piece)
    document = load(tmp_path, text % f"{{{LIST(f'{A}, {B}')}, {KEYS}}}")
    assert (values_of(document.name), document.notes, document.lost) == (["a", "b"], (), ())
    assert "deviceProperties" in document.head


@pytest.mark.parametrize("deep", [json_text._DEEPEST, 5000])
def test_of_objects_that_lie_too_deep_in_each_other_the_events_are_read_and_the_rest_is_lost(tmp_path, deep):
    document = load(tmp_path, '{"a": ' * deep + f"{{{LIST(A)}}}" + "}" * deep)
    assert values_of(document.name) == ["a"]
    assert document.lost


def test_quotes_of_a_string_that_does_not_end_are_looked_through_once(tmp_path):
    begun = time.perf_counter()
    document = load(tmp_path, '{"a": "' + '\\"' * 500_000 + f" {LIST(A)}}}")
    assert values_of(document.name) == ["a"]
    assert time.perf_counter() - begun < 10  # of what looks through them from each of them on, twenty minutes


def test_the_list_of_events_may_stand_far_behind_one_in_an_object(tmp_path):
    document = load(tmp_path, f'{{"more": {{{LIST(B)}}}, "text": "{"x" * (20 << 20)}", {LIST(A)}, {KEYS}}}')
    assert (values_of(document.name), document.notes) == (["a"], ())


BEHIND = "{} byte{} could not be read (behind the end of its JSON)."


@pytest.mark.parametrize(
    ("document", "behind"),
    [
        (f"{{{LIST(A)}}}", "x"),
        (f"{{{LIST(f'{A}, {B}')}, {KEYS}}}", "\n}]"),
        (f"{{{KEYS}, {LIST(f'{A}, {B},')}}}", " garbage"),
        (f"[{A}, {B}]", "x"),
        (f"{{{LIST(f'{A}, {B}')}}}", f"{{{LIST(C)}}}"),
        (f"{{{LIST(f'{A}, {B}')}, {KEYS}}}", f"\n{{{KEYS}, {LIST(f'{C}, {C}')}}}"),
        (f"[{A}, {B}]", f"[{B}, {C}]"),
        (f"{{{LIST(A)}}}", "\n\0\0"),
    ],
)
@pytest.mark.parametrize("piece", [16, 1 << 20])
def test_what_stands_behind_a_document_costs_nothing_of_it_and_is_told(tmp_path, monkeypatch, document, behind, piece):
    monkeypatch.setattr(json_text, "_PIECE_BYTES", piece)
    whole, found = load(tmp_path, document), load(tmp_path, document + behind)
    size = len(behind.strip("\n \0"))
    assert (values_of(found.name), found.head) == (values_of(whole.name), whole.head)
    assert found.notes == ((BEHIND.format(size, "s" * (size != 1)),) if size else ())
    assert [lost[:2] for lost in found.lost] == ([(Loss.BYTES, size)] if size else [])


def test_an_event_that_is_wrong_at_a_byte_is_repaired_once_and_not_with_those_behind_it(tmp_path, monkeypatch):
    tried = []
    its = json_text.repaired
    monkeypatch.setattr(json_text, "repaired", lambda text: tried.append(len(text)) or its(text))
    broken = event("b", "0x5 5")
    document = load(tmp_path, f"[{', '.join([A, broken] * 20 + [C] * 20)}]")
    assert document.notes == (LEFT_OUT.format(20),)
    assert tried.count(len(broken)) == 20
    assert sum(tried) < 21 * len(broken)
