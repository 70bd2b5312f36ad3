"""Every benchmark: what it asks, the commands that answer, what they measured, and the table that docs show of it.

Also every other script here, with the reason why it is not run with them.
"""

import statistics
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from result_files import Results, Rows

# What each script writes with --json.
Measured = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: `commands` are scripts with options for a full run, `quick` those of a run of a minute, of which
    nothing is kept.

    `rows` and `facts` take what the scripts wrote; `table` makes Markdown of the results. `peers` are options that name
    interpreters, passed on where they are given.
    """

    name: str
    question: str
    commands: tuple[str, ...]
    quick: tuple[str, ...]
    rows: Callable[[Measured], Rows]
    facts: Callable[[Measured], dict[str, float]]
    table: Callable[[Results], str]
    peers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """A figure in a table: what it is called, its key, and how its median and least and largest values are printed."""

    head: str
    key: str
    form: str = "{:.2f}"
    scale: float = 1
    spread: bool = True

    def cell(self, values: Sequence[float]) -> str:
        """Median, and behind it in brackets the least and the largest, where rounds differ."""
        return spread(values, self.form, self.scale, self.spread) if values else ""


@dataclass(frozen=True)
class Ratio:
    """How many times another row's figure each row's is; `bases` may hold one row a group of rows."""

    head: str
    key: str
    bases: tuple[str, ...]
    form: str = "{:.1f}"

    def base_of(self, row: str) -> str:
        """The row that `row` is compared with: the last base at or before it in a table, or one of the same file."""
        same = [base for base in self.bases if base.rpartition(", ")[2] == row.rpartition(", ")[2]]
        return (same or list(self.bases))[0]


def spread(values: Sequence[float], form: str, scale: float = 1, with_range: bool = True) -> str:
    """The median of some values, with the least and the largest where they read otherwise."""
    low, middle, high = (form.format(scale * of(values)) for of in (min, statistics.median, max))
    return middle if not with_range or low == high else f"{middle} ({low} to {high})"


def peer_rows(measured: Measured, keys: Mapping[str, Callable[[dict[str, Any]], list[float]]]) -> Rows:
    """Of each peer its figures; why there are none, where it was skipped or failed."""
    return {
        name: peer.get("skipped") or peer.get("failed") or {key: value(peer) for key, value in keys.items()}
        for result in measured
        for name, peer in result["peers"].items()
    }


def over_rounds(key: str) -> Callable[[dict[str, Any]], list[float]]:
    """The figure of each round of a peer, the sum of what has parts; none where it has no such figure."""

    def values(peer: dict[str, Any]) -> list[float]:
        figures = [round_[key] for round_ in peer["rounds"] if round_[key] is not None]
        return [sum(figure.values()) if isinstance(figure, dict) else figure for figure in figures]

    return values


def facts(*keys: str) -> Callable[[Measured], dict[str, float]]:
    """Facts of the first script."""
    return lambda measured: {key: measured[0][key] for key in keys}


def table(results: Results, titles: Mapping[str, str], columns: Sequence[Column | Ratio], head: str) -> str:
    """A Markdown table of the rows that `titles` names with their words, in that order; one without figures is left
    out."""
    lines = [f"| {head} | {' | '.join(column.head for column in columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name, title in titles.items():
        if name not in results.rows:
            continue
        cells = []
        for column in columns:
            if isinstance(column, Column):
                cells.append(column.cell(results.rows[name].figures.get(column.key, [])))
            elif ratios := results.ratios(name, base := column.base_of(name), column.key):
                cells.append("1" if name == base else spread(ratios, column.form))
            else:
                cells.append("")
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def caption(results: Results, what: str) -> str:
    """What was measured, when and where; and what rows are older, and why."""
    run = results.last
    number_of_last = len(results.runs) - 1
    its = [values for row in results.rows.values() if row.run == number_of_last for values in row.figures.values()]
    ranges = ", with the least and the largest" if any(len(values) > 1 for values in its) else ""
    rounds = "one round" if run.rounds == 1 else f"medians of {run.rounds} rounds{ranges}"
    sentences = [f"{what}; {rounds}; {run.date}, {run.machine}."]
    for number, old in enumerate(results.runs[:-1]):
        rows = [name for name, row in results.rows.items() if row.run == number]
        why = "; ".join(dict.fromkeys(results.rows[name].skipped for name in rows if results.rows[name].skipped))
        because = f" (now: {why})" if why else ""
        sentences.append(f"Of {old.date}, {old.machine}{because}: {'; '.join(rows)}.")
    return textwrap.fill(" ".join(sentences), 120, break_long_words=False, break_on_hyphens=False)


def block(results: Results, what: str, *tables: str) -> str:
    """A caption and its tables."""
    return "\n\n".join([caption(results, what), *tables])


def _megabytes(head: str, key: str) -> Column:
    return Column(head, key, "{:.0f}", 1e-6, spread=False)


# Reading.

_READERS = {
    "tracekit, columns": "A: tracekit, columns: times, names and the 8 stats that a `Trace` needs",
    "tracekit, columns with every stat": "B: tracekit, columns with every stat",
    "tracekit, Trace": "C: tracekit, `Trace`: checked frames, kinds, spans, launches",
    "tracekit, times and names": "tracekit, times and names",
    "protobuf, parse only": "protobuf, parse only, nothing accessed",
    "protobuf, every stat": "protobuf, every event and stat",
    "XProf, Parquet export": "XProf, Parquet export",
    "ProfileData, times and names": "`jax.profiler.ProfileData`, times and names",
    "ProfileData, every stat": "`jax.profiler.ProfileData`, every event and stat",
    "XProf, trace viewer JSON": "XProf, trace viewer JSON",
    "XProf, trace viewer protobuf": "XProf, trace viewer protobuf",
    "XProf, streaming trace viewer": "XProf, streaming trace viewer",
}
_BASES = {"A": "tracekit, columns", "B": "tracekit, columns with every stat", "C": "tracekit, Trace"}


def _reading(measured: Measured) -> Rows:
    return peer_rows(
        measured, {"seconds": lambda peer: peer["rounds_s"], "peak_bytes": lambda peer: [peer["peak_bytes"]]}
    )


def _read_table(results: Results) -> str:
    columns: list[Column | Ratio] = [Column("seconds", "seconds", "{:.3f}"), _megabytes("peak MB", "peak_bytes")]
    columns += [Ratio(f"times {letter}", "seconds", (base,)) for letter, base in _BASES.items()]
    what = f"{results.last.facts['events']:,.0f} events, {results.last.facts['bytes'] / 1e6:.1f} MB"
    return block(results, what, table(results, _READERS, columns, "reader"))


_CHROME_READERS = {
    "tracekit, columns": "A: tracekit, columns: names, categories, ids and exact times of all events",
    "tracekit, Trace": "B: tracekit, `Trace`: A, the args of device work and launches, checked frames",
    "simdjson, parse only": "simdjson, parse only, no event objects created",
    "ijson, streamed": "ijson, streamed, no event kept",
    "json, all objects": "json, all objects, nothing accessed",
    "orjson, all objects": "orjson, all objects, nothing accessed",
    "msgspec, all objects": "msgspec, all objects, nothing accessed",
    "HTA, TraceAnalysis": "HTA, `TraceAnalysis`: its DataFrame",
}


def _chrome_table(results: Results) -> str:
    columns: list[Column | Ratio] = [
        Column("seconds", "seconds"),
        _megabytes("peak MB", "peak_bytes"),
        Ratio("times B", "seconds", ("tracekit, Trace",)),
    ]
    what = f"{results.last.facts['events']:,.0f} events, {results.last.facts['bytes'] / 1e6:.1f} MB"
    return block(results, what, table(results, _CHROME_READERS, columns, "reader"))


# Analysing.

_ANALYSERS = {
    name: name for name in ("tracekit, XSpace", "XProf, XSpace", "tracekit, Kineto", "HTA, Kineto", "TraceLens, Kineto")
}


def _analysing(measured: Measured) -> Rows:
    keys = {"read_s": "read_s", "answer_s": "first_s", "again_s": "again_s"}
    keys |= {key: key for key in ("peak", "growth", "intervals")}
    rows = peer_rows(measured, {key: over_rounds(of) for key, of in keys.items()})
    # What a peer that reads with each answer takes in all.
    return {
        name: row
        if isinstance(row, str)
        else {**row, "total_s": [sum(both) for both in zip(row["read_s"], row["answer_s"], strict=True)]}
        for name, row in rows.items()
    }


def _analyse_table(results: Results) -> str:
    bases = ("tracekit, XSpace", "tracekit, Kineto")
    columns: list[Column | Ratio] = [
        Column("intervals", "intervals", "{:,.0f}", spread=False),
        Column("read s", "read_s"),
        Column("answer s", "answer_s"),
        Column("again s", "again_s"),
        _megabytes("peak MB", "peak"),
        _megabytes("growth MB", "growth"),
        Ratio("total, times", "total_s", bases),
        Ratio("again, times", "again_s", bases),
    ]
    return block(results, "Two generated files", table(results, _ANALYSERS, columns, "tool, file"))


# Reports.


def _reporting(measured: Measured) -> Rows:
    keys = ("wall_s", "cpu_s", "peak_bytes")
    return {
        f"{size['events']}": {key: size[key] for key in keys} | {"rows": [size["rows"]], "bytes": [size["bytes"]]}
        for size in measured[0]["sizes"]
    }


def _report_table(results: Results) -> str:
    sizes = sorted(results.rows, key=int)
    start_s = statistics.median(results.rows[sizes[0]].figures["cpu_s"])
    with_cost = {}
    for smaller, name in zip([None, *sizes], sizes, strict=False):
        figures = results.rows[name].figures
        more = {}
        if smaller is not None:
            before = results.rows[smaller].figures
            rows, further = figures["rows"][0], figures["rows"][0] - before["rows"][0]
            rounds = zip(figures["cpu_s"], before["cpu_s"], strict=True)
            more = {
                "row_us": [(cpu_s - start_s) / rows * 1e6 for cpu_s in figures["cpu_s"]],
                "further_us": [(cpu_s - before_s) / further * 1e6 for cpu_s, before_s in rounds],
            }
        with_cost[name] = type(results.rows[name])(results.rows[name].run, figures | more)
    columns = [
        Column("device rows", "rows", "{:,.0f}"),
        Column("file MB", "bytes", "{:.1f}", 1e-6),
        Column("wall s", "wall_s"),
        Column("CPU s", "cpu_s"),
        _megabytes("peak MB", "peak_bytes"),
        Column("CPU us a row", "row_us"),
        Column("of a further row", "further_us"),
    ]
    what = "`tracekit report`, from the command to the last file"
    titles = {name: f"{int(name):,}" for name in sizes}
    return block(results, what, table(Results(results.runs, with_cost), titles, columns, "events"))


# Reports of many hosts.


def _fleet_rows(measured: Measured) -> Rows:
    keys = ("wall_s", "cpu_s", "peak_bytes")
    return {
        f"{size['hosts']}": {key: size[key] for key in keys}
        | {key: [size[key]] for key in ("devices", "events")}
        | {"named": [sum(size["named"].values())]}
        for size in measured[0]["sizes"]
    }


def _fleet_table(results: Results) -> str:
    columns = [
        Column("devices", "devices", "{:,.0f}"),
        Column("events a host", "events", "{:,.0f}"),
        Column("wall s", "wall_s", "{:.1f}"),
        Column("CPU s", "cpu_s", "{:.1f}"),
        _megabytes("peak MB", "peak_bytes"),
        Column("of the four faults and nothing else, told", "named", "{:.0f} of 5"),
    ]
    titles = {name: f"{int(name):,}" for name in sorted(results.rows, key=int)}
    return block(results, "`tracekit report` of a run of many hosts", table(results, titles, columns, "hosts"))


# Exporting, and the page.

_WRITERS = {
    "tracekit, Perfetto": "tracekit, Perfetto: rows, host calls, flows, steps, collectives, counters; compressed",
    "protobuf in Python, device rows only": "protobuf in Python, device rows only, compressed",
    "XProf, trace viewer JSON": "XProf, trace viewer JSON, including reading the file",
    "tracekit, Parquet": "tracekit, Parquet",
    "pandas.to_parquet": "pandas.to_parquet, default settings",
    "tracekit, Arrow": "tracekit, Arrow",
    "pandas.to_feather": "pandas.to_feather, default settings",
    "tracekit, CSV": "tracekit, CSV",
    "pandas.to_csv": "pandas.to_csv",
    "tracekit, JSON lines": "tracekit, JSON lines",
    "pandas.to_json": "pandas.to_json",
}


@dataclass(frozen=True)
class _ToOurs(Ratio):
    """Each writer to the last of tracekit's above it."""

    def base_of(self, row: str) -> str:
        """The last of tracekit's rows at or above `row`."""
        names = list(_WRITERS)
        return [name for name in names[: names.index(row) + 1] if name.startswith("tracekit")][-1]


