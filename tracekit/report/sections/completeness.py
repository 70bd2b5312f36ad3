"""What is missing from the trace, as the report shows it before anything that rests on it; nothing where nothing is."""

from typing import Any

import pandas as pd

from tracekit.analysis.completeness import Completeness
from tracekit.columns import records
from tracekit.report.section import MOST_DATA, Field, Section, Table, Unit, or_missing, plain, table_of
from tracekit.units import percent, quantity
from tracekit.vocabulary.losses import DAMAGE, Loss, damage, unanswered

TITLE = "What is missing"
_WAITING = "No figure is given for waiting, transfer and stragglers, and no what-if that rests on them."
_ROWS = (
    "So the report has no critical path, no what-if and no causes of idle time. All other figures count what the trace "
    "holds: busy times and shares of the window are lower bounds."
)
_SHARES = (
    "So the report has no shares of time, no overlap, no speedup and no steps, nothing that rests on all of the work: "
    "only what was recorded, as the timeline shows it."
)
# What the names of files and hosts hold, and hardly a word that begins a sentence.
_IN_NAMES = frozenset("0123456789._-/")
_ANEW = "Copy the file again, or record it again."
_REMEDIES = {
    Loss.STEPS: "Ask for steps that all files hold.",
    Loss.ABSENT: "Export every table with `nsys export`, or record again with `nsys profile --trace=cuda,nvtx`.",
}
_ALL_RANKS = "Give the files of all ranks or hosts, as one directory."


def section(result: Completeness) -> Section | None:
    """What is missing, what rests on it, and what to do; None where nothing is known to be missing."""
    if result.lacking:
        return Section("completeness", TITLE, lacking=result.lacking)
    if result.is_complete:
        return None
    sentences = [*([f"{result.waiting} {_WAITING} {_ALL_RANKS}"] if result.waiting else [])]
    sentences += [result.bounds] if result.bounds else []
    sentences += [
        _lost(loss)
        for loss in records(result.losses)
        # Of groups whose ranks are missing what stands above says more.
        if not (len(result.groups) and loss["what"] == Loss.RANKS and pd.notna(loss["lost"]))
    ]
    if result.rows:
        sentences.append(_SHARES if result.shares else _ROWS)
    return Section(
        "completeness",
        TITLE,
        tuple(dict.fromkeys(sentences)),
        tables=tuple(table for table in (_groups(result.groups), _losses(result.losses)) if table.rows),
        data=data(result),
        result=_result(result),
    )


def _result(result: Completeness) -> str:
    """What that means for the report, in one line."""
    if result.shares:
        return "Only a part of what ran is known, and no shares of time."
    if result.rows:
        return "Some of the work is missing: busy times are lower bounds, and causes are not known."
    which = _which(result.losses)
    if result.waiting:
        return f"Ranks are missing{which}: how long collectives waited, and for which rank, is not known."
    if result.bounds:
        return f"A few ranks are missing{which}: the waiting of collectives is a lower bound."
    return ""


def _which(losses: pd.DataFrame) -> str:
    """How many files could not be read, and which ranks have none, in brackets; "" where neither is known."""
    said = []
    for row in records(losses):
        if row["lost"] is None or row["what"] not in (Loss.FILES, Loss.RANKS):
            continue
        total = "" if row["total"] is None else f" of {row['total']:,}"
        if row["what"] == Loss.FILES:  # each is told by a sentence that begins with its name, and may hold a semicolon
            begun = [part.split(" ")[0].rstrip(",:") for part in (row["evidence"] or "").split("; ")]
            names = ", ".join(word for word in begun if _IN_NAMES & {*word})
            said.append(f"{row['lost']:,}{total} files could not be read{f': {names}' if names else ''}")
        else:
            said.append(f"no file of {row['evidence']}")
    return f" ({'; '.join(said)})" if said else ""


def data(result: Completeness) -> dict[str, Any]:
    """What summary.json has under `completeness`, also where nothing is missing."""
    return {
        "complete": result.is_complete,
        "waiting": result.waiting or None,
        "bounds": result.bounds or None,
        "rows": result.rows or None,
        "shares": result.shares or None,
        "groups": plain(result.groups.head(MOST_DATA)),
        "losses": plain(result.losses.head(MOST_DATA)),
    }


