"""How a straggler is told: who was last how often, and what it would save if it were not."""

from collections.abc import Mapping
from typing import Any

from tracekit.units import quantity, time


def straggler_words(row: Mapping[str, Any]) -> str:
    """Who was last in how many collectives: a device, or the devices of a host."""
    who = f"The {quantity(row['devices'], 'device')} of {row['host']} were" if "host" in row else f"{row['device']} was"
    return f"{who} the straggler{'s' if 'host' in row else ''} in {row['last']} of {row['n']} collectives"


def gain_words(row: Mapping[str, Any]) -> str:
    """What it would save if a straggler came with the others; nothing where `gain_ps` does not say it."""
    if "gain_ps" not in row:
        return ""
    if "host" in row:
        return f"; on time, they would save {time(row['gain_ps'])}"
    return f"; on time, it alone would save {time(row['gain_ps'])}, as others come nearly as late"
