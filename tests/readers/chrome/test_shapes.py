"""A stretch of a JSON trace that is not there: what stood before and behind it is one event."""

import json
import random
import time
from itertools import product

import pytest

from tests.readers.chrome.kineto_files import event, kernel
from tracekit.analysis.completeness import completeness
from tracekit.readers import chrome, read
from tracekit.readers.chrome import json_text
from tracekit.readers.chrome.shapes import JOINED
from tracekit.timeline.timeline import timeline_of


@pytest.fixture(autouse=True, params=["msgspec", "scanner"])
def reader(request, monkeypatch):
    """Every file is read both ways, that of small files and that of large ones."""
    monkeypatch.setattr(json_text, "SCAN_FROM_BYTES", 0 if request.param == "scanner" else 1 << 62)


def step(at):
    """What Kineto writes for a kernel, each with keys in an order of its own."""
    call = event("cuda_runtime", "cudaLaunchKernel", 10 * at, 2, 9, 9, cbid=211, correlation=at + 1)
    flow = {"ph": "s", "id": at + 1, "pid": 9, "tid": 9, "ts": 10 * at, "cat": "ac2g", "name": "ac2g"}
    work = kernel(f"sm90_gemm_{at % 7}", 10 * at + 5, 4, correlation=at + 1)
    return [event("cpu_op", "aten::mm", 10 * at, 3, 9, 9, **{"External id": at}), call, flow, work]


EVENTS = [each for at in range(60) for each in step(at)]
TEXT = json.dumps({"schemaVersion": 1, "traceEvents": EVENTS, "traceName": "a.json"})


