"""Write the traces in `generated/`, and `generated/expected.json`: `python -m tests.data.generate`.

Each shows a job of schedule.py in the form of one profiler: planes, lines, names, stats and tables are called and
nested as real files have them, and what repeats the work elsewhere is written too, for a reader to fall for.
"""

import gzip
import json
import shutil
import tempfile
from pathlib import Path

from benchmarks.xspace_proto import xspace_class
from tests.data import schedule
from tests.data.schedule import CALL_US, COMMUNICATION, COMPUTE, DEVICE_TO_HOST, HOST_TO_DEVICE, PEER, Work
from tests.readers.hlo import hlo_modules
from tests.readers.nsys.exports import Tables, nccl_payload, nccl_schema, pid, tid
from tests.readers.xspaces import PlaneText, Value, metadata_plane, write

HERE = Path(__file__).parent / "generated"
# When the profile started, in ns since 1970.
EPOCH_NS = 1_760_000_000_000_000_000
NS = 1_000  # in a microsecond

A100 = {
    "device_vendor": "Nvidia",
    "gpu_device_name": "NVIDIA A100-SXM4-40GB",
    "clock_rate": 1_410_000,
    "core_count": 108,
    "memory_bandwidth": 1_555_200_000_000,
    "memory_size": 42_297_524_224,
    "compute_cap_major": 8,
    "compute_cap_minor": 0,
}
MI300X = {
    "device_vendor": "AMD",
    "clock_rate": 2_100_000,
    "core_count": 304,
    "memory_bandwidth": 2_662_400_000_000,
    "memory_size": 206_141_652_992,
    "compute_cap_major": 9,
    "compute_cap_minor": 4,
}
V6E = {
    "device_type_string": "TPU v6 Lite",
    "peak_teraflops_per_second": 918.0,
    "peak_hbm_bw_gigabytes_per_second": 1637.993152512,
    "has_megacore": 0,
    "has_merged_vmem": 1,
}

NCCL = {
    "all-reduce-start.5": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "all-gather-start.9": "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
}
OCCUPANCY = "regs:96 static_shared:0 dynamic_shared:41760 grid:108,1,1 block:256,1,1 occ_pct:50"
KERNELS = {
    "dot.3": "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4>(Params)",
    "dot.6": "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x4_nt_align4>(Params)",
    "fusion.4": "loop_add_fusion_4",
    "fusion.8": "input_reduce_fusion_8",
} | NCCL
STREAMS = {
    COMPUTE: "Stream #13(Compute,Memset,MemcpyD2D)",
    HOST_TO_DEVICE: "Stream #14(MemcpyH2D)",
    PEER: "Stream #15(MemcpyP2P)",
    DEVICE_TO_HOST: "Stream #16(MemcpyD2H)",
    COMMUNICATION: "Stream #20(Compute)",
}
MEMORY = {
    "H2D": ("host", "device"),
    "D2H": ("device", "host"),
    "D2D": ("device", "device"),
    "P2P": ("device", "device"),
}
# What the host calls to start work, by its kind and direction.
CUDA_CALLS = {
    ("compute", ""): "cuLaunchKernel",
    ("collective", ""): "cuLaunchKernelEx",
    ("memset", ""): "cuMemsetD8Async",
    ("memcpy", "H2D"): "cuMemcpyHtoDAsync_v2",
    ("memcpy", "D2H"): "cuMemcpyDtoHAsync_v2",
    ("memcpy", "D2D"): "cuMemcpyDtoDAsync_v2",
    ("memcpy", "P2P"): "cuMemcpyPeerAsync",
}
KINETO_CALLS = {
    "compute": ("cudaLaunchKernel", 211),
    "collective": ("cudaLaunchKernelExC", 430),
    "memset": ("cudaMemsetAsync", 51),
    "memcpy": ("cudaMemcpyAsync", 41),
}
KINETO_COPIES = {
    "H2D": "Memcpy HtoD (Pinned -> Device)",
    "D2H": "Memcpy DtoH (Device -> Pinned)",
    "D2D": "Memcpy DtoD (Device -> Device)",
    "P2P": "Memcpy PtoP (Device -> Device)",
    "": "Memset (Device)",
}
# Of the two operators of PyTorch that launch a step's work, when the second begins.
SECOND_OPERATOR_US = 21
NSYS_CALLS = {
    "compute": "cudaLaunchKernel_v7000",
    "collective": "cuLaunchKernelEx",
    "memset": "cudaMemsetAsync_v3020",
    "memcpy": "cudaMemcpyAsync_v3020",
}
# Nsight's numbers of the kind of a copy and of the memory at its ends: 1 pinned, 2 of the device.
NSYS_COPIES = {"H2D": (1, 1, 2), "D2H": (2, 2, 1), "D2D": (8, 2, 2), "P2P": (10, 2, 2)}
ROCM_KERNELS = {
    "wrapped_broadcast": "wrapped_broadcast.kd",
    "dot.3": "Cijk_Ailk_Bljk_SB_MT64x64x16_MI16x16x4x1.kd",
    "fusion.4": "loop_add_fusion_4.kd",
    "all-reduce-start.5": "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>) [clone .kd]",
}
# The program of the GPUs, of whose ops the HLO proto tells the collectives and what they move.
GPU_HLO = """HloModule jit_train, num_partitions=2

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %r = f32[] add(%a, %b)
}

ENTRY %main (x: f32[1024,1024]) -> f32[1024,512] {
  %x = f32[1024,1024]{1,0} parameter(0)
  %copy.1 = f32[1024,1024]{1,0} copy(%x)
  %dot.3 = f32[1024,1024]{1,0} dot(%copy.1, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %fusion.4 = f32[1024,1024]{1,0} add(%dot.3, %x)
  %all-reduce-start.5 = f32[1024,1024]{1,0} all-reduce-start(%fusion.4), channel_id=1, replica_groups={{0,1}},
    use_global_device_ids=true, to_apply=%sum
  %all-reduce-done.5 = f32[1024,1024]{1,0} all-reduce-done(%all-reduce-start.5)
  %dot.6 = f32[1024,1024]{1,0} dot(%fusion.4, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %fusion.8 = f32[1024,1024]{1,0} add(%dot.6, %all-reduce-done.5)
  %slice = f32[512,512]{1,0} slice(%fusion.8), slice={[0:512], [0:512]}
  %all-gather-start.9 = (f32[512,512]{1,0}, f32[1024,512]{1,0}) all-gather-start(%slice), channel_id=2,
    replica_groups={{0,1}}, dimensions={0}, use_global_device_ids=true
  ROOT %all-gather-done.9 = f32[1024,512]{1,0} all-gather-done(%all-gather-start.9)
}
"""

