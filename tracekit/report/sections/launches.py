"""How the launches kept up, as the report shows it: queues, delays, stretches bound by launches, and tiny kernels."""

from typing import Any

from tracekit.analysis.launches.launches import Launches
from tracekit.columns import records
from tracekit.report.section import Section, Titled, plain
from tracekit.units import percent, short, time

# What stands in the tables, and in summary.json of each long list.
_SHOWN, _KEPT = 8, 1000
# Shares below this are not worth a sentence.
_WORTH = 0.01
_NAME = 34


def section(result: Launches) -> Section:
    """The hungriest device, the costliest tiny kernels and the delays; then the tables."""
    if result.lacking:
        return Section("launches", "Host launches", lacking=result.lacking)
    return Section("launches", "Host launches", _said(result), _tables(result), _data(result))


def _said(result: Launches) -> list[str]:
    queues = [one for one in records(result.queue) if one["span_ps"]]
    said = []
    worst = max(queues, key=lambda one: one["starved_ratio"], default=None)
    if worst and worst["starved_ratio"] >= _WORTH:
        said.append(
            f"{worst['device']} was idle with nothing launched {percent(worst['starved_ratio'])} of its time; "
            f"{worst['mean']:.1f} launches were queued on average, {worst['max']} at most."
        )
    elif worst:
        said.append(f"The launches kept up: no device idled with nothing launched for {percent(_WORTH)} of its time.")
    tiny = [one for one in records(result.tiny_by_device) if one["cost_ps"] and one["cost_ratio"] >= _WORTH]
    if tiny:
        worst = max(tiny, key=lambda one: one["cost_ratio"])
        said.append(
            f"{worst['kernels']} kernels of {worst['device']} ({percent(worst['of_kernels_ratio'])}) are shorter than "
            f"the host's time per launch; fusing them would save at most {time(worst['cost_ps'])}, "
            f"{percent(worst['cost_ratio'])} of its time."
        )
    negative = int(result.by_device["negative"].sum())
    if negative:
        said.append(
            f"{negative} of {int(result.by_device['n'].sum())} launches seem to start after their work: the clocks of "
            "host and device disagree, and these count in no figure."
        )
    return said


def _tables(result: Launches) -> list[Titled]:
    queues = [
        [
            str(one["device"]),
            "-" if one["mean"] is None else f"{one['mean']:.1f}",
            str(one["max"]),
            percent(one["empty_ratio"]),
            percent(one["starved_ratio"]),
        ]
        for one in sorted(records(result.queue), key=lambda one: -one["starved_ps"])[:_SHOWN]
    ]
    tables = [
        ("Launched, not started", ["device", "mean", "most", "none", "none, and idle"], queues),
        ("From launch to start", ["call", "launches", "median", "p90", "p99"], _delays(result)),
    ]
    if len(result.bound):
        bound = [
            [
                str(one["device"]),
                time(one["start_ps"]),
                time(one["end_ps"] - one["start_ps"]),
                str(one["launches"]),
                percent(one["starved_ratio"]),
            ]
            for one in sorted(records(result.bound), key=lambda one: -one["starved_ps"])[:_SHOWN]
        ]
        tables.append(("Stretches bound by launches", ["device", "at", "time", "launches", "idle, none"], bound))
    tiny = [
        [short(one["name"], _NAME), str(one["kernels"]), time(one["time_ps"]), time(one["cost_ps"])]
        for one in records(result.tiny)[:_SHOWN]
        if one["cost_ps"]
    ]
    if tiny:
        tables.append(("Kernels shorter than a launch takes", ["name", "n", "time", "cost at most"], tiny))
    return tables


def _delays(result: Launches) -> list[list[str]]:
    def quantile(one: dict[str, Any], key: str) -> str:
        return "-" if one["median_ps"] is None or one["negative"] == one["n"] else time(one[key])

    return [
        [
            short(one["call"], _NAME),
            str(one["n"]),
            quantile(one, "median_ps"),
            quantile(one, "p90_ps"),
            quantile(one, "p99_ps"),
        ]
        for one in records(result.by_call)[:_SHOWN]
    ]


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
