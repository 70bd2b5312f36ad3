"""JAX's trace.json.gz: small documents, both forms of one capture, and a real TPU trace with figures known before."""

import gzip
import json
import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests import traces
from tests.readers.damage import changed, figures, places
from tracekit import intervals as iv
from tracekit.columns import distinct
from tracekit.errors import TraceError
from tracekit.readers import chrome, xspace
from tracekit.readers.chrome import jax_planes
from tracekit.readers.chrome.jax_planes import thunk_ends
from tracekit.readers.xspace import xspace_file
from tracekit.timeline.timeline import timeline_of

DATA = Path(__file__).parents[2] / "data"


class Text:
    """A document in JAX's form, built event by event; times are decimal microseconds, as text."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.ids: dict[tuple[str, str | None], int] = {}

    def meta(self, plane: str, line: str | None = None) -> int:
        """The id of a plane or of one of its lines, named in the file when first asked for."""
        if (plane, line) not in self.ids:
            pid = self.meta(plane) if line is not None else len(self.ids) + 1
            number = self.ids[plane, line] = len(self.ids) + 1
            metadata = {"ph": "M", "pid": pid, "args": {"name": line or plane}}
            self.events.append(
                json.dumps(metadata | ({"tid": number, "name": "thread_name"} if line else {"name": "process_name"}))
            )
        return self.ids[plane, line]

    def event(
        self, plane: str, line: str, name: str, ts: str, dur: str, ph: str = "X", stats: dict | None = None, **args: str
    ) -> "Text":
        """Add an event of a line; `args` are its stats, `stats` those whose names are taken."""
        pid, tid = self.meta(plane), self.meta(plane, line)
        head = json.dumps({"ph": ph, "pid": pid, "tid": tid, "name": name, "args": args | (stats or {})})[1:-1]
        self.events.append(f'{{{head}, "ts": {ts}, "dur": {dur}}}')
        return self

    def read(self, tmp_path: Path, name: str = "h.trace.json.gz"):
        """The trace, read from a file of that name; it ends with an empty event, as JAX's do."""
        text = f'{{"displayTimeUnit": "ns", "traceEvents": [{", ".join([*self.events, "{}"])}]}}'
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()))
        return jax_planes.read(chrome.load(path), path)


def table(frame: pd.DataFrame, *columns: str) -> list[list]:
    cells = frame[list(columns)].astype(object)
    return cells.where(cells.notna(), None).values.tolist()


@pytest.mark.parametrize("stats", [{"run_id": [1]}, {"run_id": {}}, {"run_id": "x"}, {"correlation_id": "zz"}])
def test_stats_of_another_type_are_counted_and_cost_no_others(tmp_path, stats):
    text, tpu = Text(), "/device:TPU:0"
    text.event(tpu, "XLA Ops", "a", "1", "2", hlo_category="fusion", run_id="7")
    trace = text.event(tpu, "XLA Ops", "b", "4", "2", stats=stats, hlo_category="all-reduce").read(tmp_path)
    assert table(trace.events, "name", "kind") == [["a", "compute"], ["b", "collective"]]
    assert table(trace.losses, "what", "lost", "total", "evidence") == [
        ["details", 1, 2, "stats of /device:TPU:0 of another type"]
    ]