def _exporting(measured: Measured) -> Rows:
    return peer_rows(measured, {key: over_rounds(key) for key in ("write_s", "cpu_s", "growth", "bytes")})


def _export_table(results: Results) -> str:
    columns: list[Column | Ratio] = [
        Column("write s", "write_s"),
        Column("CPU s", "cpu_s"),
        _megabytes("growth MB", "growth"),
        Column("file MB", "bytes", "{:.1f}", 1e-6, spread=False),
        _ToOurs("times", "write_s", ()),
    ]
    size = results.last.facts.get("bytes")
    what = f"An XSpace of {size / 1e6:.0f} MB" if size else "An XSpace of a million device intervals"
    return block(results, what, table(results, _WRITERS, columns, "writer"))


def _page_rows(measured: Measured) -> Rows:
    tabs = measured[0]["tabs"]
    parts = ("median", "p95", "worst")
    return {
        scale: {"drawn_ms": [tab["drawn_ms"]], "heap_bytes": [tab["heap_bytes"]]}
        | {f"{key}_{part}": [tab[key][part]] for key in ("drawing_ms", "frames_ms") for part in parts}
        for scale, tab in tabs.items()
    }


def _page_table(results: Results) -> str:
    facts = results.last.facts
    what = (
        f"{facts['intervals']:,.0f} intervals and {facts['calls']:,.0f} host calls give {facts['bytes'] / 1e6:.2f} MB "
        f"of HTML in {facts['make_s']:.2f} s, with {facts['growth_bytes'] / 1e6:.0f} MB more memory than the report"
    )
    lines = [
        "| pixels per CSS pixel | until drawn | heap | drawing a frame: median, 95 %, worst | frame to frame: median, "
        "95 %, worst |",
        "|---|---|---|---|---|",
    ]
    for scale, row in results.rows.items():
        times = [
            ", ".join(f"{row.figures[f'{key}_{part}'][0]:.1f}" for part in ("median", "p95", "worst")) + " ms"
            for key in ("drawing_ms", "frames_ms")
        ]
        drawn, heap = row.figures["drawn_ms"][0] / 1e3, row.figures["heap_bytes"][0] / 1e6
        lines.append(f"| {scale} | {drawn:.2f} s | {heap:.0f} MB | {times[0]} | {times[1]} |")
    return block(results, what, "\n".join(lines))


