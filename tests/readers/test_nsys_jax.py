"""Archives of nsys-jax: thunks projected onto the GPU, their programs' HLO, processes, and the columns of versions."""

import io
import lzma
import os
import zipfile

import pandas as pd
import pytest

from tests import traces
from tests.readers.chrome.kineto_files import rows
from tests.readers.hlo import hlo_modules
from tests.readers.hlo.hlo_modules import needs_xla_parser
from tests.readers.nsys_jax_archives import RANGES, STEP, archive, program, table
from tests.readers.xspaces import hlo_proto
from tracekit import intervals as iv
from tracekit.analysis.completeness import completeness
from tracekit.errors import TraceError
from tracekit.readers import read
from tracekit.timeline.timeline import timeline_of


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
    assert trace.losses[["what", "lost", "total"]].to_numpy().tolist() == [
        ["programs", 1, 1],
        ["kinds", 85_000, 85_000],
    ]
    assert "1 of 1 HLO protos could not be read (dump/module_0040" in " ".join(trace.notes)


def losses(trace):
    """What is lost of a trace, as lists."""
    return trace.losses[["what", "lost", "total", "evidence"]].astype(object).to_numpy().tolist()


def put(column, row, value):
    """The table of ranges with another value in a cell."""
    frame = table()
    cells = frame[column].astype(object).tolist()
    cells[row] = value
    return frame.assign(**{column: pd.Series(cells, dtype="str" if column == "Name" else "Int64")})


@pytest.mark.parametrize(
    ("column", "value", "evidence"),
    [
        ("Name", None, "ranges without a name or an id, or thunks without an op"),
        ("Name", "TSL:Thunk:#name=jit(f)/neg,hlo_op=", "ranges without a name or an id, or thunks without an op"),
        ("Name", "TSL:Thunk:#", "ranges without a name or an id, or thunks without an op"),
        ("RangeId", None, "ranges without a name or an id, or thunks without an op"),
        ("Projected Start", None, "ranges without a valid time"),
        ("Projected Duration", None, "ranges without a valid time"),
        ("Projected Duration", -1, "ranges without a valid time"),
        ("Projected Start", 1 << 62, "ranges more than 26 days from the others"),
        ("Projected Start", -(1 << 62), "ranges more than 26 days from the others"),
        ("Projected Duration", 1 << 62, "ranges more than 26 days from the others"),
        ("RangeId", 1, "ranges whose id another has"),
    ],
)
def test_a_range_that_cannot_be_told_or_placed_is_a_lost_event(tmp_path, column, value, evidence):
    trace = read(archive(tmp_path / "a.zip", put(column, 5, value)))
    assert rows(trace.events, "name", "start_ps", "end_ps") == [["dot", 1_110_000, 1_120_000]]
    assert losses(trace) == [["events", 1, 7, evidence]]


@pytest.mark.parametrize(("column", "value"), [("Projected Duration", -1), ("Name", None), ("Name", "Thunk:#hlo_op=")])
def test_a_thunk_around_one_that_was_lost_is_no_row(tmp_path, column, value):
    trace = read(archive(tmp_path / "a.zip", put(column, 4, value)))
    assert trace.events["name"].tolist() == ["fusion.1"]


@pytest.mark.parametrize(
    ("column", "value", "evidence"),
    [
        ("Orig Start", None, "times of ranges on the host"),
        ("Orig Duration", -1, "times of ranges on the host"),
        ("Orig Duration", 1 << 62, "times of ranges on the host"),
        ("PID", None, "threads of ranges"),
        ("TID", None, "threads of ranges"),
    ],
)
def test_what_a_range_lacks_of_the_host_is_a_lost_detail(tmp_path, column, value, evidence):
    trace = read(archive(tmp_path / "a.zip", put(column, 5, value)))
    assert trace.events["name"].tolist() == ["dot", "fusion.1"]
    assert losses(trace) == [["details", 1, 7, evidence]]


