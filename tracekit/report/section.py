"""What a section of the report is made of: sentences, tables and plain data, or why there is none."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

# Title, head and rows of a table whose cells are text.
Titled = tuple[str, list[str], list[list[str]]]


@dataclass(frozen=True)
class Section:
    """One analysis as the report shows it.

    `key` names it in summary.json, whose value is `data`, plain data in integers of picoseconds and ratios in 0..1.
    `said` are sentences that stand before the `tables`. `lacking` says why the trace has no evidence for it, and then
    there is nothing else.
    """

    key: str
    title: str
    said: Sequence[str] = ()
    tables: Sequence[Titled] = ()
    data: Any = None
    lacking: str = ""


def plain(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as plain data for JSON; null is None."""
    columns = [
        [None if missing else value for value, missing in zip(table[name].tolist(), table[name].isna(), strict=True)]
        for name in table.columns
    ]
    names = [str(name) for name in table.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def plain_value(value: Any) -> Any:
    """A cell of a table as plain data; null is None."""
    if pd.isna(value):
        return None
    return value.item() if hasattr(value, "item") else value
