"""A JSON trace of which a stretch is gone: as many events are lost as fit into it, however the rest is read."""

import json

import pytest

from tests.readers.chrome.kineto_files import kernel
from tracekit.analysis.completeness import completeness
from tracekit.readers import chrome, read
from tracekit.readers.chrome import json_text
from tracekit.readers.chrome.overlong import INSIDE
from tracekit.readers.stretches import BLANKS, FIT, NO_EVENT, ZEROS
from tracekit.timeline.timeline import timeline_of


@pytest.fixture(autouse=True, params=["msgspec", "scanner"])
def reader(request, monkeypatch):
    """Every file is read both ways, that of small files and that of large ones."""
    monkeypatch.setattr(json_text, "SCAN_FROM_BYTES", 0 if request.param == "scanner" else 1 << 62)


KERNELS = [kernel(f"k{number}", 10 * number, 9, source="x.py") for number in range(200)]


def trace(*events):
    return {"schemaVersion": 1, "deviceProperties": [], "traceEvents": list(events)}


TEXT = json.dumps(trace(*KERNELS)).encode()
MEAN = len(TEXT) / len(KERNELS)
# Within the text of a source, from one kernel to another.
PLACES = [at for at in range(len(TEXT)) if TEXT.startswith(b".py", at)]


def lost(tmp_path, text):
    """How much is lost by what says so, how many events are left, and why no shares of time are known."""
    path = tmp_path / "a.pt.trace.json"
    path.write_bytes(text if isinstance(text, bytes) else json.dumps(text).encode())
    document, found = chrome.load(path), read(path)
    known = completeness(timeline_of(found))
    assert known.is_complete == (not document.lost)
    return {each.evidence: each.lost for each in document.lost}, len(document), known.shares


@pytest.mark.parametrize("piece", [1 << 12, 1 << 20])
@pytest.mark.parametrize(
    ("filling", "evidence"),
    [
        (b"\0", ZEROS),
        (b" ", BLANKS),
        (b"\n", BLANKS),
        (b"HTTP/1.1 503\r\nService Unavailable\r\n", NO_EVENT),
        (b'HTTP/1.1 "503" Service Unavailable ', NO_EVENT),
    ],
)
@pytest.mark.parametrize("shift", [0, -9, 40, 100])
def test_a_stretch_that_is_gone_costs_what_fits_into_it(tmp_path, monkeypatch, piece, filling, evidence, shift):
    monkeypatch.setattr(json_text, "_PIECE_BYTES", piece)
    begin, end = PLACES[60] + shift, PLACES[100] + shift
    found, left, shares = lost(tmp_path, TEXT[:begin] + (filling * 9999)[: end - begin] + TEXT[end:])
    assert end - begin <= found[evidence] <= end - begin + 2 * MEAN
    assert 38 <= found[FIT] <= 43
    assert 158 <= left <= 160
    assert shares


def test_a_long_event_that_is_damaged_is_one_event(tmp_path):
    source = " ".join("def f(): pass # " + str(number) for number in range(500))
    longs = (kernel("long", time, 9, source=source) for time in (2000, 2010))
    text = json.dumps(trace(*KERNELS, *longs)).encode()
    assert lost(tmp_path, text) == ({}, 202, "")
    damaged = text.replace(b'"ts": 2010', b'"ts": 0x7DA')
    assert lost(tmp_path, damaged) == ({"not valid JSON": 1}, 201, "")


@pytest.mark.parametrize(
    "text",
    [
        "base64," * 9000,
        "def f():\n    pass\n" * 4000,
        'HloModule jit_f, entry={(f32[8]{0})->f32[8]{0}}\n\n  ROOT %a = f32[8]{0} add(%b, %c), metadata={op="x"}\n'
        * 700,
        "the key `ph` of " + json.dumps(KERNELS[0]),
        "x" + " " * 400 + "y",
    ],
)
def test_a_long_text_is_no_loss(tmp_path, text):
    assert lost(tmp_path, trace(*KERNELS, kernel("a", 5000, 9, source=text))) == ({}, 201, "")


@pytest.mark.parametrize("piece", [1 << 12, 1 << 20])
@pytest.mark.parametrize(
    ("begin", "end"),
    [
        (b"k60", b"k100"),  # from one name to another
        (b"ource", b"ource"),  # from one key of arguments to another
        (b"k60", b"ernel"),  # of two names in one event the last is read, as of two of all keys
        (b"ernel", b"k100"),
        (b"ts", b"dur"),
    ],
)
def test_other_text_from_a_name_or_a_key_to_another_costs_what_fits_into_it(tmp_path, monkeypatch, piece, begin, end):
    monkeypatch.setattr(json_text, "_PIECE_BYTES", piece)
    kernels = [kernel(f"k{number}", 10 * number, 9, source="x.py") for number in range(1000)]
    text = json.dumps(trace(*kernels)).encode()
    first, last = text.index(b'"k60"'), text.index(b'"k160"')
    first, last = text.index(begin, first) + 1, text.index(end.replace(b"k100", b"k160"), last - 30) + 1
    html = (b"<html><body bgcolor=white><h1>502 Bad Gateway</h1></body></html>" * 999)[: last - first]
    found, left, shares = lost(tmp_path, text[:first] + html + text[last:])
    assert last - first <= found[NO_EVENT] <= last - first + 2 * MEAN
    assert 98 <= found[FIT] <= 103
    assert left in (900, 901)
    assert shares


def test_long_names_that_many_events_have_are_no_loss(tmp_path):
    longs = [kernel(str(number) * 9000, 5000 + 10 * number, 9) for number in range(10, 19)]
    assert lost(tmp_path, trace(*KERNELS, *longs)) == ({}, 209, "")
    assert lost(tmp_path, trace(*KERNELS, longs[0])) == ({}, 201, "")
    page = kernel(f"k<html>{'502' * 9000}", 5000, 9)
    assert lost(tmp_path, trace(*KERNELS, page))[0].keys() == {NO_EVENT, FIT}


def test_one_text_that_is_longer_than_all_other_arguments_is_noted(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps([*KERNELS, kernel("a", 5000, 9, source="x" * 20_000)]))
    note = next(iter(chrome.load(path).notes))
    assert note.startswith("The arguments of one event take 20,040 bytes, those of all others 44 or less")
    path.write_text(json.dumps([*KERNELS, {"ph": "M", "name": "hlo", "args": {"text": "x" * 20_000}}]))
    assert chrome.load(path).notes == ()


def test_events_that_stand_inside_of_values_are_lost(tmp_path):
    document = trace(*KERNELS[:100], KERNELS[100:150], *KERNELS[150:])
    found, left, shares = lost(tmp_path, document)
    assert (found, left, bool(shares)) == ({INSIDE: 49, "values that are no events": 1}, 150, True)
    document["traceEvents"][100] = {"more": KERNELS[100:150]}
    found, left, shares = lost(tmp_path, document)
    assert (found, left, bool(shares)) == ({INSIDE: 50}, 151, True)
    document["traceEvents"][100] = {}
    assert lost(tmp_path, document) == ({}, 151, "")


def test_events_that_stand_inside_of_a_text_are_not_lost_but_told(tmp_path):
    swallowed = json.dumps(KERNELS[100:150])
    for name, source in ((swallowed, "x.py"), ("a", swallowed)):
        document = trace(*KERNELS[:100], kernel(name, 1000, 9, source=source), *KERNELS[150:])
        found, left, shares = lost(tmp_path, document)
        assert (found, left, shares) == ({}, 151, "")
        assert "50 events inside of names or arguments were not read." in read(tmp_path / "a.pt.trace.json").notes