def whole() -> dict:
    """A document with all that is read of a GPU, a TPU and a CPU."""
    text, gpu, tpu, host = Text(), "/device:GPU:0", "/device:TPU:0", "/host:CPU"
    text.event(host, "python", "train", "0", "20", step_num="3")
    text.event(host, "python", "both", "1", "18", tracekit="phase", alone="one;two")
    text.event(host, "python", "cuLaunchKernel", "2", "1", correlation_id="5")
    text.event(gpu, "Stream #13(Compute)", "kernel", "4", "3", correlation_id="5", hlo_op="f", hlo_module="jit_f")
    text.event(gpu, "Stream #14(MemcpyH2D)", "MemcpyH2D", "5", "2", memcpy_details="kind_src:pinned size:64 dest:0")
    ran = {"run_id": "7", "model_flops": "8", "bytes_accessed": "64", "tf_op": "psum", "source": "a.py:3"}
    text.event(tpu, "XLA Modules", "jit_f(1)", "5", "9", run_id="7")
    text.event(tpu, "XLA Ops", "psum.7", "6", "3", long_name="%psum.7 = f32[8]{0} all-reduce(%p)", **ran)
    text.event(tpu, "XLA Ops", "g", "9.5", "1.25", long_name="%g = f32[8]{0} fusion(%psum.7)", hlo_category="fusion")
    for device in range(2):
        text.event(host, f"worker {device}", "add", str(10 + device), "2", **cpu(device, hlo_op="add"))
    text.event(host, "worker 1", "end: add", "15", "0.1")
    return {"displayTimeUnit": "ns", "traceEvents": [*map(json.loads, text.events), {}]}


DAMAGED = (..., "damaged", 2**70, "-1", "", None, [1], 0.5, "9" * 25)
# Texts that may be any.
TEXTS = {"name", "hlo_op", "hlo_module", "long_name", "hlo_category", "tf_op", "source", "alone", "tracekit"}
# Numbers that may be other ones, and of which a capture may have none.
NUMBERS = {"ts", "dur", "run_id", "correlation_id", "step_num", "device_ordinal"}


def is_legal(document: dict, path: tuple, value: object) -> bool:
    """Whether JAX may write this, so that nothing tells that it is damage."""
    if isinstance(path[-1], int):  # one event or process less
        return value is ...
    event, key = document["traceEvents"][path[1]], path[-1]
    processes = [each for each in document["traceEvents"] if each.get("name") == "process_name"]
    (process,) = (each["args"]["name"] for each in processes if each["pid"] == event["pid"])
    if process.startswith("/host") and ("tid" in path or event["name"] == "thread_name"):
        return True  # of the host's threads not all have names
    if event["ph"] != "X":
        return False
    if "args" in path and value in (..., None):
        return True  # an event less that has the stat
    return (key in TEXTS and isinstance(value, str)) or (key in NUMBERS and value in ("-1", 0.5))


def test_any_one_value_that_is_damaged_costs_itself_and_is_told(tmp_path):
    """Nothing that changes a figure is silent, but another legal value; each place is damaged in one of nine ways."""
    own, path = whole(), tmp_path / "h.trace.json"

    def read(document: dict):
        path.write_text(json.dumps(document))
        return jax_planes.read(chrome.load(path), path)

    expected = figures(read(own))
    assert not len(read(own).losses)
    silent = []
    for at, place in enumerate(filter(None, places(own))):
        value = DAMAGED[at % len(DAMAGED)]
        try:
            trace = read(changed(own, place, value))
        except TraceError:
            continue
        if not len(trace.losses) and figures(trace) != expected and not is_legal(own, place, value):
            silent.append((own["traceEvents"][place[1]].get("name"), place, value))
    assert not silent


def test_work_on_a_line_of_a_gpu_that_has_lost_a_letter_of_its_name_is_lost(tmp_path):
    text = gzip.decompress((DATA / "generated" / "gpu.trace.json.gz").read_bytes())
    path = tmp_path / "gpu.trace.json"
    path.write_bytes(text.replace(b"Stream #13", b"Stream  13", 1))
    trace = jax_planes.read(chrome.load(path), path)
    assert table(trace.losses, "what", "lost", "total") == [["events", 18, 36]]


def test_events_without_a_thread_are_counted(tmp_path):
    text, tpu = Text(), "/device:TPU:0"
    text.event(tpu, "XLA Modules", "jit_f(1)", "1", "2").event(tpu, "XLA Ops", "a", "1", "2")
    text.events.append(text.events[-1].replace('"tid"', '"other"'))
    assert table(text.read(tmp_path).losses, "what", "lost", "total", "evidence") == [
        ["events", 1, 3, "without a thread"],
        ["lines", 1, 3, "called as no profiler calls them, without a name of tpu:0"],
    ]


