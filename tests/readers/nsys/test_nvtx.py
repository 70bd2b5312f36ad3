"""NVTX ranges of Nsight Systems exports: names, domains and steps, and what XLA and NCCL say in them of the work."""

import pandas as pd
import pytest

from tests.readers.nsys.exports import Tables, nccl_payload, nccl_schema, rows, tid
from tracekit.readers import nsys

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)"


@pytest.fixture
def read(tmp_path):
    return lambda tables: nsys.read(tables.write(tmp_path / "report.sqlite"))


def test_ranges_are_spans_named_by_their_text_or_their_registered_string(read):
    tables = Tables().range("forward", 100, 200).range(None, 120, 150, kind=60, textId=None, thread=2)
    tables.range(None, 210, 220, textId=tables.string("backward")).range("", 230, 240, textId=tables.string("update"))
    tables.add("ThreadNames", globalTid=tid(7, 1), nameId=tables.string("python3"))
    assert rows(read(tables).spans, "thread", "name", "start_ps", "end_ps") == [
        ["python3/1", "forward", 0, 100_000],
        ["2", "unnamed range", 20_000, 50_000],
        ["python3/1", "backward", 110_000, 120_000],
        ["python3/1", "update", 130_000, 140_000],
    ]


def test_a_domain_with_a_name_stands_before_the_text_as_nsys_prints_it(read):
    tables = Tables().range("NCCL", 0, None, kind=75, domainId=1).range("mine", 0, None, kind=75, domainId=1, process=8)
    tables.range("ncclAllReduce", 1, 2, domainId=1).range("plain", 3, 4).range("x", 5, 6, domainId=2)
    tables.range("step", 7, 8, domainId=1, process=8)
    assert read(tables).spans["name"].tolist() == ["NCCL:ncclAllReduce", "plain", "x", "mine:step"]


@pytest.mark.parametrize("absent", [("textId",), ("domainId", "textId"), ("eventType", "domainId", "binaryData")])
def test_older_tables_of_ranges_give_the_same_span(read, absent):
    tables = Tables().range("forward", 1, 2).without("NVTX_EVENTS", *absent)
    assert rows(read(tables).spans, "name", "end_ps") == [["forward", 1_000]]


def test_marks_are_no_ranges_and_ranges_that_never_ended_are_noted(read):
    trace = read(Tables().kernel("k", 0, 1).range("mark", 1, None, kind=34).range("open", 2, None).range("ok", 3, 4))
    assert trace.spans["name"].tolist() == ["ok"]
    assert trace.notes == ("1 NVTX ranges without an end were skipped: they were open when the profile ended.",)


def test_ranges_of_a_table_without_ends_are_lost(read):
    trace = read(Tables().kernel("k", 0, 1).range("ok", 3, 4).without("NVTX_EVENTS", "end"))
    assert rows(trace.losses, "what", "lost", "total", "evidence") == [
        ["tables", 1, None, "NVTX_EVENTS.end is missing"]
    ]


def test_ranges_without_a_type_a_valid_time_or_a_thread_are_counted(read):
    tables = Tables().kernel("k", 5, 6).range("r", 1, 2).range("a", 1, 2, kind=None).range("b", 1, 2, kind="x")
    tables.range("c", None, 4).range("d", 4, 3).range("open", 4, None)
    tables.rows["NVTX_EVENTS"][0]["globalTid"] = None
    trace = read(tables)
    assert trace.spans["name"].tolist() == ["r"]
    assert rows(trace.losses, "what", "lost", "total", "evidence") == [
        ["events", 2, 6, "NVTX events that do not say what they are"],
        ["events", 2, 6, "NVTX ranges without a valid time"],
        ["details", 1, 4, "threads of NVTX ranges"],
    ]


def test_a_byte_that_is_no_utf_8_costs_no_more_than_itself(read):
    assert read(Tables().range(b"caf\xe9", 0, 1).range("\u4e2d", 2, 3)).spans["name"].tolist() == [
        "caf\ufffd",
        "\u4e2d",
    ]


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("ProfilerStep#12", 12),
        ("train#step_num=3#", 3),
        ("train#epoch=1,step_num=4,loss=2#", 4),
        ("step 5", None),
        ("ProfilerStep", None),
        ("my_step_num=6", None),
    ],
)
def test_steps_are_read_from_the_documented_forms_only(read, text, step):
    assert rows(read(Tables().range(text, 0, 1)).spans, "step") == [[step]]


def with_kernels(tables, *moments, thread=1):
    """`tables` with a kernel for each moment at which one was launched."""
    for at in moments:
        tables.call("cuLaunchKernel", at, at + 1, at + 1, thread=thread)
        tables.kernel("k", 100 + at, 101 + at, correlationId=at + 1)
    return tables


def operations(trace):
    """The operation of each device row as (program, hlo_op, framework_op), None where it has none."""
    ops = rows(trace.ops, "program", "hlo_op", "framework_op")
    return [None if pd.isna(op) else ops[op] for op in trace.events["op"]]