ROCM_HLO = """HloModule jit_train, num_partitions=2

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %r = f32[] add(%a, %b)
}

%added (p: f32[4096,2048], q: f32[4096,2048]) -> f32[4096,2048] {
  %p = f32[4096,2048]{1,0} parameter(0)
  %q = f32[4096,2048]{1,0} parameter(1)
  ROOT %add = f32[4096,2048]{1,0} add(%p, %q)
}

ENTRY %main (x: f32[1024,1024], y: f32[4096,2048]) -> f32[1024,1024] {
  %x = f32[1024,1024]{1,0} parameter(0)
  %y = f32[4096,2048]{1,0} parameter(1)
  %zero = f32[] constant(0)
  %wrapped_broadcast = f32[1024,1024]{1,0} broadcast(%zero), dimensions={}
  %dot.3 = f32[1024,1024]{1,0} dot(%wrapped_broadcast, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %copy.1 = f32[1024,1024]{1,0} copy(%dot.3)
  %fusion.4 = f32[4096,2048]{1,0} fusion(%y, %y), kind=kLoop, calls=%added
  %all-reduce-start.5 = f32[1024,1024]{1,0} all-reduce-start(%copy.1), channel_id=1, replica_groups={{0,1}},
    use_global_device_ids=true, to_apply=%sum
  ROOT %all-reduce-done.5 = f32[1024,1024]{1,0} all-reduce-done(%all-reduce-start.5)
}
"""

