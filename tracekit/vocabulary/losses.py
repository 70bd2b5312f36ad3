"""What a profiler says of events that it lost, in the warnings that it writes into its files."""

import re
from enum import StrEnum


class Loss(StrEnum):
    """What is lost of a trace, as `Trace.losses` and summary.json have it."""

    OPERATIONS = "operations"
    LAUNCHED = "launched work"
    REPLICAS = "replicas"
    RECORDS = "records"
    PERHAPS = "perhaps records"
    END = "end"


# Kineto's "Exceeded max GPU buffer count (…) - terminating tracing" (libkineto/src/CuptiActivityApi.cpp).
_END = re.compile(r"exceeded max GPU buffer|terminating tracing|stopped (?:early|collection)", re.IGNORECASE)
# CUPTI's samples and Kineto: "Dropped 12 activity records"; XLA's collectors count events that are dropped for a reason
# ("total device(activity) events reaches max", xla/backends/profiler/gpu/cupti_collector.cc).
_COUNT = re.compile(r"dropped (\d+)\b|(\d+)[\w ]*?(?:events|records)[\w ]* (?:were )?(?:dropped|lost)", re.IGNORECASE)
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
