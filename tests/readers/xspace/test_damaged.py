"""XSpaces of which one field is damaged: what that changes is told, or another profile may hold it."""

import random
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.readers.hlo import hlo_modules
from tests.readers.hlo.hlo_modules import needs_xla_parser
from tests.readers.xspace.cpu_planes import Cpu
from tests.readers.xspaces import PlaneText, Ref, metadata_plane, write
from tracekit.errors import TraceError
from tracekit.export.protobuf_encoder import varint
from tracekit.readers import protobuf_decoder as protobuf
from tracekit.readers.bounds import bounded
from tracekit.readers.xspace import xspace_trace

# The messages and texts among the fields of each message, by number; all others are numbers.
SCHEMA = {
    "XSpace": {1: "XPlane", 2: "text", 3: "text", 4: "text"},
    "XPlane": {2: "text", 3: "XLine", 4: "XEventMetadataEntry", 5: "XStatMetadataEntry", 6: "XStat"},
    "XLine": {2: "text", 4: "XEvent", 11: "text"},
    "XEvent": {4: "XStat"},
    "XStat": {2: "double", 5: "text", 6: "bytes"},
    "XEventMetadataEntry": {2: "XEventMetadata"},
    "XEventMetadata": {2: "text", 3: "bytes", 4: "text", 5: "XStat"},
    "XStatMetadataEntry": {2: "XStatMetadata"},
    "XStatMetadata": {2: "text"},
}
FIELDS = {
    "XSpace": {1: "planes", 2: "errors", 3: "warnings", 4: "hostnames"},
    "XPlane": {1: "id", 2: "name", 3: "lines", 4: "event_metadata", 5: "stat_metadata", 6: "stats"},
    "XLine": {
        1: "id",
        2: "name",
        3: "timestamp_ns",
        4: "events",
        9: "duration_ps",
        10: "display_id",
        11: "display_name",
    },
    "XEvent": {1: "metadata_id", 2: "offset_ps", 3: "duration_ps", 4: "stats", 5: "num_occurrences"},
    "XStat": {1: "metadata_id", 2: "double", 3: "uint64", 4: "int64", 5: "str", 6: "bytes", 7: "ref"},
    "XEventMetadataEntry": {1: "key", 2: "value"},
    "XEventMetadata": {1: "id", 2: "name", 3: "metadata", 4: "display_name", 5: "stats"},
    "XStatMetadataEntry": {1: "key", 2: "value"},
    "XStatMetadata": {1: "id", 2: "name"},
}
NUMBERS = (-1, 0, 999, 2**62)
TEXTS = (b"", b"\x00damaged", b"\xff\xfe")


class Change(NamedTuple):
    """One change: the messages around the field, outermost first, by type and what they are called; the field; its
    value before and after, the latter None where the field is left out."""

    around: tuple[tuple[str, str], ...]
    field: str
    before: Any
    after: Any


Field = list[Any]  # number, wire type, value: a number, bytes, or the fields of a message


def parsed(data: bytes, kind: str) -> list[Field]:
    """The fields of a message, and of those in it."""
    fields: list[Field] = []
    for number, wire_type, start, end in protobuf.fields(data, 0, len(data)):
        of = SCHEMA[kind].get(number)
        value: Any = data[start:end]
        if wire_type == protobuf.VARINT:
            value = protobuf.varint(data, start, end)[0]
        elif of in SCHEMA:
            value = parsed(value, of)
        fields.append([number, wire_type, value])
    return fields


def encoded(fields: list[Field]) -> bytes:
    """The bytes of a message."""
    out = []
    for number, wire_type, value in fields:
        out.append(varint(number << 3 | wire_type))
        if wire_type == protobuf.VARINT:
            out.append(varint(value))
        elif wire_type == protobuf.LENGTH:
            data = encoded(value) if isinstance(value, list) else value
            out += [varint(len(data)), data]
        else:
            out.append(value)
    return b"".join(out)


def name_of(fields: list[Field], kind: str, names: dict[str, dict[int, str]]) -> str:
    """What a message is called."""
    numbers = {number: value for number, _, value in fields}
    match kind:
        case "XPlane" | "XLine" | "XEventMetadata" | "XStatMetadata":
            return numbers.get(2, b"").decode()
        case "XEvent":
            return names["event"][numbers[1]]
        case "XStat":
            return names["stat"][numbers[1]]
        case "XEventMetadataEntry" | "XStatMetadataEntry":
            return name_of(numbers[2], kind.removesuffix("Entry"), names)
    return ""


