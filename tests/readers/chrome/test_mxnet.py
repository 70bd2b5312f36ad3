"""MXNet's profiler dumps: small documents, profiles of our own, and real ones against an independent sweep."""

import gzip
import json
import re
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest

from tests import traces
from tests.readers.damage import changed, figures, lost, places
from tracekit import intervals as iv
from tracekit import read
from tracekit.errors import TraceError
from tracekit.readers import chrome
from tracekit.readers.chrome import mxnet
from tracekit.trace import Trace

DATA = Path(__file__).parents[2] / "data"
OWN = sorted(DATA.glob("mxnet_*.json.gz"))
EPOCH_US = 1_559_672_136_300_939
WORKER, OTHER = 17_612_858_874_543_867_732, 602_310_518_397_221_010


class Dump:
    """A dump as MXNet writes it: both events of a pair one after the other, a process a context or category."""

    def __init__(self, zero: int = 0) -> None:
        self.zero = zero
        self.events: list[dict] = []
        self.processes: dict[str, int] = {}

    def process(self, name: str) -> int:
        """The id of a process, named in the file when first asked for."""
        if name not in self.processes:
            number = self.processes[name] = len(self.processes)
            self.events.append({"ph": "M", "args": {"name": name}, "pid": number, "name": "process_name"})
        return self.processes[name]

    def event(self, process: str, ph: str, name: str, time: int, tid: int = WORKER, **more) -> "Dump":
        """One event."""
        category = "operator" if re.match("[cg]pu", process) else process
        event = {"name": name, "cat": category, "ph": ph, "ts": self.zero + time, "pid": self.process(process)}
        self.events.append(event | {"tid": tid} | more)
        return self

    def pair(self, process: str, name: str, start: int, end: int, tid: int = WORKER, ph: str = "BE") -> "Dump":
        """A begin and its end."""
        return self.event(process, ph[0], name, start, tid).event(process, ph[1], name, end, tid)

    def operator(self, context: str, name: str, start: int, end: int, tid: int = WORKER) -> "Dump":
        """An operator as MXNet writes it: on its context, and once more as a task."""
        return self.pair(context, name, start, end, tid).pair("operator", name, start, end, tid, "be")

    def read(self, tmp_path: Path, name: str = "profile.json") -> Trace:
        """The trace, read from a file of that name."""
        path = tmp_path / name
        path.write_text(json.dumps({"traceEvents": self.events, "displayTimeUnit": "ms"}, indent=4))
        return mxnet.read(chrome.load(path), path)


def table(frame: pd.DataFrame, *columns: str) -> list[list]:
    cells = frame[list(columns)].astype(object)
    return cells.where(cells.notna(), None).values.tolist()


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_dump_whose_events_all_stand_in_it_several_times_is_read_once(tmp_path, times):
    """One tool joined a file with itself. Two operators alike are two, where the file does not stand there again."""
    dump = Dump().operator("cpu/0", "dot", 10, 30).operator("cpu/0", "dot", 30, 30).operator("cpu/0", "dot", 30, 30)
    dump.operator("gpu/0", "CopyCPU2GPU", 20, 50).pair("MXNET_C_API", "MXNDArrayWaitAll", 5, 9, OTHER, "be")
    once = dump.read(tmp_path)
    dump.events *= times
    trace = dump.read(tmp_path)
    assert figures(trace) == figures(once)
    pairs = 9 * (times - 1)
    assert lost(trace) == (
        {"operators and spans that stand in the file twice, of which one counts": pairs} if pairs else {}
    )


@pytest.mark.parametrize("share", [0.9, 0.5, 0.3])
def test_what_is_left_of_a_second_copy_of_a_dump_counts_once(tmp_path, share):
    """Where the copy is cut, as a file on a full disk is; and it costs its one open pair."""
    dump = Dump()
    for at in range(40):
        dump.operator(f"cpu/{at % 2}", "dot", 10 * at, 10 * at + 9).operator("gpu/0", "sum", 10 * at, 10 * at)
    once = dump.read(tmp_path)
    dump.events += dump.events[: int(share * len(dump.events))]
    trace = dump.read(tmp_path)
    assert figures(trace) == figures(once)
    told = lost(trace)
    assert told.pop("operators and spans that stand in the file twice, of which one counts") > share * 140
    assert all("counterpart" in what for what in told)


