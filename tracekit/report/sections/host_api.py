"""The host's calls as the report shows them: what follows those that wait, how idle time is spread, time by call."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from tracekit.analysis.host_api import HostApi
from tracekit.analysis.idle import Cause
from tracekit.columns import records
from tracekit.report.section import MOST_DATA, MOST_ROWS, Field, Section, Table, Unit, instant, plain, table_of
from tracekit.units import count, device_time, percent, quantity, short, time
from tracekit.vocabulary.host_calls import calls_runtime, says_waiting

# Shares below this are not worth a sentence.
_WORTH = 0.01
# What costs so much of the window is among what matters most.
_MATTERS = 0.05
# A gap of such a share of its device's idle time is one to look at; where the longest is below the other, many are.
_HUGE, _SMALL = 0.5, 0.1
# A few gaps are told if each is so many times as long as the median.
_LONG = 10
# Characters of a name in a sentence.
_NAME = 60


def section(
    result: HostApi, windows_ps: Mapping[str, int] | None = None, largest: pd.DataFrame | None = None
) -> Section:
    """The wait that costs most, how the idle time is spread, and the call that takes most; `windows_ps` by device, and
    the `largest` idle intervals with their causes (analysis.idle.LARGEST_COLUMNS)."""
    if result.lacking:
        return Section("host_api", "Host calls", lacking=result.lacking)
    waits = _waits(result)
    headline, share, loss, detail = _headline(result, waits, windows_ps or {}, largest)
    return Section(
        "host_api",
        "Host calls",
        _sentences(result, waits),
        tables=_tables(result),
        data=_data(result),
        share=share,
        loss=loss,
        detail=detail,
        result=headline,
    )


def _headline(
    result: HostApi, waits: list[dict[str, Any]], windows_ps: Mapping[str, int], largest: pd.DataFrame | None
) -> tuple[str, float, str, str]:
    """What of the calls is among what matters most, its share of all windows, what that was lost to, and what it adds
    to another entry of that: the wait that costs most, or what the host did in the few gaps that are half of a device's
    idle time; "" if neither does."""
    found = [("", 0.0, "")]
    few, spread, cause = [], "", ""
    if device := _most_idle(result):
        longest = records(result.longest)
        few, spread = _few(device, longest), _spread(device, longest)
        cause = _cause(few, largest)
    if waits and waits[0]["ratio"] >= _MATTERS:
        share = waits[0]["idle_ps"] / sum(windows_ps.values()) if windows_ps else waits[0]["ratio"]
        found.append((_after_wait(result, waits[0]), share, _cause_after(waits[0])))
    window_ps = windows_ps.get(device["device"], 0) if device else 0
    idle_ps = sum(gap["idle_ps"] for gap in few)
    matters = window_ps > 0 and idle_ps / window_ps >= _MATTERS
    if matters:
        found.append((spread, idle_ps / sum(windows_ps.values()), cause))
    headline, share, loss = max(found, key=lambda line: line[1])
    details = [headline] if loss == Cause.UNEXPLAINED and headline != spread else []
    return headline, share, loss, " ".join([*details, *([spread] if matters and cause == loss else [])])


def _cause_after(wait: dict[str, Any]) -> str:
    """The cause of most of the idle time after a wait, "" without one. A report of before it was told knows of late
    launches, and what is unexplained."""
    if pd.notna(wait["cause"]):
        return str(wait["cause"])
    least = _HUGE * wait["idle_ps"]
    of_cause = {Cause.HOST: wait["host_bound_ps"], Cause.UNEXPLAINED: wait["unexplained_ps"]}
    return next((cause for cause, time_ps in of_cause.items() if pd.notna(time_ps) and time_ps >= least), "")


def _cause(gaps: list[dict[str, Any]], largest: pd.DataFrame | None) -> str:
    """The cause of most of each of some gaps, if it is the same of all and they are among the `largest` intervals."""
    known = {} if largest is None else {(row["device"], row["start_ps"]): row["cause"] for row in records(largest)}
    causes = {known.get((gap["device"], gap["start_ps"]), "") for gap in gaps}
    return causes.pop() if len(causes) == 1 else ""


def _waits(result: HostApi) -> list[dict[str, Any]]:
    """The calls in which devices fell idle, the costliest first."""
    return sorted((row for row in records(result.by_call) if row["gaps"]), key=lambda row: -row["idle_ps"])


def _sentences(result: HostApi, waits: list[dict[str, Any]]) -> tuple[str, ...]:
    sentences = []
    if waits and waits[0]["ratio"] >= _WORTH:
        sentences.append(_after_wait(result, waits[0]))
    elif waits:
        sentences.append(f"Devices idled for less than {percent(_WORTH)} of their time after any call that waits.")
    if device := _most_idle(result):
        sentences.append(_spread(device, records(result.longest)))
    calls = records(result.by_call[:1])
    if calls:
        most = calls[0]
        sentences.append(
            f"The call that took longest in all is {short(most['call'], _NAME)}: {time(most['total_ps'])} in "
            f"{quantity(most['n'], 'call')}, median {time(most['median_ps'])}{_waited(most)}."
        )
    return tuple(sentences)


def _after_wait(result: HostApi, wait: dict[str, Any]) -> str:
    """In which call devices fell idle, for how long, where it stands, and how many launches it follows."""
    devices = len(result.by_device)
    who, their = (result.by_device["device"].iat[0], "its") if devices == 1 else ("Devices", "their")
    host = f", {percent(wait['host_bound_ps'], wait['idle_ps'])} of it host-bound" if wait["host_bound_ps"] else ""
    sentence = (
        f"{who} fell idle in {short(wait['call'], _NAME)} and stayed so for {percent(wait['ratio'])} of {their} time "
        f"({device_time(wait['idle_ps'], devices)}), in {quantity(wait['gaps'], 'gap')}{host}"
    )
    sentence += _under([row for row in records(result.places) if row["call"] == wait["call"]], wait)
    if wait["after_launch"]:
        sentence += f"; it follows {count(wait['after_launch'])} of {quantity(result.launches, 'launch', 'launches')}"
    return f"{sentence}."


def _waited(call: dict[str, Any]) -> str:
    """How many of the calls of a name waited, and for how long, where others did not."""
    if not 0 < call["waits"] < call["n"]:
        return ""
    return f"; {count(call['waits'])} of them waited, {time(call['waits_ps'])} in all"


def _under(places: list[dict[str, Any]], wait: dict[str, Any]) -> str:
    """Under which operation and at which line of the program a wait stands, and how much of its idle time is there."""
    if not places or (pd.isna(places[0]["operation"]) and pd.isna(places[0]["source"])):
        return ""
    most = places[0]
    under = "" if pd.isna(most["operation"]) else f"under {short(most['operation'], _NAME)}"
    at = "" if pd.isna(most["source"]) else f"at {short(most['source'], _NAME)}"
    where = f"{under} {at}".strip()
    if len(places) == 1:
        return f", {where}"
    return f", {percent(most['idle_ps'], wait['idle_ps'])} of it {where} ({quantity(most['gaps'], 'gap')})"


def _most_idle(result: HostApi) -> dict[str, Any] | None:
    spread = [row for row in records(result.by_device) if row["idle_ps"]]
    return max(spread, key=lambda row: row["idle_ps"], default=None)


def _few(device: dict[str, Any], longest: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The gaps that are half of the idle time of a device, where they are one, or a few far longer than most."""
    half = device["half"]
    few = [row for row in longest if row["device"] == device["device"]][:half]
    is_one = device["longest_ratio"] >= _HUGE
    are_few = half > 1 and len(few) == half and few[-1]["idle_ps"] >= _LONG * device["median_ps"]
    return few if is_one or are_few else []


