"""Which devices of a trace are the ranks that a collective lists.

The numbers in a list of replica groups are places in the program's device assignment, which a trace does not tell. So
devices are told apart by them only where the list leaves one choice, or where one host has exactly as many devices:
then number k is taken for device k, as JAX orders the devices of one process unless a mesh reorders them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tracekit.devices import number

_GROUP = re.compile(r"\{([\d,]+)\}")

Groups = list[list[int]]


@dataclass(frozen=True)
class Members:
    """Who of d devices took part together.

    `group` says of each which of the collective's groups it is in, -1 where the trace does not prove that; `size` how
    many ranks its group has, 0 if that is not told; `in_order` whether the numbers of the ranks were taken for those of
    the devices.
    """

    group: tuple[int, ...]
    size: tuple[int, ...]
    in_order: bool = False


def groups(ranks: str, pairs: bool) -> Groups:
    """The ranks that take part together, of the text in `events.ranks`: `0,1` or `{{0,2},{1,3}}`.

    `pairs`: the text lists the source and the target of every transfer of a permute; what they connect is together.
    """
    listed = [[int(rank) for rank in text.split(",") if rank] for text in _GROUP.findall(ranks) or [ranks]]
    if not pairs:
        return listed
    connected: Groups = []
    for pair in listed:
        overlapping = [group for group in connected if set(group) & set(pair)]
        connected = [group for group in connected if group not in overlapping]
        connected.append(sorted({*pair, *(rank for group in overlapping for rank in group)}))
    return sorted(connected)


def members(ranks: str, pairs: bool, devices: Sequence[str], hosts: Sequence[str]) -> Members:
    """How the `devices` that ran a collective, on `hosts` (one each), are told apart by its `ranks` ("" if unknown)."""
    count = len(devices)
    if not ranks:
        return Members((0,) * count, (0,) * count)
    listed = groups(ranks, pairs)
    numbers = {rank: number_of_group for number_of_group, group in enumerate(listed) for rank in group}
    sizes = {len(group) for group in listed}
    size = sizes.pop() if len(sizes) == 1 else 0
    if len(listed) == 1 and count <= size:
        return Members((0,) * count, (size,) * count)
    distinct_hosts = list(dict.fromkeys(hosts))
    if len(listed) == 1 and all(
        hosts.count(host) == size for host in distinct_hosts
    ):  # as many programs, each with its own ranks
        return Members(tuple(distinct_hosts.index(host) for host in hosts), (size,) * count)
    ordinals = [-1 if (own_number := number(device)) is None else own_number for device in devices]
    numbers_match = set(ordinals) >= set(numbers) if pairs else set(ordinals) == set(numbers)
    if len(distinct_hosts) == 1 and len(set(ordinals)) == count and numbers_match:
        group = [numbers.get(ordinal, -1) for ordinal in ordinals]
        # A permute's device that neither sends nor receives is alone with itself.
        return Members(tuple(group), tuple(len(listed[place]) if place >= 0 else 1 for place in group), True)
    return Members((-1,) * count, (size,) * count)
