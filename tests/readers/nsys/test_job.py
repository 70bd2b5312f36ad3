"""How many ranks the job of an Nsight Systems export had, by each thing that tells it."""

import pytest

from tests.readers.nsys.exports import (
    Tables,
    communicator_payload,
    communicator_schema,
    nccl_payload,
    nccl_schema,
)
from tracekit.readers import nsys

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)"


@pytest.fixture
def read(tmp_path):
    return lambda tables: nsys.read(tables.write(tmp_path / "report.sqlite"))


def with_variable(text: str) -> Tables:
    return Tables().add("META_DATA_CAPTURE", name="PROCESS_0:ENVIRONMENT_VARIABLE", value=text)


def with_command(*words: str) -> Tables:
    tables = Tables()
    for at, word in enumerate(words):
        tables.add("META_DATA_CAPTURE", name=f"PROCESS_0:ARGUMENT_{at - 1}" if at else "PROCESS_0:COMMAND", value=word)
    return tables


def with_environment(text: str) -> Tables:
    return Tables().add("TARGET_INFO_SYSTEM_ENV", name="DeviceEnvironment", value=text)


@pytest.mark.parametrize(
    ("tables", "size"),
    [
        (Tables(), None),
        (Tables().add("MPI_COMMUNICATORS", size=4).add("MPI_COMMUNICATORS", size=2), 4),
        (with_variable('WORLD_SIZE="8"'), 8),
        (with_variable('MY_WORLD_SIZE="8"'), None),
        (with_variable('SLURM_NTASKS="64"'), None),
        (with_environment("PATH=/bin;OMPI_COMM_WORLD_SIZE=6;HOME=/"), 6),
        (with_environment("PATH=/bin;WORLD_SIZE=x"), None),
        (with_command("torchrun", "--nnodes=2", "--nproc_per_node=4", "train.py"), 8),
        (with_command("python", "-m", "torch.distributed.run", "--nproc-per-node", "4", "train.py"), 4),
        (with_command("torchrun", "--nproc_per_node=auto", "train.py"), None),
        (with_command("python", "train.py", "--nproc_per_node=4"), None),
    ],
)
def test_the_job_has_as_many_ranks_as_the_most_that_anything_tells(read, tables, size):
    (told,) = read(tables.kernel("k", 0, 1)).hosts["world_size"].astype(object).where(lambda each: each.notna(), None)
    assert told == size


def test_a_collective_has_as_many_ranks_as_its_communicator_was_made_of(read):
    tables = communicator_schema(nccl_schema(Tables()))
    for at, (communicator, ranks) in enumerate([(0xABC, 4), (0xDEF, 16)]):
        payload = communicator_payload(communicator, ranks, 0)
        tables.range("ncclCommInitRank", at, at + 1, domainId=1, binaryData=payload)
    for at, communicator in enumerate([0xABC, 0xDEF, 0x123]):
        begin = 100 * (at + 1)
        tables.range("ncclAllReduce", begin, begin + 10, domainId=1, binaryData=nccl_payload(communicator, 64))
        tables.call("cuLaunchKernel", begin + 1, begin + 2, at + 1)
        tables.kernel(ALL_REDUCE, begin + 5, begin + 9, correlationId=at + 1)
    trace = read(tables)
    assert trace.events["group"].tolist() == ["0xabc", "0xdef", "0x123"]
    assert trace.events["group_size"].fillna(0).tolist() == [4, 16, 0]
    assert trace.hosts["world_size"].tolist() == [16]


@pytest.mark.parametrize(
    ("made", "groups"),
    [
        ([(1, 0xA, 0), (2, 0xB, 0)], ["0xa", "0xb"]),
        ([(1, 0xA, 0), (2, 0xB, 0), (2, 0xC, 1)], ["0xa", None]),
        ([(1, 0xA, 60), (2, 0xB, 0)], [None, "0xb"]),  # it ran collectives of another one before
        ([(1, 0xA, 0), (1, 0xA, 90)], ["0xa", None]),  # made, and ended
    ],
)
def test_what_a_process_of_one_communicator_runs_is_of_that(read, made, groups):
    tables = communicator_schema(Tables())
    for process, communicator, at in made:
        payload = communicator_payload(communicator, 2, 0)
        tables.range("ncclCommInitRank", at, at + 1, process=process, domainId=1, binaryData=payload)
    for process in (1, 2):
        tables.kernel(ALL_REDUCE, 50, 55, process=process, deviceId=process)
        tables.kernel("gemm", 60, 65, process=process, deviceId=process)
    trace = read(tables)
    of_collectives = trace.events[trace.events["kind"] == "collective"].sort_values("device")
    assert of_collectives["group"].astype(object).where(lambda each: each.notna(), None).tolist() == groups
    assert of_collectives["group_size"].fillna(0).tolist() == [2 if group else 0 for group in groups]
    assert trace.events.loc[trace.events["kind"] == "compute", "group"].isna().all()


def test_a_payload_that_is_cut_tells_nothing(read):
    tables = communicator_schema(Tables()).kernel("k", 0, 1)
    tables.range("ncclCommInitRank", 0, 1, domainId=1, binaryData=communicator_payload(1, 4, 0)[:41])
    assert read(tables).hosts["world_size"].isna().all()