def test_an_operator_counts_once_on_its_context_and_api_calls_are_spans(tmp_path):
    dump = Dump().operator("cpu/0", "dot", 10, 30).operator("gpu/1", "Convolution", 20, 50, OTHER)
    dump.pair("MXNET_C_API", "MXImperativeInvokeEx", 5, 9, OTHER, "be")
    dump.event("MXNET_C_API", "C", "MXNet C API Calls", 5, args={"MXNet C API Calls": 1})
    trace = dump.read(tmp_path)
    assert table(trace.events, "host", "device", "lane", "kind", "name", "start_ps", "end_ps") == [
        ["profile", "cpu:0", f"thread {WORKER}", "compute", "dot", 5_000_000, 25_000_000],
        ["profile", "gpu:1", f"thread {OTHER}", "compute", "Convolution", 15_000_000, 45_000_000],
    ]
    assert table(trace.spans, "thread", "name", "start_ps", "end_ps") == [
        [f"thread {OTHER}", "MXImperativeInvokeEx", 0, 4_000_000]
    ]
    assert table(trace.devices, "device", "model") == [["cpu:0", None], ["gpu:1", None]]
    assert trace.format == "mxnet"
    assert trace.notes == (
        "GPU times are those of MXNet's engine, from when a worker takes an operator until its stream is done (with an "
        "Async engine: until it is enqueued). They include launch and waiting; kernels are not recorded.",
    )


@pytest.mark.parametrize(
    ("name", "kind", "direction", "category"),
    [
        ("CopyCPU2GPU", "memcpy", "H2D", None),
        ("CopyGPU2CPU", "memcpy", "D2H", None),
        ("CopyGPU2GPU", "memcpy", None, None),
        ("CopyCPU2CPU", "memcpy", None, None),
        ("_copyto_GPU2GPU", "memcpy", None, None),
        ("SyncCopyGPU2CPU", "memcpy", "D2H", None),
        ("SyncCopyFromNDArrayCPU2GPU", "memcpy", "H2D", None),
        ("mine::CopyCPU2GPU", "memcpy", "H2D", None),
        ("_copy", "compute", None, None),
        ("_backward_copy", "compute", None, None),
        ("KVStoreReduce", "collective", None, "reduce"),
        ("KVStoreDistDefaultStoragePull", "collective", None, None),
        ("KVStoreSparseRetain", "compute", None, None),
        ("P3StoreDistDefaultPush", "collective", None, None),
        ("horovod_allreduce", "collective", None, "all-reduce"),
        ("horovod_broadcast", "collective", None, "collective-broadcast"),
        ("BytePSPushPull", "collective", None, None),
        ("ImperativeBulk", "compute", None, None),
        ("[Convolution,Activation]", "compute", None, None),
    ],
)
def test_names_that_mxnets_engine_gives_tell_copies_and_collectives(tmp_path, name, kind, direction, category):
    trace = Dump().operator("gpu/0", name, 0, 5).read(tmp_path)
    assert table(trace.events, "kind", "direction", "category") == [[kind, direction, category]]


def test_pairs_of_one_name_that_overlap_are_told_by_the_order_of_the_file(tmp_path):
    # Asynchronous operators: all are reported by the thread that hears that they are done.
    dump = Dump().operator("cpu/0", "horovod_allreduce", 0, 10).operator("cpu/0", "horovod_allreduce", 2, 7)
    assert table(dump.read(tmp_path).events, "start_ps", "end_ps") == [[0, 10_000_000], [2_000_000, 7_000_000]]


def test_an_operator_inside_another_of_its_thread_is_cut_out_of_it(tmp_path):
    # The naive engine runs an operator inside the one that asked for it, and writes the inner one first.
    dump = Dump().operator("cpu/0", "Activation", 3, 6).operator("cpu/0", "Activation", 2, 9)
    dump.operator("cpu/0", "dot", 4, 5, OTHER)
    assert table(dump.read(tmp_path).events, "name", "start_ps", "end_ps") == [
        ["Activation", 0, 1_000_000],
        ["Activation", 1_000_000, 4_000_000],
        ["dot", 2_000_000, 3_000_000],
        ["Activation", 4_000_000, 7_000_000],
    ]


def test_begins_and_ends_that_do_not_fit_are_lost(tmp_path):
    dump = Dump().event("cpu/0", "E", "a", 1).operator("cpu/0", "a", 2, 4).operator("cpu/0", "b", 7, 5)
    dump.event("cpu/0", "B", "a", 8)
    trace = dump.read(tmp_path)
    assert table(trace.events, "name", "start_ps", "end_ps") == [["a", 1_000_000, 3_000_000]]
    assert lost(trace) == {
        "begins and ends without a counterpart": 2,
        "ends before their begins, and these": 4,
    }
    assert trace.losses["total"].tolist() == [10, 10]