# Predictions and reasons.


def _what_if_rows(measured: Measured) -> Rows:
    return {
        what: {
            key: [round_[key] for round_ in rounds if round_[key] is not None]
            for key in ("with_s", "predicted_s", "without_s", "error", "again", "compute", "unexplained", "refused")
        }
        for what, rounds in measured[0]["pairs"].items()
    }


def _what_if_table(results: Results) -> str:
    titles = {"collectives": "without its all-reduce", "copies": "without its copies"}
    pairs = {title: results.rows[name].figures for name, title in titles.items() if name in results.rows}

    def ratio(key: str, sign: str = "+") -> list[str]:
        return [spread(its[key], f"{{:{sign}.1f}} %", 100) if its[key] else "refused" for its in pairs.values()]

    def lengths(its: Mapping[str, list[float]]) -> str:
        keys = ("with_s", "predicted_s", "without_s")
        return ", ".join(f"{1000 * statistics.median(its[key]):.1f}" if its[key] else "-" for key in keys) + " ms"

    rows = {
        "step with it, predicted without, measured without": [lengths(its) for its in pairs.values()],
        "error of the prediction": ratio("error"),
        "the same program again": ratio("again"),
        "the same compute took without it": ratio("compute"),
        "unexplained in the trace": ratio("unexplained", ""),
        f"refused by the report, of {results.last.rounds} rounds": [
            f"{sum(its['refused']):.0f}" for its in pairs.values()
        ],
    }
    lines = [f"| | {' | '.join(pairs)} |", "|---" * (len(pairs) + 1) + "|"]
    return block(
        results,
        "Two programs with and without a part",
        "\n".join([*lines, *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items())]),
    )


