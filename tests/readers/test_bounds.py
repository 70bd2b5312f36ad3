"""What no real trace holds is told: sizes that no machine moves, too many or too long names, devices, threads."""

import json

import pytest

import tracekit
from tracekit.readers import bounds


def write(at, sizes):
    copies = [
        {
            "ph": "X",
            "cat": "gpu_memcpy",
            "name": "Memcpy HtoD",
            "ts": 10 * number,
            "dur": 5,
            "pid": 0,
            "tid": 7,
            "args": {"device": 0, "stream": 7, "bytes": size},
        }
        for number, size in enumerate(sizes)
    ]
    (at / "a.pt.trace.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": copies}))
    return at / "a.pt.trace.json"


@pytest.mark.parametrize("size", [-1, 2**45 + 1, 2**62, 2**63 - 1])
def test_a_size_that_no_machine_moves_is_lost_and_told(tmp_path, size):
    trace = tracekit.read(write(tmp_path, [1000, size, 0]))
    assert trace.events["bytes"].astype(object).where(trace.events["bytes"].notna(), None).tolist() == [1000, None, 0]
    (lost,) = trace.losses.to_dict("records")
    assert (lost["what"], lost["lost"]) == ("details", 1)
    assert "1 detail of devices and events could not be read (sizes of copies" in " ".join(trace.notes)


def test_the_largest_size_is_kept(tmp_path):
    trace = tracekit.read(write(tmp_path, [2**45]))
    assert trace.events["bytes"].tolist() == [2**45]
    assert trace.losses.empty


def test_sizes_whose_sum_no_machine_moves_are_lost(tmp_path):
    sizes = [5, *[2**45] * 2048]
    trace = tracekit.read(write(tmp_path, sizes))
    assert trace.events["bytes"].tolist()[0] == 5
    assert trace.events["bytes"].isna().sum() == 2048
    assert trace.losses["lost"].tolist() == [2048]


def test_copies_of_such_sizes_have_no_bandwidth(tmp_path):
    copies = tracekit.explain(write(tmp_path, [2**62] * 3)).bandwidth.copies
    assert copies["n"].tolist() == [3]
    assert copies[["bytes", "bytes_per_s", "best_bytes_per_s"]].isna().all(axis=None)


def test_names_of_many_thousand_letters_are_cut_in_their_middle_and_stay_apart(tmp_path):
    path = write(tmp_path, [1, 2, 3, 4])
    trace = json.loads(path.read_text())
    names = [f"{'a' * 5_000}{middle}{'b' * 5_000}" for middle in ("", "x", "y", "x")]
    for event, name in zip(trace["traceEvents"], names, strict=True):
        event |= {"name": name, "cat": "kernel"}
    path.write_text(json.dumps(trace))
    trace = tracekit.read(path)
    whole, first, second, again = trace.events["name"].tolist()
    assert whole == names[0]
    assert first == again != second
    assert [first[:5_000], first[-5_000:], len(first)] == ["a" * 5_000, "b" * 5_000, 10_016]
    assert "2 names of more than 10,000 letters: their middle is left out." in trace.notes


def test_the_ranks_of_a_large_job_are_whole(tmp_path):
    path = write(tmp_path, [1])
    trace = json.loads(path.read_text())
    (event,) = trace["traceEvents"]
    args = {"Collective name": "allreduce", "Group size": 8192, "Process Group Ranks": str([*range(8192)])}
    event |= {"name": "ncclDevKernel_AllReduce", "cat": "kernel", "args": event["args"] | args}
    path.write_text(json.dumps(trace))
    (ranks,) = tracekit.read(path).events["ranks"]
    assert ranks == ",".join(map(str, range(8192)))


def event(number, **fields):
    args = {"device": 0, "stream": 7, **fields.pop("args", {})}
    whole = {"ph": "X", "cat": "kernel", "name": "k", "ts": 10 * number, "dur": 5, "pid": 0, "tid": 7, **fields}
    return {**whole, "args": args}


def read(tmp_path, events):
    path = tmp_path / "a.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return tracekit.read(path)


def losses_of(trace):
    return trace.losses[["what", "lost", "total"]].to_numpy().tolist()