def _spread(device: dict[str, Any], longest: list[dict[str, Any]]) -> str:
    """Whether the idle time of a device is one gap, a few or many."""
    name, gaps, half = device["device"], quantity(device["gaps"], "gap"), device["half"]
    idle = f"the idle time of {name} between its work"
    few = _few(device, longest)
    if device["longest_ratio"] >= _HUGE:
        sentence = f"One gap of {time(device['longest_ps'])} is {percent(device['longest_ratio'])} of {idle}"
        return f"{sentence}{_host_did(few[0]) if few else ''}."
    if few:
        return (
            f"Half of {idle} lies in the {count(half)} longest of its {gaps}, of {time(few[-1]['idle_ps'])} to "
            f"{time(few[0]['idle_ps'])}{_host_did_in(few)}."
        )
    if device["longest_ratio"] < _SMALL:
        return (
            f"T{idle[1:]} is spread over {gaps} of {time(device['median_ps'])} (median); the longest, "
            f"{time(device['longest_ps'])}, is {percent(device['longest_ratio'])} of it."
        )
    return f"Half of {idle} lies in {count(half)} of its {gaps}."


def _host_did(gap: dict[str, Any]) -> str:
    """What the host did most in a gap, and that it did not hold it up, where what ended it was launched early and the
    host was not in a call of the runtime since, which may itself be what took so long."""
    at = "" if pd.isna(gap["source"]) else f" at {short(gap['source'], _NAME)}"
    silent = _is_silent(gap)
    is_known = pd.notna(gap["doing"]) and not silent
    spent = f"{percent(gap['doing_ps'], gap['idle_ps'])} of it in {short(gap['doing'], _NAME)}{at}" if is_known else ""
    if launched := _launched_early(gap):
        if is_known and gap["launched_ps"] > 0 and calls_runtime(gap["doing"]) and not says_waiting(gap["doing"]):
            return f"; {launched}, and the host spent {spent}"
        return f"; {launched}{f': the host, which spent {spent}, did not hold it up' if spent else ''}"
    if silent:
        return f"; for {percent(gap['unrecorded_ps'], gap['idle_ps'])} of it nothing of the host is recorded"
    return f"; the host spent {spent}" if spent else ""