def test_a_tpu_plane_is_read_like_one_of_an_xspace(tmp_path):
    text, tpu = Text(), "/device:TPU:0"
    text.event(tpu, "XLA Modules", "jit_f(1)", "0.5", "9").event(tpu, "Steps", "1", "0.5", "9")
    text.event(tpu, "XLA Ops", "while.2", "1", "8", long_name="%while.2 = () while(%t)", hlo_category="while")
    text.event(
        tpu, "XLA Ops", "psum.7", "2", "3", long_name="%psum.7 = f32[8]{0} all-reduce(%p)", hlo_category="all-reduce"
    )
    text.event(tpu, "XLA Ops", "fusion", "5.5", "1.25", long_name="%fusion = f32[8]{0} fusion(%a)", run_id="7")
    trace = text.read(tmp_path)
    assert table(trace.events, "device", "lane", "kind", "name", "category", "start_ps", "end_ps", "run_id") == [
        ["tpu:0", "XLA Ops", "collective", "psum.7", "all-reduce", 1_500_000, 4_500_000, None],
        ["tpu:0", "XLA Ops", "compute", "fusion", "fusion", 5_000_000, 6_250_000, 7],
    ]
    assert table(trace.devices, "device", "model") == [["tpu:0", None]]


def test_a_gpu_plane_has_its_streams_and_launches(tmp_path):
    text, gpu = Text(), "/device:GPU:1"
    text.event("/host:CPU", "python", "cuLaunchKernel", "0", "2", correlation_id="5")
    text.event(gpu, "Stream #13(Compute)", "kernel", "3", "4", correlation_id="5", hlo_op="fusion", hlo_module="jit_f")
    text.event(gpu, "Stream #14(MemcpyH2D)", "MemcpyH2D", "4", "1", memcpy_details="kind_src:pinned size:64 dest:0")
    text.event(gpu, "XLA Ops", "fusion", "3", "4")
    text.meta("/device:GPU:0")
    trace = text.read(tmp_path)
    columns = ("device", "lane", "kind", "direction", "bytes", "correlation_id", "hlo_module")
    assert table(trace.events, *columns) == [
        ["gpu:1", "Stream #13(Compute)", "compute", None, None, 5, "jit_f"],
        ["gpu:1", "Stream #14(MemcpyH2D)", "memcpy", "H2D", 64, None, None],
    ]
    assert table(trace.launches, "thread", "name", "correlation_id") == [["python", "cuLaunchKernel", 5]]
    assert "No work was recorded on gpu:0 (empty planes)." in trace.notes


def test_spans_carry_the_stats_of_a_step_and_a_phase(tmp_path):
    text = Text().event("/host:CPU", "python", "train", "10", "5", step_num="3")
    text.event("/host:CPU", "python", "both", "12", "1", tracekit="phase", alone="one;two")
    assert table(text.read(tmp_path).spans, "name", "start_ps", "end_ps", "step", "tracekit", "alone") == [
        ["train", 0, 5_000_000, 3, None, None],
        ["both", 2_000_000, 3_000_000, None, "phase", "one;two"],
    ]


def test_times_are_exact_and_one_picosecond_stands_for_none(tmp_path):
    # The writer prints doubles with 17 digits; a duration of 0 becomes 1 ps.
    text = Text().event("/host:CPU", "python", "a", "1144986.7189880000", "4.4153659999999997")
    text.event("/host:CPU", "python", "b", "1144987.718988", "1e-06")
    text.event("/host:CPU", "python", "c", "1144987.818988", "0", ph="i")
    assert table(text.read(tmp_path).spans, "name", "start_ps", "end_ps") == [
        ["a", 0, 4_415_366],
        ["b", 1_000_000, 1_000_000],
        ["c", 1_100_000, 1_100_000],
    ]