@pytest.mark.parametrize("column", ["Name", "Projected Start", "Projected Duration", "RangeId"])
@pytest.mark.parametrize("value", [0.5, b"x", [1], True, pd.Timestamp(0), None])
def test_an_archive_whose_ranges_are_all_of_another_type_is_one_sentence(tmp_path, column, value):
    with pytest.raises(TraceError, match=r"a\.zip is no whole archive of nsys-jax: none of its 7 projected ranges has"):
        read(archive(tmp_path / "a.zip", table().assign(**{column: [value] * len(RANGES)})))


@pytest.mark.parametrize("column", ["ParentId", "PID", "TID", "Orig Start", "Orig Duration"])
@pytest.mark.parametrize("value", ["x", b"x", [1], True, pd.Timestamp(0)])
def test_other_columns_of_another_type_are_lost_details(tmp_path, column, value):
    trace = read(archive(tmp_path / "a.zip", table().assign(**{column: [value] * len(RANGES)})))
    assert {"dot", "fusion.1"} <= {*trace.events["name"]}
    assert {what for what, *_ in losses(trace)} == {"details"}


def test_numbers_of_another_type_are_numbers(tmp_path):
    whole = read(archive(tmp_path / "a.zip", table()))
    for kind in ("float64", "uint64", "int32"):
        columns = table().drop(columns=["Name", "Style"]).iloc[1:]
        other = table().iloc[1:].assign(**columns.fillna(0).astype(kind))
        trace = read(archive(tmp_path / "b.zip", other.assign(ParentId=table()["ParentId"])))
        assert trace.events.equals(whole.events)
        assert losses(trace) == []


def with_members(path, **members):
    """The archive at `path` with other bytes in some of its members; without those that are None."""
    with zipfile.ZipFile(path) as file:
        have = {name: file.read(name) for name in file.namelist()} | members
    with zipfile.ZipFile(path, "w") as file:
        for name, data in have.items():
            if data is not None:
                file.writestr(name, data)
    return path


@pytest.mark.parametrize("name", ["thread-metadata.parquet", "device-metadata.parquet"])
@pytest.mark.parametrize("data", [b"", b"PAR1 and no more", b"<html>"])
def test_a_table_that_holds_no_work_costs_itself(tmp_path, name, data):
    trace = read(with_members(archive(tmp_path / "a.zip", table(), number=3), **{name: data}))
    assert trace.events["name"].tolist() == ["dot", "fusion.1"]
    ((what, *_, evidence),) = losses(trace)
    assert (what, evidence.split(":")[0]) == ("details", name)


def test_without_the_table_of_threads_a_note_says_so_and_several_devices_are_unknown(tmp_path):
    whole = archive(tmp_path / "a.zip", table(), 4, "XlaLauncher:#global=4,local=0,process=4,partition=0#")
    trace = read(with_members(whole, **{"thread-metadata.parquet": None}))
    assert trace.events["device"].unique().tolist() == ["gpu:4"]
    assert trace.notes[0] == "The archive holds no thread-metadata.parquet, which tells the devices that threads drive."
    names = pd.DataFrame(
        {("TARGET_INFO_NVTX_CUDA_DEVICE", "name"): [f"Xla:#global={at},local={at},process=4,slice=0#" for at in (8, 9)]}
    )
    data = io.BytesIO()
    names.to_parquet(data)
    trace = read(with_members(whole, **{"device-metadata.parquet": data.getvalue()}))
    assert trace.events["device"].unique().tolist() == ["gpu:?"]
    evidence = "devices of thunks, whose threads thread-metadata.parquet does not tell"
    assert losses(trace) == [["events", 2, 2, evidence]]


DUMP = "module_0040.jit_f.sm_8.0_gpu_after_optimizations.hlo.pb"


@pytest.mark.parametrize("data", [b"", lzma.compress(b"")])
def test_an_empty_program_is_a_lost_one(tmp_path, data):
    trace = read(archive(tmp_path / "a.zip", table(), dumps=[(DUMP, data)]))
    assert losses(trace)[0] == ["programs", 1, 1, f"dump/{DUMP}"]