def test_the_innermost_range_around_a_launch_is_the_operation_of_its_kernel(read):
    tables = Tables().range("forward", 10, 90).range("layer", 20, 40).range("layer", 50, 60)
    trace = read(with_kernels(tables, 5, 15, 25, 45, 55))
    assert operations(trace) == [None, *([None, None, name] for name in ("forward", "layer", "forward", "layer"))]
    assert rows(trace.ops, "framework_op") == [["forward"], ["layer"]]


def test_ranges_of_other_threads_and_those_that_no_thread_pushed_are_no_operations(read):
    tables = (
        Tables().range("elsewhere", 0, 99, thread=2).range("request", 0, 99, kind=60).range("step#step_num=3#", 1, 98)
    )
    trace = read(with_kernels(tables, 25))
    assert (operations(trace), len(trace.ops)) == ([None], 0)


def test_the_calls_of_one_pytorch_operator_are_one_operation(read):
    tables = Tables().range("aten::mm, op_id = 4, seq = 7", 10, 20)
    tables.range("aten::mm, seq = 8, op_id = 5, sizes = [[1, 2],\n [3]]", 30, 40)
    assert operations(read(with_kernels(tables, 15, 35))) == [[None, None, "aten::mm"]] * 2


def test_an_op_of_xla_is_one_operation_with_the_range_around_it_and_a_module_alone_is_none(read):
    tables = Tables().range("TSL", 0, None, kind=75, domainId=3).range("train", 5, 95)
    tables.range("XlaModule:#hlo_module=jit_f,program_id=4#", 0, 99, domainId=3)
    tables.range("Thunk:#hlo_op=fusion.1#", 20, 30, domainId=3)
    assert operations(read(with_kernels(tables, 2, 10, 25))) == [
        None,
        ["jit_f", None, "train"],
        ["jit_f", "fusion.1", "train"],
    ]


def test_xlas_ranges_around_a_launch_name_the_op_and_module_of_its_kernel(read):
    tables = Tables().range("TSL", 0, None, kind=75, domainId=3)
    tables.range("XlaModule:#prefix=jit(f)/a,hlo_module=jit_f,program_id=4#", 10, 90, domainId=3)
    tables.range("Thunk:#name=x,hlo_op=loop_add_fusion.1#", 20, 30, domainId=3)
    tables.range("Thunk:#hlo_op=all-reduce.2#", 40, 50, domainId=3)
    for at, correlation in ((25, 1), (45, 2), (60, 3), (95, 4)):
        tables.call("cuLaunchKernel", at, at + 1, correlation).kernel(
            "k", 100 + at, 101 + at, correlationId=correlation
        )
    # Another thread launches at the same time outside of any mark.
    tables.call("cuLaunchKernel", 25, 26, 5, thread=2).kernel("k", 200, 201, correlationId=5)
    assert rows(read(tables).events, "hlo_op", "hlo_module") == [
        ["loop_add_fusion.1", "jit_f"],
        ["all-reduce.2", "jit_f"],
        [None, "jit_f"],
        [None, None],
        [None, None],
    ]


def test_of_two_calls_with_one_correlation_id_the_outer_one_is_the_launch(read):
    tables = Tables().range("Thunk:#hlo_op=outer#", 0, 15).range("Thunk:#hlo_op=inner#", 16, 30)
    tables.call("cuLaunchKernel", 20, 21, 1).call("cudaLaunchKernel", 10, 25, 1).kernel("k", 40, 50, correlationId=1)
    assert rows(read(tables).events, "hlo_op") == [["outer"]]


def nccl(*kernels: tuple[int, str], payload: bytes | None, call: tuple[int, int] = (10, 30)) -> Tables:
    """An NCCL call with kernels that were launched at these moments of it."""
    tables = nccl_schema(Tables()).range("ncclAllReduce", *call, domainId=1, binaryData=payload)
    for at, (moment, name) in enumerate(kernels, start=1):
        tables.call("cuLaunchKernelEx", moment, moment + 1, at).kernel(name, 100 * at, 100 * at + 50, correlationId=at)
    return tables


def test_a_collective_has_the_size_and_communicator_of_the_nccl_call_that_launched_it(read):
    tables = nccl((12, ALL_REDUCE), (14, "prepare"), payload=nccl_payload(0xFEDC_BA98_7654_3210, 4096))
    assert rows(read(tables).events, "name", "kind", "bytes", "group") == [
        [ALL_REDUCE, "collective", 4096, "0xfedcba9876543210"],
        ["prepare", "compute", None, None],
    ]


@pytest.mark.parametrize("op", ["AllGather", "ReduceScatter"])
def test_one_ranks_part_is_not_taken_for_the_message(read, op):
    kernel = f"ncclDevKernel_{op}_RING_LL(args)"
    assert rows(read(nccl((12, kernel), payload=nccl_payload(1, 4096))).events, "bytes", "group") == [[None, "0x1"]]