@pytest.mark.parametrize(
    ("table", "fields", "what"),
    [
        ("events", {}, "work"),
        ("launches", {"cat": "cuda_runtime", "pid": 9, "args": {"correlation": 1}}, "calls"),
    ],
)
def test_of_too_many_names_those_with_most_time_stay(tmp_path, monkeypatch, table, fields, what):
    monkeypatch.setattr(bounds, "_MOST_NAMES", 3)
    times = {"short": 1, "longest": 9, "long": 5, "shorter": 2}
    events = [event(number, name=name, dur=dur, **fields) for number, (name, dur) in enumerate(times.items())]
    trace = read(tmp_path, events)
    assert getattr(trace, table)["name"].tolist() == ["(other names)", "longest", "long", "(other names)"]
    assert losses_of(trace) == [["details", 2, 4]]
    assert bounds.bounded(trace) is trace
    assert (
        f'2 of 4 details of devices and events could not be read (names of {what}, which are "(other names)" now).'
        in trace.notes
    )


@pytest.mark.parametrize("name", [None, "", ...])
def test_work_whose_name_is_lost_has_no_kind(tmp_path, name):
    nameless = event(1, dur=15, name=name)
    if name is ...:
        del nameless["name"]
    trace = read(tmp_path, [event(0), nameless, event(2, cat="gpu_memcpy", name="Memcpy HtoD (Pinned -> Device)")])
    assert losses_of(trace) == [["kinds", 15_000_000, 25_000_000]]
    assert "The kind of 15.00 µs of 25.00 µs of work is not known (work whose names are lost)." in trace.notes
    assert bounds.bounded(trace) is trace


def test_devices_and_lanes_behind_the_most_are_lost_and_told(tmp_path, monkeypatch):
    monkeypatch.setattr(bounds, "_MOST_DEVICES", 3)
    monkeypatch.setattr(bounds, "_MOST_LANES", 4)
    events = [event(number, args={"device": number % 5, "stream": number // 5}) for number in range(10)]
    trace = read(tmp_path, events)
    assert trace.events["device"].tolist() == ["gpu:0", "gpu:1", "gpu:2", "gpu:0"]
    assert losses_of(trace) == [["planes", 2, 5], ["lines", 2, 6]]


def test_threads_behind_the_most_are_lost_and_told(tmp_path, monkeypatch):
    monkeypatch.setattr(bounds, "_MOST_THREADS", 3)
    marks = [event(number, cat="user_annotation", pid=9, tid=100 + number, name="a") for number in range(4)]
    calls = [event(number, cat="cuda_runtime", pid=9, tid=103 + number, name="cudaLaunchKernel") for number in range(2)]
    correlated = [call | {"args": {"correlation": number + 1}} for number, call in enumerate(calls)]
    trace = read(tmp_path, [event(0), *marks, *correlated])
    assert (len(trace.spans), len(trace.launches)) == (3, 0)
    assert losses_of(trace) == [["lines", 2, 5]]


def test_phases_behind_the_most_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(bounds, "_MOST_PHASES", 2)
    marks = [event(at, cat="user_annotation", name=f"p{at % 3}#tracekit=phase#", pid=9) for at in range(6)]
    trace = read(tmp_path, [event(0), *marks])
    assert trace.spans["tracekit"].notna().tolist() == [True, True, False] * 2
    assert losses_of(trace) == [["details", 1, 3]]
    monkeypatch.setattr(bounds, "_MOST_ROWS_OF_PHASES", 4)
    assert tracekit.read(tmp_path / "a.pt.trace.json").spans["tracekit"].notna().sum() == 4
    devices = [event(0, args={"device": number}) for number in range(3)]
    assert read(tmp_path, [*devices, *marks]).spans["tracekit"].notna().sum() == 2


def test_within_the_bounds_a_trace_stays_as_it_is(tmp_path):
    trace = read(tmp_path, [event(number, name=f"k{number}", args={"device": number}) for number in range(50)])
    assert bounds.bounded(trace) is trace
    assert trace.losses.empty


def test_a_summary_is_held_to_the_bounds_too(tmp_path, monkeypatch):
    path = tmp_path / "a.pt.trace.json"
    events = [event(number, args={"device": number}) for number in range(5)]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    tracekit.summarise(path, tmp_path / "a.tracekit")
    monkeypatch.setattr(bounds, "_MOST_DEVICES", 3)
    trace = tracekit.read(tmp_path / "a.tracekit")
    assert trace.events["device"].tolist() == ["gpu:0", "gpu:1", "gpu:2"]
    assert losses_of(trace) == [["planes", 2, 5]]