# The host spans of `whole`, by their begins' places in the file.
SPANS = ["DeleteVariable", "MXImperativeInvokeEx", "my event", "my task", "my frame", "mine::pure_python"]


def whole() -> dict:
    """A dump of two contexts with work, an errand, and all that is a host span or none."""
    dump = Dump(EPOCH_US).operator("cpu/0", "dot", 10, 30).operator("gpu/1", "Convolution", 20, 50, OTHER)
    dump.operator("gpu/1", "CopyCPU2GPU", 50, 60).operator("cpu/0", "DeleteVariable", 60, 61)
    dump.pair("MXNET_C_API", "MXImperativeInvokeEx", 5, 9, OTHER, "be").pair("event", "my event", 1, 2)
    dump.event("MXNET_C_API", "C", "MXNet C API Calls", 5, args={"MXNet C API Calls": 1})
    dump.pair("training", "my task", 3, 4, ph="be").pair("training,frame", "my frame", 5, 6, ph="()")
    dump.pair("Custom Operator", "mine::pure_python", 7, 8, ph="be").event("training,instant_marker", "n", "mark", 9)
    return {"traceEvents": dump.events, "displayTimeUnit": "ms"}


def trace_of(tmp_path: Path, document: object) -> Trace:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(document))
    return read(path)


def test_any_one_value_that_is_damaged_costs_itself_and_is_told(tmp_path):
    """Nothing that changes a figure is silent."""
    expected = trace_of(tmp_path, whole())
    assert not len(expected.losses)
    silent, refused = [], set()
    for path in filter(None, places(whole())):
        for value in (..., "damaged", 2**70, -1):
            try:
                trace = trace_of(tmp_path, changed(whole(), path, value))
            except TraceError:
                refused.add(path)
                continue
            if not len(trace.losses) and figures(trace) != figures(expected):
                silent.append((path, value))
    assert not silent
    assert refused == {("traceEvents",)}


def test_a_context_whose_name_is_lost_is_no_host_span(tmp_path):
    document = whole()
    document["traceEvents"][0]["args"] = None
    trace = trace_of(tmp_path, document)
    assert trace.events["name"].tolist() == ["Convolution", "CopyCPU2GPU"]
    assert trace.spans["name"].tolist() == [name for name in SPANS if name != "DeleteVariable"]
    assert lost(trace) == {
        "contexts without a valid name": 1,
        "operators on contexts without a valid name": 2,
    }
    assert trace.losses["what"].tolist() == ["planes", "events"]
    assert trace.losses["total"].tolist() == [2, 4]


def test_where_no_context_has_a_name_the_operators_stand_on_no_device(tmp_path):
    # MXNet names processes once: of a second dump of one program none has a name.
    events = [event for event in whole()["traceEvents"] if event["ph"] != "M"]
    trace = trace_of(tmp_path, {"traceEvents": events})
    assert sorted(trace.events["name"]) == ["Convolution", "CopyCPU2GPU", "dot"]
    assert trace.events["device"].unique().tolist() == ["device:?"]
    assert sorted(trace.spans["name"]) == sorted(SPANS)
    assert lost(trace) == {"contexts without a valid name": 2}


@pytest.mark.parametrize("name", [None, "", 7])
def test_of_operators_without_a_name_the_kind_is_lost_and_of_threads_a_detail(tmp_path, name):
    document = whole()
    for event in document["traceEvents"][1:3]:
        event["name"] = name
    for event in document["traceEvents"][7:9]:
        event["tid"] = None
    trace = trace_of(tmp_path, document)
    of_types = {"names, categories, processes or threads of another type": 2} if name == 7 else {}
    assert lost(trace) == of_types | {
        "threads of operators and spans": 1,
        "operators whose names are lost": 20_000_000,
    }
    assert trace.losses["what"].tolist()[-2:] == ["details", "kinds"]


def test_times_before_the_profile_are_none(tmp_path):
    trace = Dump().operator("cpu/0", "dot", -5, 5).operator("cpu/0", "exp", 5, 9).read(tmp_path)
    assert trace.events["name"].tolist() == ["exp"]
    assert trace.losses["what"].tolist() == ["events", "events"]


