"""Groups of devices whose collectives are slower than those of groups like theirs: a link between them is slow."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.analysis.stragglers import FEWEST, Members
from tracekit.columns import frame
from tracekit.timeline.rows import Rows

GROUP_COLUMNS = {
    "category": "str",
    "ranks": "int64",
    "size_bytes": "int64",
    "devices": "str",
    "n": "int64",
    "bus_bytes_per_s": "float64",
    "others_bytes_per_s": "float64",
    "excess_ps": "int64",
    "slow": "bool",
}
# A smaller part of the bandwidth that groups like it reach is more than what traffic and distance make of one link.
SLOW = 0.7
# Of larger groups the first and the last device are named.
_NAMED = 8
_BETWEEN = " … "


def groups_by_bandwidth(rows: Rows, members: Members, table: pd.DataFrame, power: pd.Series) -> pd.DataFrame:
    """One row per group of devices (GROUP_COLUMNS) that met in FEWEST collectives or more of one category, number of
    ranks and `power` of two of bytes, where several groups did: the median of its bus bandwidths, in bytes per second,
    and that of the middle one of the other groups, the faster of two. It is `slow` below SLOW of that. `excess_ps`: how
    much longer its transfers were exposed, in all and summed over the devices, than if they had been as fast as that.

    `table` (m,) are the instances (COLLECTIVE_COLUMNS); of lower bounds nothing is told.
    """
    is_known = members.shared[members.first] & table["bus_bytes_per_s"].notna().to_numpy()
    is_known &= ~table["at_least"].to_numpy() & (table["devices"] > 1).to_numpy()
    if not is_known.any():
        return frame(GROUP_COLUMNS)
    # The same devices meet again and again, which equal sums of numbers drawn for each tell in one pass.
    drawn = np.random.default_rng(0).integers(1 << 62, size=len(rows.devices))
    keyed = pd.DataFrame(
        {
            "category": table["category"],
            "ranks": table["devices"],
            "size_bytes": power.fillna(0).astype("int64"),
            "key": members.over(np.add, drawn[members.device]),
            "place": np.arange(len(table)),
            "bus": table["bus_bytes_per_s"].astype("float64"),
            "transfer_ps": table["transfer_ps"].astype("float64") * table["devices"],
            "exposed_ps": (table["exposed_ps"] - table["exposed_wait_ps"]).astype("float64"),
        }
    )[is_known]
    kind = ["category", "ranks", "size_bytes"]
    groups = keyed.groupby([*kind, "key"], sort=False)["bus"].agg(["size", "median"])
    groups["place"] = keyed.groupby([*kind, "key"], sort=False)["place"].min()
    groups = groups[groups["size"] >= FEWEST].reset_index()
    groups = groups[groups.groupby(kind)["key"].transform("size") > 1].sort_values("place")
    others = [_of_others(its["median"].to_numpy()) for _, its in groups.groupby(kind, sort=False)]
    of_kind = [its.index for _, its in groups.groupby(kind, sort=False)]
    groups["others"] = pd.concat(
        [pd.Series(dtype="float64"), *(pd.Series(values, at) for values, at in zip(others, of_kind, strict=True))]
    )
    edges = np.append(members.first, len(members.device))
    # A faster transfer ends sooner, and the end is what is exposed of it.
    each = keyed.merge(groups[[*kind, "key", "others"]], on=[*kind, "key"])
    saved = (each["transfer_ps"] * (1 - each["bus"] / each["others"])).clip(lower=0)
    each["excess_ps"] = np.minimum(saved, each["exposed_ps"].clip(lower=0))
    excess = each.groupby([*kind, "key"], sort=False)["excess_ps"].sum()
    return frame(
        GROUP_COLUMNS,
        {
            **{name: groups[name].to_numpy() for name in kind},
            "devices": [_names(rows, members.device[edges[at] : edges[at + 1]]) for at in groups["place"].tolist()],
            "n": groups["size"].to_numpy(),
            "bus_bytes_per_s": groups["median"].to_numpy(),
            "others_bytes_per_s": groups["others"].to_numpy(),
            "excess_ps": excess.loc[list(groups[[*kind, "key"]].itertuples(index=False))].round().to_numpy(np.int64),
            "slow": (groups["median"] < SLOW * groups["others"]).to_numpy(),
        },
    )


def _of_others(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each value the middle one of the others, the larger of two in the middle."""
    order = np.argsort(values, kind="stable")
    place = np.empty(len(values), np.int64)
    place[order] = np.arange(len(values))
    middle = (len(values) - 1) // 2
    result: NDArray[np.float64] = values[order][middle + (place <= middle)]
    return result


def _names(rows: Rows, devices: NDArray[np.int64]) -> str:
    names = [rows.devices[device] for device in devices.tolist()]
    return ", ".join(names) if len(names) <= _NAMED else f"{names[0]}{_BETWEEN}{names[-1]}"


def slow_group_of(device: str, by_group: pd.DataFrame) -> dict[str, object] | None:
    """The slowest of the slow groups, among those whose devices are all named, that a device is in."""
    slow = by_group[by_group["slow"]]
    mine = slow[[device in names.split(", ") for names in slow["devices"]]]
    if not len(mine):
        return None
    ratio = mine["bus_bytes_per_s"] / mine["others_bytes_per_s"]
    row = mine.iloc[int(np.argmin(ratio.to_numpy()))]
    return {"devices": str(row["devices"]), "ratio": float(ratio.min())}
