"""Archives of nsys-jax: thunks projected onto the GPU, their programs' HLO, processes, and the columns of versions."""

import io
import lzma
import zipfile

import pandas as pd
import pytest

from tests import traces
from tests.readers.chrome.kineto_files import rows
from tests.readers.hlo import hlo_modules
from tests.readers.hlo.hlo_modules import needs_xla_parser
from tests.readers.xspaces import hlo_proto
from tracekit import intervals as iv
from tracekit.errors import TraceError
from tracekit.readers import read
from tracekit.timeline.timeline import timeline_of

STEP = "TSL:XlaModule:#hlo_module=jit_f,program_id=40#"
# Name, projected start and duration, start and duration on the host, id, parent; ns.
RANGES = [
    (None, 0, 900, None, None, None, None),
    ("TSL:XlaCompile:#module=jit_f,program_id=40#", 1000, 5, 900, 50, 1, None),
    (STEP, 2000, 90, 1800, 100, 2, None),
    ("TSL:Thunk:#hlo_op=while.1#", 2000, 50, 1810, 30, 3, 2),
    ("TSL:Thunk:#name=jit(f)/neg,hlo_op=dot#", 2010, 10, 1820, 2, 4, 3),
    ("TSL:Thunk:#name=jit(f)/sum,hlo_op=fusion.1#", 2015, 75, 1830, 2, 5, 2),
    ("NCCL:ncclGroupEnd", 2015, 75, 1831, 1, 6, 5),
    ("my range", 2015, 75, 1831, 1, 7, None),
]


def table(ranges=RANGES, tid=7):
    names = ("Name", "Projected Start", "Projected Duration", "Orig Start", "Orig Duration", "RangeId", "ParentId")
    return pd.DataFrame(ranges, columns=names).assign(PID=6, TID=tid, Rank=0, NumGPUOps=1, Style="PushPop")


def archive(path, ranges, number=0, launcher=None, dumps=()):
    """An archive at `path` of the process `number`, whose device it drives by a thread of the name `launcher`."""
    threads = pd.DataFrame({"Name": ["python", launcher], "Priority": 20}, [[6, 6], [5, 7]])
    threads.index = pd.MultiIndex.from_arrays([[6, 6], [5, 7]], names=["PID", "TID"])
    facts = {
        ("TARGET_INFO_GPU", "name"): ["A100"],
        ("TARGET_INFO_GPU", "totalMemory"): [64],
        ("TARGET_INFO_NVTX_CUDA_DEVICE", "name"): [f"Xla:#global={number},local=0,process={number},slice=0#"],
    }
    with zipfile.ZipFile(path, "w") as file:
        for name, frame in (
            ("nvtx_gpu_proj_trace/trace", ranges),
            ("thread-metadata", threads),
            ("device-metadata", pd.DataFrame(facts)),
        ):
            data = io.BytesIO()
            frame.to_parquet(data)
            file.writestr(f"{name}.parquet", data.getvalue())
        for name, data in dumps:
            file.writestr(f"dump/{name}", data)
    return path


def test_thunks_that_hold_none_are_rows_and_the_ranges_of_the_host_their_launches(tmp_path):
    trace = read(archive(tmp_path / "a.zip", table(), number=3))
    assert rows(trace.events, "host", "device", "lane", "name", "hlo_module", "run_id", "start_ps", "end_ps") == [
        ["process3", "gpu:3", "thunks", "dot", "jit_f", 2, 1_110_000, 1_120_000],
        ["process3", "gpu:3", "thunks", "fusion.1", "jit_f", 2, 1_115_000, 1_190_000],
    ]
    assert rows(trace.launches, "process", "thread", "correlation_id", "start_ps", "end_ps") == [
        ["6", "thread 7", 4, 920_000, 922_000],
        ["6", "thread 7", 5, 930_000, 932_000],
    ]
    assert trace.spans["name"].tolist() == [RANGES[1][0], STEP, "NCCL:ncclGroupEnd", "my range"]
    assert rows(trace.devices, "device", "model", "memory_bytes") == [["gpu:3", "A100", 64]]
    assert trace.ops["program"].tolist() == ["jit_f(40)"] * 2
    assert trace.format == "nsys-jax"


@needs_xla_parser
def test_the_dumped_program_tells_what_a_thunk_is(tmp_path):
    proto = hlo_proto(hlo_modules.module().as_serialized_hlo_module_proto())
    dumps = [
        ("module_0040.jit_f.before_optimizations.hlo.pb.xz", b"not read"),
        ("module_0040.jit_f.sm_8.0_gpu_after_optimizations.hlo.pb.xz", lzma.compress(proto)),
    ]
    trace = read(archive(tmp_path / "a.zip", table(), dumps=dumps))
    assert rows(trace.events, "name", "kind", "category", "bytes", "lane", "known_by") == [
        ["dot", "compute", "dot", None, "thunks", "opcode"],
        ["fusion.1", "collective", "all-reduce", 256, "collective thunks", "opcode"],
    ]