_TRUTHS = {
    "what_if": "what-if, all kinds",
    "composition": "path: the largest difference of a part",
    "joined": "the same, all of the host as one part",
    "claimed": "path: a part told too large",
    "idle": "idle time with a wrong cause",
    "refused": "what-ifs refused",
    "evident.what_if": "the {evident:.0f} jobs whose hosts recorded all that they did: what-if",
    "evident.composition": "of these: the largest difference of a part",
    "evident.joined": "of these, all of the host as one part",
    "evident.refused": "of these: what-ifs refused",
    "clock_us": "clocks, as far as they are off then (us)",
    "as_one": "path: difference from one path through all steps",
}
_PLACES = ("median", "p95", "worst")


def _truths(result: Mapping[str, Any]) -> dict[str, list[float]]:
    """Median, 95th percentile and worst of each measure of a script's jobs, as three values."""
    both = {**result, **{f"evident.{key}": value for key, value in result["with_evidence"].items()}}
    figures = {}
    for key in _TRUTHS:
        value = both[key]
        values = [value] if isinstance(value, float | int) else [value[place] for place in _PLACES]
        figures[key] = [number for number in values if number is not None]
    return figures


def _reason_rows(measured: Measured) -> Rows:
    return {name: _truths(result) for name, result in measured[0].items()}


