"""Any part of any small trace: a report says what is there, and no combination of what may be asked for ends it."""

import random

import pytest

import tracekit
from tracekit.columns import frame
from tracekit.errors import TracekitError
from tracekit.timeline.unions import CELLS
from tracekit.trace import EVENT_COLUMNS, LAUNCH_COLUMNS, SPAN_COLUMNS, SYNC_COLUMNS, Trace

KINDS = ("compute", "collective", "memcpy", "memset")


def table(columns, rows):
    """A frame of rows that lack some of its columns."""
    return frame(columns, [tuple(row.get(column) for column in columns) for row in rows])


def trace(rng):
    """One to three hosts with work that overlaps, has no length, or is of one kind only, or with none."""
    hosts = rng.choice([["h"], ["rank0", "rank1"], ["rank0", "rank1", "rank2"]])
    unit = rng.choice([1, 1000, 10**6])
    rows, calls, marks, waits = [], [], [], []

    def timed(host, start, length, **what):
        return {"host": host, "start_ps": start * unit, "end_ps": (start + length) * unit, **what}

    for host in hosts:
        prefix, kinds = ("" if len(hosts) == 1 else f"{host}/"), rng.choice([KINDS, ("memcpy", "memset"), ("compute",)])
        for _ in range(rng.choice([0, 3, 12, 25])):
            kind, start, number = rng.choice(kinds), rng.randint(-20, 60), len(rows) + 1
            direction = rng.choice(["H2D", "D2H", "P2P", None]) if kind == "memcpy" else None
            device, lane = f"{prefix}gpu:{rng.randint(0, len(hosts) == 1)}", f"stream {rng.randint(0, 2)}"
            what = {"kind": kind, "name": f"op{rng.randint(0, 3)}", "direction": direction}
            what |= {"device": device, "lane": lane, "correlation_id": number}
            rows.append(timed(host, start, rng.choice([0, 1, 5, 25]), **what))
            called = {"process": "1", "thread": f"thread {rng.randint(0, 1)}", "name": "cudaLaunchKernel"}
            calls.append(timed(host, start - rng.randint(-2, 9), rng.randint(0, 2), **called, correlation_id=number))
        for _ in range(rng.randint(0, 6)):
            step = rng.choice([None, rng.randint(0, 3)])
            mark = {"process": "1", "thread": "thread 0", "name": "step" if step is not None else rng.choice("abc")}
            mark |= {"step": step, "tracekit": rng.choice(["phase", None]) if step is None else None}
            marks.append(timed(host, rng.randint(-30, 70), rng.choice([0, 1, 9, 40]), **mark))
        for _ in range(rng.randint(0, 2)):
            wait = {
                "process": "1",
                "thread": "thread 0",
                "name": "cudaStreamSynchronize",
                "on_device": f"{prefix}gpu:0",
            }
            waits.append(timed(host, rng.randint(0, 60), rng.randint(0, 9), **wait))
    whole = Trace(
        table(EVENT_COLUMNS, rows),
        spans=table(SPAN_COLUMNS, marks),
        launches=table(LAUNCH_COLUMNS, calls),
        syncs=table(SYNC_COLUMNS, waits),
        source="any",
    )
    return whole, unit, sorted({row["device"] for row in rows}), sorted({mark["name"] for mark in marks} - {"step"})


def asked(rng, unit, devices, names):
    """A part of the trace, devices and phases, as `analyse` takes them."""
    start = rng.randint(-20, 60)
    parts = [{}, {"start": start * unit, "end": (start + rng.randint(1, 30)) * unit}, {"step": rng.randint(0, 3)}]
    parts += [{"phase": rng.choice(names)}] if names else []
    how = rng.choice(parts)
    if devices and rng.random() < 0.2:
        how |= {"devices": rng.sample(devices, 1)}
    if names and rng.random() < 0.4:
        how |= {"phases": rng.sample(names, 1)}
    return how


@pytest.mark.parametrize("seed", range(8))
def test_a_report_of_any_part_adds_up_or_is_refused_in_a_sentence(seed):
    told = 0
    for number in range(25):
        rng = random.Random(1000 * seed + number)
        whole, *rest = trace(rng)
        how = asked(rng, *rest)
        try:
            report = tracekit.analyse(whole, **how)
        except TracekitError:
            continue
        report.summary()
        partition = report.whole.partition
        assert (partition[[*CELLS]].sum(axis=1) == partition["window_ps"]).all(), how
        told += len(partition) > 0
    assert told >= 8