def with_each_change(
    fields: list[Field],
    kind: str = "XSpace",
    around: tuple[tuple[str, str], ...] = (),
    names: dict[str, dict[int, str]] | None = None,
) -> Iterator[Change]:
    """Change each field of a message, and of those in it, in place, one after another."""
    if kind == "XPlane":
        names = {
            what: {value[0][2]: name_of(value, entry, {}) for number, _, value in fields if number == at}
            for what, at, entry in (("event", 4, "XEventMetadataEntry"), ("stat", 5, "XStatMetadataEntry"))
        }
    around = (*around, (kind, name_of(fields, kind, names or {})))
    for at, field in enumerate([*fields]):
        number, wire_type, value = field
        of = SCHEMA[kind].get(number, "number")
        label = FIELDS[kind][number]
        del fields[at]
        yield Change(around, label, value, None)
        fields.insert(at, field)
        values: list[tuple[int, int, Any]] = []
        if of == "number":
            values = [(number, protobuf.VARINT, other) for other in NUMBERS if other != value]
        elif of in ("text", "bytes"):
            values = [(number, protobuf.LENGTH, other) for other in TEXTS]
        elif of == "double":
            values = [(number, protobuf.FIXED64, b"\xff" * 8), (number, protobuf.FIXED64, b"\0" * 6 + b"\xf0\xbf")]
        elif value:
            values = [(number, protobuf.LENGTH, b"")]
        if kind == "XStat" and number > 1:  # a value of another type
            values += [(5, protobuf.LENGTH, b"damaged")] if of in ("number", "double") else [(4, protobuf.VARINT, 7)]
            if label == "ref":
                values += [(4, protobuf.VARINT, 7)]
        values += [(number, protobuf.LENGTH, b"a") if wire_type == protobuf.VARINT else (number, protobuf.VARINT, 7)]
        for other in values:
            fields[at] = [*other]
            yield Change(around, label, value, other)
        fields[at] = field
        if of in SCHEMA:
            yield from with_each_change(value, of, around, names)


STAMP = 1_760_000_000_000_000_000
SESSION = (
    PlaneText("Task Environment", profile_start_time=STAMP, profile_stop_time=STAMP + 1_000_000).text()
    + 'hostnames: "node1"'
)


def allocation(plane: PlaneText, name: str, at: int, in_use: int, **stats: Any) -> PlaneText:
    usual = {"bytes_reserved": 16, "bytes_available": 1000, "allocation_bytes": 256, "peak_bytes_in_use": 512}
    return plane.event("python", name, at, 0, bytes_allocated=in_use, addr=4096, **usual, **stats)


def gpu_space() -> str:
    """Two NVIDIA GPUs: kernels, copies, a memset and a graph, and the calls, waits, steps and phases of the host."""
    stats = {"device_vendor": "Nvidia", "gpu_device_name": "H100", "memory_bandwidth": 10**12, "compute_cap_major": 9}
    ops = {"hlo_module": Ref("jit_f"), "program_id": 4, "run_id": 3}
    compute, moves = "Stream #7(Compute)", "Stream #8(MemcpyH2D,Memset)"
    details = {"kernel_details": "regs:12 grid:3,1,1 block:128,1,1 occ_pct:37.5"}
    one = PlaneText("/device:GPU:0", **stats)
    one.event(compute, "gemm", 100, 50, correlation_id=1, hlo_op=Ref("dot"), **ops, **details)
    one.event(compute, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 160, 40, correlation_id=2, hlo_op=Ref("ars"), **ops)
    one.event(moves, "MemcpyH2D", 90, 30, correlation_id=3, memcpy_details="kind_src:pinned kind_dst:device size:112")
    one.event(moves, "MemcpyD2D", 130, 10, correlation_id=4)
    one.event(moves, "fill", 150, 10, correlation_id=5, Memset_details="kind:device num_bytes:4 async:1")
    one.event(compute, "CudaGraphExec:3", 210, 40, correlation_id=6, cuda_graph_id=3)
    one.event("XLA Modules", "jit_f", 100, 100)
    two = PlaneText("/device:GPU:1", **stats)
    two.event(compute, "add", 110, 50, correlation_id=8, hlo_op=Ref("neg"), theoretical_occupancy_pct=62.5, **ops)
    host = PlaneText("/host:CPU").event("python", "train", 0, 400, step_num=3)
    host.event("python", "input", 5, 10, tracekit="phase", alone="host", baseline="none")
    host.event("python", "PjitFunction(f)", 20, 60)
    for number, name in enumerate(("cuLaunchKernel",) * 2 + ("cuMemcpyHtoDAsync", "cuMemcpyDtoDAsync"), start=1):
        host.event("python", name, 20 + 10 * number, 8, correlation_id=number)
    host.event("python", "cuMemsetD8Async", 70, 4, correlation_id=5).event(
        "python", "cuGraphLaunch", 75, 4, correlation_id=6
    )
    host.event("python", "cuLaunchKernel", 80, 4, correlation_id=8)
    host.event("python", "cuStreamSynchronize", 90, 200, correlation_id=9)
    one.event(compute, "cuStreamSynchronize", 250, 30, correlation_id=9)
    allocation(host, "MemoryAllocation", 22, 256, allocator_name="GPU_0_bfc", tf_op="dense", requested_bytes=200)
    allocation(host, "MemoryDeallocation", 24, 0, allocator_name="GPU_0_bfc")
    planes = (one.text(STAMP), two.text(STAMP), host.text(STAMP))
    return "".join(planes) + metadata_plane(jit_f_4=hlo_modules.module().as_serialized_hlo_module_proto()) + SESSION


