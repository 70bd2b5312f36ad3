"""How the tree is asked for what 54ffded says of a trace, where a name or what is inside an answer has changed since.

Each way gives what version_first.py gives under that key, so that both can be compared: what moved is put back in its
place here. What only has another name stands in RENAMED_KEYS, RENAMED_NAMES and RENAMED_VALUES.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import version_first
from version_first import LARGE, printed, resolve, screen


class Subject(version_first.Subject):
    """A trace as 54ffded is given it; what is made of it in another way today overrides that here."""


def _exported(to: str, name: str = "") -> Callable[[Subject], Path | None]:
    def directory(at: Subject) -> Path | None:
        if len(at.trace.events) > LARGE and to in ("csv", "json"):
            return None
        resolve("export")(at.trace, at.scratch / to / name, to=to)
        return at.scratch / to

    return directory


def _figure(what: str) -> Callable[[Subject], Any]:
    return lambda at: resolve("figure")(at.report, what)


def _middle(at: Subject) -> Any:
    third = at.length_ps // 3
    if not third:
        return None
    return resolve("figure")(at.report, "gantt", start=third, end=2 * third, theme="dark", width=8)


def _step(at: Subject) -> Any:
    return None if at.step is None else resolve("figure")(at.report, "gantt", step=at.step)


# Only what changed: all other keys are asked as in version_first.WAYS.
WAYS: dict[str, Callable[[Subject], Any]] = {
    "screen": screen("report.terminal.trace_screen:lines"),
    "printed": printed("report.terminal.printout:show", "console:console"),
    "pictures/gantt": _figure("gantt"),
    "pictures/partition": _figure("partition"),
    "pictures/concurrency": _figure("concurrency"),
    "pictures/overlap": _figure("overlap"),
    "pictures/middle": _middle,
    "pictures/step": _step,
    "exports/parquet": _exported("parquet"),
    "exports/csv": _exported("csv"),
    "exports/json": _exported("json"),
    "exports/perfetto": _exported("perfetto", "trace.pftrace"),
}

# What only changed its name: (today, in 54ffded). The beginning of a key; with globs on keys the columns of frames and
# the names in data; and values, in the columns and under the names that say it.
RENAMED_KEYS: tuple[tuple[str, str], ...] = ()
RENAMED_NAMES: tuple[tuple[str, str, str], ...] = ()  # glob, today, in 54ffded
RENAMED_VALUES: tuple[tuple[str, str, str, str], ...] = ()  # glob, name in 54ffded, value today, value in 54ffded
