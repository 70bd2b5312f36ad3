"""What a trace holds: hosts and clocks, devices, host spans, launches, what its rows carry; and what it lacks."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import pandas as pd

from tracekit import intervals as iv
from tracekit.analysis.annotations import annotations
from tracekit.analysis.classification import known_by
from tracekit.analysis.completeness import completeness, unknown_shares
from tracekit.columns import records
from tracekit.devices import known_first, natural, type_of
from tracekit.readers import formats
from tracekit.readers.formats import Recording
from tracekit.timeline.timeline import Source, Timeline, timeline_of
from tracekit.trace import Trace
from tracekit.vocabulary.kinds import Kind
from tracekit.vocabulary.losses import Loss, unanswered
from tracekit.vocabulary.ranks import process_number

SCHEMA = 1
# Where the devices are there, and only their work is not.
# Of a program that gives each span a name of its own; what comes first in `annotations` is listed.
MOST_NAMES = 10_000
_NO_WORK = "start the profile before the work, and end it when the results are there"


@dataclass(frozen=True)
class Clock:
    """Hosts whose times may be compared, and what the trace shows on their clock, in ps since the trace began.

    `name` is "" where all hosts share one clock. [start_ps, end_ps) reaches from the first to the last event of any
    kind, [device_start_ps, device_end_ps) from the first to the last on a device; None where there is none.
    `began_ns` is the Unix time of `start_ps`, None where no file says. To fit this clock, times were shifted by at
    most `shift_ps` at time 0, and a drift of at most `drift_ppm` was taken out; `residual_ps` is the largest
    difference left. None where nothing was compared.
    """

    name: str
    hosts: tuple[str, ...]
    start_ps: int | None
    end_ps: int | None
    device_start_ps: int | None
    device_end_ps: int | None
    began_ns: int | None
    shift_ps: int | None
    drift_ppm: float | None
    residual_ps: int | None


@dataclass(frozen=True)
class Device:
    """One device: its rows by kind, and its busy time in the window [first, last row) of all devices on its clock.

    `window_ps` is None where no device on its clock has rows, or too few for a share of it.
    """

    device: str
    host: str | None
    model: str | None
    lanes: int
    rows: Mapping[str, int]
    busy_ps: int
    window_ps: int | None


@dataclass(frozen=True)
class Spans:
    """The named host spans: how many, of how many names, on how many threads, which phases, how many steps."""

    count: int
    names: int
    threads: int
    phases: tuple[str, ...]
    steps: int


@dataclass(frozen=True)
class Annotation:
    """A phase, the steps of one name, or an annotation: a row of `tracekit.annotations`, null as None."""

    kind: str
    name: str
    host: str | None
    thread: str | None
    threads: int
    count: int
    total_ps: int
    median_ps: int
    first_step: int | None
    last_step: int | None


@dataclass(frozen=True)
class Share:
    """How many of `of` rows have something."""

    have: int
    of: int


@dataclass(frozen=True)
class Contents:
    """All that `tracekit read` says.

    `carried`: of how many rows something is known. `kinds_known_by`: what told the kinds of the work (kinds.KnownBy) of
    which share of the busy time; empty without any. `missing`: what is not there.
    """

    source: str
    format: str
    files: int
    runs: tuple[str, ...]
    clocks: tuple[Clock, ...]
    devices: tuple[Device, ...]
    spans: Spans
    annotations: tuple[Annotation, ...]
    launches: int
    carried: Mapping[str, Share]
    kinds_known_by: Mapping[str, float]
    missing: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def data(self) -> dict[str, Any]:
        """The same as dicts and lists, for JSON; keys are only added within a schema."""
        return {"schema": SCHEMA, **asdict(self)}


def contents(source: Source) -> Contents:
    """What a trace holds; one without rows of any kind is as good as any other."""
    timeline = timeline_of(source)
    trace = timeline.trace
    of_host = {host: timeline.clock_of_host[host] for host in sorted(timeline.clock_of_host, key=natural)}
    partial, devices = unknown_shares(timeline), _devices(timeline, of_host)
    named, notes = annotations(timeline), trace.notes
    if len(named) > MOST_NAMES:
        of_all = f"Of {len(named):,} names of phases, steps and annotations the first {MOST_NAMES:,} are listed"
        notes = (*notes, f"{of_all}; tracekit.annotations gives all.")
    if partial:
        devices = tuple(replace(device, window_ps=None) for device in devices)
    return Contents(
        source=trace.source,
        format=trace.format,
        files=len(trace.hosts),
        runs=trace.runs,
        clocks=_clocks(trace, of_host),
        devices=devices,
        spans=_spans(timeline.spans),
        annotations=tuple(Annotation(**row) for row in _values(named.head(MOST_NAMES))),
        launches=len(trace.launches),
        carried=_carried(timeline),
        kinds_known_by={} if partial else _known_by(timeline),
        missing=(
            *([partial] if partial and len(trace.events) else []),
            *filter(None, [completeness(timeline).absent]),
            *_missing(timeline),
        ),
        notes=notes,
    )


def no_device_work(source: Source) -> str | None:
    """The sentence that says that no device worked in a trace, or a part of one, and why; None where one did."""
    timeline = timeline_of(source)
    trace, events = timeline.trace, timeline.trace.events
    if len(events):
        if (events["end_ps"] > events["start_ps"]).any():
            return None
        return "All device events have zero length: the trace says that they ran, but not for how long."
    recorded = timeline.recorded
    launched = recorded.trace.losses[recorded.trace.losses["what"] == Loss.LAUNCHED]
    for loss in records((launched if len(launched) else recorded.lost_launches).head(1)):
        if loss["lost"] == loss["total"]:
            why = f": {loss['evidence']}" if loss.get("evidence") else ""
            return f"{unanswered(loss['lost'], loss['total'])}{why}."
    if missing := completeness(recorded).rows:
        return f"No work of a device is known. {missing}"
    if not (len(trace.spans) or len(trace.launches) or len(trace.devices)):
        what = "The trace holds neither device work nor named host spans"
    elif len(trace.devices):
        return f"The trace names devices, but holds none of their events; for the next one, {_NO_WORK}."
    else:
        what = "The trace holds no device work, only host threads"
    advice = _recording(trace).device_work
    return f"{what}; for the next one, {advice}." if advice else f"{what}."


def one_rank(timeline: Timeline) -> str:
    """What the trace holds, for a verdict, where that is one rank of a job or one device; "" where it is more, whatever
    part of it was asked for."""
    rows, named = timeline.recorded.rows, len(timeline.recorded.trace.devices)
    hosts = {host for host, is_placed in zip(rows.hosts, rows.placed, strict=True) if is_placed}
    process, ranks = process_number(next(iter(hosts), "")), timeline.recorded.world_size or 1
    if len(hosts) == 1 and process and process[0] == "rank" and ranks > sum(rows.placed):
        stated = timeline.trace.hosts["world_size"].notna().any()
        return f"the trace holds only rank {process[1]}{f' of {ranks}' if stated else ''}"
    if sum(rows.placed) != 1:
        return ""
    return f"the other {named - 1} devices have no work in the trace" if named > 1 else "the trace holds one device"


def _clocks(trace: Trace, of_host: Mapping[str, str]) -> tuple[Clock, ...]:
    hosts = trace.hosts.astype(object).where(trace.hosts.notna(), None)
    clocks = []
    for name in sorted(set(of_host.values()), key=natural):
        mine = [host for host, clock in of_host.items() if clock == name]
        parts = [table[table["host"].isin(mine)] for table in (trace.events, trace.spans, trace.launches)]
        start, end = _span(pd.concat([part[["start_ps", "end_ps"]] for part in parts]))
        device_start, device_end = _span(parts[0])
        files = hosts[hosts["host"].isin(mine)]
        timed = files[files["origin_ns"].notna()]
        unshifted = timed[~timed["shift_ps"].fillna(0).astype(bool)]
        origin = min(unshifted["origin_ns"] if len(unshifted) else timed["origin_ns"], default=None)
        clocks.append(
            Clock(
                name=name,
                hosts=tuple(mine),
                start_ps=start,
                end_ps=end,
                device_start_ps=device_start,
                device_end_ps=device_end,
                began_ns=None if origin is None or start is None else int(origin) + start // 1000,
                shift_ps=max(map(abs, files["shift_ps"].dropna()), default=None),
                drift_ppm=max(map(abs, files["drift_ppm"].dropna()), default=None),
                residual_ps=max(map(abs, files["residual_ps"].dropna()), default=None),
            )
        )
    return tuple(clocks)


def _span(rows: pd.DataFrame) -> tuple[int, int] | tuple[None, None]:
    return (int(rows["start_ps"].min()), int(rows["end_ps"].max())) if len(rows) else (None, None)


def _devices(timeline: Timeline, of_host: Mapping[str, str]) -> tuple[Device, ...]:
    """Every device that the trace names, with or without rows, in natural order; copies of an unknown one last."""
    trace, unions = timeline.trace, timeline.unions
    with_rows = {**unions.devices, **unions.unplaced}
    facts = {str(row["device"]): row for row in trace.devices.to_dict("records")}
    counts = trace.events.groupby(["device", "kind"], observed=True).size()
    lanes = trace.events[["device", "lane"]].drop_duplicates()["device"].astype(str).value_counts()
    windows = {clock: iv.total(window) for clock, window in unions.windows.items()}
    devices = []
    for name in sorted({*facts, *with_rows}, key=known_first):
        fact, sets = facts.get(name, {}), with_rows.get(name)
        host = sets.host if sets else _text(fact.get("host"))
        clock = sets.clock if sets else of_host.get(host or "", "")
        devices.append(
            Device(
                device=name,
                host=host,
                model=_text(fact.get("model")),
                lanes=int(lanes.get(name, 0)),
                rows={kind.value: int(counts.get((name, kind.value), 0)) for kind in Kind},
                busy_ps=iv.total(sets.busy) if sets else 0,
                window_ps=windows.get(clock),
            )
        )
    return tuple(devices)


def _text(value: Any) -> str | None:
    return None if pd.isna(value) else str(value)


def _spans(spans: pd.DataFrame) -> Spans:
    return Spans(
        count=len(spans),
        names=spans["name"].nunique(),
        threads=len(spans[["host", "thread"]].drop_duplicates()),
        phases=tuple(spans.loc[(spans["tracekit"] == "phase").to_numpy(bool), "name"].astype(str).unique()),
        steps=len(spans[["host", "step"]].dropna()["step"].drop_duplicates()),
    )


def _values(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame, null as None."""
    return [{key: None if pd.isna(value) else value for key, value in row.items()} for row in records(table)]


