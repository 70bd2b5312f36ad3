"""Launches as the report shows them: whether the host kept up, queue depth, latency, and kernels that are too small."""

from typing import Any

from tracekit.analysis.launches import Launches
from tracekit.columns import records
from tracekit.report.section import MOST_DATA, MOST_ROWS, Field, Missing, Section, Table, Unit, instant, plain, table_of
from tracekit.units import count, mean, percent, time

# Shares below this are not worth a sentence.
_WORTH = 0.01


def section(result: Launches) -> Section:
    """The device that was starved most, the costliest small kernels and the latencies; then the tables."""
    if result.lacking:
        return Section("launches", "Launches", lacking=result.lacking)
    return Section("launches", "Launches", _sentences(result), tables=_tables(result), data=_data(result))


def _sentences(result: Launches) -> tuple[str, ...]:
    # A device that nothing was launched for in this part need not have been wanted there.
    worked = set(result.by_device.loc[result.by_device["n"] > 0, "device"])
    queues = [row for row in records(result.queue) if row["span_ps"] and row["device"] in worked]
    sentences = []
    worst = max(queues, key=lambda row: row["starved_ratio"], default=None)
    if worst and worst["starved_ratio"] >= _WORTH:
        sentences.append(
            f"{worst['device']} was starved (idle, with an empty launch queue) for {percent(worst['starved_ratio'])} "
            f"of its time. {_queue(worst)}"
        )
    elif worst:
        sentences.append(f"The host kept up: no device was starved for more than {percent(_WORTH)} of its time.")
    small = [row for row in records(result.tiny_by_device) if row["cost_ps"] and row["cost_ratio"] >= _WORTH]
    if small:
        worst = max(small, key=lambda row: row["cost_ratio"])
        sentences.append(
            f"{count(worst['kernels'])} kernels on {worst['device']} ({percent(worst['of_kernels_ratio'])}) are "
            f"shorter than the host's time per launch: fusing them would save at most {time(worst['cost_ps'])} "
            f"({percent(worst['cost_ratio'])} of its time)."
        )
    negative = int(result.by_device["negative"].sum())
    if negative:
        sentences.append(
            f"{count(negative)} of {count(result.by_device['n'].sum())} launches seem to start after their work: "
            "the clocks of host and device disagree, so these launches are left out."
        )
    return tuple(sentences)


def _queue(row: dict[str, Any]) -> str:
    if not row["max"]:
        return "Nothing ever waited in its queue."
    average = "fewer than 0.01" if mean(row["mean"]) == "0.00" else mean(row["mean"])
    return f"Its queue held {average} launches on average, at most {count(row['max'])}."


def _tables(result: Launches) -> tuple[Table, ...]:
    bound = result.bound.sort_values("starved_ps", ascending=False, kind="stable").head(MOST_ROWS)
    small = result.tiny.head(MOST_ROWS)
    summed = ", summed over devices" if len(result.tiny_by_device) > 1 else ""
    return (
        table_of(
            result.queue.sort_values("starved_ps", ascending=False, kind="stable"),
            "launches.queue",
            "Launch queue depth",
            [
                Field("device", Unit.DEVICE, "device"),
                Field("mean", Unit.MEAN, "mean"),
                Field("max", Unit.COUNT, "max"),
                Field("empty", Unit.RATIO, "empty_ratio"),
                Field("starved", Unit.RATIO, "starved_ratio"),
            ],
        ),
        table_of(
            result.by_call.head(MOST_ROWS),
            "launches.latency",
            "Launch latency",
            [
                Field("call", Unit.NAME, "call"),
                Field("launches", Unit.COUNT, "n"),
                Field("median", Unit.TIME, lambda row: _latency(row, "median_ps")),
                Field("p90", Unit.TIME, lambda row: _latency(row, "p90_ps")),
                Field("p99", Unit.TIME, lambda row: _latency(row, "p99_ps")),
            ],
        ),
        table_of(
            bound,
            "launches.bound",
            "Launch-bound intervals",
            [
                Field("device", Unit.DEVICE, "device"),
                Field("at", Unit.INSTANT, lambda row: instant(row, row["device"])),
                Field("time", Unit.TIME, lambda row: row["end_ps"] - row["start_ps"]),
                Field("launches", Unit.COUNT, "launches"),
                Field("starved", Unit.TIME, "starved_ps", brief=False),
                Field("of it starved", Unit.RATIO, "starved_ratio"),
            ],
        ),
        table_of(
            small[small["cost_ps"].astype(bool)],
            "launches.small",
            f"Kernels shorter than their launch{summed}",
            [
                Field("kernel", Unit.NAME, "name"),
                Field("n", Unit.COUNT, "kernels"),
                Field("time", Unit.TIME, "time_ps"),
                Field("max. saving", Unit.TIME, "cost_ps"),
            ],
        ),
    )


def _latency(row: dict[str, Any], key: str) -> Any:
    return Missing("all of them seem to start after their work") if row["negative"] == row["n"] else row[key]


def _data(result: Launches) -> dict[str, object]:
    return {
        "by_device": plain(result.by_device),
        "by_call": plain(result.by_call[:MOST_DATA]),
        "queue": plain(result.queue),
        "bound": plain(result.bound[:MOST_DATA]),
        "bound_total": len(result.bound),
        "threads": plain(result.threads[:MOST_DATA]),
        "tiny": plain(result.tiny[:MOST_DATA]),
        "tiny_total": len(result.tiny),
        "tiny_by_device": plain(result.tiny_by_device),
    }
