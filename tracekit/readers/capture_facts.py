"""What `tracekit capture` says of a run in the `capture.json` beside it: as much of it as is whole, and what is lost.

Anything may have written or changed that file, and a trace is worth reading without it: what is damaged of it costs
only itself.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from tracekit.files import regular_bytes
from tracekit.readers.losses import Lost
from tracekit.units import short
from tracekit.vocabulary.losses import Loss

NAME = "capture.json"
_MOST_BYTES = 16 << 20
# Names and values that a file may hold are told in so many letters, and so many of them.
_LONGEST, _MOST_TOLD = 40, 5
_MOST = 1e15  # of cores, processes' seconds and the like: sums and products of them are numbers too
_Time = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
_Number = Annotated[float, msgspec.Meta(ge=-_MOST, le=_MOST)]
_Series = list[_Number] | None


class _Samples(msgspec.Struct):
    unix_ns: Annotated[list[_Time], msgspec.Meta(min_length=1)]
    own_cpu_s: _Series
    other_cpu_s: _Series
    stolen_cpu_s: _Series
    frequency_mhz: _Series


class _Throttled(msgspec.Struct):
    periods: Annotated[int, msgspec.Meta(ge=0, le=1 << 62)] | None = None
    throttled_s: _Number | None = None


class _Machine(msgspec.Struct):
    cores: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
    load_average: list[_Number | None]
    throttled: _Throttled | None
    samples: _Samples
    lacking: dict[str, str]


class _Fact(NamedTuple):
    """What a name in the file tells, and of which form; every capture has written those that are `always` there."""

    form: Any
    tells: str
    always: bool = False


_SCHEMA = 1
_FACTS: Mapping[str, _Fact] = {
    "command": _Fact(list[str], "the command"),
    "started": _Fact(str, "when it began"),
    "exit_code": _Fact(int | None, "how the script ended"),
    "machines": _Fact(dict[str, str], "the machines of its processes"),
    "usable_cores": _Fact(_Number | None, "how many cores it could use", always=True),
    "commit": _Fact(str | None, "the commit", always=True),
    "xla_flags": _Fact(str | None, "the flags of XLA"),
    "machine": _Fact(_Machine | None, "the load of the machine"),
}


def read(directory: Path, traces: Collection[Path] = ()) -> tuple[dict[str, Any] | None, list[Lost]]:
    """What the file in a run's directory says, None if there is none or nothing of it can be believed, and what is lost
    of it, as one loss; one of the `traces` that is called so is none."""
    path = directory / NAME
    if path in traces:
        return None, []
    try:
        facts = json.loads(regular_bytes(path, _MOST_BYTES))
        if not isinstance(facts, dict):
            raise ValueError("it is not what tracekit capture writes")
    except FileNotFoundError:
        return None, []
    except (OSError, ValueError, RecursionError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return None, [_lost([reason.rstrip(".")])]
    return whole(facts, [name for name, fact in _FACTS.items() if fact.always])


def whole(facts: Mapping[str, Any], needed: Sequence[str] = ()) -> tuple[dict[str, Any] | None, list[Lost]]:
    """The facts without those that are not of their form, None if they are of another schema, which may mean something
    else by them; and as one loss these, and those `needed` that are not there."""
    schema = facts.get("schema")
    if type(schema) is not int or schema != _SCHEMA:
        has = f"its schema is {short(schema, _LONGEST)}" if "schema" in facts else "it has no schema"
        return None, [_lost([f"{has}, where this version of tracekit knows {_SCHEMA}"])]
    faults = {name: fault for name, value in facts.items() if (fault := _fault(name, value))}
    lacking = {name: "it is missing" for name in needed if name not in facts}
    told = faults | lacking
    lost = [_lost([f"{short(name, _LONGEST)}: {why}" for name, why in told.items()], told)] if told else []
    return {name: value for name, value in facts.items() if name not in faults}, lost


def _lost(reasons: Sequence[str], names: Collection[str] | None = None) -> Lost:
    """The loss of the facts of these names, None for all, and what is not known because of it."""
    more = f"; and {len(reasons) - _MOST_TOLD} more" if len(reasons) > _MOST_TOLD else ""
    unknown = [fact.tells for name, fact in _FACTS.items() if names is None or name in names]
    so = f"; not known because of it: {', '.join(unknown)}" if unknown else ""
    evidence = f"{NAME}: {'; '.join(reasons[:_MOST_TOLD])}{more}{so}"
    return Lost(Loss.DETAILS, None if names is None else len(names), None, evidence)


def _fault(name: str, value: Any) -> str:
    """Why a value is not of the form of the fact `name`, "" where it is."""
    try:
        known = msgspec.convert(value, _FACTS[name].form) if name in _FACTS else None
    except (msgspec.ValidationError, ValueError) as error:
        return str(error)
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return "it holds a number out of range, or too much in each other"
    if isinstance(known, _Machine):
        series = [getattr(known.samples, name) for name in _Samples.__struct_fields__]
        if len({len(each) for each in series if each is not None}) > 1:
            return "it has not as many samples of each"
        if len({each is None for each in series[1:4]}) > 1:
            return "it has the times of some processes alone"
    return ""