@needs_xla_parser
def test_one_locked_program_costs_itself(tmp_path):
    proto = hlo_proto(hlo_modules.module().as_serialized_hlo_module_proto())
    path = archive(tmp_path / "a.zip", table(), dumps=[(DUMP, proto), (DUMP.replace("0040", "0041"), proto)])
    locked = bytearray(path.read_bytes())
    for header, flags, name in ((b"PK\x03\x04", 6, 30), (b"PK\x01\x02", 8, 46)):
        at = locked.find(f"dump/{DUMP}".encode()) if flags == 6 else locked.rfind(f"dump/{DUMP}".encode())
        assert locked[at - name :].startswith(header)
        locked[at - name + flags] |= 1
    path.write_bytes(locked)
    assert losses(read(path)) == [
        ["programs", 1, 2, f"dump/{DUMP}"],
        ["kinds", 85_000, 85_000, "thunks whose HLO is lost"],
    ]


def test_of_a_lost_program_thunks_have_the_kinds_that_their_names_say_and_no_shares_rest_on_others(tmp_path):
    ranges = [*RANGES, ("TSL:Thunk:#hlo_op=all-reduce-start.1#", 2095, 5, 1840, 2, 8, 2)]
    trace = read(archive(tmp_path / "a.zip", table(ranges), dumps=[(DUMP, b"")]))
    assert rows(trace.events, "name", "kind", "known_by") == [
        ["dot", "compute", "nothing"],
        ["fusion.1", "compute", "nothing"],
        ["all-reduce-start.1", "collective", "name"],
    ]
    assert losses(trace)[1] == ["kinds", 85_000, 90_000, "thunks whose HLO is lost"]
    assert (
        completeness(timeline_of(trace)).shares
        == "The kind of 85.00 ns of 90.00 ns of work is not known (thunks whose HLO is lost)."
    )


@pytest.mark.parametrize("parent", [77, -5])
def test_a_range_in_one_that_is_not_there_is_told(tmp_path, parent):
    trace = read(archive(tmp_path / "a.zip", put("ParentId", 4, parent)))
    assert losses(trace)[0] == ["events", 1, 7, "ranges in others that are not there"]


@pytest.mark.parametrize(("level", "count"), [(0, 0), (1, 1)])
def test_a_range_inside_of_others_that_does_not_say_in_which_is_told(tmp_path, level, count):
    trace = read(archive(tmp_path / "a.zip", put("ParentId", 5, None).assign(Lvl=[None, 0, 0, 1, 2, level, 2, 0])))
    assert losses(trace) == [["events", 1, 7, "ranges in others that are not there"]] * count


def test_thunks_of_a_program_whose_range_is_lost_have_no_kinds_where_programs_tell_them(tmp_path):
    ranges = put("Name", 2, None)
    trace = read(archive(tmp_path / "a.zip", ranges, dumps=[(DUMP.replace("0040", "0041"), b"")]))
    assert losses(trace) == [
        ["events", 1, 7, "ranges without a name or an id, or thunks without an op"],
        ["kinds", 85_000, 85_000, "thunks whose HLO is lost"],
    ]


def test_a_thunk_of_no_length_is_a_row(tmp_path):
    trace = read(archive(tmp_path / "a.zip", put("Projected Duration", 5, 0)))
    assert rows(trace.events, "name", "start_ps", "end_ps")[1] == ["fusion.1", 1_115_000, 1_115_000]
    assert losses(trace) == []


def test_what_threads_without_a_device_launch_is_on_the_first_device_and_told(tmp_path):
    path = archive(tmp_path / "a.zip", table(), launcher="python", dumps=[(DUMP, program(1, 1))])
    data = io.BytesIO()
    names = [f"Xla:#global={at},local={at},process=4,slice=0#" for at in (9, 8)]
    pd.DataFrame({("TARGET_INFO_NVTX_CUDA_DEVICE", "name"): names}).to_parquet(data)
    trace = read(with_members(path, **{"device-metadata.parquet": data.getvalue()}))
    assert trace.events["device"].unique().tolist() == ["gpu:8"]
    assert trace.notes[0] == "2 thunks launched by threads that are called after no device count as of gpu:8."