# How long each `-done` of a TPU lasts, and when its loop runs in a step.
DONE_US = {"copy-start.3": 20, "all-gather-start.8": 15}
LOOP = (405, 700)
_F32, _PART, _WHOLE = "f32[1024,1024]{1,0:T(8,128)}", "f32[512,512]{1,0:T(8,128)}", "f32[1024,512]{1,0:T(8,128)}"
_BIG, _OUT, _HOST = (
    "f32[64,1024,1024]{2,1,0:T(8,128)}",
    "f32[2048,1024]{1,0:T(8,128)}",
    "f32[2048,1024]{1,0:T(8,128)S(5)}",
)
# The ops of a TPU's program, as its profiler names their events: by their whole HLO text.
TPU_OPS = {
    "broadcast_add_fusion.1": f"%broadcast_add_fusion.1 = {_BIG} fusion({_BIG} %param.0), kind=kLoop, calls=%fused.1",
    "copy-start.3": f"%copy-start.3 = ({_HOST}, {_OUT}, u32[]{{:S(2)}}) copy-start({_OUT} %param.1)",
    "copy-done.3": f"%copy-done.3 = {_HOST} copy-done(({_HOST}, {_OUT}, u32[]{{:S(2)}}) %copy-start.3)",
    "while.4": f"%while.4 = ({_F32}) while(({_F32}) %tuple.2), condition=%cond, body=%body",
    "fusion.5": f"%fusion.5 = {_F32} fusion({_F32} %param.2), kind=kOutput, calls=%fused.5",
    "all-reduce.6": f"%all-reduce.6 = {_F32} all-reduce({_F32} %fusion.5), channel_id=1, replica_groups={{{{0,1}}}}, "
    "use_global_device_ids=true, to_apply=%sum",
    "fusion.7": f"%fusion.7 = {_F32} fusion({_F32} %all-reduce.6), kind=kLoop, calls=%fused.7",
    "all-gather-start.8": f"%all-gather-start.8 = ({_PART}, {_WHOLE}) all-gather-start({_PART} %slice.1), "
    "channel_id=2, replica_groups={{0,1}}, dimensions={0}, use_global_device_ids=true",
    "all-gather-done.8": f"%all-gather-done.8 = {_WHOLE} all-gather-done(({_PART}, {_WHOLE}) %all-gather-start.8)",
    "fusion.9": f"%fusion.9 = {_F32} fusion({_F32} %fusion.7), kind=kLoop, calls=%fused.9",
}
# Category, operations and bytes of each, where XLA counted them.
TPU_COSTS = {
    "broadcast_add_fusion.1": ("loop fusion", schedule.ADDED, 8 * schedule.ADDED),
    "copy-start.3": ("copy-start", 0, 2 * schedule.OFFLOADED_BYTES),
    "copy-done.3": ("copy-done", 0, 2 * schedule.OFFLOADED_BYTES),
    "while.4": ("while", 0, 0),
    "fusion.5": ("convolution fusion", 2 << 30, 12 << 20),
    "all-reduce.6": ("all-reduce", 1 << 20, 8 << 20),
    "fusion.7": ("loop fusion", 1 << 20, 8 << 20),
    "all-gather-start.8": ("all-gather-start", 0, 3 << 20),
    "all-gather-done.8": ("all-gather-done", 0, 0),
    "fusion.9": ("loop fusion", 1 << 20, 8 << 20),
}


def main() -> None:
    """Write all of them anew."""
    shutil.rmtree(HERE, ignore_errors=True)
    write_all(HERE)


def write_all(directory: Path) -> None:
    """Write the traces and their figures into `directory`."""
    directory.mkdir()
    gpus = _write_xspace(directory / "gpu.xplane.pb", nvidia(schedule.gpu_job()))
    tpus = _write_xspace(directory / "tpu.xplane.pb", tpu(schedule.tpu_job()))
    _write_xspace(directory / "rocm.xplane.pb", rocm(schedule.rocm_job()))
    as_json(gpus, directory / "gpu.trace.json.gz")
    as_json(tpus, directory / "tpu.trace.json.gz")
    (directory / "kineto").mkdir()
    for rank in (0, 1):
        packed = gzip.compress(json.dumps(kineto(rank)).encode(), mtime=0)
        (directory / "kineto" / f"rank{rank}.pt.trace.json.gz").write_bytes(packed)
    nsys(schedule.gpu_job()).write(directory / "gpu.sqlite", page_size=512)
    (directory / "expected.json").write_text(json.dumps(expected(), indent=1) + "\n", "utf-8")


