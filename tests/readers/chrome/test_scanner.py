"""The compiled scanner against msgspec, which reads what it leaves: any file gives the same both ways."""

import random

import numpy as np
import pytest

from tracekit.errors import TraceError
from tracekit.readers import chrome
from tracekit.readers.chrome import json_text, scanner
from tracekit.readers.chrome.shapes import JOINED

EVENTS = (
    '{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 2, "ts": 12.5, "dur": 0.25, "args": {"a": [1]}}',
    '{\n "name": "d\\u00e9\\"", "ph":"X","ts":1712195495505582.98,\n"args": {"b": {"ts": 5, "x": "}, {"}}, "pid":"é"}',
    '{"ph": "f", "id": 3, "pid": 1, "tid": 2, "ts": "7", "bp": "e", "cat": null, "name": {"a": [true, -1.5e-3]}}',
    '{"dur": 1.23456789, "ts": -3, "ph": "X", "ts": 5, "args": [], "tid": 17343844709549807314}',
    "{}",
)
REGULAR = EVENTS[:-1]
ESCAPED = '{"n\\u0061me": "called so by an escape", "ph": "X", "ts": 1, "d\\u0075r": 2}'
WRONG = (b"NaN", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b"\xff", b"\x00", b"\\q", b"\\ud800", b"01", b"1e999", b":")
WRONG += (b"},{", b"7,", b"-", b"1" * 40, b"[" * 300 + b"]" * 300)


@pytest.fixture(autouse=True)
def compiled():
    if not scanner.is_there():
        pytest.skip("numba is missing, or is not to compile: nothing is scanned")


def read(path, monkeypatch, scanned):
    """What a document holds, or why it cannot be read."""
    monkeypatch.setattr(json_text, "SCAN_FROM_BYTES", 0 if scanned else 1 << 62)
    try:
        document = chrome.load(path)
    except TraceError as error:
        return str(error)
    columns = (document.ph, document.cat, document.name, document.pid, document.tid)
    times = (document.start_ps, document.duration_ps, document.timed)
    texts = [(column.categories.tolist(), column.codes.dtype, column.codes.tolist()) for column in columns]
    args = document.args(np.arange(len(document)), dict)
    # What is rare in a file of such pieces is another thing in each way: one of the events has a key twice.
    notes = [note for note in document.notes if JOINED not in note]
    lost = [each for each in document.lost if each.evidence != JOINED]
    return document.head, notes, lost, document.base_ps, [*map(list, times)], texts, args


def test_regular_events_are_scanned_and_no_others(tmp_path):
    text = ", ".join([*REGULAR, '{"ph": "X", "args": {"v": NaN}}', *REGULAR]).encode()
    events, end, is_odd = scanner.scan(text)
    assert [sum(map(len, events)), is_odd] == [len(REGULAR), True]
    assert text[end:].startswith(b', {"ph": "X", "args": {"v": NaN}}')
    assert events[0].column("name").to_pylist() == [b'"aten::mm"', rb'"d\u00e9\""', b'{"a": [true, -1.5e-3]}', b""]


def test_what_has_no_phase_is_left_to_msgspec_as_events_may_stand_inside():
    events, end, is_odd = scanner.scan(f'{REGULAR[0]}, {{"a": [{REGULAR[0]}]}}, {REGULAR[0]}'.encode())
    assert (sum(map(len, events)), end, is_odd) == (1, len(REGULAR[0]), True)


def test_a_key_with_an_escape_is_left_to_msgspec():
    events, _, is_odd = scanner.scan(f"{EVENTS[0]}, {ESCAPED}, {{".encode())
    assert (sum(map(len, events)), is_odd) == (1, True)


def test_an_event_that_is_not_whole_is_left(tmp_path):
    whole = EVENTS[0].encode()
    for size in range(len(whole)):
        events, end, is_odd = scanner.scan(whole + b", " + whole[:size])
        is_followed = size >= 8  # so that no value ends in the last eight bytes, which are read at once
        assert (sum(map(len, events)), end, is_odd) == ((1, len(whole), False) if is_followed else (0, 0, False))


def test_more_events_than_there_is_room_for_come_in_parts(monkeypatch):
    monkeypatch.setattr(scanner, "_MOST_EVENTS", 2)
    text = b",".join(b'{"ph": "%d"}' % number for number in range(5))
    events, end, is_odd = scanner.scan(text)
    assert [part.column("ph").to_pylist() for part in events] == [[b'"0"', b'"1"'], [b'"2"', b'"3"']]
    assert (text[end:], is_odd) == (b',{"ph": "4"}', False)


@pytest.mark.parametrize("seed", range(60))
def test_any_file_whole_or_damaged_gives_what_msgspec_reads(tmp_path, monkeypatch, seed):
    rng = random.Random(seed)
    events = rng.choice([", ", ",", ",\n"]).join(
        rng.choices([*EVENTS, ESCAPED][: rng.choice([5, 6])], k=rng.randrange(1, 30))
    )
    text = bytearray(
        rng.choice(["[%s]", '{"traceEvents": [%s], "k": [1, {}]}', '{"k": [1], "traceEvents":[%s\n]}']) % events,
        "utf-8",
    )
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(text))
        text[at : at + rng.choice([0, 0, 1, 20])] = rng.choice(WRONG)
    monkeypatch.setattr(json_text, "_PIECE_BYTES", rng.choice([16, 100, 500]))
    (tmp_path / "a.json").write_bytes(text)
    expected = read(tmp_path / "a.json", monkeypatch, scanned=False)
    assert read(tmp_path / "a.json", monkeypatch, scanned=True) == expected
