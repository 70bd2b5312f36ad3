"""Which devices take part in a collective together, in the forms in which HLO lists them (xla/hlo/ir/replica_group.h).

The numbers are places in the program's device assignment, which a trace does not tell, and not those of its devices.
"""

import math
import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

Groups = list[list[int]]
# An axis of a mesh, by its place, or the part of it of `size` devices that has a product of `before` to its left.
Axis = tuple[int, int, int]

# A list that is longer than any machine's stands for nothing.
_MOST = 1 << 20
_IOTA = re.compile(r"\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(r"mesh\[([^\]]*)\](?:, device_ids=\((.*?)\))? \{([^}]*)\}")
_AXIS_SIZE = re.compile(r"([^=,]+)=(\d+)")
_AXIS = re.compile(r"([^:]+)(?::\((\d+)\)(\d+))?")
_TILES = re.compile(r"\[([\d,]+)\](?:T\(([\d,]+)\))?")
_GROUP = re.compile(r"\{([\d,]*)\}")
_NUMBER = re.compile(r"\d+")


def members(groups: Sequence[Sequence[int]]) -> str | None:
    """The groups as text: `0,1,2` if there is one, `{{0,1},{2,3}}` if there are several, None if none is listed, which
    means all."""
    texts = [",".join(map(str, group)) for group in groups]
    return "{" + ",".join(f"{{{text}}}" for text in texts) + "}" if len(texts) > 1 else texts[0] if texts else None


def pairs(transfers: Sequence[Sequence[int]]) -> str | None:
    """The source and target of every transfer of a permute as text: `{{0,1},{1,0}}`; None if there is none."""
    return "{" + ",".join("{" + ",".join(map(str, pair)) + "}" for pair in transfers) + "}" if transfers else None


def iota(groups: int, size: int, reshape: Sequence[int], permutation: Sequence[int]) -> Groups:
    """The groups that `[groups,size]<=[reshape]T(permutation)` stands for; no permutation leaves the order.

    Empty if the numbers do not fit together.
    """
    count = math.prod(reshape)
    if sorted(permutation or range(len(reshape))) != list(range(len(reshape))) or count != groups * size:
        return []
    if not 0 < count <= _MOST:
        return []
    return np.arange(count).reshape(reshape).transpose(permutation or None).reshape(groups, size).tolist()


def mesh(sizes: Sequence[int], ids: Sequence[int], axes: Sequence[Axis]) -> Groups:
    """The groups along `axes` of a mesh with axes of `sizes`; its devices are `ids`, or in order if there are none.

    Empty if the numbers do not fit together.
    """
    count = math.prod(sizes)
    if not 0 < count <= _MOST or (ids and len(ids) != count):
        return []
    shape: list[int] = []
    place: dict[Axis, list[int]] = {}
    for at, size in enumerate(sizes):
        parts = [axis for axis in axes if axis[0] == at]
        cuts = sorted({1, size, *(before for _, before, _ in parts), *(before * wide for _, before, wide in parts)})
        if (cuts[0], cuts[-1]) != (1, size) or any(high % low for low, high in pairwise(cuts)):
            return []
        for low, high in pairwise(cuts):
            for axis in parts:
                if axis[1] <= low and high <= axis[1] * axis[2]:
                    place.setdefault(axis, []).append(len(shape))
            shape.append(high // low)
    together = [dimension for axis in axes for dimension in place.get(axis, [])]
    apart = [dimension for dimension in range(len(shape)) if dimension not in together]
    group_size = math.prod(shape[dimension] for dimension in together)
    devices = np.array(ids or range(count)).reshape(shape)
    return devices.transpose([*apart, *together]).reshape(-1, group_size).tolist()


def parse(text: str) -> Groups:
    """The groups that the text after `replica_groups=` begins with, in any form; empty if it lists none."""
    if match := _IOTA.match(text):
        return iota(int(match[1]), int(match[2]), _integers(match[3]), _integers(match[4] or ""))
    if match := _MESH.match(text):
        return _named_mesh(_AXIS_SIZE.findall(match[1]), match[2] or "", match[3])
    return [_integers(group) for group in _GROUP.findall(text[1 : _end(text)])]


def _named_mesh(axis_sizes: list[tuple[str, str]], ids: str, text: str) -> Groups:
    order = [name.strip("'") for name, _ in axis_sizes]
    sizes = [int(size) for _, size in axis_sizes]
    axes: list[Axis] = []
    for part in text.split(","):
        match = _AXIS.fullmatch(part.strip())
        name = match[1].strip("'") if match else ""
        if match is None or name not in order:
            return []
        axes.append((order.index(name), int(match[2] or 1), int(match[3] or sizes[order.index(name)])))
    if tiles := _TILES.fullmatch(ids):
        spread = iota(1, math.prod(sizes), _integers(tiles[1]), _integers(tiles[2] or ""))
        return mesh(sizes, spread[0], axes) if spread else []
    return mesh(sizes, [int(device_id) for device_id in _NUMBER.findall(ids)], axes)


def _end(text: str) -> int:
    """Where the brace that opens `text` is closed."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return at
    return len(text)


def _integers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]
