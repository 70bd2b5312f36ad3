"""HLO instructions from the text that XLA prints of them: on a TPU the name of an event is often that text.

`%copy-done.2 = f32[5]{0:T(128)} copy-done((f32[5]{0}, …) %copy-start.2), channel_id=1`: name, shape, opcode, operands,
attributes. Grammar: xla/hlo/parser/hlo_parser.cc.
"""

import math
import re

from tracekit.readers.hlo.instruction import (
    Axis,
    Groups,
    Instruction,
    Shape,
    array,
    group_text,
    iota_groups,
    mesh_groups,
    pair_text,
)

# What stands in their parentheses is no operand.
_LITERAL = frozenset({"parameter", "constant"})

_HEAD = re.compile(r"(?:ROOT )?%?([^\s=]+) = ")
_OPCODE = re.compile(r" ?([a-z][\w-]*)\(")
_OPCODE_ANYWHERE = re.compile(r"[)\]}] ([a-z][\w-]*)\(")
_ARRAY = re.compile(r"([a-z]\w*)\[([^\]]*)\](?:\{([^}]*)\})?")
_SKIP = re.compile(r"[\s,]*(?:/\*.*?\*/[\s,]*)*")
_NAME = re.compile(r"%?([\w.$-]+)")
_NUMBER = re.compile(r"\d+")
_SPACE = re.compile(r"S\((\d+)\)")
_ELEMENT_BITS = re.compile(r"E\((\d+)\)")
_CHANNEL = re.compile(r"\bchannel_id=(\d+)")
_TARGET = re.compile(r'\bcustom_call_target="([^"]*)"')
# Where the operands end, in which `)` stands only before a layout's end or another operand.
_ATTRIBUTES = re.compile(r"\), [\w-]+=")
_MARKED = re.compile(r"%([\w.$-]+)")
_GROUPS = re.compile(r"\breplica_groups=")
_PAIRS = re.compile(r"\bsource_target_pairs=")
# Of replica groups: a range of numbers that is reshaped, axes of a mesh, or each group by itself.
_IOTA = re.compile(r"\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(r"mesh\[([^\]]*)\](?:, device_ids=\((.*?)\))? \{([^}]*)\}")
_AXIS_SIZE = re.compile(r"([^=,]+)=(\d+)")
_AXIS = re.compile(r"([^:]+)(?::\((\d+)\)(\d+))?")
_TILES = re.compile(r"\[([\d,]+)\](?:T\(([\d,]+)\))?")
_GROUP = re.compile(r"\{([\d,]*)\}")


def head(text: str) -> tuple[str, str] | None:
    """Name and opcode of the instruction that `text` prints, None if it prints none."""
    match = _HEAD.match(text)
    if match is None:
        return None
    # The shape of the result stands between the two; only a tuple's holds spaces.
    if text.startswith("(", match.end()):
        opcode = _OPCODE_ANYWHERE.search(text, match.end())
    else:
        opcode = _OPCODE.search(text, text.find(" ", match.end()))
    return None if opcode is None else (match[1], opcode[1])


def parse(text: str) -> Instruction | None:
    """The instruction that `text` prints, None if it prints none."""
    match, name_and_opcode = _HEAD.match(text), head(text)
    if match is None or name_and_opcode is None:
        return None
    try:
        shape, at = _shape(text, match.end())
        at = text.index("(", at) + 1
        operands, names, at = ([], [], at) if name_and_opcode[1] in _LITERAL else _operands(text, at)
        channel, target = _CHANNEL.search(text, at), _TARGET.search(text, at)
        channel_id = int(channel[1]) if channel else 0
        ranks = _ranks(text, at)
    except (IndexError, ValueError, RecursionError):  # cut or damaged text, or written in a way that is not known here
        return Instruction(*name_and_opcode)
    return Instruction(
        *name_and_opcode,
        shape=shape,
        operands=tuple(operands),
        operand_names=tuple(names),
        ranks=ranks,
        channel=channel_id if channel_id > 0 else None,
        host_transfer="is_host_transfer=true" in text[at:],
        target=target[1] if target else "",
    )


def operand_names(text: str) -> tuple[str, ...]:
    """The names of the operands of the instruction that `text` prints, without parsing all of it; () if it is none."""
    match = _HEAD.match(text)
    if match is None:
        return ()
    end = _ATTRIBUTES.search(text, match.end())
    return tuple(_MARKED.findall(text, match.end(), end.start() if end else len(text)))


def _shape(text: str, at: int) -> tuple[Shape, int]:
    """The shape that starts at `at`, and the offset after it. Raises ValueError if none does."""
    if text[at] == "(":
        parts: list[Shape] = []
        at = _skip(text, at + 1)
        while text[at] != ")":
            part, at = _shape(text, at)
            parts.append(part)
            at = _skip(text, at)
        return tuple(parts), at + 1
    match = _ARRAY.match(text, at)
    if match is None:
        raise ValueError(at)
    layout = match[3] or ""
    space, bits = _SPACE.search(layout), _ELEMENT_BITS.search(layout)
    # A dimension may be a bound, `<=8`, and a layout's tiles hold numbers of their own.
    sizes = map(int, _NUMBER.findall(match[2]))
    return array(match[1], sizes, int(space[1]) if space else 0, int(bits[1]) if bits else 0), match.end()


def _operands(text: str, at: int) -> tuple[list[Shape], list[str], int]:
    """Shapes (where they are printed) and names of the operands in the list that starts at `at`, and its end."""
    shapes: list[Shape] = []
    names: list[str] = []
    at = _skip(text, at)
    while text[at] != ")":
        if text[at] == "(" or _ARRAY.match(text, at):
            shape, at = _shape(text, at)
            shapes.append(shape)
            at = _skip(text, at)
        match = _NAME.match(text, at)
        if match is None:
            raise ValueError(at)
        names.append(match[1])
        at = _skip(text, match.end())
    return shapes, names, at + 1


def _skip(text: str, at: int) -> int:
    """The offset after spaces, commas and comments."""
    match = _SKIP.match(text, at)
    return match.end() if match else at


def _ranks(text: str, at: int) -> str | None:
    """The replica groups, or the source and target pairs, among the attributes from `at` on."""
    if match := _PAIRS.search(text, at):
        return pair_text(groups(text[match.end() :]))
    match = _GROUPS.search(text, at)
    return group_text(groups(text[match.end() :])) if match else None


def groups(text: str) -> Groups:
    """The groups that the text after `replica_groups=` begins with, in any form; empty if it lists none."""
    if match := _IOTA.match(text):
        return iota_groups(int(match[1]), int(match[2]), _integers(match[3]), _integers(match[4] or ""))
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
        spread = iota_groups(1, math.prod(sizes), _integers(tiles[1]), _integers(tiles[2] or ""))
        return mesh_groups(sizes, spread[0], axes) if spread else []
    return mesh_groups(sizes, [int(device_id) for device_id in _NUMBER.findall(ids)], axes)


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