@pytest.mark.parametrize("data", [b"junk", lzma.compress(b"x" * 999)[:-40], lzma.compress(b"\x0a\xff")])
def test_a_program_that_is_damaged_costs_only_itself_and_is_told(tmp_path, data):
    dumps = [("module_0040.jit_f.sm_8.0_gpu_after_optimizations.hlo.pb.xz", data)]
    trace = read(archive(tmp_path / "a.zip", table(), dumps=dumps))
    assert trace.events["name"].tolist() == ["dot", "fusion.1"]
    assert trace.losses[["what", "lost", "total"]].to_numpy().tolist() == [["programs", 1, 1]]
    assert "1 of 1 HLO protos could not be read (dump/module_0040" in " ".join(trace.notes)


def test_a_thread_that_drives_one_of_several_devices_names_it(tmp_path):
    name = "XlaLauncher:#global=5,local=1,process=2,partition=0#"
    assert read(archive(tmp_path / "a.zip", table(), 4, name)).events["device"].unique().tolist() == ["gpu:5"]


@pytest.mark.parametrize("has_domain", [False, True])
def test_newer_versions_call_the_columns_otherwise(tmp_path, has_domain):
    old = table()
    name = old["Name"].fillna("")
    new = pd.DataFrame(
        {
            "Text": name.str.partition(":")[2] if has_domain else name.str.removeprefix("TSL:"),
            "Start": old["Projected Start"],
            "End": old["Projected Start"] + old["Projected Duration"],
            "Range ID": old["RangeId"],
            "Parent ID": old["ParentId"],
            "PID": old["PID"],
            "TID": old["TID"],
            "Rank": 0,
        }
    )
    trace = read(archive(tmp_path / "a.zip", new.assign(Domain="TSL") if has_domain else new))
    assert rows(trace.events, "name", "hlo_module", "start_ps", "end_ps") == [
        ["dot", "jit_f", 1_010_000, 1_020_000],
        ["fusion.1", "jit_f", 1_015_000, 1_090_000],
    ]
    assert not len(trace.launches)


@pytest.mark.parametrize("around", [1, None])
def test_what_the_autotuner_runs_is_no_execution_of_a_program_whether_the_compilation_is_recorded_or_not(
    tmp_path, around
):
    ranges = [
        *RANGES,
        ("TSL:XlaAutotunerMeasurement:#hlo_op=dot#", 1000, 5, 905, 40, 8, around),
        ("TSL:XlaModule:#hlo_module=extracted#", 1000, 5, 910, 30, 9, 8),
        ("TSL:Thunk:#hlo_op=dot#", 1000, 5, 911, 20, 10, 9),
    ]
    trace = read(archive(tmp_path / "a.zip", table(ranges)))
    assert rows(trace.events, "name", "hlo_module", "run_id") == [
        ["dot", "jit_f", 2],
        ["fusion.1", "jit_f", 2],
        ["dot", "extracted", None],
    ]


@traces.needs_real
def test_the_steps_of_an_archive_alone_are_those_of_its_program_and_not_what_the_autotuner_ran():
    trace = read(traces.REAL / "not-read-today/jaxtoolbox_pax_fsdp4_4proc_proc0.zip")
    steps = timeline_of(trace).steps.table
    assert steps["name"].tolist() == ["pjit__wrapped_step_fn"] * 5


def test_other_archives_and_broken_ones_are_one_sentence(tmp_path):
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as file:
        file.writestr("a.txt", "a")
    with pytest.raises(TraceError, match="not a supported trace: it is a zip archive"):
        read(tmp_path / "other.zip")
    whole = archive(tmp_path / "whole.zip", table())
    with pytest.raises(TraceError, match="no column 'TID'"):
        read(archive(tmp_path / "columns.zip", table().drop(columns="TID")))
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(tmp_path / "joined.zip", "w") as joined:
        data = source.read("nvtx_gpu_proj_trace/trace.parquet")
        for name in ("rank0", "rank1"):
            joined.writestr(f"nvtx_gpu_proj_trace/trace.parquet/{name}", data)
    with pytest.raises(TraceError, match="joins 2 processes"):
        read(tmp_path / "joined.zip")
    damaged = bytearray(whole.read_bytes())
    damaged[60:200] = bytes(140)
    (tmp_path / "damaged.zip").write_bytes(damaged)
    with pytest.raises(TraceError, match="no whole archive of nsys-jax"):
        read(tmp_path / "damaged.zip")