def tpu_space() -> str:
    """Two chips: steps, programs, ops with costs, halves and what is in flight, and the calls that queued it all."""
    stats = {
        "device_type_string": "TPU v6",
        "peak_teraflops_per_second": 918.0,
        "peak_hbm_bw_gigabytes_per_second": 1638.0,
    }
    planes = []
    for chip in (0, 1):
        plane = PlaneText(f"/device:TPU:{chip}", **stats)
        plane.event("Steps", "3", 100, 90, group_id=1)
        plane.event("XLA Modules", "jit_f(9)", 100, 90, run_id=4, _ct=12, _c=55 + chip)
        fusion = "%fusion.1 = f32[8]{0} fusion(f32[8]{0} %p), kind=kLoop"
        plane.event("XLA Ops", "%copy-start.2 = (f32[8]{0:S(5)}, f32[8]{0}, u32[]) copy-start(f32[8]{0} %p)", 100, 1)
        plane.event("XLA Ops", fusion, 110, 20, group_id=1)
        plane.event(
            "XLA Ops",
            "%ar.1 = f32[8]{0} all-reduce(f32[8]{0} %fusion.1), replica_groups={{0,1}}, channel_id=1",
            130,
            20,
        )
        plane.event(
            "XLA Ops",
            "%copy-done.5 = f32[8]{0:S(5)} copy-done((f32[8]{0:S(5)}, f32[8]{0}, u32[]) %copy-start.2)",
            150,
            4,
        )
        costs = {"flops": 1000, "bytes_accessed": 64, "tf_op": "jit(f)/mul:", "source": "a.py:3"}
        plane.describe(fusion, "fusion.1", hlo_category="loop fusion", program_id=9, **costs)
        plane.event(
            "Async XLA Ops",
            "%slice-start.3 = ((s8[64]{0}), s8[16]{0:S(1)}, s32[]{:S(2)}) slice-start(s8[64]{0} %p)",
            160,
            9,
        )
        planes.append(plane)
    host = PlaneText("/host:CPU")
    for chip in (0, 1):
        host.event("python", "tpu::System::Execute", 10 + 10 * chip, 4, _pt=7, _p=100 + chip)
        host.event("tasks", "tpu::System::Execute=>IssueSequencedEvent", 50 + 10 * chip, 9, _ct=7, _c=100 + chip)
        host.event("tasks", "DoEnqueueProgram", 52 + 10 * chip, 3, run_id=4, device_ordinal=chip, _pt=12, _p=55 + chip)
    allocation(host, "MemoryAllocation", 22, 256, index_on_host=0)
    return "".join(plane.text(STAMP) for plane in (*planes, host)) + SESSION