def _is_silent(gap: dict[str, Any]) -> bool:
    """Whether nothing of the host's thread is recorded for most of a gap."""
    return bool(pd.notna(gap["unrecorded_ps"]) and gap["unrecorded_ps"] > (gap["doing_ps"] or 0))


def _launched_early(gap: dict[str, Any]) -> str:
    """When what ended a gap was launched, if that was long before its end and the host is not what it waited for."""
    launched, idle_ps = gap["launched_ps"], gap["idle_ps"]
    if pd.isna(launched) or 2 * launched >= idle_ps or gap["host_bound_ps"] >= _HUGE * idle_ps:
        return ""
    if launched <= 0:
        return "what ended it had been launched before it began"
    return f"what ended it was launched {time(launched)} after it began"


def _host_did_in(gaps: list[dict[str, Any]]) -> str:
    """What the host did in most of some gaps, where that is the same, and how many of them waited for it."""
    what = [None if pd.isna(gap["doing"]) or _is_silent(gap) else gap["doing"] for gap in gaps]
    most = max(what, key=what.count)
    bound = sum(gap["host_bound_ps"] >= _HUGE * gap["idle_ps"] for gap in gaps)
    sentence = f"; {_of_them(bound, len(gaps))} {'are' if bound > 1 else 'is'} host-bound"
    if 2 * what.count(most) <= len(gaps):
        return sentence
    them = _of_them(what.count(most), len(gaps))
    if most is None:
        whose = "their time" if what.count(most) == len(gaps) else them
        return f"{sentence}, and for most of {whose} nothing of the host is recorded"
    return f"{sentence}, and in {them} the host was mostly in {short(most, _NAME)}"


def _of_them(some: int, all_of_them: int) -> str:
    return "all of them" if some == all_of_them else f"{count(some) if some else 'none'} of them"


def _tables(result: HostApi) -> tuple[Table, ...]:
    waits = result.places.head(MOST_ROWS)
    return (
        table_of(
            waits,
            "host_api.waits",
            "Idle time after waiting calls",
            [
                Field("call", Unit.NAME, "call"),
                Field("under", Unit.NAME, "operation"),
                Field("in", Unit.NAME, "within", brief=False),
                Field("source", Unit.NAME, "source", brief=False),
                Field("calls", Unit.COUNT, "n"),
                Field("gaps", Unit.COUNT, "gaps"),
                Field("idle", Unit.TIME, "idle_ps"),
                Field("of window", Unit.RATIO, "ratio"),
                Field("host-bound", Unit.TIME, "host_bound_ps", brief=False),
                Field("longest at", Unit.INSTANT, lambda row: instant(row, row["device"]), brief=False),
            ],
        ),
        table_of(
            result.by_call.head(MOST_ROWS),
            "host_api.calls",
            "Host time by call",
            [
                Field("call", Unit.NAME, "call"),
                Field("calls", Unit.COUNT, "n"),
                Field("threads", Unit.COUNT, "threads", brief=False),
                Field("total", Unit.TIME, "total_ps"),
                Field("median", Unit.TIME, "median_ps"),
                Field("p95", Unit.TIME, "p95_ps"),
                Field("waits", Unit.COUNT, "waits", brief=False),
                Field("waiting", Unit.TIME, "waits_ps", brief=False),
            ],
            about="Calls inside of calls, and calls of several threads, overlap: the totals do not add up.",
        ),
        table_of(
            result.longest,
            "host_api.gaps",
            "What the host did in the longest gaps",
            [
                Field("device", Unit.DEVICE, "device"),
                Field("at", Unit.INSTANT, lambda row: instant(row, row["device"])),
                Field("time", Unit.TIME, "idle_ps"),
                Field("of idle", Unit.RATIO, "ratio", brief=False),
                Field("host-bound", Unit.TIME, "host_bound_ps"),
                Field("host mostly in", Unit.NAME, lambda row: "nothing recorded" if _is_silent(row) else row["doing"]),
                Field("for", Unit.TIME, lambda row: row["unrecorded_ps" if _is_silent(row) else "doing_ps"]),
                Field("source", Unit.NAME, "source", brief=False),
                Field("thread", Unit.NAME, "thread", brief=False),
                Field("not recorded", Unit.TIME, "unrecorded_ps", brief=False),
            ],
            5,
        ),
    )


def _data(result: HostApi) -> dict[str, object]:
    return {
        "by_call": plain(result.by_call[:MOST_DATA]),
        "places": plain(result.places[:MOST_DATA]),
        "by_device": plain(result.by_device),
        "longest": plain(result.longest),
        "launches": result.launches,
    }
