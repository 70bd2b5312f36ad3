"""All readers and analyses give the same answer on one job, whatever format it is in, and that answer is the truth.

How far reasons are from the truth `test_compare` holds; here they are the same in every format that records as much.
"""

import itertools
import re

import pytest

from tests.simulator.clocks import WHOLE
from tests.simulator.job import DEVICE_SORTS, Sort
from tests.simulator.random_jobs import random_job
from tests.simulator.truth import Truth
from tests.simulator.writers import FORMATS
from tracekit.analysis.collectives import collectives
from tracekit.analysis.explain import explain
from tracekit.analysis.overlap import partition
from tracekit.analysis.steps import steps
from tracekit.columns import records
from tracekit.readers import read
from tracekit.timeline.timeline import timeline_of
from tracekit.timeline.unions import CELLS

NS = 1000
# Jobs of one, two and several ranks.
SEEDS = (1, 3, 6, 14)


def number(device: str) -> int:
    return int(re.findall(r"\d+", device)[-1])


def known_cells(truth: Truth) -> dict[int, dict[str, int]]:
    """How long exactly which kinds ran on each rank, in ps: each piece between two edges is looked at for itself."""
    kinds = {Sort.KERNEL: "compute", Sort.MEMCPY: "memory", Sort.MEMSET: "memory"}
    cells: dict[int, dict[str, int]] = {}
    for rank in range(truth.job.ranks):
        rows = [
            (*truth.recording.times(row), "collective" if row.collective >= 0 else kinds[row.sort])
            for row in truth.job.rows
            if row.rank == rank and row.sort in DEVICE_SORTS
        ]
        edges = sorted({edge for start, end, _ in rows for edge in (start, end)})
        cells[rank] = {}
        for start, end in itertools.pairwise(edges):
            running = {kind for begins, ends, kind in rows if begins <= start < ends}
            name = "+".join(sorted(running, key=("compute", "collective", "memory").index))
            if name:
                cells[rank][name] = cells[rank].get(name, 0) + (end - start) * NS
    return cells


def told_cells(timeline) -> dict[int, dict[str, int]]:
    return {
        number(row["device"]): {cell: row[cell] for cell in CELLS[1:] if row[cell]}
        for row in records(partition(timeline))
    }


def told_collectives(timeline) -> list[tuple[int, int, int]]:
    """Transfer, time waited and last rank of each."""
    table = collectives(timeline).table.sort_values("last_start_ps")
    return [
        (int(transfer), int(wait), number(last))
        for transfer, wait, last in zip(table["transfer_ps"], table["wait_ps"], table["last"], strict=True)
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_format_gives_the_true_times_of_a_random_job(seed, tmp_path):
    truth = Truth(random_job(seed))
    walls = [end - start for start, end in truth.steps()]
    known = [
        (each.transfer * NS, sum(each.waiting.values()) * NS, each.last_rank)
        for each in truth.collectives()
        if len(each.waiting) > 1
    ]
    for trace_format, write in FORMATS.items():
        timeline = timeline_of(read(write(truth, tmp_path / trace_format, WHOLE)))
        assert told_cells(timeline) == known_cells(truth), trace_format
        assert told_collectives(timeline) == known, trace_format
        table = steps(timeline).table
        assert table["step"].tolist() == list(range(truth.job.steps)), trace_format
        # Before the first step no row says when it began.
        assert (table["wall_ps"][1:] // NS).tolist() == walls[1:], trace_format


# Jobs of two, four and six ranks whose profilers record what each wait is for; and one whose do not.
RECORDED, UNRECORDED = (102, 103, 108, 121), 101


def reasons(truth: Truth, trace_format: str, folder) -> tuple[list, list, list]:
    """What the paths of the steps are made of, what-ifs, and idle time by cause; times in ns."""
    told = explain(read(FORMATS[trace_format](truth, folder / trace_format, WHOLE)))
    path, what_if, idle = told.critical_path.composition, told.critical_path.what_if, told.idle.by_cause
    parts = [(row["at"], row["part"], row["time_ps"] // NS) for row in records(path) if row["time_ps"]]
    cases = [(row["what"], row["predicted_ps"]) for row in records(what_if) if row["name"] is None]
    return parts, cases, [(row["cause"], row["gaps"], row["idle_ps"] // NS) for row in records(idle)]


@pytest.mark.parametrize("seed", [*RECORDED, UNRECORDED])
def test_reasons_are_the_same_in_every_format_that_records_as_much(seed, tmp_path):
    truth = Truth(random_job(seed))
    assert truth.job.has_sync_records == (seed in RECORDED)
    told = {trace_format: reasons(truth, trace_format, tmp_path) for trace_format in FORMATS}
    assert all(all(each) for each in told.values())
    assert told["xspace"] == told["jax-json"]
    assert len({str(idle) for *_, idle in told.values()}) == 1
    if seed in RECORDED:
        # That NCCL's communicator was made before the first step, only Nsight Systems records.
        paths = [[part for part in told[each][0] if part[0] > 0] for each in ("kineto", "nsys")]
        assert paths[0] == paths[1]
    else:
        assert told["kineto"] == told["xspace"]
