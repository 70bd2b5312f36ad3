"""Traces of many devices for tests: hosts of eight GPUs that compute, then meet in an all-reduce, step by step."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.stepped import annotations
from tracekit.columns import frame
from tracekit.trace import EVENT_COLUMNS, Trace

A_HOST = 8


class Fleet(NamedTuple):
    """The `trace`, and of each device and step, shape (devices, steps), in ps: when it `begins` to compute, is `ready`
    for the all-reduce of the step, and leaves it at its `end`."""

    trace: Trace
    names: list[str]
    begins: NDArray[np.int64]
    ready: NDArray[np.int64]
    end: NDArray[np.int64]


def fleet(devices: int, compute_ps: NDArray[np.int64], transfer_ps: int = 1_000, gap_ps: int = 500) -> Fleet:
    """`devices` that compute for `compute_ps` (devices, steps), all-reduce in `transfer_ps` after the last came, and
    begin the next step `gap_ps` after that."""
    steps = compute_ps.shape[1]
    hosts = [f"host{device // A_HOST:04}" for device in range(devices)]
    names = [f"{host}/gpu:{device % A_HOST}" for device, host in enumerate(hosts)]
    slowest = compute_ps.max(axis=0)
    start = np.append(0, np.cumsum(slowest + transfer_ps + gap_ps)[:-1])
    begins = np.broadcast_to(start, compute_ps.shape)
    ready = begins + compute_ps
    end = np.broadcast_to(start + slowest + transfer_ps, compute_ps.shape)
    n = devices * steps
    both = np.ones(2, bool)
    events = frame(
        EVENT_COLUMNS,
        {
            "host": np.repeat(hosts, 2 * steps),
            "device": np.repeat(names, 2 * steps),
            "lane": np.tile(["compute", "nccl"], n),
            "kind": np.tile(["compute", "collective"], n),
            "name": np.tile(["gemm", "all-reduce"], n),
            "start_ps": np.stack([begins, ready], axis=2).ravel(),
            "end_ps": np.stack([ready, end], axis=2).ravel(),
            "hlo_op": np.tile(["dot.1", "all-reduce.1"], n),
            "hlo_module": ["jit_step"] * (2 * n),
            "category": np.tile(["dot", "all-reduce"], n),
            "known_by": ["opcode"] * (2 * n),
            "run_id": np.repeat(np.tile(np.arange(steps), devices), len(both)),
        },
    )
    marks = [("train", step, int(start[step]), int(end[0, step])) for step in range(steps)]
    # The annotations of one host stand for all: they share a clock.
    spans = annotations(*marks, host=hosts[0])
    return Fleet(Trace(events, spans=spans, source="traces/fleet", format="xplane"), names, begins, ready, end)


def with_stragglers(devices: int, steps: int, slow: dict[int, float], seed: int = 0) -> Fleet:
    """A fleet whose devices compute for about a millisecond a step, those in `slow` that many times as long."""
    rng = np.random.default_rng(seed)
    compute_ps = rng.integers(990_000_000, 1_010_000_000, (devices, steps))
    for device, times in slow.items():
        compute_ps[device] = (compute_ps[device] * times).astype(np.int64)
    return fleet(devices, compute_ps, transfer_ps=80_000_000, gap_ps=40_000_000)