def _carried(timeline: Timeline) -> dict[str, Share]:
    """Of how many rows something is known; `launch` counts only rows with a correlation id."""
    events = timeline.trace.events
    copies = events[(events["kind"] == Kind.MEMCPY.value).to_numpy()]
    collectives = events[(events["kind"] == Kind.COLLECTIVE.value).to_numpy()]
    with_id = events[events["correlation_id"].notna().to_numpy()]
    return {
        "launch": Share(int((timeline.launch >= 0).sum()), len(with_id)),
        "copy_direction": _share(copies["direction"]),
        "copy_bytes": _share(copies["bytes"]),
        "collective_bytes": _share(collectives["bytes"]),
        "collective_ranks": _share(collectives["ranks"]),
        "hlo_op": _share(events["hlo_op"]),
    }


def _known_by(timeline: Timeline) -> dict[str, float]:
    levels = known_by(timeline).dropna(subset="ratio")
    return {str(level): float(ratio) for level, ratio in zip(levels["level"], levels["ratio"], strict=True)}


def _share(column: pd.Series) -> Share:
    return Share(int(column.notna().sum()), len(column))


def _missing(timeline: Timeline) -> tuple[str, ...]:
    """What a trace lacks of what its format could hold, the worst first; empty if nothing worth a word is missing."""
    trace, events, recording = timeline.trace, timeline.trace.events, _recording(timeline.trace)
    sentences = [no_device_work(timeline)]
    if len(events) and not len(trace.spans):
        sentences.append(_with("No host spans: phases and steps are not known", recording.spans))
    on_gpu = any(type_of(str(name)) == "gpu" for name in events["device"].unique())
    if on_gpu and not len(trace.launches) and recording.launches:
        sentences.append(_with("No launches: no event is linked to the host call that launched it", recording.launches))
    computes = not events["kind"].isin([Kind.MEMCPY.value, Kind.MEMSET.value]).all()
    if on_gpu and not events["hlo_op"].notna().any() and computes:
        sentences.append(recording.hlo_ops)
    return tuple(filter(None, sentences))


def _with(what: str, advice: str | None) -> str:
    return f"{what}; for the next trace, {advice}." if advice else f"{what}."


def _recording(trace: Trace) -> Recording:
    """How to record what the trace's format could hold."""
    form = formats.by_name(trace.format)
    return form.recording if form else Recording()