def _world_rows(measured: Measured) -> Rows:
    return {world: _truths(result["kineto"]) for world, result in zip(_WORLDS, measured, strict=True)}


def _truth_table(results: Results, titles: Mapping[str, str], measures: Sequence[str]) -> str:
    names = {name: title for name, title in titles.items() if name in results.rows}
    lines = [f"| | {' | '.join(names.values())} |", "|---" * (len(names) + 1) + "|"]
    for measure in measures:
        cells = []
        for name in names:
            values = results.rows[name].figures.get(measure, [])
            scale = 1 if measure == "clock_us" else 100
            if measure.endswith("refused"):
                cells.append(f"{100 * values[0]:.1f} %" if values else "-")
            else:
                cells.append(" / ".join(_percent(scale * value) for value in values) or "-")
        lines.append(f"| {_TRUTHS[measure].format(**results.last.facts)} | {' | '.join(cells)} |")
    what = f"{results.last.facts['jobs']:,.0f} jobs each, percentage points: median / 95 % / worst"
    words = f"{what}; {results.last.date}."
    return f"{textwrap.fill(words, 120)}\n\n" + "\n".join(lines)


def _percent(points: float) -> str:
    """Two digits that matter."""
    return f"{points:.2f}" if abs(points) < 1 else f"{points:.1f}" if abs(points) < 10 else f"{points:.0f}"


