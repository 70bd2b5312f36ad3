"""The memory of devices in words, in tables, and beside the advice that needs some."""

from dataclasses import replace

import pytest

from tests import frames
from tests.analysis.test_memory import events, trace
from tracekit import memory
from tracekit.columns import frame
from tracekit.report.section import AtLeast, Missing, Recommendation, Section
from tracekit.report.sections import memory as words
from tracekit.trace import DEVICE_COLUMNS, Trace

MIB = 1 << 20
DEVICES = frame(DEVICE_COLUMNS, {"host": ["h"] * 2, "device": ["gpu:0", "gpu:1"], "memory_bytes": [8 * MIB] * 2})


def two_devices():
    table = events(
        ("gpu:0", "bfc", 10, 2 * MIB, 3 * MIB, 1, "dot"),
        ("gpu:1", "bfc", 20, 1 * MIB, 1 * MIB, 2, "add"),
        limit_bytes=4 * MIB,
        peak_bytes=3 * MIB,
    )
    return memory(trace(table))


def test_the_device_with_the_least_headroom_is_told_with_what_its_peak_consisted_of():
    assert words.section(two_devices()).sentences == (
        "At its peak, gpu:0 had 3 MiB of memory in use, 75.0 % of its allocator's limit of 4 MiB: 1 MiB headroom, the "
        "least of 2 devices. That was while fusion.1 ran.",
        "Of these, 1 MiB were allocated before the trace began, 2 MiB were allocated by dot.",
    )


def test_what_counts_from_nothing_is_at_least_so_much_and_leaves_at_most_the_rest_of_the_device():
    result = memory(trace(events(("gpu:0", "device", 10, 2 * MIB, None, 1), stated=False), devices=DEVICES))
    section = words.section(result)
    assert section.sentences == (
        "At its peak, gpu:0 had at least 2 MiB of memory in use, 25.0 % of the device's memory of 8 MiB: up to 6 MiB "
        "headroom. That was while fusion.1 ran.",
        "What was allocated before the trace began is not known, and not counted.",
    )
    assert section.tables[0].rows[0][1] == AtLeast(2 * MIB)
    assert section.tables[1].rows[0][1] == Missing("the trace does not tell for what")


def test_of_a_trace_that_lacks_much_of_the_work_the_peak_may_not_be_in_it():
    assert words.section(two_devices(), is_partial=True).sentences[2:] == (
        "Much of the work is missing from the trace, so more may have been in use at other times.",
    )


def test_an_unknown_limit_is_said_and_no_advice_gets_a_headroom():
    result = memory(trace(events(("gpu:0", "a", 1, MIB, MIB))))
    assert (
        words.section(result)
        .sentences[0]
        .startswith("At its peak, gpu:0 had 1 MiB of memory in use; its headroom is not known: neither the allocator")
    )
    advice = Section("findings", "What to try", findings=(Recommendation("exposed_copies", "Copies.", "prefetch"),))
    assert words.beside(advice, result) == advice


@pytest.mark.parametrize(
    ("rule", "action", "beside"),
    [
        (
            "exposed_copies",
            "prefetch",
            "prefetch (at the peak, 1 MiB of memory were left on gpu:0, the least of 2 devices)",
        ),
        ("late_peer", "compare", "compare"),
    ],
)
def test_only_advice_that_needs_memory_says_how_much_was_left(rule, action, beside):
    advice = Section("findings", "What to try", findings=(Recommendation(rule, "So.", action),))
    (finding,) = words.beside(advice, two_devices()).findings
    assert finding == replace(advice.findings[0], action=beside)


def test_a_section_without_events_gives_its_reason_alone():
    section = words.section(memory(Trace(frames.events(("cpu:0", "compute", 0, 1)))))
    assert (section.title, section.sentences, section.tables) == ("Device memory", (), ())
    assert "of CPU devices profilers record none" in section.lacking
