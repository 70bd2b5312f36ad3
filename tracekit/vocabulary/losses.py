"""What is lost of a trace: by the warnings that a profiler writes into its files, or because files are damaged."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from tracekit.units import time


class Loss(StrEnum):
    """What is lost of a trace, as `Trace.losses` and summary.json have it."""

    OPERATIONS = "operations"
    LAUNCHED = "launched work"
    REPLICAS = "replicas"
    RECORDS = "records"
    PERHAPS = "perhaps records"
    END = "end"
    # Of a device that was recorded for a part of the time only; what others did meanwhile is there.
    COLLECTIVES = "collectives"
    # Of which no file is there: what there is of the others is whole.
    RANKS = "ranks"
    # Of those that were asked for, what files do not hold that may be whole.
    STEPS = "steps"
    # Which others prove to have had rows, and a file that is whole otherwise has not.
    ABSENT = "absent tables"
    # What is damaged, and was not read.
    RUNS = "runs"
    FILES = "files"
    PLANES = "planes"
    LINES = "lines"
    TABLES = "tables"
    EVENTS = "events"
    BYTES = "bytes"
    PROGRAMS = "programs"
    DETAILS = "details"
    KINDS = "kinds"


# Where a smaller share of the ranks or hosts is missing from a trace, what is told of the others holds, as bounds.
MANY_MISSING = 0.05
# A smaller share of events that were lost changes no figure by much; of so large a share no shares of time are left.
WORTH_WITHHOLDING, TOO_MANY = 0.01, 0.05
# What is lost of them is not known, but what waited for it has no cause without it.
_PARTS = frozenset({Loss.FILES, Loss.STEPS, Loss.PLANES, Loss.LINES, Loss.TABLES, Loss.ABSENT})
_WORK = frozenset({Loss.OPERATIONS, Loss.LAUNCHED, Loss.REPLICAS, Loss.RECORDS, Loss.EVENTS, Loss.BYTES, Loss.KINDS})
# What one and several of each part that can be damaged, or is not there, are called in a sentence.
DAMAGE: Mapping[Loss, tuple[str, str]] = {
    Loss.RUNS: ("other run", "other runs"),
    Loss.STEPS: ("file of a host or rank", "files of hosts or ranks"),
    Loss.FILES: ("file of a host or rank", "files of hosts or ranks"),
    Loss.PLANES: ("plane", "planes"),
    Loss.LINES: ("line of a plane", "lines of planes"),
    Loss.TABLES: ("table", "tables"),
    Loss.ABSENT: ("table", "tables"),
    Loss.EVENTS: ("event", "events"),
    Loss.BYTES: ("byte", "bytes"),
    Loss.KINDS: ("kind of work", "kinds of work"),
    Loss.PROGRAMS: ("HLO proto", "HLO protos"),
    Loss.DETAILS: ("detail of devices and events", "details of devices and events"),
}


# Kineto's "Exceeded max GPU buffer count (…) - terminating tracing" (libkineto/src/CuptiActivityApi.cpp).
_END = re.compile(r"exceeded max GPU buffer|terminating tracing|stopped (?:early|collection)", re.IGNORECASE)
# CUPTI's samples and Kineto: "Dropped 12 activity records"; XLA's collectors count events that are dropped for a reason
# ("total device(activity) events reaches max", xla/backends/profiler/gpu/cupti_collector.cc).
_COUNT = re.compile(
    r"dropped (\d{1,18})\b|(?<!\d)(\d{1,18})[\w ]*?(?:events|records)[\w ]* (?:were )?(?:dropped|lost)", re.IGNORECASE
)
_DROPPED = re.compile(
    r"\b(?:events?|records?)\b.*\b(?:dropped|lost)\b|\bdropp(?:ed|ing)\b.*\b(?:events?|records?)\b|events? reaches max"
    r"|buffer[\w ]*\bfull\b|out of (?:buffer )?space",
    re.IGNORECASE,
)
# Nsight Systems, which does not know whether anything is lost.
_PERHAPS = re.compile(r"Not all (?:CUDA|NVTX) events might have been collected", re.IGNORECASE)


def loss(message: str) -> tuple[Loss, int | None] | None:
    """What a profiler's message says was lost, and how many, None where it does not count; None of other messages."""
    if _END.search(message):
        return Loss.END, None
    if _PERHAPS.search(message):
        return Loss.PERHAPS, None
    if match := _COUNT.search(message):
        count = int(match[1] or match[2])
        return (Loss.RECORDS, count) if count else None
    return (Loss.RECORDS, None) if _DROPPED.search(message) else None


def matters(what: Loss, lost: int | None, total: int | None, events: int, least: float) -> bool:
    """Whether the share `least` of the work or more is lost, beside `events` that are left; parts of which nobody knows
    what they held are that much where `least` is below TOO_MANY, and so many events that nobody knows it always. `lost`
    and `total` are None if they are not known."""
    if what is Loss.EVENTS and lost is None:
        return True
    if what in _PARTS or (what is Loss.BYTES and lost is None):
        return least < TOO_MANY
    if what not in _WORK or lost is None:
        return False
    return lost >= least * (lost + events if total is None else total)


def unanswered(lost: int, total: int) -> str:
    """That so many of the kernels and copies that a host launched have no row."""
    what = f"of {total:,} kernels and copies that the host launched"
    return f"None {what} has a row on a device" if lost == total else f"{lost:,} {what} have no row on a device"


def damage(what: Loss, lost: int | None, total: int | None, evidence: str | None) -> str:
    """The sentence on a part of DAMAGE that could not be read: how many of how many, each None if it is not known; of
    kinds of work, ps of how many."""
    count = "Some" if lost is None else f"{lost:,}"
    of = "" if total is None else f" of {total:,}"
    why = f" ({evidence})" if evidence else ""
    if what is Loss.KINDS and lost is not None:
        of = "" if total is None else f" of {time(total)}"
        return f"The kind of {time(lost)}{of} of work is not known{why}."
    noun = DAMAGE[what][lost != 1 or total is not None]
    if what is Loss.STEPS:
        return f"{count}{of} {noun} {'does' if lost == 1 else 'do'} not hold all the steps asked for{why}."
    if what is Loss.ABSENT:
        return f"{count}{of} {noun} {'is' if lost == 1 else 'are'} missing from the export{why}."
    return f"{count}{of} {noun} could not be read{why}."


def not_whole(losses: Sequence[Mapping[str, Any]]) -> str:
    """What of a trace is damaged, or which ranks have no file, by the rows of its losses: a sentence without its
    subject, "is damaged: 1 of 3 planes could not be read."; "" where nothing is."""
    damaged = [row for row in losses if row["what"] in DAMAGE]
    if damaged:
        sentence = damage(Loss(damaged[0]["what"]), *(damaged[0][name] for name in ("lost", "total", "evidence")))
        more = f" And {len(damaged) - 1} more." if len(damaged) > 1 else ""
        what = "is not whole" if {row["what"] for row in damaged} <= {Loss.STEPS, Loss.ABSENT} else "is damaged"
        return f"{what}: {sentence}{more}"
    for row in losses:
        if row["what"] == Loss.LAUNCHED:
            why = f" ({row['evidence']})" if row["evidence"] else ""
            return f"is not whole: {unanswered(row['lost'], row['total'])}{why}."
    for row in losses:
        if row["what"] == Loss.RANKS:
            of = "" if row["total"] is None else f" of {row['total']}"
            lacks = "" if row["lost"] is None else f"{row['lost']}{of} ranks or hosts have no file: "
            return f"is not whole: {lacks}{row['evidence']}."
    return ""