def test_the_job_has_as_many_ranks_as_the_program_of_most_devices(tmp_path):
    module = ("TSL:XlaModule:#hlo_module=jit_g,program_id=41#", 2200, 90, 1900, 100, 8, None)
    ranges = [*RANGES, module, ("TSL:Thunk:#hlo_op=dot#", 2200, 10, 1910, 2, 9, 8)]
    dumps = [(DUMP, program(2, 4)), (DUMP.replace("0040", "0041"), program(1, 2))]
    trace = read(archive(tmp_path / "a.zip", table(ranges), dumps=dumps))
    assert trace.hosts["world_size"].tolist() == [8]
    assert losses(trace) == []


def test_a_thunk_of_no_program_is_not_of_that_with_the_number_0(tmp_path):
    ranges = [("TSL:Thunk:#hlo_op=dot#", 2000, 10, 1810, 2, 3, None)]
    trace = read(archive(tmp_path / "a.zip", table(ranges), dumps=[(DUMP.replace("0040", "0000"), program(1, 1))]))
    assert rows(trace.events, "name", "known_by") == [["dot", "nothing"]]
    assert trace.ops["opcode"].isna().all()


def test_programs_that_were_not_dumped_are_told(tmp_path):
    note = "The archive holds no HLO of 1 program that ran: what their thunks are is read from their names."
    assert note in read(archive(tmp_path / "a.zip", table())).notes


def test_a_program_with_a_number_of_5000_digits_has_none(tmp_path):
    ranges = [(f"TSL:XlaModule:#hlo_module=jit_f,program_id={'4' * 5000}#", *RANGES[2][1:]), *RANGES[3:]]
    assert read(archive(tmp_path / "a.zip", table(ranges))).events["hlo_module"].tolist() == ["jit_f"] * 2


def test_a_dump_that_is_no_regular_file_is_not_waited_for(tmp_path):
    with zipfile.ZipFile(archive(tmp_path / "a.zip", table())) as file:
        file.extractall(tmp_path / "unpacked")
    (tmp_path / "unpacked/dump").mkdir()
    os.mkfifo(tmp_path / "unpacked/dump" / DUMP)
    assert len(read(tmp_path / "unpacked").events) == 2


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
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(tmp_path / "two.zip", "w") as two:
        for folder in ("proc0", "proc1"):
            for name in source.namelist():
                two.writestr(f"{folder}/{name}", source.read(name))
    with pytest.raises(TraceError, match=r"holds the archives of 2 processes, in folders.*Unpack it"):
        read(tmp_path / "two.zip")
    damaged = bytearray(whole.read_bytes())
    damaged[60:200] = bytes(140)
    (tmp_path / "damaged.zip").write_bytes(damaged)
    with pytest.raises(TraceError, match="no whole archive of nsys-jax"):
        read(tmp_path / "damaged.zip")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_stands_in_an_archive_twice_is_told_where_the_two_differ(tmp_path):
    whole = archive(tmp_path / "whole.zip", table())
    shorter = archive(tmp_path / "shorter.zip", table().iloc[:-1])
    for others, lost in ((whole, []), (shorter, ["nvtx_gpu_proj_trace/trace.parquet stands in it several times"])):
        path = tmp_path / "twice.zip"
        path.write_bytes(whole.read_bytes())
        with zipfile.ZipFile(others) as source, zipfile.ZipFile(path, "a") as twice:
            twice.writestr("nvtx_gpu_proj_trace/trace.parquet", source.read("nvtx_gpu_proj_trace/trace.parquet"))
        trace = read(path)
        assert trace.losses["evidence"].tolist() == lost
        assert len(trace.events) == len(read(others).events)


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
