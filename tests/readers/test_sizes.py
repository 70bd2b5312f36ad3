"""Sizes that no machine moves are no figure, in a trace of any format, and no sum of sizes leaves 64 bits."""

import json

import pytest

import tracekit


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