def expected() -> dict[str, object]:
    """The figures of every trace, as the schedule has them."""
    gpus, tpus = schedule.figures(schedule.gpu_job(), "gpu:"), schedule.figures(schedule.tpu_job(), "tpu:")
    return {
        "unit": "microseconds",
        "generated/gpu.xplane.pb": gpus,
        "generated/gpu.trace.json.gz": gpus,
        "generated/gpu.sqlite": gpus,
        "generated/kineto": schedule.figures(schedule.gpu_job(), "rank "),
        "generated/rocm.xplane.pb": schedule.figures(schedule.rocm_job(), "gpu:"),
        "generated/tpu.xplane.pb": tpus,
        "generated/tpu.trace.json.gz": tpus,
    }


def nvidia(job: list[Work]) -> str:
    """An XSpace of CUPTI: streams are the truth; `XLA Ops`, `Steps` and others repeat them."""
    program = hlo_modules.module(GPU_HLO).as_serialized_hlo_module_proto()
    texts = [metadata_plane(jit_train_7=program)]
    for device in (0, 1):
        plane = PlaneText(f"/device:GPU:{device}", **A100)
        for work in _work_on(job, device):
            stats = {"correlation_id": _id(job, work), "context_id": f"$${device + 1}", "group_id": work.step}
            if work.kind == "memcpy":
                source, target = MEMORY[work.direction]
                peer = 1 - device if work.direction == "P2P" else device
                stats["memcpy_details"] = f"kind_src:{source} kind_dst:{target} size:{work.bytes} dest:{peer} async:1"
                name = f"Memcpy{work.direction}"
            elif work.kind == "memset":
                name, stats["Memset_details"] = "Memset", f"kind:device num_bytes:{work.bytes} async:1"
            else:
                name = KERNELS[work.op]
                stats |= {
                    "hlo_op": work.op,
                    "hlo_module": "jit_train",
                    "program_id": 7,
                    "tf_op": f"jit(train)/{work.op}:",
                }
                stats |= {"theoretical_occupancy_pct": 50.0, "kernel_details": OCCUPANCY}
            _add(plane, STREAMS[work.stream], name, work.start, work.end, **stats)
            if work.kind in ("compute", "collective"):
                _add(plane, "XLA Ops", work.op, work.start, work.end, hlo_op=work.op, hlo_module="jit_train")
                _add(plane, "Framework Name Scope", "jit(train)", work.start, work.end)
                _add(plane, "Source code", "train.py:12", work.start, work.end)
        for step, start, end in _extents(job, device):
            _add(plane, "XLA Modules", "jit_train(7)", start, end, program_id=7, run_id=step + 1)
            _add(plane, "Steps", str(step), start, end, group_id=step, step_name=str(step))
            _add(plane, "Launch Stats", "max_launch_time_us", start, end)
        texts.append(plane.text(lines={name: number for number, name in STREAMS.items()}, number=1 + device))
    host = PlaneText("/host:CPU")
    for step in range(schedule.STEPS):
        at = schedule.base(step)
        _add(host, "python", "train", at, at + schedule.ANNOTATED_US, step_num=step, group_id=step, _r=1)
        for device in (0, 1):
            thread = f"py_xla_execute/{100 + device}"
            _add(host, thread, "PjRtStreamExecutorLoadedExecutable::Execute", at, at + schedule.WAIT[0])
            waits = (at + edge for edge in schedule.WAIT)
            _add(host, thread, "cuStreamSynchronize", *waits, correlation_id=900 + 10 * step + device)
    for work in job:
        thread = f"py_xla_execute/{100 + work.device}"
        about = {"correlation_id": _id(job, work), "group_id": work.step}
        _add(host, thread, CUDA_CALLS[work.kind, work.direction], work.called, work.called + CALL_US, **about)
    return "".join([*texts, host.text(number=100), _session(job)])


