"""What rocprofv3 writes into a JSON file, small."""

KINDS = {
    "HIP_RUNTIME_API": ["hipLaunchKernel", "hipMemcpyAsync", "hipDeviceSynchronize"],
    "HIP_COMPILER_API": ["__hipPushCallConfiguration"],
    "HSA_CORE_API": ["hsa_signal_store_screlease"],
    "KERNEL_DISPATCH": ["KERNEL_DISPATCH_NONE", "KERNEL_DISPATCH_ENQUEUE", "KERNEL_DISPATCH_COMPLETE"],
    "MEMORY_COPY": [f"MEMORY_COPY_{way}" for way in ("NONE", "HOST_TO_HOST", "HOST_TO_DEVICE", "DEVICE_TO_DEVICE")],
    "MARKER_CORE_API": ["roctxMarkA", "roctxRangePushA"],
    "MARKER_CONTROL_API": ["roctxProfilerPause"],
    "RCCL_API": ["ncclAllReduce"],
}
CPU, GPU_0, GPU_1 = 900, 902, 901  # handles need not be in the order of the devices
KERNELS = ["0", "gemm_kernel(float*) [clone .kd]", "ncclDevKernel_Generic_1(ncclDevKernelArgs) [clone .kd]"]


def agent(handle, node, gpu=True, name="AMD Instinct MI300X"):
    """An agent: of an older version, without the index of its GPU."""
    banks = [{"heap_type": 1, "size_in_bytes": 1000}, {"heap_type": 3, "size_in_bytes": 7}]
    return {
        "id": {"handle": handle}, "type": 2 if gpu else 1, "node_id": node, "product_name": name, "mem_banks": banks
    }  # fmt: skip


def record(kind, start, end, number=0, operation=0, thread=10, **rest):
    """A record of the operation's name or number, at these nanoseconds."""
    names = KINDS[kind]
    return {
        "kind": [*KINDS].index(kind),
        "operation": names.index(operation) if isinstance(operation, str) else operation,
        "correlation_id": {"internal": number, "external": 0},
        "start_timestamp": start,
        "end_timestamp": end,
        "thread_id": thread,
        **rest,
    }


def kernel(start, end, number=0, what=1, gpu=GPU_0, queue=5):
    info = {"agent_id": {"handle": gpu}, "queue_id": {"handle": queue}, "kernel_id": what}
    return record("KERNEL_DISPATCH", start, end, number, 2, dispatch_info=info, stream_id={"handle": 77})


def copy(start, end, way, source, target, size=64):
    ends = {"src_agent_id": {"handle": source}, "dst_agent_id": {"handle": target}}
    return record("MEMORY_COPY", start, end, 0, f"MEMORY_COPY_{way}", bytes=size, **ends)


def process(pid=10, markers=(), counted=(), **records):
    """What a file holds of one process."""
    return {
        "metadata": {"pid": pid, "node": {"hostname": "node1"}},
        "agents": [agent(CPU, 0, gpu=False, name="AMD EPYC"), agent(GPU_1, 2), agent(GPU_0, 1)],
        "strings": {
            "buffer_records": [{"kind": kind, "operations": names} for kind, names in KINDS.items()],
            "marker_api": [{"key": number, "value": name} for number, name in markers],
        },
        "kernel_symbols": [{"kernel_id": at, "demangled_kernel_name": name} for at, name in enumerate(KERNELS)],
        "callback_records": {"counter_collection": list(counted)},
        "buffer_records": records,
    }


def whole():
    """What holds something of everything."""
    return process(
        markers=[(1, "step 3")],
        kernel_dispatch=[kernel(1000, 1500, 3), kernel(1600, 1700, 3, gpu=GPU_1), kernel(1650, 1900, 4, what=2)],
        memory_copy=[
            copy(1100, 1300, "HOST_TO_DEVICE", CPU, GPU_0),
            copy(1300, 1400, "DEVICE_TO_DEVICE", GPU_1, GPU_0),
        ],
        hip_api=[
            record("HIP_RUNTIME_API", 200, 250, 3, "hipLaunchKernel"),
            record("HIP_RUNTIME_API", 260, 300, 4, "hipLaunchKernel"),
        ],
        hsa_api=[record("HSA_CORE_API", 210, 220, 4)],
        marker_api=[record("MARKER_CORE_API", 100, 900, 1, "roctxRangePushA")],
        rccl_api=[record("RCCL_API", 255, 310, 7, "ncclAllReduce")],
    )
