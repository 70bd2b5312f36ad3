"""Which operations of a program need the results of which others, through all instructions that leave no trace.

Field numbers, beside those of hlo_proto.py: HloInstructionProto.parameter_number = 9, tuple_index = 13.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tracekit.readers.hlo.hlo_proto import Program
from tracekit.readers.protobuf_decoder import Fields, Span

_CALLERS = frozenset({"while", "conditional", "call", "async-start"})
_DEEPEST = 100  # as nested as messages may be
# An instruction by the id of its computation and its own; of a tuple the part that is meant.
_Value = tuple[int, int, tuple[int, ...]]


@dataclass(frozen=True)
class _Node:
    """One instruction: its name and opcode, the ids of its operands and of what it calls, and the number of a parameter
    or of the part of a tuple that it gets."""

    name: str
    opcode: str
    operands: tuple[int, ...]
    calls: tuple[int, ...]
    number: int


def operands(program: Program, names: Iterable[str]) -> list[tuple[str, str]]:
    """Each (op, operand) of the instructions `names`, those that left rows: the op needs the result of the operand.

    What left no row is passed through: a `tuple`, of which only the part that is needed counts, a `bitcast`, the done
    of a pair, a call. The result of a loop is that of its last round; in a loop, the first round needs what stood
    before it, and that a later round needs the one before is left out. The result of a `conditional` may be that of
    any branch, and needs what chooses it. What is called from several places belongs to none.
    """
    graph = _Graph(program, frozenset(names))
    pairs: dict[tuple[str, str], None] = {}
    for name in names:
        place = program.places.get(name)
        if place is None:
            continue
        computation = place[1]
        node = graph.node(name, computation)
        for operand in node.operands if node else ():
            for needed in sorted(graph.sources((computation, operand, ()))):
                pairs[name, needed] = None
    return list(pairs)


class _Graph:
    """The instructions of a program, each computation read when it is asked for."""

    def __init__(self, program: Program, rows: frozenset[str]) -> None:
        self._program = program
        self._rows = rows
        self._nodes: dict[int, dict[int, _Node]] = {}
        self._by_name: dict[int, dict[str, _Node]] = {}
        self._sources: dict[_Value, frozenset[str]] = {}
        self._callers: dict[int, list[tuple[int, _Node]]] | None = None

    def nodes(self, computation: int) -> dict[int, _Node]:
        """The instructions of a computation by id; none if there is no such computation."""
        if computation not in self._nodes:
            place = self._program.computations.get(computation)
            self._nodes[computation] = dict(_node(self._program.proto, span) for span in place.spans) if place else {}
        return self._nodes[computation]

    def node(self, name: str, computation: int) -> _Node | None:
        """The instruction `name`, which stands in a computation; None where others have its id or its computation's."""
        if computation not in self._by_name:
            self._by_name[computation] = {node.name: node for node in self.nodes(computation).values()}
        return self._by_name[computation].get(name)

    def sources(self, value: _Value) -> frozenset[str]:
        """The operations with rows whose results make up a value."""
        waiting, opened = [value], set()
        while waiting:
            current = waiting[-1]
            if current in self._sources:
                waiting.pop()
                continue
            node = self.nodes(current[0]).get(current[1])
            if node is not None and node.name in self._rows:
                self._sources[current] = frozenset({node.name})
                continue
            behind = self._behind(current, node) if node is not None else []
            open_ones = [before for before in behind if before not in self._sources]
            if open_ones and current not in opened:
                opened.add(current)
                waiting += open_ones
            else:  # a value that leads to itself, as only a broken program has it, is left out
                sources = (self._sources.get(before, frozenset()) for before in behind)
                self._sources[current] = frozenset().union(*sources)
        return self._sources[value]

    def _behind(self, value: _Value, node: _Node) -> list[_Value]:
        """The values that make up one whose instruction left no row."""
        computation, _, part = value
        if len(part) > _DEEPEST:  # parts of parts without end, as only a damaged program has them
            return []
        operands: list[_Value] = [(computation, operand, ()) for operand in node.operands]
        if node.opcode == "get-tuple-element":
            return [(computation, operand, (node.number, *part)) for operand in node.operands]
        if node.opcode == "tuple" and part:
            return [(computation, operand, part[1:]) for operand in node.operands[part[0] : part[0] + 1]]
        if node.opcode in ("opt-barrier", "domain"):
            return [(computation, operand, part) for operand in node.operands]
        if node.opcode == "parameter":
            return self._argument(computation, node.number, part)
        called = [each for each in node.calls if each in self._program.computations]
        results = [(each, self._program.computations[each].root, part) for each in called]
        if node.opcode == "while" and results:
            return results[:1]  # the body; the condition comes after it
        if node.opcode == "conditional" and results:
            return results + operands[:1]
        if node.opcode == "call" and results:
            return results
        if node.opcode == "async-start" and results:
            return [(each, root, ()) for each, root, _ in results]
        return operands

    def _argument(self, computation: int, number: int, part: tuple[int, ...]) -> list[_Value]:
        """What a parameter stands for, if its computation is called from one place: in a loop, what it began with."""
        callers = self._called_by().get(computation, [])
        if len(callers) != 1:
            return []
        at, caller = callers[0]
        if caller.opcode == "while":
            place = 0
        elif caller.opcode == "conditional":
            place = 1 + caller.calls.index(computation)
        else:
            place = number
        return [(at, operand, part) for operand in caller.operands[place : place + 1]]

    def _called_by(self) -> dict[int, list[tuple[int, _Node]]]:
        """The places that call each computation whose instructions may leave rows of their own."""
        if self._callers is None:
            self._callers = {}
            open_ones = [entry for entry in self._program.entries if entry in self._program.computations]
            reached = set(open_ones)
            while open_ones:
                computation = open_ones.pop()
                for node in self.nodes(computation).values():
                    for computation_id in dict.fromkeys(node.calls) if node.opcode in _CALLERS else ():
                        self._callers.setdefault(computation_id, []).append((computation, node))
                        open_ones += {computation_id} - reached
                        reached.add(computation_id)
        return self._callers


def _node(proto: bytes, span: Span) -> tuple[int, _Node]:
    """An instruction by its id."""
    fields = Fields(proto, span)
    operands, calls = (tuple(fields.numbers(number)) for number in (36, 38))
    node = _Node(fields.text(1), fields.text(2), operands, calls, fields.number(9) or fields.number(13))
    return fields.number(35), node