def rocm(job: list[Work]) -> str:
    """An XSpace of ROCm's profiler: four planes, one of them empty, copies that are kernels, and groups for steps."""
    program = hlo_modules.module(ROCM_HLO).as_serialized_hlo_module_proto()
    texts = [metadata_plane(jit_train_7=program)]
    for device in range(4):
        plane = PlaneText(f"/device:GPU:{device}", **MI300X)
        for work in _work_on(job, device):
            stats = {"correlation_id": _id(job, work)}
            if device < 2:
                stats["group_id"] = work.step
            if work.op:
                stats |= {"hlo_op": work.op, "hlo_module": "jit_train", "program_id": 7}
            name = "__amd_rocclr_copyBuffer.kd" if work.kind == "memcpy" else ROCM_KERNELS[work.op]
            block = 512 if work.kind == "memcpy" else 256
            stats["kernel_details"] = f" grid:16,1,1 block:{block},1,1 private_mem:0 group_mem:0 occ_pct:0"
            _add(plane, f"Stream #{work.stream}(Kernel)", name, work.start, work.end, **stats)
        texts.append(plane.text(lines={f"Stream #{at}(Kernel)": at for at in (16, 17, 18)}, number=1 + device))
    host = PlaneText("/host:CPU")
    for work in job:
        call = {"H2D": "hipMemcpyHtoDAsync", "D2D": "hipMemcpyDtoDAsync", "": "hipModuleLaunchKernel"}
        stats = {"correlation_id": _id(job, work), "device_id": 22244 + work.device}
        if work.kind == "memcpy":
            stats["memcpy_details"] = "kind:Unknown size:0 dest:512 async:1"
        name = call[work.direction[:3]]
        _add(host, f"Host Threads/{1083 + work.device}", name, work.called, work.called + CALL_US, **stats)
    return "".join([*texts, host.text(number=100), _session(job)])


def tpu(job: list[Work]) -> str:
    """An XSpace of two TPU cores and a SparseCore: ops nested in a loop, asynchronous halves, and what repeats them."""
    texts = []
    for chip in (0, 1):
        plane = PlaneText(f"/device:TPU:{chip}", core_details=bytes([0x10, chip, 0x28, 4 + chip]), **V6E)
        for name, text in TPU_OPS.items():
            category, flops, moved = TPU_COSTS[name]
            stats = {"hlo_category": category, "program_id": 7, "flops": flops, "model_flops": flops}
            plane.describe(text, name, **stats, bytes_accessed=moved, source="train.py:12")
        for step in range(schedule.STEPS):
            start = schedule.base(step)
            flow = 1000 + 10 * step + chip
            end = start + schedule.TPU_US
            _add(plane, "XLA Modules", "jit_train(7)", start, end, run_id=step + 1, replica_id=0, _ct=12, _c=flow)
            _add(plane, "Steps", str(step), start, end, step_name=str(step))
            _add(plane, "XLA TraceMe", "barrier-cores", start, start + 2)
            _add(plane, "XLA Ops", TPU_OPS["while.4"], start + LOOP[0], start + LOOP[1])
        for work in _work_on(job, chip):
            if not work.op.partition(".")[0].endswith("-start"):
                _add(plane, "XLA Ops", TPU_OPS[work.op], work.start, work.end)
                continue
            done_op = TPU_OPS[work.op.replace("-start", "-done")]
            _add(plane, "XLA Ops", TPU_OPS[work.op], work.start, work.start + 1)
            _add(plane, "XLA Ops", done_op, work.end - DONE_US[work.op], work.end)
            if chip == 0:
                _add(plane, "Async XLA Ops", TPU_OPS[work.op], work.start, work.end, hlo_op=work.op)
        texts.append(plane.text(number=1 + chip))
    host = PlaneText("/host:CPU")
    for step in range(schedule.STEPS):
        at = schedule.base(step)
        _add(host, "main/11", "PjitFunction(train)", at - 60, at - 20)
        for chip in (0, 1):
            call, task = at - 50 + 8 * chip, at - 30 + 8 * chip
            execute, enqueue = 100 + 10 * step + chip, 1000 + 10 * step + chip
            _add(host, "main/11", "tpu::System::Execute", call, call + 5, _pt=7, _p=execute, device_ordinal=chip)
            issue = "tpu::System::Execute=>IssueSequencedEvent"
            _add(host, "pjrt-tpu-tasks/12", issue, task, task + 6, _ct=7, _c=execute)
            stats = {"run_id": step + 1, "device_ordinal": chip, "_pt": 12, "_p": enqueue}
            _add(host, "pjrt-tpu-tasks/12", "DoEnqueueProgram", task + 1, task + 5, **stats)
    return "".join([*texts, host.text(number=100), _session(job)])


def as_json(xspace: Path, to: Path) -> None:
    """The trace.json.gz that JAX's own writer makes of an XSpace."""
    import jax
    from jax._src.lib import _profiler

    with tempfile.TemporaryDirectory() as directory:
        _profiler.ProfilerSession(jax.profiler.ProfileOptions()).export(xspace.read_bytes(), directory)
        (export,) = Path(directory).rglob("*.trace.json.gz")
        to.write_bytes(gzip.compress(gzip.decompress(export.read_bytes()), mtime=0))


