"""Operations of two sides paired: by name where the names are the same, by family where a compiler numbered them anew,
by the framework's operator where the kernels are others."""

from dataclasses import dataclass

import pandas as pd

from tracekit.columns import frame
from tracekit.units import percent, quantity
from tracekit.vocabulary.kinds import stem

PAIR_COLUMNS = {
    "operation": "str",
    "kind": "str",
    "pattern": "str",
    "state": "str",
    "a_n": "Float64",
    "b_n": "Float64",
    "a_ps": "int64",
    "b_ps": "int64",
    "diff_ps": "int64",
    "a_call_ps": "Int64",
    "b_call_ps": "Int64",
    "a_names": "int64",
    "b_names": "int64",
}
BOTH, CAME, WENT = "both", "came", "went"
NAME, FAMILY, OPERATOR = "name", "family", "operator"
# Operators pair the work where less than this of the time of a side is in names that both have.
_SHARED = 0.8
# What an operation without an operator is paired by, between these marks, so that no operator is called so.
_NO_OPERATOR = "({})"


@dataclass(frozen=True, eq=False)
class Operations:
    """The operations of both sides, paired.

    `table` (PAIR_COLUMNS), the largest difference first: of each operation its `kind`, its `pattern`, whether it is on
    `both` sides, `came` with b or `went` with a (`state`); per unit and device how often it ran (`a_n`, `b_n`) and the
    sum of its durations (`a_ps`, `b_ps`, `diff_ps`); the time of one call, null where there is none; and how many names
    of each side it stands for. `paired_by` is NAME, FAMILY or OPERATOR, `why` a sentence on it.
    """

    table: pd.DataFrame
    paired_by: str
    why: str

    @property
    def is_same_work(self) -> bool:
        """Whether both sides ran the same operations, each as often."""
        table = self.table
        return len(table) > 0 and bool(((table["state"] == BOTH) & (table["a_n"] == table["b_n"])).all())


def pair(a: pd.DataFrame, b: pd.DataFrame, a_units: int, b_units: int) -> Operations:
    """Pair the operations (OPERATION_COLUMNS) of both sides, whose sums are of so many units, each on every device."""
    sides = [_labelled(side) for side in (a, b)]
    names = [side["name"] for side in sides]
    every, both = set(names[0]) | set(names[1]), set(names[0]) & set(names[1])
    only = f"{len(every - both)} of {quantity(len(every), 'name')} are on one side only"
    keys, paired_by = names, NAME
    why = f"{len(both)} of {quantity(len(every), 'name')} are on both sides: operations are paired by name."
    if _numbered(sides):
        keys, paired_by = _by_family(sides), FAMILY
        why = f"The compiler numbers its operations anew, and {only}: those that differ in that number alone are one."
    share = _shared(sides, keys)
    if share < _SHARED and _has_operators(sides) and _shared(sides, by_operator := _by_operator(sides)) > share:
        keys, paired_by = by_operator, OPERATOR
        why = (
            f"{only}, and {percent(share)} of the time has a name that both sides have: operations are paired by the "
            "framework's operator."
        )
    units = a_units, b_units
    summed = [_summed(side, key, of) for side, key, of in zip(sides, keys, units, strict=True)]
    return Operations(_joined(*summed), paired_by, why)


def _shared(sides: list[pd.DataFrame], keys: list[pd.Series]) -> float:
    """The share of the time whose key both sides have, of the side with less of it."""
    both = set(keys[0]) & set(keys[1])
    times = [
        (int(side.loc[key.isin(both), "time_ps"].sum()), int(side["time_ps"].sum()))
        for side, key in zip(sides, keys, strict=True)
    ]
    return min(inside / total if total else 1.0 for inside, total in times)


def _labelled(side: pd.DataFrame) -> pd.DataFrame:
    """Names are those of one program each: a program's own name is no part of them, as recompiling changes it."""
    return side.assign(name=side["name"].fillna("(no name)").astype(object))


def _has_operators(sides: list[pd.DataFrame]) -> bool:
    """Whether most of the time of both sides has a framework's operator."""
    return all(
        2 * int(side.loc[side["operator"].notna(), "time_ps"].sum()) > int(side["time_ps"].sum()) for side in sides
    )


def _numbered(sides: list[pd.DataFrame]) -> bool:
    """Whether both were compiled, and not to the same names, called equally often: then a number tells nothing."""
    compiled = [side[side["program"].notna()] for side in sides]
    if not all(map(len, compiled)):
        return False
    a, b = (set(side["name"]) for side in compiled)
    return a != b


def _by_operator(sides: list[pd.DataFrame]) -> list[pd.Series]:
    """Its operator, of what has none what it computes; of an operator that one side lacks the last part of its path."""
    operators = [side["operator"].astype(object) for side in sides]
    both = set(operators[0].dropna()) & set(operators[1].dropna())
    last = [its.where(its.isin(both), _last_part(its)) for its in operators]
    return [
        its.where(its.notna(), side["pattern"].map(_NO_OPERATOR.format)) for its, side in zip(last, sides, strict=True)
    ]


def _by_family(sides: list[pd.DataFrame]) -> list[pd.Series]:
    """Its name without the compiler's number, and the framework's operator, which recompiling leaves as it is; of
    operations of no program, such as copies, the name. Where a side lacks such a family, as the function around it is
    another, its operator is the last part of its path: `dot_general` of `jit(f)/while/body/dot_general`."""
    whole = [_family(side, side["operator"].astype(object)) for side in sides]
    last = [_family(side, _last_part(side["operator"])) for side in sides]
    both = set(whole[0]) & set(whole[1])
    return [its.where(its.isin(both), coarse) for its, coarse in zip(whole, last, strict=True)]


def _last_part(operators: pd.Series) -> pd.Series:
    """The last part of the path of each operator; null stays null."""
    return operators.astype(object).map(lambda path: path.rpartition("/")[2], na_action="ignore").astype(object)


def _family(side: pd.DataFrame, operator: pd.Series) -> pd.Series:
    family = side["name"].map(stem).where(side["program"].notna(), side["name"])
    return family.where(operator.isna() | side["program"].isna(), family + " (" + operator.fillna("") + ")")


def _summed(side: pd.DataFrame, key: pd.Series, units: int) -> pd.DataFrame:
    by = side.assign(key=key.astype(object)).groupby("key", sort=False)
    longest = side.assign(key=key.astype(object)).sort_values("time_ps", ascending=False).drop_duplicates("key")
    about = longest.set_index("key")[["kind", "pattern"]]
    summed = by.agg(n=("n", "sum"), time_ps=("time_ps", "sum"), names=("name", "nunique")).join(about)
    return summed.assign(units=units)


def _joined(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for key in dict.fromkeys([*a.index, *b.index]):
        its = [side.loc[key] if key in side.index else None for side in (a, b)]
        times = [0 if it is None else round(int(it["time_ps"]) / max(int(it["units"]), 1)) for it in its]
        counts = [None if it is None else int(it["n"]) / max(int(it["units"]), 1) for it in its]
        calls = [None if it is None else int(it["time_ps"]) // int(it["n"]) for it in its]
        names = [0 if it is None else int(it["names"]) for it in its]
        about = next(it for it in its if it is not None)
        state = WENT if its[1] is None else CAME if its[0] is None else BOTH
        of_key = key, about["kind"], about["pattern"], state
        per_unit = [count or 0.0 for count in counts]
        rows.append((*of_key, *per_unit, *times, times[1] - times[0], *calls, *names))
    rows.sort(key=lambda row: (-abs(row[8]), str(row[0])))
    return frame(PAIR_COLUMNS, rows)
