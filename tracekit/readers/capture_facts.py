"""What `tracekit capture` says of a run in the `capture.json` beside it: as much of it as is whole, and what is lost.

Anything may have written or changed that file, and a trace is worth reading without it: what is damaged of it costs
only itself.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from tracekit.files import regular_bytes
from tracekit.readers.losses import Lost
from tracekit.vocabulary.losses import Loss

NAME = "capture.json"
_MOST_BYTES = 16 << 20
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


# What is read of it, and of which form that is.
_FORMS: Mapping[str, Any] = {
    "exit_code": int | None,
    "machines": dict[str, str],
    "usable_cores": _Number | None,
    "commit": str | None,
    "xla_flags": str | None,
    "machine": _Machine | None,
}


def read(directory: Path) -> tuple[dict[str, Any] | None, list[Lost]]:
    """What the file in a run's directory says, None if there is none or it is unreadable, and what is lost of it."""
    try:
        facts = json.loads(regular_bytes(directory / NAME, _MOST_BYTES), parse_constant=lambda _: None)
        if not isinstance(facts, dict):
            raise ValueError("it is not what tracekit capture writes")
    except FileNotFoundError:
        return None, []
    except (OSError, ValueError, RecursionError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return None, [Lost(Loss.DETAILS, None, None, f"{NAME}: {reason.rstrip('.')}")]
    return whole(facts)


def whole(facts: Mapping[str, Any]) -> tuple[dict[str, Any], list[Lost]]:
    """The facts without those that are not of their form, and these as lost."""
    kept, lost = dict(facts), []
    for name, form in _FORMS.items():
        if name in facts and (fault := _fault(facts[name], form)):
            del kept[name]
            lost.append(Lost(Loss.DETAILS, 1, None, f"{NAME}: {name}: {fault}"))
    return kept, lost


def _fault(value: Any, form: Any) -> str:
    """Why a value is not of a form, "" where it is."""
    try:
        known = msgspec.convert(value, form)
    except (msgspec.ValidationError, ValueError) as error:
        return str(error)
    if isinstance(known, _Machine):
        series = [getattr(known.samples, name) for name in _Samples.__struct_fields__]
        if len({len(each) for each in series if each is not None}) > 1:
            return "it has not as many samples of each"
        if len({each is None for each in series[1:4]}) > 1:
            return "it has the times of some processes alone"
    return ""
