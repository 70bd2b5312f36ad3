"""Pipelines of PyTorch: the sends and receives of a group of all ranks, of which each file tells one end."""

import json

from tests.readers.chrome.kineto_files import event, kernel
from tracekit.analysis.collectives import collectives
from tracekit.timeline.timeline import timeline_of

US = 1_000_000
GROUP = {"Process Group Name": "1", "Process Group Ranks": "[0, 1, 2]", "Group size": 3, "dtype": "Float"}
SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def exchange(rank, what, peer, number, start, end):
    """A send or a recv of a rank with a peer; `number` is the `number`-th of the rank, not of the two."""
    way = {"Dst Rank": peer} if what == "send" else {"Src Rank": peer}
    counts = {"In msg nelems": 1024, "Out msg nelems": 1024, "Seq": number}
    return kernel(
        SEND_RECV, start, end - start, device=rank, stream=30, **{"Collective name": what}, **counts, **GROUP, **way
    )


def meeting(rank, start, end):
    """An all-reduce of all ranks."""
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    counts = {"In msg nelems": 1, "Out msg nelems": 1, "Seq": 1, "Collective name": "allreduce"}
    return kernel(name, start, end - start, device=rank, stream=20, **counts, **GROUP)


def write(directory, *ranks):
    """A file of each rank with its events."""
    for rank, events in enumerate(ranks):
        marks = [event("user_annotation", "ProfilerStep#0", 0, 1000, 9000, 9000)]
        head = {"schemaVersion": 1, "deviceProperties": [], "baseTimeNanoseconds": 1_700_000_000_000_000_000}
        job = {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": len(ranks)}}
        (directory / f"rank{rank}.json").write_text(json.dumps({**head, **job, "traceEvents": marks + events}))


def test_the_stages_of_a_pipeline_meet_in_pairs_whatever_their_group(tmp_path):
    write(
        tmp_path,
        [exchange(0, "send", 1, 1, 10, 60), exchange(0, "recv", 1, 2, 70, 210), meeting(0, 300, 320)],
        [
            exchange(1, "recv", 0, 1, 5, 60),
            exchange(1, "send", 2, 2, 100, 120),
            exchange(1, "recv", 2, 3, 130, 160),
            exchange(1, "send", 0, 4, 200, 210),
            meeting(1, 310, 320),
        ],
        [exchange(2, "recv", 1, 1, 90, 120), exchange(2, "send", 1, 2, 150, 160), meeting(2, 305, 320)],
    )
    table = collectives(timeline_of(tmp_path)).table
    assert table[["ranks", "devices", "matched_by", "wait_ps", "last"]].values.tolist() == [
        [2, 2, "order", 5 * US, "rank0/gpu:0"],
        [2, 2, "order", 130 * US, "rank1/gpu:1"],
        [2, 2, "order", 10 * US, "rank1/gpu:1"],
        [2, 2, "order", 20 * US, "rank2/gpu:2"],
        [3, 3, "sequence", 15 * US, "rank1/gpu:1"],
    ]
