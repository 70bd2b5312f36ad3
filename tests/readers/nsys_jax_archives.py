"""Archives of nsys-jax for tests: a table of ranges as rows, with the tables and dumps beside it."""

import io
import zipfile

import pandas as pd

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


def program(replicas, partitions, opcodes=("dot",)):
    """A proto of a program for so many devices, of an op of each opcode, called after it."""

    def field(number, value):
        return bytes([number << 3 | 2, len(value)]) + value

    names = [opcode.encode() for opcode in opcodes]
    computation = b"".join(field(2, field(1, name) + field(2, name)) for name in names)
    return field(1, field(3, computation) + field(15, bytes([1 << 3, replicas, 2 << 3, partitions])))