_CUT = "the file is cut, or the profiler dropped them"


def _lost(loss: dict[str, Any]) -> str:
    """One loss, and how to record the rest."""
    has_total = pd.notna(loss["lost"]) and pd.notna(loss["total"])
    lost = f"{loss['lost']:,}" if pd.notna(loss["lost"]) else ""
    of, host = (
        f"{loss['lost']:,} of {loss['total']:,}" if has_total else lost,
        f"{loss['host']}: " if loss["host"] else "",
    )
    evidence = f" ({loss['evidence']})" if pd.notna(loss["evidence"]) else ""
    match loss["what"]:
        case Loss.OPERATIONS:
            share = percent(1 - loss["lost"] / loss["total"])
            return f"{host}the file is a sample: it holds {share} of the operations that its numbers count{evidence}."
        case Loss.LAUNCHED:
            why = "the profiler recorded none" if loss["lost"] == loss["total"] else _CUT
            return f"{host}{unanswered(loss['lost'], loss['total'])}: {why}{evidence}."
        case Loss.REPLICAS:
            least = f"at least {lost} replicas of the program, of {loss['total']:,} or more, have no kernels"
            return (
                f"{host}{least}{evidence}: the profile does not hold a whole step. Start it after the first steps, and "
                "let it last longer than one."
            )
        case Loss.RECORDS:
            what = f"{quantity(int(loss['lost']), 'record')}" if lost else "records"
            return f"{host}the profiler dropped {what}{evidence}. Profile fewer steps, or give it larger buffers."
        case what if what in DAMAGE:
            total = int(loss["total"]) if pd.notna(loss["total"]) else None
            text = loss["evidence"] if pd.notna(loss["evidence"]) else None
            sentence = damage(Loss(what), int(loss["lost"]) if lost else None, total, text)
            return f"{host}{sentence} {_REMEDIES.get(Loss(what), _ANEW)}"
        case Loss.COLLECTIVES:
            return (
                f"{host}{of} collectives have no row of a device that takes part{evidence}: it was not recorded then. "
                "It was not idle, and whom the others waited for is not known."
            )
        case Loss.RANKS if lost:
            what = "rank or host" if loss["lost"] == 1 and not has_total else "ranks or hosts"
            are = "is" if loss["lost"] == 1 else "are"
            return f"{host}{of} {what} of the job {are} not in the trace{evidence}. {_ALL_RANKS}"
        case Loss.RANKS:
            return f"{host}which ranks are missing is not known{evidence}. Give the files of one job, as one directory."
        case Loss.END:
            return f"{host}the profile ended before the program did{evidence}: what came after is not in it."
        case _:
            return f"{host}perhaps not everything was recorded{evidence}: figures may be too small."


def _groups(groups: pd.DataFrame) -> Table:
    return table_of(
        groups,
        "completeness.groups",
        "Collectives of which ranks are missing",
        [
            Field("group", Unit.NAME, lambda row: or_missing(row["group"], "the trace does not name it")),
            Field("ranks", Unit.COUNT, lambda row: or_missing(row["ranks"], "the trace does not tell")),
            Field("named", Unit.NAME, lambda row: or_missing(row["names"], "the trace does not tell")),
            Field("devices in the trace", Unit.COUNT, "devices"),
            Field("missing", Unit.TEXT, lambda row: or_missing(row["absent"], "the trace does not tell which")),
            Field("collectives", Unit.COUNT, "collectives"),
            Field("device time", Unit.TIME, "device_time_ps"),
        ],
    )


def _losses(losses: pd.DataFrame) -> Table:
    return table_of(
        losses,
        "completeness.losses",
        "Lost or not recorded",
        [
            Field("host", Unit.NAME, "host"),
            Field("what", Unit.TEXT, "what"),
            Field("lost", Unit.COUNT, lambda row: or_missing(row["lost"], "the trace does not count them")),
            Field("of", Unit.COUNT, lambda row: or_missing(row["total"], "the trace does not count them")),
            Field("evidence", Unit.NAME, lambda row: or_missing(row["evidence"], "the rows themselves")),
        ],
    )