@pytest.mark.parametrize(
    ("name", "host"),
    [("t1v-n-9.trace.json.gz", "t1v-n-9"), ("perfetto_trace.json.gz", "perfetto_trace"), ("10.0.0.1.json", "10.0.0.1")],
)
def test_the_host_is_the_files_stem_and_its_zero_is_no_unix_time(tmp_path, name, host):
    trace = Text().event("/host:CPU", "python", "a", "5", "1").read(tmp_path, name)
    assert table(trace.hosts, "host", "origin_ns") == [[host, None]]
    assert trace.format == "jax-json"


def test_a_line_without_name_is_called_by_its_id_and_lines_of_one_name_stay_apart(tmp_path):
    text = Text()
    pid = text.meta("/host:CPU")
    for tid in (8, 9):
        text.events.append(f'{{"ph": "M", "pid": {pid}, "tid": {tid}, "name": "thread_name", "args": {{"name": "t"}}}}')
    for tid in (7, 8, 9):
        text.events.append(f'{{"ph": "X", "pid": {pid}, "tid": {tid}, "name": "a", "ts": {tid}, "dur": 1}}')
    assert table(text.read(tmp_path).spans, "thread") == [["7"], ["t [8]"], ["t [9]"]]


def cpu(device: int, **more: str) -> dict[str, str]:
    return {"device_ordinal": str(device), "hlo_op": "op", "hlo_module": "jit_f", "run_id": "-7"} | more


def test_a_cpu_op_lasts_until_its_end_event_on_another_thread(tmp_path):
    text = Text().event("/host:CPU", "main", "add", "0", "2", **cpu(0, hlo_op="add"))
    text.event("/host:CPU", "main", "mul", "9", "2", **cpu(0, hlo_op="mul"))
    text.event("/host:CPU", "worker", "end: add", "8", "0.1").event("/host:CPU", "worker", "end: mul", "10", "0.1")
    trace = text.read(tmp_path)
    assert table(trace.events, "device", "name", "start_ps", "end_ps", "run_id") == [
        ["cpu:0", "add", 0, 8_000_000, -7],
        ["cpu:0", "mul", 9_000_000, 10_000_000, -7],
    ]
    assert trace.notes == ("2 of 2 distinct CPU ops have no HLO proto: they are classified by name.",)


def test_an_op_in_which_threads_meet_is_a_collective_whatever_its_name(tmp_path):
    text = Text()
    for device, (start, wait) in enumerate([("0", "3"), ("3", "0.001")]):
        line = f"thread {device}"
        text.event("/host:CPU", line, "reducer.1", start, "9", **cpu(device, hlo_op="reducer.1"))
        text.event("/host:CPU", line, "Rendezvous", start, "8", stats={"name": "all reduce RendezvousKey{run_id=7}"})
        text.event("/host:CPU", line, "Wait: pending_threads=1/2", start, wait)
    trace = text.read(tmp_path)
    assert table(trace.events, "device", "kind", "category", "known_by", "wait_ps") == [
        ["cpu:0", "collective", "all-reduce", "stat", 3_000_000],
        ["cpu:1", "collective", "all-reduce", "stat", 1_000],
    ]


def test_what_was_guessed_and_what_json_lost_is_noted(tmp_path):
    text = Text()
    for device in range(2):
        text.event("/host:CPU", f"thread {device}", "add", str(device), "2", **cpu(device))
        text.event("/host:CPU", "worker", "end: add", str(8 + device), "0.1")
    text.event("/host:CPU", "main", "CopyToMemorySpace", "20", "1")
    text.event("/host:CPU", "worker", "ThreadpoolListener::StartRegion", "21", "1e-06")
    trace = text.read(tmp_path)
    assert trace.events["kind"].tolist() == ["compute", "compute"]
    assert trace.notes == (
        "2 CPU ops ran on several devices at once, and JSON lacks the ids that link an op to its `end:` event: they "
        "were paired in order, so some of these ops may end too early or too late.",
        "1 copies between CPU devices are missing: JSON lacks the ids that link a call to the thread that copies. The "
        "*.xplane.pb file of the same capture has them.",
        "1 of 1 distinct CPU ops have no HLO proto: they are classified by name.",
    )


