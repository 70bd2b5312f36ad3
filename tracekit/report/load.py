"""A report that was saved, read back: one of this version as it was, one of schema 1 as far as it goes."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tracekit.analysis.advice import Advice, Finding
from tracekit.analysis.explain import ANALYSES
from tracekit.analysis.overlap import Stretch
from tracekit.columns import frame
from tracekit.devices import type_of
from tracekit.errors import TracekitError
from tracekit.readers import formats
from tracekit.report.build import analyse
from tracekit.report.model import Origin, Report
from tracekit.report.storage import REMEDY, SUMMARY, dtypes, read, restore
from tracekit.trace import EVENT_COLUMNS, Trace


def load(directory: str | os.PathLike[str]) -> Report:
    """The report that was saved into `directory`: equal to the one that was saved.

    A summary.json of schema 1 gives what it holds; what it lacks is empty, and `lacking` says why. Raises TracekitError
    where there is none, or where it is of a schema that this version does not know.
    """
    document = read(directory)
    return _of_schema_1(document, Path(directory)) if document["schema"] == 1 else restore(Report, document, directory)


def _of_schema_1(document: Mapping[str, Any], place: Path) -> Report:
    """The report in a summary.json of schema 1, which has no frames: its tables, figures and sentences; of the
    explanation only the findings."""
    empty = analyse(Trace(frame(EVENT_COLUMNS)))
    why = f"{place / SUMMARY} is of schema 1, which does not hold this. {REMEDY}"
    try:
        explanation = replace(
            empty.explanation,
            **{
                task.name: replace(
                    getattr(empty.explanation, task.name), lacking=document["lacking"].get(task.name, why)
                )
                for task in ANALYSES
            },
        )
        devices = [{**device, **device["partition"]} for device in document["devices"]]
        counts = [
            {"device": device["device"], "kind": kind, "intervals": device["kinds"][key]["intervals"]}
            for device in devices
            for kind, key in (("compute", "compute"), ("collective", "collective"), ("memcpy", "memory"))
        ]
        window = document["trace"]["window_ps"]
        start = devices[0]["window_start_ps"] if devices else 0
        verdicts, phase_names = document["verdicts"], [phase["name"] for phase in document["phases"]]
        stretches = [{"name": phase["name"], **row} for phase in document["phases"] for row in phase["stretch"]]
        return replace(
            empty,
            trace=Origin(
                source=document["trace"]["source"],
                format=document["trace"]["format"],
                hosts=tuple(document["trace"]["hosts"]),
                runs=tuple(document["trace"]["runs"]),
                models=(),
                clocks=_like(empty.trace.clocks, document["trace"]["clocks"]),
                intervals=_like(empty.trace.intervals, counts),
            ),
            windows={} if window is None else {"": np.array([[start, start + window]], np.int64)},
            clock_of={device["device"]: "" for device in devices},
            whole=replace(_stretch_of(empty.whole, document), partition=_like(empty.whole.partition, devices)),
            phasing=replace(
                empty.phasing,
                table=_like(empty.phasing.table, document["phases"]),
                stretch=_like(empty.phasing.stretch, stretches),
            ),
            inside={
                phase["name"]: _stretch_of(replace(empty.whole, name=phase["name"]), phase)
                for phase in document["phases"]
            },
            verdict=next((verdicts[name] for name in verdicts if name not in phase_names), None),
            verdicts={name: verdicts[name] for name in phase_names},
            headline=document["headline"],
            notes=(*document["notes"], why),
            known_by=_like(empty.known_by, document["known_by"]),
            guessed=_like(empty.guessed, document["guessed"]),
            explanation=explanation,
            advice=_advice(document),
            compared=tuple(document["compared"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise TracekitError(f"{place / SUMMARY} is damaged: {error!r}. {REMEDY}") from None


def _advice(document: Mapping[str, Any]) -> Advice:
    types = {type_of(device["device"]) for device in document["devices"]}
    form = formats.by_name(document["trace"]["format"])
    findings = document["findings"] or ()
    return Advice(
        tuple(Finding(row["rule"], row["cost_ps"], row["share"], row["evidence"]) for row in findings),
        backend=types.pop() if len(types) == 1 else "",
        xla=form is not None and form.xla,
    )


def _like(table: pd.DataFrame, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The rows as a frame with the columns of `table`."""
    return frame(dtypes(table), {name: [row[name] for row in rows] for name in table.columns})


def _stretch_of(empty: Stretch, document: Mapping[str, Any]) -> Stretch:
    """A stretch with the tables that schema 1 holds of each."""
    times = document["concurrency"] or []
    return replace(
        empty,
        overlap=_like(empty.overlap, document["overlap"]),
        pairs=_like(empty.pairs, document["device_pairs"]),
        concurrency=frame(dtypes(empty.concurrency), {"devices": range(len(times)), "time_ps": times}),
    )
