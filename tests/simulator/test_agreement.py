"""All readers and analyses give the same answer on one job, whatever format it is in, and that answer is the truth."""

import itertools
import re

import pytest

from tests.simulator.clocks import WHOLE
from tests.simulator.job import DEVICE_SORTS, Sort
from tests.simulator.random_jobs import random_job
from tests.simulator.truth import Truth
from tests.simulator.writers import FORMATS
from tracekit.analysis.collectives import collectives
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