def test_events_that_cannot_be_placed_are_left_out_and_noted(tmp_path, monkeypatch):
    monkeypatch.setattr(jax_planes, "_CAP", 5)
    text = Text().event("/host:CPU", "python", "a", "10000000000", "1")
    pid = text.meta("/host:CPU")
    text.events.append('{"ph": "X", "pid": 99, "tid": 1, "name": "b", "ts": 10000000001, "dur": 1}')
    text.events.append(f'{{"ph": "X", "pid": {pid}, "tid": 1, "name": "c", "dur": 1}}')
    text.event("/host:CPU", "python", "d", "10000000002", "-1")
    text.events.append(f'{{"ph": "X", "pid": {pid}, "tid": 1, "name": "f", "ts": 10000000003}}')
    text.events.append(f'{{"pid": {pid}, "tid": 1, "name": "e", "ts": 10000000003, "dur": 1}}')
    trace = text.read(tmp_path)
    assert trace.spans["name"].tolist() == ["a"]
    assert trace.notes == (
        "The file contains exactly 5 events, the most that JAX writes: later events are missing. The *.xplane.pb file "
        "of the same capture has them.",
        "Times are so far from the file's zero that its numbers round them to more than a picosecond.",
        "1 of 6 events could not be read (of no named process).",
        "1 of 6 events could not be read (without a time).",
        "1 of 6 events could not be read (without a duration).",
        "1 of 6 events could not be read (that end before they start).",
        "1 of 6 events could not be read (without a phase).",
    )
    assert trace.losses[["what", "lost", "total"]].to_numpy().tolist() == [["events", 1, 6]] * 5


@pytest.mark.parametrize(
    ("process", "field", "damage", "what"),
    [
        ("/device:TPU:0", '"ts": 50', '"ts": 05', [1, None, "not valid JSON, of devices"]),
        ("/device:TPU:0", '"pid": ', '"x": 05, "id": ', [1, None, "not valid JSON, of devices"]),
        ("/host:CPU", '"ts": 50', '"ts": 05', [1, 46, "not valid JSON"]),
        ("/device:TPU:0", '"ts": 50', '"ts": NaN', [1, None, "without a time, of devices"]),
        ("/host:CPU", '"ts": 50', '"ts": NaN', [1, 40, "without a time"]),
        (
            "/device:TPU:0",
            '"ts": 50',
            '"ts": 9e15',
            [1, None, "their times are more than a day from the others, of devices"],
        ),
    ],
)
def test_what_is_lost_of_devices_counts_beside_what_is_read_of_them(tmp_path, process, field, damage, what):
    text, tpu = Text(), "/device:TPU:0"
    for at in range(37):
        text.event("/host:CPU", "python", "call", str(at), "1")
    text.event(tpu, "XLA Modules", "jit_f(1)", "5", "50").event(tpu, "XLA Ops", "a", "5", "2")
    text.event(process, "XLA Ops" if process == tpu else "python", "lost", "50", "1")
    text.events[-1] = text.events[-1].replace(field, damage)
    assert what in table(text.read(tmp_path).losses, "lost", "total", "evidence")


def test_both_forms_of_one_capture_give_the_same_rows():
    # JAX wrote the JSON from that XSpace. It has no HLO protos (opcodes, sizes) and no ids (copies of the CPU's pool).
    path = DATA / "jax_two_cpu_devices.trace.json.gz"
    trace = jax_planes.read(chrome.load(path), path)
    truth = xspace.read(DATA / "two-cpu-devices-jax0.10.2.xplane.pb")
    unknown = ("host", "category", "known_by", "bytes", "dtype", "ranks", "group", "correlation_id", "op")
    columns = [name for name in truth.events if name not in unknown]
    pool = truth.events["name"].isin(["copy between devices"])
    assert pool.sum() == 3
    assert table(trace.events, *columns) == table(truth.events[~pool], *columns)
    columns = [name for name in truth.spans if name != "host"]
    order = ["start_ps", "end_ps", "name"]
    assert table(trace.spans.sort_values(order), *columns) == table(truth.spans.sort_values(order), *columns)


