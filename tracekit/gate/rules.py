"""Rules that a report has to keep: a measure, its bounds and its scope, from a TOML file or from options."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracekit import times
from tracekit.errors import TracekitError
from tracekit.report.measures import MEASURES, nearest
from tracekit.report.measures import check as check_measure
from tracekit.report.section import FORMATS, Unit
from tracekit.vocabulary.rules import tables

_KEYS = ("measure", "of", "min", "max", "phase", "step", "device", "name")
_SHARE = re.compile(r"(\d+\.?\d*|\.\d+)\s*%")
_FACTOR = re.compile(r"(\d+\.?\d*|\.\d+)\s*x?")
_PLAIN = re.compile(r"\d+\.?\d*(?:e-?\d+)?|\.\d+(?:e-?\d+)?", re.IGNORECASE)


@dataclass(frozen=True)
class Rule:
    """The `measure` of a report (`Report.measure`, which says what `of`, `phase`, `step` and `device` are) is no less
    than `least` and no more than `most`, both in `unit`, None for no bound; `name` is the user's own for the rule."""

    measure: str
    least: float | None = None
    most: float | None = None
    unit: Unit | None = None
    of: str | tuple[str, str] | None = None
    phase: str | None = None
    step: int | str | None = None
    device: str | None = None
    name: str = ""

    @property
    def subject(self) -> str:
        """The measure in words, with what its scope is asked to be: `idle time of gpu:1 in phase train`."""
        words = self.measure.replace("-", " ")
        if self.of is not None:
            words += f" of {self.of if isinstance(self.of, str) else ' and '.join(self.of)}"
        words += f" of {self.device}" if self.device else ""
        words += f" in phase {self.phase}" if self.phase not in (None, "whole") else ""
        words += " in the whole trace" if self.phase == "whole" else ""
        if self.step is None:
            return words
        return f"{words} in step {self.step}" if isinstance(self.step, int) else f"{words} in the {self.step} step"

    @property
    def text(self) -> str:
        """The rule as a sentence without its end: `overlap of devices at least 80.0 %`."""
        form = FORMATS[self.unit or MEASURES[self.measure][0]]
        least = [] if self.least is None else [f"at least {form(self.least)}"]
        most = [] if self.most is None else [f"at most {form(self.most)}"]
        label = f"{self.name}: " if self.name else ""
        return f"{label}{self.subject} {' and '.join(least + most)}"


def rule(
    label: str,
    measure: str,
    least: str | float | None = None,
    most: str | float | None = None,
    **scope: Any,
) -> Rule:
    """The rule on a measure with bounds as a user types them, such as 0.8, "80%" or "2ms"; `scope` are of, phase, step,
    device and name.

    Raises TracekitError, which begins with the `label`, where there is no such measure, scope or bound.
    """
    try:
        name = scope.pop("name", "")
        check_measure(measure, scope.get("of"), scope.get("phase"), scope.get("step"), scope.get("device"))
        if least is None and most is None:
            raise TracekitError("give it a min or a max.")
        bounds = [None if bound is None else _bound(bound, measure) for bound in (least, most)]
        units = {unit for _, unit in filter(None, bounds)}
        if len(units) > 1:
            raise TracekitError(f"min is {least} and max is {most}: give both as a share, or both as a time.")
        low, high = (None if bound is None else bound[0] for bound in bounds)
        if low is not None and high is not None and low > high:
            raise TracekitError(f"min is {least}, which is more than the max of {most}.")
        return Rule(measure, low, high, units.pop(), **scope, name=name)
    except TracekitError as error:
        raise TracekitError(f"{label}: {error}") from None