def kineto(rank: int) -> dict:
    """What PyTorch's profiler writes of one of two ranks, each on a GPU of its own; both clocks agree."""
    job = schedule.gpu_job()
    base = EPOCH_NS // 1000
    main, process = 4000 + rank, 4000 + rank
    records = [_kineto_label(process, "python"), _kineto_label(rank, "python", of_gpu=rank)]
    for step in range(schedule.STEPS):
        at = schedule.base(step)
        since, until = (at + edge for edge in schedule.WAIT)
        batch = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        spans = [
            ("user_annotation", f"ProfilerStep#{step + 1}", at, at + schedule.ANNOTATED_US, {}),
            ("cpu_op", "aten::linear", at + 1, at + SECOND_OPERATOR_US, {"External id": 50 * step + 1}),
            ("cpu_op", "c10d::allreduce_", at + SECOND_OPERATOR_US, at + 61, {"External id": 50 * step + 2}),
            ("user_annotation", batch, *(at + edge for edge in schedule.LOADING), {}),
            ("cuda_runtime", "cudaStreamSynchronize", since, until, {"cbid": 131, "correlation": 900 + step}),
        ]
        records += [_kineto_event(cat, name, process, main, start, end, args) for cat, name, start, end, args in spans]
    for work in _work_on(job, rank):
        number = _id(job, work)
        args: dict[str, object] = {
            "External id": 50 * work.step + 1 + (work.called >= schedule.base(work.step) + SECOND_OPERATOR_US),
            "device": rank,
            "context": 1,
            "stream": work.stream,
            "correlation": number,
        }
        if work.kind in ("compute", "collective"):
            category, name = "kernel", KERNELS[work.op]
            args |= {"queued": 0, "grid": [108, 1, 1], "block": [256, 1, 1], "est. achieved occupancy %": 50}
            args |= {"registers per thread": 96, "shared memory": 41760, "warps per SM": 32}
        else:
            category = f"gpu_{work.kind}"
            name = KINETO_COPIES[work.direction]
            args |= {"bytes": work.bytes, "memory bandwidth (GB/s)": work.bytes / 1000 / (work.end - work.start)}
        if work.kind == "collective":
            elements = work.bytes // 4
            inner = elements // 2 if "gather" in work.op else elements
            args |= {"Collective name": "_allgather_base" if "gather" in work.op else "allreduce", "dtype": "Float"}
            args |= {"In msg nelems": inner, "Out msg nelems": elements, "Group size": 2}
            args |= {"Process Group Name": "0", "Process Group Ranks": "[0, 1]"}
        call, cbid = KINETO_CALLS[work.kind]
        launch = {"cbid": cbid, "correlation": number, "External id": args["External id"]}
        records.append(_kineto_event("cuda_runtime", call, process, main, work.called, work.called + CALL_US, launch))
        flow = {"cat": "ac2g", "name": "ac2g", "id": number}
        records.append({"ph": "s", "pid": process, "tid": main, "ts": base + work.called, **flow})
        records.append({"ph": "f", "pid": rank, "tid": work.stream, "ts": base + work.start, **flow, "bp": "e"})
        records.append(_kineto_event(category, name, rank, work.stream, work.start, work.end, args))
    for step, start, end in _extents(job, rank):
        records.append(_kineto_event("gpu_user_annotation", f"ProfilerStep#{step + 1}", rank, COMPUTE, start, end, {}))
    gpu = {"name": A100["gpu_device_name"], "totalGlobalMem": A100["memory_size"], "numSms": 108, "warpSize": 32}
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": device, **gpu, "computeMajor": 8, "computeMinor": 0} for device in (0, 1)],
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2},
        "traceEvents": records,
        "traceName": f"rank{rank}.pt.trace.json",
    }


def _kineto_event(cat: str, name: str, pid: int, tid: int, start: int, end: int, args: dict) -> dict:
    at = EPOCH_NS // 1000 + start
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": at, "dur": end - start, "args": args}