def cpu_space() -> str:
    """Two CPU devices: thunks, their ends, a collective that waits, copies, the calls and waits around them."""
    host = Cpu()
    host.event("python", "train", 0, 900, step_num=3)
    host.event("python", "PjitFunction(f)", 10, 90)
    host.event("python", "PjRtCpuLoadedExecutable::Execute", 12, 60, run_id=1, name="jit_f", _pt=3, _p=500)
    for device in (0, 1):
        line = f"tf_XLAEigen/{device}"
        host.event(
            line,
            "CommonPjRtLoadedExecutable::ExecuteHelperOnSingleDevice",
            20,
            20,
            global_device_id=device,
            _ct=3,
            _c=500,
        )
        host.thunk(line, "dot", 100, 150, device, completion=160)
        host.thunk(line, "neg", 160, 180, device)
        host.thunk(line, "ars", 200, 260, device)
        host.event(line, "Rendezvous", 205, 50, name="all reduce RendezvousKey{1}")
        host.event(line, "Wait: pending", 210, 20)
    host.event("python", "CommonPjRtBuffer::Await", 80, 0, _pt=9, _p=900)
    host.event("python", "CommonPjRtBuffer::Await", 300, 0, _ct=9, _c=900)
    host.event("python", "CopyToMemorySpace", 310, 40).record("python", 320, 700)
    host.region("tf_XLAPjRtCpuClient/1", 330, 360, 700)
    host.event("python", "H2D Dispatch", 400, 10)
    return host.text(STAMP) + metadata_plane(jit_f_6=hlo_modules.module().as_serialized_hlo_module_proto()) + SESSION


SPACES = {"gpu": gpu_space, "tpu": tpu_space, "cpu": cpu_space}


def figures(trace):
    names = ("events", "ops", "operands", "launches", "spans", "syncs", "memory", "devices", "hosts")
    return {name: getattr(trace, name).to_csv() for name in names}


def read(path):
    return bounded(xspace_trace.read(path))


def key(change):
    """What a change is, but for the numbers in names: the second of two devices is damaged as the first."""
    return re.sub(r"\d+", "0", repr(change.around)), change.field, str(change.after)


# Numbers that any profile may hold other ones of: of these only what is no number, or no time, is damage.
ANY_NUMBER = {"offset_ps", "duration_ps", "timestamp_ns", "double", "uint64", "int64"}
# What is left out where it is 0.
MAY_LACK = {"duration_ps", "timestamp_ns", "offset_ps"}
# One less of something, or an empty one, which says nothing: what was not recorded, or its profiler does not write.
MAY_BE_FEWER = {"planes", "lines", "events", "stats", "event_metadata"}


def is_legal(change):
    """Whether another profile may hold this, so that nothing tells that it is damage."""
    after = change.after and change.after[2]
    if change.field in MAY_BE_FEWER:
        return after in (None, b"")
    place = change.around[-1][0]
    if change.field == "name" and place == "XLine" and change.around[1][1].startswith("/host"):
        return after in (None, b"")  # of the host's threads not all have names
    if after is None:
        # The id of metadata stands beside them, too.
        return change.field in MAY_LACK or (change.field == "id" and place in ("XEventMetadata", "XStatMetadata"))
    if change.field in ("str", "bytes", "ref"):
        return isinstance(after, bytes)  # any text
    return change.field in ANY_NUMBER and isinstance(after, int) == isinstance(change.before, int)


def silent(tmp_path, text, share=1.0):
    """The changes that change a figure, are not told and not legal, and the figures; how many changes were tried."""
    path = write(tmp_path / "node1.xplane.pb", text)
    expected = read(path)
    assert not len(expected.losses)
    expected = figures(expected)
    fields = parsed(path.read_bytes(), "XSpace")
    assert encoded(fields) == path.read_bytes()
    found, tried, chance = [], set(), random.Random(0)
    for change in with_each_change(fields):
        if key(change) in tried or chance.random() > share or is_legal(change):
            continue
        tried.add(key(change))
        path.write_bytes(encoded(fields))
        try:
            trace = read(path)
        except TraceError:
            continue
        if not len(trace.losses) and (now := figures(trace)) != expected:
            found.append((change, [name for name in now if now[name] != expected[name]]))
    return found, len(tried)


@needs_xla_parser
@pytest.mark.parametrize("space", SPACES)
def test_any_one_field_that_is_damaged_costs_itself_and_is_told(tmp_path, space):
    """Nothing that changes a figure is silent, but what another profile may hold: a sample of all changes."""
    assert silent(tmp_path, SPACES[space](), share=0.03)[0] == []