def test_the_engines_errands_and_the_programs_own_marks_are_spans(tmp_path):
    dump = Dump().operator("cpu/0", "dot", 0, 9).operator("cpu/0", "DeleteVariable", 10, 11)
    dump.operator("cpu/0", "WaitForVar", 12, 13).pair("event", "my event", 1, 2)
    dump.pair("training", "my task", 3, 4, ph="be").pair("training,frame", "my frame", 5, 6, ph="()")
    dump.pair("Custom Operator", "mine::pure_python", 7, 8, ph="be").pair("Custom Operator", "mine::exp", 7, 8, ph="be")
    dump.event("training,instant_marker", "n", "my mark", 9)
    trace = dump.read(tmp_path)
    assert trace.events["name"].tolist() == ["dot"]
    assert trace.spans["name"].tolist() == [
        "DeleteVariable",
        "WaitForVar",
        "my event",
        "my task",
        "my frame",
        "mine::pure_python",
    ]
    assert trace.notes == (
        "2 housekeeping operators of the engine (freeing memory, waiting) are host spans, not work.",
    )


def test_work_on_pinned_memory_stands_on_no_device(tmp_path):
    dump = Dump().operator("cpu pinned/", "CopyCPU2CPU", 0, 5).operator("cpu shared/", "_zeros", 5, 5)
    trace = dump.read(tmp_path)
    assert table(trace.events, "device", "kind") == [["cpu:?", "memcpy"], ["cpu:?", "compute"]]
    assert len(trace.devices) == 0
    assert trace.notes == (
        "2 operators on pinned or shared memory name no device: they are on cpu:?, which counts in no device pair.",
        "1 copies have no direction: the file does not record between which contexts of a type they go.",
        "1 operators took less than the file's resolution of 1 µs and have zero length.",
    )


def test_cpu_contexts_side_by_side_are_no_parallel_hardware(tmp_path):
    trace = Dump().operator("cpu/0", "dot", 0, 5).operator("cpu/1", "dot", 1, 9).read(tmp_path)
    assert trace.notes == (
        "CPU contexts are names that the program chose: work that overlaps on them shares the same cores.",
    )


def test_collectives_that_the_cpu_runs_for_gpus_are_explained(tmp_path):
    dump = Dump().operator("gpu/0", "dot", 0, 4).operator("cpu/0", "KVStoreReduce", 1, 5)
    trace = dump.operator("cpu/0", "KVStoreStreamSync", 5, 9).read(tmp_path)
    assert table(trace.events, "device", "kind") == [
        ["gpu:0", "compute"],
        ["cpu:0", "collective"],
        ["cpu:0", "collective"],
    ]
    assert trace.notes[1:] == (
        "2 collectives are on the CPU, where the engine runs them, even if they move data of GPUs.",
        "The NCCL store starts its collectives on cpu/0 and waits there for them (KVStoreStreamSync): both are "
        "collectives of cpu:0; when they ran on the GPUs is not recorded.",
    )


def test_without_contexts_the_operators_stand_on_no_device(tmp_path):
    trace = Dump().pair("operator", "dot", 0, 5, ph="be").read(tmp_path)
    assert table(trace.events, "device", "name", "end_ps") == [["device:?", "dot", 5_000_000]]
    assert trace.notes == ("No operator is recorded on a context: the device of each is unknown.",)


def test_a_dump_without_operators_says_how_to_ask_for_them(tmp_path):
    trace = Dump().pair("MXNET_C_API", "MXNDArrayWaitAll", 0, 5, ph="be").read(tmp_path)
    assert len(trace.events) == 0
    assert trace.notes == ("MXNet recorded no operators: profile_all=True or profile_imperative=True records them.",)


@pytest.mark.parametrize(("zero", "origin"), [(EPOCH_US, EPOCH_US * 1000), (7, None)])
def test_unix_times_are_exact_and_other_times_have_no_origin(tmp_path, zero, origin):
    trace = Dump(zero).operator("cpu/0", "dot", 0, 1).read(tmp_path)
    assert table(trace.hosts, "origin_ns") == [[origin]]
    assert table(trace.events, "start_ps", "end_ps") == [[0, 1_000_000]]


