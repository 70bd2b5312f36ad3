"""Whole exports of Nsight Systems of which tests damage one value after the other."""

from tests.readers.nsys import exports
from tests.readers.nsys.exports import Tables, pid, tid

LAUNCH, COPY, SET = "cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "cudaMemsetAsync_v3020"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage)"


def whole() -> Tables:
    """Two processes of one GPU each, with every table that the reader asks for."""
    tables = Tables()
    _works(tables, 7, 0)
    _works(tables, 8, 5)
    _waits(tables)
    tables.copy(11, 460, 470, contextId=1, correlationId=None)
    tables.activity("GRAPH_TRACE", 480, 490, correlationId=20, graphId=3)
    tables.call("cudaGraphLaunch_v10000", 180, 190, 20)
    _ranges(tables)
    _machine(tables)
    return tables


def _works(tables: Tables, process: int, later: int) -> None:
    at, ids = later + 200, {"process": process, "correlationId": 1}
    for number, name in enumerate(("gemm", ALL_REDUCE, "gemm")):
        tables.call(LAUNCH, at - 100 + 20 * number, at - 95 + 20 * number, 1 + number, process)
        tables.kernel(name, at + 50 * number, at + 40 + 50 * number, **(ids | {"correlationId": 1 + number}))
    tables.call(COPY, at - 40, at - 35, 5, process)
    sides = {"srcKind": 0, "dstKind": 2, "srcDeviceId": None, "dstDeviceId": None}
    tables.copy(1, at + 160, at + 170, process=process, correlationId=5, **sides)
    tables.call(SET, at - 30, at - 25, 6, process)
    tables.activity("MEMSET", at + 180, at + 190, process, correlationId=6)


def _waits(tables: Tables) -> None:
    tables.call("cudaEventRecord_v3020", 120, 122, 9).event(4, 9, eventSyncId=77)
    tables.call("cudaEventSynchronize_v3020", 500, 510, 10).sync(10, syncType=1, eventId=4, eventSyncId=77)
    tables.call("cudaStreamSynchronize_v3020", 510, 520, 11)
    tables.sync(11, syncType=3, eventSyncId=0)
    tables.call("cudaDeviceSynchronize_v3020", 520, 530, 12).sync(12, syncType=4, eventSyncId=0)
    tables.call("cudaStreamWaitEvent_v3020", 124, 126, 13).sync(13, 14, syncType=2, eventId=4, eventSyncId=77)
    tables.kernel("waiting", 470, 478, streamId=14, correlationId=14).call(LAUNCH, 150, 152, 14)
    for number in range(3):
        tables.call("cudaEventQuery_v3020", 540 + number, 541 + number, 30 + number, 8)


def _ranges(tables: Tables) -> None:
    none = {"start": 1, "end": None, "eventType": 75, "textId": None, "binaryData": None}
    for domain, text in ((1, "NCCL"), (2, "TSL")):
        tables.add("NVTX_EVENTS", **(none | {"text": text, "globalTid": tid(7, 1), "domainId": domain}))
    tables.range("ProfilerStep#3", 90, 560)
    tables.range("aten::mm, op_id = 12", 98, 108)
    tables.range(None, 95, 530, textId=tables.string("my range"), kind=60)
    tables.range("XlaModule:#hlo_module=jit_f,program_id=1#", 96, 165, domainId=2)
    tables.range("Thunk:#hlo_op=dot.1#", 99, 107, domainId=2)
    exports.nccl_schema(tables)
    exports.communicator_schema(tables)
    tables.range("ncclAllReduce", 118, 128, domainId=1, binaryData=exports.nccl_payload(0xAB, 4096))
    tables.range("ncclCommInitRank", 80, 85, domainId=1, binaryData=exports.communicator_payload(0xAB, 4, 0))
    types = ((59, "NvtxPushPopRange"), (60, "NvtxStartEndRange"), (75, "NvtxDomainCreate"))
    for key, name in types:
        tables.add("ENUM_NSYS_EVENT_TYPE", id=key, name=name)


def _machine(tables: Tables) -> None:
    for key, symbol in ((1, "HTOD"), (11, "UVM_HTOD")):
        tables.add("ENUM_CUDA_MEMCPY_OPER", id=key, name=f"CUDA_MEMCPY_KIND_{symbol}")
    for process in (7, 8):
        gpu = {"gpuId": process - 7, "cudaId": 0, "pid": process, "uuid": f"GPU-{process}"}
        tables.add("TARGET_INFO_CUDA_DEVICE", **gpu)
        facts = {"name": "H100", "memoryBandwidth": 3_352_320_000_000, "totalMemory": 85_017_493_504}
        tables.add("TARGET_INFO_GPU", id=process - 7, cuDevice=process - 7, **facts)
        tables.add("ThreadNames", globalTid=tid(process, 1), nameId=tables.string("python3"))
        usage = {"globalPid": pid(process), "deviceId": 0, "address": 4096, "bytes": 512, "memKind": 2}
        for operation in (0, 1):
            tables.add("CUDA_GPU_MEMORY_USAGE_EVENTS", start=90 + operation, **usage, memoryOperationType=operation)
    for name, value in (("Hostname", "node1"), ("CudaDriverVersion", "12020")):
        tables.add("TARGET_INFO_SYSTEM_ENV", name=name, value=value)
    tables.add("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value="2024.5.1")
    tables.add("META_DATA_EXPORT", name="EXPORT_PARAM_TIME_SHIFT", value="0")
    tables.add("META_DATA_CAPTURE", name="1:ENVIRONMENT_VARIABLE", value="WORLD_SIZE=2")
    tables.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1_795_702_449_725_546_181, utcTime="")
    tables.add("DIAGNOSTIC_EVENT", severity=2, text="CUDA device 0: the clock of the GPU was odd.")
    tables.add("MPI_COMMUNICATORS", size=2)