def _bound(value: str | float, measure: str) -> tuple[float, Unit]:
    """A bound and its unit: a share is a number in 0..1 or one with %, a time has its unit."""
    units, text = MEASURES[measure], str(value).strip()
    if match := _SHARE.fullmatch(text):
        share, is_share = float(match[1]) / 100, True
    else:
        is_share = bool(_PLAIN.fullmatch(text)) and units[0] == Unit.RATIO
        share = float(text) if is_share else 0.0
    if is_share:
        if Unit.RATIO not in units:
            raise TracekitError(f"the {measure} is no share, so that it cannot be {value}.")
        if share > 1:
            raise TracekitError(f"{value} is more than the whole: give a share such as 0.8 or 80%.")
        return share, Unit.RATIO
    if Unit.FACTOR in units:
        if not (match := _FACTOR.fullmatch(text)):
            raise TracekitError(f"{value!r} is no factor: give a number such as 1.5.")
        return float(match[1]), Unit.FACTOR
    if Unit.TIME not in units:
        raise TracekitError(f"{value!r} is no share: give a number in 0 to 1, or one with %, such as 80%.")
    return times.parse(text, f"the bound of {measure}"), Unit.TIME


def read(location: str | os.PathLike[str]) -> tuple[Rule, ...]:
    """The rules in the TOML file at a path or URL, in order; docs/howto/ci.md describes it.

    Raises TracekitError, which names the file and the rule, where one is wrong or there is none.
    """
    return tuple(_of_table(label, table) for label, table in tables(location, "--rules", "docs/howto/ci.md"))


def _of_table(label: str, table: Mapping[str, Any]) -> Rule:
    if unknown := [key for key in table if key not in _KEYS]:
        raise TracekitError(f"{label}: {unknown[0]!r} is no key of a rule{nearest(unknown[0], _KEYS)}")
    if "measure" not in table:
        raise TracekitError(f"{label} names no measure: {', '.join(MEASURES)}.")
    for key, value in table.items():
        allowed: Any = {"min": str | int | float, "max": str | int | float, "step": int | str, "of": str | list}
        if not isinstance(value, allowed.get(key, str)) or isinstance(value, bool):
            raise TracekitError(f"{label}: {key} = {value!r} is none; docs/howto/ci.md shows one.")
    of = table.get("of")
    if isinstance(of, list):
        of = _pair(label, of)
    return rule(
        label,
        table["measure"],
        table.get("min"),
        table.get("max"),
        of=of,
        **{key: table[key] for key in ("phase", "step", "device", "name") if key in table},
    )


def _pair(label: str, names: Sequence[Any]) -> tuple[str, str]:
    if len(names) != 2 or not all(isinstance(name, str) for name in names):
        raise TracekitError(f"{label}: an overlap is of two devices, not {list(names)!r}.")
    return names[0], names[1]


def from_options(
    path: str | os.PathLike[str] | None,
    bounds: Mapping[str, Sequence[str] | str | None],
    *,
    phase: str | None = None,
    step: str | None = None,
    device: str | None = None,
) -> tuple[Rule, ...]:
    """The rules of a file, if there is one, then those of options: `bounds` by the name of the option without dashes,
    all in the scope that is given."""
    given = {"phase": phase, "step": int(step) if step and step.isdecimal() else step, "device": device}
    scope = {name: value for name, value in given.items() if value is not None}
    rules = [] if path is None else [*read(path)]
    for option, bound in bounds.items():
        measure, is_least = option.partition("-")[2], option.startswith("min-")
        for text in [bound] if isinstance(bound, str) else bound or []:
            label, of = f"--{option} {text}", None
            if measure == "overlap":
                of, text = _overlap(label, text)
            rules.append(rule(label, measure, *((text, None) if is_least else (None, text)), **scope, of=of))
    if scope and not any(bounds.values()):
        raise TracekitError(f"--{next(iter(scope))} is for bounds on the command line, of which there is none.")
    return tuple(rules)


def _overlap(label: str, text: str) -> tuple[str | tuple[str, str], str]:
    """What overlaps, and the least share of it, in `WHAT=SHARE`; WHAT may be two devices: `gpu:0,gpu:1=0.8`."""
    what, equals, least = text.rpartition("=")
    if not equals:
        raise TracekitError(f"{label}: say what overlaps and the least share of it, such as devices=0.8.")
    return (_pair(label, what.split(",")) if "," in what else what), least