def test_of_cpu_launches_only_those_for_several_devices_are_told_since_the_ids_of_the_pool_are_missing():
    path = DATA / "jax_two_cpu_devices.trace.json.gz"
    trace = jax_planes.read(chrome.load(path), path)
    rows = trace.events.merge(trace.launches, on="correlation_id", suffixes=("", "_of_call"), validate="many_to_one")
    assert set(rows["name_of_call"]) == {"CommonPjRtLoadedExecutable::Execute (jit__lambda)"}
    assert len(rows) == 3 * 2 * 2  # three calls, two devices, a product and a sum
    assert (rows["start_ps_of_call"] < rows["start_ps"]).all()
    ops = len(trace.events[trace.events["hlo_op"].notna()])
    assert f"The launching call of {ops - len(rows)} of {ops} CPU ops is unknown." in trace.notes


VLLM = (
    "jit_step_fun(5120112285394406626)",
    "jit__select_from_array_fn(2075894867643732319)",
    "jit_compute_logits_func(14478353077513490656)",
    "jit_sample(9401537312596110889)",
)


@pytest.mark.parametrize(
    ("case", "programs"),
    [
        traces.param("generated/tpu.trace.json.gz", {"jit_train(7)"}),
        traces.param("chrome/jax-tpu-2chip-vllm", set(VLLM)),
    ],
)
def test_a_whole_tpu_trace_tells_its_ops_costs_lines_and_operands(case, programs):
    trace = traces.trace(case)
    with gzip.open(traces.path(case), "rt") as file:
        events = [event["args"] for event in json.load(file)["traceEvents"] if "hlo_category" in event.get("args", {})]
    args_of_op: dict = {}
    for args in events:
        args_of_op.setdefault(args["long_name"].split(" = ")[0].removeprefix("%"), []).append(args)
    for op in trace.ops.astype(object).where(trace.ops.notna(), None).itertuples():
        # Several programs may hold an op of one name.
        assert (op.flops, op.bytes_accessed, op.source) in {
            (int(args["model_flops"]) or None, int(args["bytes_accessed"]) or None, args.get("source"))
            for args in args_of_op[op.hlo_op]
            if f" {op.opcode}(" in args["long_name"]
        }
    assert trace.events["op"].notna().all()
    assert set(trace.ops["program"]) == programs
    names = trace.ops["hlo_op"].astype(str)
    for op, operand in trace.operands.sample(min(200, len(trace.operands)), random_state=1).itertuples(index=False):
        texts = [args["long_name"].partition(" = ")[2] for args in args_of_op[names[op]]]
        # What a copy brings is read from its done.
        operand_names = {operand_name for text in texts for operand_name in re.findall(r"%([\w.-]+)", text)}
        intermediates = {
            name
            for name in operand_names
            for args in args_of_op.get(name, [])
            if f"%{names[operand]})" in args["long_name"]
        }
        assert names[operand] in operand_names or intermediates