def _reason_table(results: Results) -> str:
    titles = {"kineto": "Kineto", "nsys": "Nsight Systems", "xspace": "XSpace"}
    return _truth_table(results, titles, [key for key in _TRUTHS if key not in ("clock_us", "as_one")])


_WORLDS = {"hosts": "hosts' clocks", "devices": "devices' clocks", "missing": "a rank missing"}


def _world_table(results: Results) -> str:
    return _truth_table(results, _WORLDS, ("clock_us", "what_if", "refused", "joined", "idle"))


def _reason_facts(measured: Measured) -> dict[str, float]:
    first = next(iter(measured[0].values()))
    return {"jobs": first["jobs"], "evident": first["with_evidence"]["jobs"]}


def _verdict_rows(measured: Measured) -> Rows:
    return {name: {key: [value] for key, value in its.items()} for name, its in measured[0]["noise"].items()}


def _verdict_facts(measured: Measured) -> dict[str, float]:
    keys = ("pairs", "captures", "slower", "blocks", "alternating", "stalls", "stall")
    return {key: measured[0][key] for key in keys}


def _verdict_table(results: Results) -> str:
    facts = results.last.facts
    columns = [
        Column("false alarms", "alarms", "{:.1f} %", 100),
        Column(f"a slowdown of {100 * (facts['slower'] - 1):.0f} % missed", "misses", "{:.1f} %", 100),
    ]
    names = {name: name for name in results.rows}
    words = f"{facts['pairs']:,.0f} pairs of each, {facts['captures']:.0f} captures a side; {results.last.date}."
    drift = (
        f"A machine that drifts by 3 % gives {100 * facts['blocks']:.1f} % false alarms if all captures of A come "
        f"first, and {100 * facts['alternating']:.1f} % if they alternate."
    )
    stalls = (
        "Where the median step is alike and only captures of B stall, for ten steps each time, by chance three times a "
        f"capture, {100 * facts['stalls']:.1f} % of pairs are told to be slower; by chance once a capture, so that a "
        f"third of them do not at all, {100 * facts['stall']:.1f} %."
    )
    return "\n\n".join([words, table(results, names, columns, "noise between runs of one program"), drift, stalls])