def _kineto_label(process: int, name: str, of_gpu: int | None = None) -> dict:
    args = {"name": name} if of_gpu is None else {"labels": f"GPU {of_gpu}"}
    what = "process_name" if of_gpu is None else "process_labels"
    return {"ph": "M", "name": what, "pid": process, "tid": 0, "ts": EPOCH_NS // 1000, "args": args}


def nsys(job: list[Work]) -> Tables:
    """An export of Nsight Systems: two processes, each on a GPU of its own, with NCCL's payloads and without steps."""
    tables = nccl_schema(Tables())
    tables.add("META_DATA_EXPORT", name="EXPORT_SCHEMA_VERSION", value="3.25.0")
    tables.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=EPOCH_NS)
    for device in (0, 1):
        tables.add("TARGET_INFO_GPU", id=device, name=A100["gpu_device_name"], memoryBandwidth=A100["memory_bandwidth"])
        tables.add("PROCESSES", globalPid=pid(70 + device), pid=70 + device, name="python3")
        tables.add("ThreadNames", nameId=tables.string("python3"), priority=20, globalTid=tid(70 + device, 70 + device))
        tables.add("TARGET_INFO_CUDA_DEVICE", gpuId=device, cudaId=device, pid=70 + device)
    for work in job:
        number, process = _id(job, work), 70 + work.device
        start, end = work.start * NS, work.end * NS
        where = {"deviceId": work.device, "contextId": 1, "streamId": work.stream, "correlationId": number}
        if work.kind in ("compute", "collective"):
            tables.kernel(KERNELS[work.op], start, end, process=process, **where)
        elif work.kind == "memset":
            tables.activity("MEMSET", start, end, process=process, **where, value=0, bytes=work.bytes, memKind=2)
        else:
            kind, source, target = NSYS_COPIES[work.direction]
            ends = {"srcDeviceId": None, "dstDeviceId": None}
            if work.direction == "P2P":
                ends = {"srcDeviceId": work.device, "dstDeviceId": 1 - work.device}
            tables.copy(
                kind, start, end, process=process, bytes=work.bytes, srcKind=source, dstKind=target, **ends, **where
            )
        call = NSYS_CALLS[work.kind]
        thread = {"process": process, "thread": process}
        tables.call(call, work.called * NS, (work.called + CALL_US) * NS, number, **thread)
        if work.op in NCCL:
            around = (work.called - 1) * NS, (work.called + CALL_US + 1) * NS
            size = work.bytes // 2 if "gather" in work.op else work.bytes
            name = "ncclAllGather" if "gather" in work.op else "ncclAllReduce"
            payload = {"binaryData": nccl_payload(0xC0FFEE, size), "domainId": 1}
            tables.range(name, *around, kind=59, **thread, **payload)
    for step in range(schedule.STEPS):
        at = schedule.base(step)
        for device in (0, 1):
            thread = {"process": 70 + device, "thread": 70 + device}
            since, until = ((at + edge) * NS for edge in schedule.WAIT)
            number = 900 + 10 * step + device
            tables.call("cudaStreamSynchronize_v3020", since, until, number, **thread)
            tables.sync(number, stream=DEVICE_TO_HOST, process=70 + device, start=since, end=until, syncType=3)
    return tables


def _write_xspace(path: Path, text: str) -> Path:
    """Write an XSpace in one order of its metadata, which jax's serialiser leaves to chance."""
    message = xspace_class().FromString(write(path, text).read_bytes())
    path.write_bytes(message.SerializeToString(deterministic=True))
    return path


def _add(plane: PlaneText, line: str, name: str, start: int, end: int, **stats: Value) -> None:
    """Add an event in [start, end) microseconds."""
    plane.event(line, name, start * NS, (end - start) * NS, **stats)


def _work_on(job: list[Work], device: int) -> list[Work]:
    return sorted((work for work in job if work.device == device), key=lambda work: work.start)


def _id(job: list[Work], work: Work) -> int:
    return 1 + job.index(work)


def _extents(job: list[Work], device: int) -> list[tuple[int, int, int]]:
    """The number of each step, its first start and its last end on a device."""
    mine = [[work for work in _work_on(job, device) if work.step == step] for step in range(schedule.STEPS)]
    return [(at, min(work.start for work in step), max(work.end for work in step)) for at, step in enumerate(mine)]


def _session(job: list[Work]) -> str:
    end = EPOCH_NS + (max(work.end for work in job) + 1_000) * NS
    return PlaneText("Task Environment", profile_start_time=EPOCH_NS, profile_stop_time=end).text(number=101)


if __name__ == "__main__":
    main()