def innermost(path: Path, plane: str) -> dict[str, int]:
    """Picoseconds by HLO category in which an op of it is the innermost of `XLA Ops`, by a sweep over all edges."""
    with gzip.open(path, "rt") as file:
        events = json.load(file, parse_float=Decimal, parse_int=Decimal)["traceEvents"]
    (pid,) = (
        event["pid"] for event in events if event.get("name") == "process_name" and event["args"]["name"] == plane
    )
    (tid,) = (
        event["tid"]
        for event in events
        if event.get("name") == "thread_name" and event["pid"] == pid and event["args"]["name"] == "XLA Ops"
    )
    edges = []
    for at, event in enumerate(events):
        if event.get("ph") == "X" and (event["pid"], event["tid"]) == (pid, tid):
            start = round(event["ts"] * 10**6)
            edges += [(start, 1, at), (start + round(event["dur"] * 10**6), 0, at)]
    total: dict[str, int] = {}
    open_ops: list[int] = []
    before = 0
    for time, opens, at in sorted(edges):
        if open_ops:
            category = events[open_ops[-1]]["args"]["hlo_category"]
            total[category] = total.get(category, 0) + time - before
        open_ops = [*open_ops, at] if opens else [op for op in open_ops if op != at]
        before = time
    return total


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("case", traces.cases("generated/tpu.trace.json.gz", "chrome/jax-tpu-2chip-vllm"))
def test_a_whole_tpu_traces_collectives_are_those_expected_and_its_ops_those_of_a_sweep(case, number):
    expected = traces.FIGURES[case][f"tpu:{number}"]
    trace = traces.trace(case)
    rows = trace.events[trace.events["device"] == f"tpu:{number}"]
    collectives = rows[rows["kind"] == "collective"]
    assert len(collectives) == expected["n_collective"]
    time = iv.total(timeline_of(trace).unions.devices[f"tpu:{number}"].collective)
    assert round(time / 10**6, 3) == expected["collective"]
    # A copy or another asynchronous op is one row from start to done: only the others are compared.
    innermost_ps = innermost(traces.path(case), f"/device:TPU:{number}")
    innermost_ps = {
        name: time for name, time in innermost_ps.items() if time and not name.endswith(("-start", "-done"))
    }
    time_by_category = {
        str(name): iv.total(iv.intervals(group["start_ps"], group["end_ps"]))
        for name, group in rows.groupby("category", observed=True)
    }
    assert {name: time_by_category[name] for name in innermost_ps} == innermost_ps
    assert set(time_by_category) - set(innermost_ps) <= {"copy-start", "slice-start", "all-gather-start"}


def end_pairs(*events: tuple[str, int, int, int, int]) -> tuple[list[tuple[int, int]], int]:
    """(op, end) of events (name, thread, start, closed, device), by their index; device -1 for what is no op."""
    names, line, start, close, device = zip(*events, strict=True)
    columns = [np.array(column, np.int64) for column in (line, start, close, device, device)]
    links, guessed = thunk_ends(pd.Categorical(names), *columns)
    (producer, has_producer), (consumer, has_consumer) = links["_p"], links["_c"]
    ends = {int(consumer[row]): int(row) for row in np.flatnonzero(has_consumer)}
    return [(int(row), ends[int(producer[row])]) for row in np.flatnonzero(has_producer)], guessed


def test_an_end_on_the_ops_own_thread_is_its_own():
    assert end_pairs(
        ("add", 1, 0, 10, 0),
        ("add", 2, 1, 11, 1),
        ("end: add", 2, 10, 11, -1),
        ("end: add", 1, 12, 13, -1),
    ) == ([(0, 3), (1, 2)], 0)


def test_an_end_on_another_thread_is_that_of_the_only_open_op_of_its_name():
    assert end_pairs(
        ("add", 1, 0, 2, 0),
        ("mul", 1, 3, 4, 0),
        ("end: mul", 8, 7, 8, -1),
        ("end: add", 9, 3, 4, -1),
        ("add", 1, 20, 21, 0),
        ("end: add", 9, 25, 26, -1),
    ) == ([(0, 3), (1, 2), (4, 5)], 0)


def test_of_two_devices_that_run_an_op_at_once_the_first_to_start_ends_first_and_both_are_guessed():
    assert end_pairs(
        ("add", 1, 0, 2, 0),
        ("add", 2, 1, 3, 1),
        ("end: add", 8, 9, 9, -1),
        ("end: add", 9, 12, 12, -1),
    ) == ([(0, 2), (1, 3)], 2)


def test_an_op_that_must_have_ended_gets_an_end_only_if_no_other_waits_for_it():
    # Device 0 went on to its next op at 5, so that the end at 9 is device 1's and its own is late.
    assert end_pairs(
        ("add", 1, 0, 2, 0),
        ("mul", 1, 5, 6, 0),
        ("add", 2, 1, 3, 1),
        ("end: add", 8, 9, 9, -1),
        ("end: add", 9, 12, 12, -1),
    ) == ([(0, 4), (2, 3)], 2)