EXPECTED_COUNTS = {
    ("cpu:0", "collective"): 1,
    ("cpu:0", "memcpy"): 2,
    ("cpu:1", "compute"): 1,
    ("cpu:1", "memcpy"): 1,
}


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_a_profile_of_our_own_holds_the_work_the_program_asked_for(path):
    trace = mxnet.read(chrome.load(path), path)
    counts = trace.events.groupby(["device", "kind"], observed=True).size().to_dict()
    # How the network's own operators are bundled is the engine's choice.
    assert counts.pop(("cpu:0", "compute")) > 2
    assert counts == EXPECTED_COUNTS
    dots = trace.events[trace.events["name"] == "dot"]
    assert dots["device"].value_counts().to_dict() == {"cpu:0": 2, "cpu:1": 1}
    spans = trace.spans.set_index("name")
    for row in trace.events.itertuples():
        span = {"dot": "products", "KVStoreReduce": "step", "Activation": "step"}.get(row.name)
        if span:
            assert spans.loc[span, "start_ps"] <= row.start_ps <= row.end_ps <= spans.loc[span, "end_ps"]


def sweep(path: Path) -> dict[tuple[str, str], int]:
    """Microseconds by context and kind in which some thread's innermost operator is of it.

    Made from the JSON alone: a begin's end is the event after it in the file, and each thread is swept from edge to
    edge, each union a set of microseconds.
    """
    with gzip.open(path, "rt") as file:
        events = json.load(file)["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    threads: dict[tuple[str, int], list[tuple[int, int, str]]] = {}
    for begin, end in pairwise(events):
        context = names[begin["pid"]]
        errand = begin["name"].split("::")[-1] in ("DeleteVariable", "WaitForVar")
        if begin["ph"] == "B" and re.match("[cg]pu", context) and not errand:
            assert (end["ph"], end["name"], end["tid"]) == ("E", begin["name"], begin["tid"])
            threads.setdefault((context, begin["tid"]), []).append((begin["ts"], end["ts"], begin["name"]))
    busy_us: dict[tuple[str, str], set[int]] = {}
    for (context, _), operators in threads.items():
        inner: dict[int, tuple[int, int, str]] = {}
        for start, end, name in operators:
            for time in range(start, end):
                shorter = inner.get(time)
                if shorter is None or end - start < shorter[1] - shorter[0]:
                    inner[time] = (start, end, name)
        for time, (_, _, name) in inner.items():
            kind = "memcpy" if "Copy" in name else "collective" if "KVStore" in name else "compute"
            busy_us.setdefault((context, kind), set()).add(time)
    return {key: len(times) for key, times in busy_us.items()}


@pytest.mark.parametrize("path", [*OWN, *sorted((traces.REAL / "mxnet").glob("*.json.gz"))], ids=lambda path: path.name)
def test_a_profile_has_the_times_of_a_sweep_over_the_file(path):
    trace = mxnet.read(chrome.load(path), path)
    busy_ps = {
        (str(device), str(kind)): iv.total(iv.intervals(rows["start_ps"], rows["end_ps"]))
        for (device, kind), rows in trace.events.groupby(["device", "kind"], observed=True)
    }
    assert busy_ps == {(context.replace("/", ":"), kind): time * 10**6 for (context, kind), time in sweep(path).items()}


@traces.needs_real
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        # Counted with grep over the files: "ph": "B" under pid 0 (cpu/0) and pid 32 (gpu/0), by name.
        (
            "cpu_gpu_data_copy_profiler_output",
            {("cpu:0", "compute", None): 1, ("gpu:0", "memcpy", "H2D"): 2},
        ),
        (
            "gpu_mnist_cnn_profile_output",
            {("cpu:0", "compute", None): 65, ("gpu:0", "compute", None): 33, ("gpu:0", "memcpy", "H2D"): 2},
        ),
        ("mxnet191-cpu-dot-copy", {("cpu:0", "compute", None): 10, ("cpu:0", "memcpy", None): 10}),
    ],
)
def test_real_dumps_have_each_operator_once(name, counts):
    path = traces.REAL / "mxnet" / f"{name}.json.gz"
    trace = mxnet.read(chrome.load(path), path)
    actual = pd.Series([tuple(row) for row in table(trace.events, "device", "kind", "direction")]).value_counts()
    assert actual.to_dict() == counts
    assert trace.hosts["host"].tolist() == [name]


def test_a_task_whose_name_is_a_phase_is_one(tmp_path):
    dump = Dump().operator("cpu/0", "dot", 10, 30).pair("MXNET_C_API", "MXNDArrayWaitAll", 5, 31, OTHER, "be")
    dump.pair("tracekit", "2 devices#tracekit=phase,baseline=1 device#", 4, 32, OTHER, "be")
    assert table(dump.read(tmp_path).spans, "name", "tracekit", "alone", "baseline") == [
        ["MXNDArrayWaitAll", None, None, None],
        ["2 devices", "phase", None, "1 device"],
    ]