BENCHMARKS = (
    Benchmark(
        "read_xspace",
        "How fast is a large XSpace file of four GPUs read, and in how much memory?",
        ("read_xspace.py --events 1000000 --rounds 3",),
        ("read_xspace.py --events 60000 --rounds 1 --only tracekit ProfileData",),
        _reading,
        facts("events", "bytes"),
        _read_table,
    ),
    Benchmark(
        "read_xspace_eight",
        "The same of eight GPUs with 300 names each, half of the events on the host?",
        ("read_xspace.py --kind eight --events 1000000 --rounds 3",),
        ("read_xspace.py --kind eight --events 60000 --rounds 1 --only tracekit ProfileData",),
        _reading,
        facts("events", "bytes"),
        _read_table,
    ),
    Benchmark(
        "read_chrome",
        "How fast is a large Kineto trace read?",
        ("read_chrome.py --events 1000000 --rounds 3",),
        ("read_chrome.py --events 20000 --rounds 1",),
        _reading,
        facts("events", "bytes"),
        _chrome_table,
        ("hta",),
    ),
    Benchmark(
        "analyse",
        "What does the complete analysis of a trace cost?",
        ("analyse.py --rounds 3",),
        ("analyse.py --rounds 1 --intervals 20000 --kineto 2000 --only tracekit",),
        _analysing,
        lambda _: {},
        _analyse_table,
        ("hta", "tracelens"),
    ),
    Benchmark(
        "report",
        "What does a report cost, and does a row cost the same in a large trace?",
        ("report.py --rounds 3 --events 10000 100000 1000000 5000000 30600000",),
        ("report.py --rounds 1 --events 10000 100000 1000000",),
        _reporting,
        lambda _: {},
        _report_table,
    ),
    Benchmark(
        "report_eight",
        "What does a report of eight GPUs cost, half of whose events are the host's?",
        ("report.py --rounds 3 --kind eight --events 1000000 5000000",),
        ("report.py --rounds 1 --kind eight --events 100000",),
        _reporting,
        lambda _: {},
        _report_table,
    ),
    Benchmark(
        "fleet",
        "What does a report of many hosts cost, and does it name what is wrong with them?",
        ("fleet.py --rounds 3 --hosts 64 256",),
        ("fleet.py --rounds 1 --hosts 8",),
        _fleet_rows,
        lambda _: {},
        _fleet_table,
    ),
    Benchmark(
        "fleet_reduced",
        "The same of larger files, of which most rows are left out?",
        ("fleet.py --rounds 3 --hosts 128 --kernels 620 --reduce",),
        ("fleet.py --rounds 1 --hosts 8 --kernels 60 --reduce",),
        _fleet_rows,
        lambda _: {},
        _fleet_table,
    ),
    Benchmark(
        "export",
        "What does it cost to write a trace for other tools?",
        ("export.py --rounds 3",),
        ("export.py --rounds 1 --intervals 20000 --only tracekit pandas",),
        _exporting,
        facts("bytes"),
        _export_table,
    ),
    Benchmark(
        "page",
        "How large is report.html, and how fast does it zoom?",
        ("page.py --rounds 3",),
        ("page.py --rounds 1 --intervals 10000 --frames 40",),
        _page_rows,
        lambda measured: measured[0]["page"],
        _page_table,
    ),
    Benchmark(
        "what_if",
        "Is a step without its collectives, or without its copies, as long as predicted?",
        ("what_if.py --rounds 9 --steps 24",),
        ("what_if.py --rounds 1 --steps 8 --only collectives",),
        _what_if_rows,
        lambda _: {},
        _what_if_table,
    ),
    Benchmark(
        "reasons",
        "Are the reasons true that a report gives?",
        ("reasons.py --jobs 340",),
        ("reasons.py --jobs 4",),
        _reason_rows,
        _reason_facts,
        _reason_table,
    ),
    Benchmark(
        "reasons_worlds",
        "Are they, where clocks are off or a rank is missing?",
        tuple(f"reasons.py --jobs 40 --formats kineto --world {world}" for world in _WORLDS),
        tuple(f"reasons.py --jobs 2 --formats kineto --world {world}" for world in _WORLDS),
        _world_rows,
        lambda measured: _reason_facts(measured),
        _world_table,
    ),
    Benchmark(
        "verdicts",
        "How often does a comparison raise a false alarm, and how often does it miss a slowdown?",
        ("verdicts.py",),
        ("verdicts.py --pairs 10",),
        _verdict_rows,
        _verdict_facts,
        _verdict_table,
    ),
)

# Scripts that answer a question, but not with these, and why.
BY_HAND = {
    "verdicts_captured.py": "captures programs for half an hour, and its answer is one of the machine's noise",
    "gpu_day": "needs GPUs: `make gpu-day`",
    "compare_versions.py": "holds what two commits write against each other: no figure of speed",
}
# What the others are made of.
PARTS = (
    "analyse_peers.py",
    "bench.py",
    "differences.py",
    "dump_version.py",
    "export_peers.py",
    "fresh.py",
    "make_fleet.py",
    "make_kineto.py",
    "make_xspace.py",
    "read_peers.py",
    "result_files.py",
    "suite.py",
    "version_first.py",
    "version_today.py",
    "what_if_program.py",
    "xspace_proto.py",
    "xspace_writer.py",
)