def test_an_end_that_is_missing_does_not_shift_those_of_later_runs():
    assert end_pairs(
        ("add", 1, 0, 2, 0),
        ("add", 1, 10, 12, 0),
        ("end: add", 9, 15, 15, -1),
        ("add", 1, 20, 22, 0),
        ("end: add", 9, 25, 25, -1),
    ) == ([(1, 2), (3, 4)], 0)


def test_an_end_before_any_op_and_an_op_without_end_stay_alone_and_look_unlike_each_other():
    names = pd.Categorical(["end: add", "mul"])
    column = np.array([0, 1], np.int64)
    links, guessed = thunk_ends(names, column, column, column, np.array([-1, 0]), np.array([-1, 0]))
    assert guessed == 0
    assert not links["_p"][1].any()
    assert not links["_c"][1].any()
    assert set(links["_p"][0].tolist()).isdisjoint(links["_c"][0].tolist())


def test_a_real_captures_own_ids_join_the_same_events():
    (plane,) = (
        plane
        for plane in xspace_file.read(DATA / "two-cpu-devices-jax0.10.2.xplane.pb", xspace.STATS).planes
        if plane.name == "/host:CPU"
    )
    thunk = plane.has("hlo_op") & plane.has("device_ordinal")
    device = np.where(thunk, plane.numbers("device_ordinal")[0], -1)
    run = np.where(thunk, distinct(device, plane.numbers("run_id")[0])[0], -1)
    start = plane.start_ps(0)
    links, guessed = thunk_ends(plane.names, plane.line, start, start + plane.duration_ps, device, run)

    def pairs(producer, consumer) -> set[tuple[int, int]]:
        ends = {int(consumer[0][row]): int(row) for row in np.flatnonzero(consumer[1] & ~thunk)}
        ops = np.flatnonzero(producer[1] & thunk)
        return {(int(row), ends[int(producer[0][row])]) for row in ops if int(producer[0][row]) in ends}

    truth = pairs((plane.numbers("_p")[0], plane.has("_p")), (plane.numbers("_c")[0], plane.has("_c")))
    assert len(truth) == thunk.sum() > 60
    assert pairs(links["_p"], links["_c"]) == truth
    assert guessed == 0


@pytest.mark.parametrize(
    "file", ["generated/gpu.trace.json.gz", "generated/tpu.trace.json.gz", "jax_two_cpu_devices.trace.json.gz"]
)
def test_events_that_stand_in_the_file_twice_count_once_and_are_told(file, tmp_path):
    document = json.loads(gzip.decompress((DATA / file).read_bytes()))
    path = tmp_path / "host.trace.json"
    path.write_text(json.dumps(document))
    once = jax_planes.read(chrome.load(path), path)
    again = [event for event in document["traceEvents"] if event.get("ph") == "X"]
    path.write_text(json.dumps(document | {"traceEvents": document["traceEvents"] + again}))
    twice = jax_planes.read(chrome.load(path), path)
    for table in ("events", "launches"):
        one, other = (getattr(trace, table) for trace in (once, twice))
        columns = [name for name in ("device", "lane", "name", "start_ps", "end_ps", "correlation_id") if name in one]
        one, other = (each[columns].astype(dict.fromkeys(["name"], "str")) for each in (one, other))
        one, other = (each.sort_values(columns, ignore_index=True) for each in (one, other))
        pd.testing.assert_frame_equal(one, other, check_categorical=False)
    # What takes no time may be many at once.
    lasting = [(trace.spans["end_ps"] > trace.spans["start_ps"]).sum() for trace in (once, twice)]
    assert lasting[0] == lasting[1]
    assert any("stand in the file twice" in loss for loss in twice.losses["evidence"].dropna())
    assert not any("stand in the file twice" in loss for loss in once.losses["evidence"].dropna())