def lost(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    return [(each.what, each.lost, each.evidence) for each in chrome.load(tmp_path / "a.json").lost]


def keys(text):
    """The keys of each event and of its args in a file, in their order; None of what is no JSON."""
    try:
        pairs = json.loads(text, object_pairs_hook=list)
    except ValueError:
        return None
    events = dict(pairs)["traceEvents"]
    return [([key for key, _ in each], [key for key, _ in dict(each).get("args", [])]) for each in events]


OWN = keys(TEXT)


@pytest.mark.parametrize("seed", range(150))
def test_what_is_cut_out_is_told_wherever_the_text_proves_it(tmp_path, seed):
    """By brute force: where the rest is no JSON, or an object of it has a key twice; where all its keys are those of
    whole events nothing is told."""
    rng = random.Random(seed)
    begin, end = sorted(rng.randrange(TEXT.index("[") + 200, len(TEXT) - 200) for _ in range(2))
    text = TEXT[:begin] + TEXT[end:]
    found, kinds = lost(tmp_path, text), keys(text)
    if kinds is None:
        assert found
    elif any(len({*each}) < len(each) for pair in kinds for each in pair):
        assert ("events", None, JOINED) in found
    elif all(pair in OWN for pair in kinds):
        assert found == []


def joined(first, last):
    """The text without what stands from one to the other: the first time of both behind the middle."""
    begin = TEXT.index(first, len(TEXT) // 3) + len(first)
    return TEXT[:begin] + TEXT[TEXT.index(last, begin + len(TEXT) // 3) :]


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ('"cat": "cpu_op", ', '"pid": 0, "tid"'),  # keys of another kind
        ('"args": {"cbid": 211, ', '"cat": "cpu_op"'),
        ('"dur": 4, "', 'ph": "X"'),
        ('"ts": 3', '"tid": 9, "ts"'),
    ],
)
def test_two_halves_cost_an_unknown_part_of_the_file(tmp_path, first, last):
    assert ("events", None, JOINED) in lost(tmp_path, joined(first, last))
    known = completeness(timeline_of(read(tmp_path / "a.json")))
    assert (known.is_complete, bool(known.shares)) == (False, True)


OP = json.dumps(EVENTS[40])


@pytest.mark.parametrize(
    "other",
    [
        '{"ph": "X", "name": "GET /", "pid": 9, "tid": 9, "ts": 5, "dur": 1}',
        '{"ph": "X", "cat": "Trace", "ts": 5, "dur": 1, "pid": "Spans", "tid": "t", "name": "a", "args": {"ops": 0}}',
        '{"name": "Iteration Start: a", "ph": "i", "s": "g", "pid": "Traces", "tid": "Trace a", "ts": 5}',
        '{"args": {"x": [{"ph": 1}, {"ph": 2}]}, "ts": 5, "ph": "i", "tid": 9, "name": "}, {", "pid": 9}',
        OP.replace('"External id": 10', '"Ev Idx": 3, "Concrete Inputs": [""], "External id": 10'),
        OP.replace('"External id": 10', ""),
        OP.replace('"aten::mm"', '"5\\" disk"'),
        OP.replace('"cat": "cpu_op", ', ""),
    ],
)
def test_an_event_that_no_other_is_like_is_none(tmp_path, other):
    assert lost(tmp_path, TEXT.replace(OP, f"{OP}, {other}")) == []


@pytest.mark.parametrize(
    "damaged",
    [
        OP.replace('"dur": 3', '"dur": NaN'),
        OP.replace('"aten::mm"', '"C:\\path"'),
        OP.replace('"aten::mm"', '"say "a" twice"'),
        OP.replace('"dur": 3', '"dur": 0x41a'),
        OP.replace('"dur": 3', '"dur": 03'),
        OP.replace('"dur": 3', '"dur": 3.'),
    ],
)
def test_what_a_profiler_writes_that_is_no_json_costs_one_event(tmp_path, damaged):
    assert JOINED not in {evidence for *_, evidence in lost(tmp_path, TEXT.replace(OP, damaged))}


@pytest.mark.parametrize("left_out", [range(20, 33), range(10), range(45, 60)])
def test_events_that_a_tool_left_out_whole_are_no_damage(tmp_path, left_out):
    """Though PyTorch numbers its operators, and HIP its calls, one after the other."""
    ops = [event("cpu_op", f"aten::op{at}", 10 * at, 3, 9, 9, **{"Ev Idx": at}) for at in range(60)]
    calls = [event("cuda_runtime", "hipLaunchKernel", 10 * at, 2, 9, 9, correlation=at + 1) for at in range(60)]
    kernels = [kernel(f"k{at}", 10 * at + 5, 3, correlation=at + 1) for at in range(60)]
    left = [
        each for at, events in enumerate(zip(ops, calls, kernels, strict=True)) if at not in left_out for each in events
    ]
    assert lost(tmp_path, json.dumps({"traceEvents": left})) == []


@pytest.mark.parametrize("missing", [0, 13])
def test_gaps_in_the_numbers_of_operators_are_a_note(tmp_path, missing):
    ops = [event("cpu_op", f"aten::op{at}", 10 * at, 3, 9, 9, **{"Ev Idx": at}) for at in range(300)]
    (tmp_path / "a.json").write_text(json.dumps({"traceEvents": ops[:20] + ops[20 + missing :]}))
    trace = read(tmp_path / "a.json")
    told = [note for note in trace.notes if "Ev Idx" in note]
    assert (len(trace.losses), len(told)) == (0, bool(missing))
    assert all(note.startswith("13 of 300 events that PyTorch numbered (Ev Idx) are not in the file") for note in told)


def test_names_that_a_tool_cut_are_no_damage(tmp_path):
    names = [f"void at::op{at}<4>(int, {{lambda({at})#1}})" for at in range(59)] + [
        "void at::much_longer_op<4>(int, floa"
    ]
    events = [kernel(name, 10 * at, 3) for at, name in enumerate(names)]
    assert lost(tmp_path, json.dumps({"traceEvents": events})) == []


@pytest.mark.parametrize("depth", [10, 450, 900])
def test_a_phase_that_is_nested_deep_is_none(tmp_path, depth):
    nested = '{"a": ' * depth + "1" + "}" * depth
    deep = OP.replace('"ph": "X"', f'"ph": {nested}')
    lost(tmp_path, TEXT.replace(OP, f"{OP}, {deep}"))
    assert len(read(tmp_path / "a.json").events)


def test_arguments_that_are_numbered_are_of_one_kind(tmp_path):
    kinds = [{f"f{at}": at} for at in range(400)] + [{f"r{at}": at, "shared": 1} for at in range(200)]
    events = [event("user_annotation", "a", 10 * at, 3, 9, 9, **args) for at, args in enumerate(kinds)]
    assert lost(tmp_path, json.dumps({"traceEvents": [*events, kernel("k", 5, 3)]})) == []


def test_events_of_many_kinds_are_compared_in_little_time(tmp_path):
    """Annotations with arguments of the user's own: 400 sets of keys that are frequent, and 2,000 that are rare."""
    names = ["".join(letters) for letters in product("abcdefghij", repeat=4)][:2400]
    kinds = [{name: 1} for name in names[:400]] * 8 + [{name: 1, "shared": 1} for name in names[400:]]
    events = [event("user_annotation", "a", 10 * at, 3, 9, 9, **args) for at, args in enumerate(kinds)]
    begin = time.process_time()
    assert lost(tmp_path, json.dumps({"traceEvents": [*events, kernel("k", 5, 3)]})) == []
    assert time.process_time() - begin < 20  # 1 s; where each was held against each two, it took hours