def test_an_archive_that_was_packed_again_with_its_folder_is_read_and_a_locked_one_is_one_sentence(tmp_path):
    whole = archive(tmp_path / "whole.zip", table(), launcher="XlaLauncher:#global=3,local=0,process=3,slice=0#")
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(tmp_path / "again.zip", "w") as again:
        for name in source.namelist():
            again.writestr(f"my run/{name}", source.read(name))
    trace, expected = read(tmp_path / "again.zip"), read(whole)
    assert trace.events.equals(expected.events)
    assert trace.devices.equals(expected.devices)
    locked = bytearray(whole.read_bytes())
    for header, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = -1
        while (at := locked.find(header, at + 1)) >= 0:
            locked[at + flags] |= 1  # encrypted
    (tmp_path / "locked.zip").write_bytes(locked)
    with pytest.raises(TraceError, match=r"no whole archive of nsys-jax: .*encrypted"):
        read(tmp_path / "locked.zip")


@needs_xla_parser
def test_an_unpacked_archive_is_read_as_the_packed_one_is_and_several_are_one_run(tmp_path):
    proto = hlo_proto(hlo_modules.module().as_serialized_hlo_module_proto())
    dumps = [("module_0040.jit_f.sm_8.0_gpu_after_optimizations.hlo.pb", proto)]
    (tmp_path / "packed").mkdir()
    for number in (3, 4):
        name = f"XlaLauncher:#global={number},local=0,process={number},slice=0#"
        packed = archive(tmp_path / f"packed/{number}.zip", table(), number, name, dumps)
        with zipfile.ZipFile(packed) as file:
            file.extractall(tmp_path / f"unpacked/run of {number}")
    expected = read(tmp_path / "packed/3.zip")
    for place in ("", "nvtx_gpu_proj_trace", "nvtx_gpu_proj_trace/trace.parquet"):
        trace = read(tmp_path / "unpacked/run of 3" / place)
        assert trace.events.equals(expected.events)
        assert trace.ops.equals(expected.ops)
        assert trace.devices.equals(expected.devices)
    several, packed = read(tmp_path / "unpacked"), read(tmp_path / "packed")
    assert several.events.equals(packed.events)
    assert several.events["device"].unique().tolist() == ["process3/gpu:3", "process4/gpu:4"]


def test_an_archive_whose_table_holds_more_rows_than_its_size_can_is_refused(tmp_path):
    path = archive(tmp_path / "0.zip", pd.concat([table().iloc[[2]]] * (1 << 20)))
    with pytest.raises(TraceError, match="unpacks to more than 200 times its size"):
        read(path)


def test_of_an_archive_that_is_cut_it_is_said_that_it_is_not_whole(tmp_path):
    whole = archive(tmp_path / "whole.zip", table())
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut/a.zip").write_bytes(whole.read_bytes()[:-100])
    sentence = "a.zip is a zip archive that is cut off or damaged; copy it again, in binary mode"
    with pytest.raises(TraceError, match=f"contains no trace: {sentence}"):
        read(tmp_path / "cut")
    with pytest.raises(TraceError, match="it is a zip archive that is cut off or damaged"):
        read(tmp_path / "cut/a.zip")


def test_ranges_around_each_other_are_around_no_program(tmp_path):
    ranges = [
        ("TSL:Thunk:#hlo_op=dot#", 2010, 10, 1820, 2, 4, 8),
        ("a", 2000, 90, 1800, 90, 8, 9),
        ("b", 2000, 90, 1800, 90, 9, 8),
    ]
    trace = read(archive(tmp_path / "a.zip", table(ranges)))
    assert rows(trace.events, "name", "hlo_module", "run_id") == [["dot", None, None]]


@traces.needs_real
def test_two_processes_with_clocks_far_apart_have_the_figures_of_an_independent_sweep(tmp_path):
    name = "not-read-today/jaxtoolbox_pax_fsdp4_4proc_proc0+1"
    for number in (0, 1):
        file = traces.REAL / f"{name[: -len('0+1')]}{number}.zip"
        (tmp_path / file.name).symlink_to(file)
    trace = read(tmp_path)
    expected = traces.SECOND[name]
    events = trace.events[trace.events["hlo_module"] == expected["module"]]
    unions = timeline_of(events).unions.devices
    for device, figures in expected["figures"].items():
        own, kinds = unions[f"process{device[-1]}/{device}"], events.loc[events["device"].str.endswith(device), "kind"]
        assert (kinds == "compute").sum() == figures["n_compute"]
        assert (kinds == "collective").sum() == figures["n_collective"]
        assert round(iv.total(own.busy) / 1e6, 3) == figures["busy"]
        assert round(iv.total(own.collective) / 1e6, 3) == figures["collective"]
        assert round(iv.total(iv.intersection(own.compute, own.collective)) / 1e6, 3) == figures["compute&collective"]
    assert trace.hosts["residual_ps"].max() < 10_000_000
    assert any(note.startswith("37 of 120 shared collectives do not agree") for note in trace.notes)
