"""Launches as the report shows them: whether the host kept up, queue depth, latency, and kernels that are too small."""

from typing import Any

from tracekit.analysis.launches import Launches
from tracekit.columns import records
from tracekit.report.section import Column, Missing, Section, Table, Unit, instant, plain, table
from tracekit.units import count, mean, percent, time

# Rows that a face without limits shows, and rows in summary.json of each long list.
_MOST, _KEPT = 40, 1000
# Shares below this are not worth a sentence.
_WORTH = 0.01


def section(result: Launches) -> Section:
    """The device that was starved most, the costliest small kernels and the latencies; then the tables."""
    if result.lacking:
        return Section("launches", "Launches", lacking=result.lacking)
    return Section("launches", "Launches", _sentences(result), tables=_tables(result), data=_data(result))


def _sentences(result: Launches) -> tuple[str, ...]:
    queues = [row for row in records(result.queue) if row["span_ps"]]
    sentences = []
    worst = max(queues, key=lambda row: row["starved_ratio"], default=None)
    if worst and worst["starved_ratio"] >= _WORTH:
        sentences.append(
            f"{worst['device']} was starved (idle, with an empty launch queue) {percent(worst['starved_ratio'])} of "
            f"its time; {mean(worst['mean'])} launches were queued on average, at most {count(worst['max'])}."
        )
    elif worst:
        sentences.append(f"Launches kept up: no device was starved for more than {percent(_WORTH)} of its time.")
    small = [row for row in records(result.tiny_by_device) if row["cost_ps"] and row["cost_ratio"] >= _WORTH]
    if small:
        worst = max(small, key=lambda row: row["cost_ratio"])
        sentences.append(
            f"{count(worst['kernels'])} kernels of {worst['device']} ({percent(worst['of_kernels_ratio'])}) take less "
            f"than the host's time per launch: fusing them would save at most {time(worst['cost_ps'])} "
            f"({percent(worst['cost_ratio'])} of its time)."
        )
    negative = int(result.by_device["negative"].sum())
    if negative:
        sentences.append(
            f"{count(negative)} of {count(result.by_device['n'].sum())} launches seem to start after their work: the "
            "clocks of host and device disagree, so these launches are left out."
        )
    return tuple(sentences)


def _tables(result: Launches) -> tuple[Table, ...]:
    queues = sorted(records(result.queue), key=lambda row: -row["starved_ps"])
    tables = [
        table(
            "launches.queue",
            "Launch queue depth",
            [
                Column("device", Unit.NAME),
                Column("mean", Unit.MEAN),
                Column("max", Unit.COUNT),
                Column("empty", Unit.RATIO),
                Column("starved", Unit.RATIO),
            ],
            [(row["device"], row["mean"], row["max"], row["empty_ratio"], row["starved_ratio"]) for row in queues],
        ),
        table(
            "launches.latency",
            "Launch latency",
            [
                Column("call", Unit.NAME),
                Column("launches", Unit.COUNT),
                Column("median", Unit.TIME),
                Column("p90", Unit.TIME),
                Column("p99", Unit.TIME),
            ],
            [(row["call"], row["n"], *_latencies(row)) for row in records(result.by_call.head(_MOST))],
        ),
    ]
    bound = result.bound.sort_values("starved_ps", ascending=False, kind="stable").head(_MOST)
    if len(bound):
        tables.append(
            table(
                "launches.bound",
                "Launch-bound stretches",
                [
                    Column("device", Unit.NAME),
                    Column("at", Unit.INSTANT),
                    Column("time", Unit.TIME),
                    Column("launches", Unit.COUNT),
                    Column("starved", Unit.TIME, brief=False),
                    Column("of it starved", Unit.RATIO),
                ],
                [
                    (
                        row["device"],
                        instant(row, row["device"]),
                        row["end_ps"] - row["start_ps"],
                        row["launches"],
                        row["starved_ps"],
                        row["starved_ratio"],
                    )
                    for row in records(bound)
                ],
            )
        )
    small = [row for row in records(result.tiny.head(_MOST)) if row["cost_ps"]]
    if small:
        tables.append(
            table(
                "launches.small",
                "Kernels shorter than their launch",
                [
                    Column("kernel", Unit.NAME),
                    Column("n", Unit.COUNT),
                    Column("time", Unit.TIME),
                    Column("max. saving", Unit.TIME),
                ],
                [(row["name"], row["kernels"], row["time_ps"], row["cost_ps"]) for row in small],
            )
        )
    return tuple(tables)


def _latencies(row: dict[str, Any]) -> list[Any]:
    if row["negative"] == row["n"]:
        return [Missing("all of them seem to start after their work")] * 3
    return [row["median_ps"], row["p90_ps"], row["p99_ps"]]


def _data(result: Launches) -> dict[str, object]:
    return {
        "by_device": plain(result.by_device),
        "by_call": plain(result.by_call[:_KEPT]),
        "queue": plain(result.queue),
        "bound": plain(result.bound[:_KEPT]),
        "bound_total": len(result.bound),
        "threads": plain(result.threads[:_KEPT]),
        "tiny": plain(result.tiny[:_KEPT]),
        "tiny_total": len(result.tiny),
        "tiny_by_device": plain(result.tiny_by_device),
    }
