"""The machine as the report shows it: what it did besides the program, and how fast its cores ran."""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from tracekit.analysis.machine import Machine
from tracekit.columns import records
from tracekit.report.section import Field, Missing, Section, Table, Unit, or_missing, plain, table_of
from tracekit.units import count, mean, quantity, time

# Less of a core is not worth a word.
_WORTH = 0.05


def section(result: Machine) -> Section:
    """Who used the cores, then what slowed them down; the table has each phase."""
    title = "Load of the machine"
    if result.lacking:
        return Section("machine", title, lacking=result.lacking)
    return Section("machine", title, _sentences(result), tables=(_table(result),), data=_data(result))


def taken(row: Mapping[str, Any]) -> str:
    """Who used how many of the cores: the begin of a sentence about a row of the load."""
    stolen = row["stolen_cores"]
    withheld = f", and other virtual machines {mean(stolen)}," if stolen >= _WORTH else ""
    return f"Other processes used {mean(row['other_cores'])}{withheld} of {quantity(row['cores'], 'core')}"


def _sentences(result: Machine) -> tuple[str, ...]:
    (whole, *_) = records(result.load)
    if pd.isna(whole["other_cores"]):
        why = result.reasons.get("cpu", "it was too short")
        use = f"What other processes did during the capture is not known: {why}."
    else:
        busy = " Its times are those of a busy machine." if whole["is_busy"] else ""
        use = f"{taken(whole)} during the capture, the program {mean(whole['own_cores'])}.{busy}"
    sentences = [use]
    if result.throttled_periods:
        sentences.append(
            f"The quota of a cgroup stopped the program in {quantity(result.throttled_periods, 'period')}, for "
            f"{time((result.throttled_s or 0) * 10**12)} in all: its times are those of the quota."
        )
    facts = []
    if result.load_average:
        facts.append(f"load average {' to '.join(dict.fromkeys(map(mean, result.load_average)))}")
    if pd.notna(whole["frequency_mhz"]):
        facts.append(f"median frequency of the cores {count(round(whole['frequency_mhz']))} MHz")
    if facts:
        text = "; ".join(facts)
        sentences.append(f"{text[0].upper()}{text[1:]}.")
    return tuple(sentences)


def _table(result: Machine) -> Table:
    reason = result.reasons.get("cpu", "the capture was too short")

    def used(who: str) -> Callable[[dict[str, Any]], Any]:
        return lambda row: or_missing(row[f"{who}_cores"], reason)

    rows = records(result.load)
    return table_of(
        rows,
        "machine",
        "Cores used on average",
        [
            Field("during", Unit.NAME, lambda row: row["phase"] if pd.notna(row["phase"]) else "the capture"),
            Field("cores", Unit.COUNT, "cores"),
            Field("own processes", Unit.MEAN, used("own")),
            Field("other processes", Unit.MEAN, used("other")),
            Field("other machines", Unit.MEAN, used("stolen")),
            Field("too few left", Unit.TEXT, lambda row: "yes" if row["is_busy"] else Missing()),
        ],
        len(rows) if result.load["is_busy"].any() else 0,
    )


def _data(result: Machine) -> dict[str, Any]:
    return {
        "load": plain(result.load),
        "load_average": list(result.load_average),
        "throttled_periods": result.throttled_periods,
        "throttled_s": result.throttled_s,
        "reasons": dict(result.reasons),
    }