def test_kernels_that_one_call_launched_together_or_a_group_later_have_no_size(read):
    together = nccl((12, ALL_REDUCE), (14, ALL_REDUCE), (40, ALL_REDUCE), payload=nccl_payload(1, 4096))
    assert rows(read(together).events, "bytes", "group") == [[None, None]] * 3


@pytest.mark.parametrize("payload", [nccl_payload(1, 4096, declared=16), nccl_payload(1, 4096)[:48], b"short"])
def test_payloads_that_are_not_laid_out_as_their_schema_are_noted_and_not_believed(read, payload):
    trace = read(nccl((12, ALL_REDUCE), payload=payload))
    assert rows(trace.events, "bytes", "group") == [[None, None]]
    assert trace.losses[["what", "lost", "evidence"]].to_numpy().tolist() == [["details", 1, "payloads of NCCL calls"]]
    assert trace.notes[-1] == "1 payloads of NCCL calls do not match their schemas: their message sizes are unknown."


def test_schemas_that_two_processes_registered_differently_are_not_believed(read):
    tables = nccl((12, ALL_REDUCE), payload=nccl_payload(1, 4096))
    tables.add("NVTX_PAYLOAD_SCHEMAS", domainId=1, schemaId=16777223, payloadSize=16)
    assert rows(read(tables).events, "bytes", "group") == [[None, None]]


@pytest.mark.parametrize(
    "damaged", [{"domainId": None}, {"schemaId": None}, {"schemaId": 5}, {"payloadSize": None}, {"payloadSize": -5}]
)
def test_schemas_of_sizes_that_are_damaged_are_counted(read, damaged):
    tables = nccl((12, ALL_REDUCE), payload=nccl_payload(1, 4096))
    tables.rows["NVTX_PAYLOAD_SCHEMAS"][0] |= damaged
    trace = read(tables)
    assert rows(trace.events, "bytes", "group") == [[None, None]]
    assert trace.losses[["what", "lost", "evidence"]].to_numpy().tolist() == [
        ["details", 1, "schemas of NCCL's payloads"]
    ]


@pytest.mark.parametrize("damaged", [{"type": "x"}, {"type": None}, {"name": None}, {"offset": "x"}])
def test_entries_of_schemas_that_are_damaged_are_counted(read, damaged):
    tables = nccl((12, ALL_REDUCE), payload=nccl_payload(1, 4096))
    entries = tables.rows["NVTX_PAYLOAD_SCHEMA_ENTRIES"]
    entries[0] |= damaged
    assert rows(read(tables).losses, "what", "lost", "total", "evidence") == [
        ["details", 1, len(entries), "entries of the schemas of NVTX's payloads"]
    ]


def test_schemas_without_entries_are_a_loss(read):
    tables = nccl((12, ALL_REDUCE), payload=nccl_payload(1, 4096))
    del tables.rows["NVTX_PAYLOAD_SCHEMA_ENTRIES"]
    assert read(tables).losses["what"].tolist() == ["absent tables"]


@pytest.mark.parametrize("kind", [-5, 2**40, 45])
@pytest.mark.parametrize("is_known", [False, True])
def test_types_that_no_range_has_are_counted_unless_the_export_has_them(read, kind, is_known):
    tables = Tables().range("a", 1, 2).range("b", 1, 2, kind=kind)
    if is_known:
        tables.add("ENUM_NSYS_EVENT_TYPE", id=kind, name="NvtxNew", label="NvtxNew")
    expected = [["events", 1, 2, "NVTX events that do not say what they are"]]
    assert rows(read(tables).losses, "what", "lost", "total", "evidence") == ([] if is_known else expected)


@pytest.mark.parametrize("offset", [-3, -100, 17, 2**62])
def test_a_schema_whose_fields_lie_outside_of_its_payload_is_not_believed(read, offset):
    tables = nccl((12, ALL_REDUCE), payload=nccl_payload(1, 4096))
    sizes = [row for row in tables.rows["NVTX_PAYLOAD_SCHEMA_ENTRIES"] if row["offset"] == 8]
    sizes[0]["offset"] = offset
    trace = read(tables)
    assert rows(trace.events, "bytes", "group") == [[None, None]]
    assert rows(trace.losses, "what", "lost", "evidence") == [["details", 1, "schemas of NCCL's payloads"]]


def test_sizes_that_were_left_behind_by_the_export_are_told_how_to_be_brought(read):
    trace = read(nccl((12, ALL_REDUCE), payload=None))
    assert rows(trace.events, "bytes") == [[None]]
    assert trace.notes == (
        "The message sizes of the collectives were recorded but not exported: "
        "`nsys export --include-blobs=true` exports them.",
    )


def test_a_phase_is_a_span_with_what_it_is_compared_with_and_no_operation(read):
    phase = "both#tracekit=phase,alone=one;two#"
    trace = read(Tables().range(phase, 0, 100).call("launch", 10, 11, 5).kernel("gemm", 20, 30, correlationId=5))
    assert rows(trace.spans, "name", "tracekit", "alone", "baseline") == [["both", "phase", "one;two", None]]
    assert trace.events["op"].isna().all()
