"""Replays the steps: what each would take if everything began as soon as what it waits for had ended."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit.analysis.critical_path.graph import WORK, Graph
from tracekit.analysis.critical_path.plan import Plan
from tracekit.jit import loop

Column = NDArray[np.int64]

# So many times are held at once, 8 bytes each: columns of a step's nodes beside each other are replayed together.
_ROOM = 5_000_000
# No node has this op; -1 is that of nodes without one.
_NO_OP = -2


@dataclass(frozen=True)
class Without:
    """What takes no time in a replay: the nodes of some `kinds`, or the rows of one `op` (a number in `op_of`).

    `apart`: members of a collective do not wait for each other either. `prompt`: launches have no latency, and the host
    does nothing between its calls.
    """

    kinds: tuple[int, ...] = ()
    op: int = -1
    apart: bool = False
    prompt: bool = False


def replay(graph: Graph, steps: Plan, what: Sequence[Without], op_of: NDArray[np.int32]) -> Column:
    """The length of each step if every node began as soon as all that it waits for had ended, shape (m, v), in ps.

    One column for each of the v entries of `what`. `op_of` (N,): the number of each node's op, -1 for none.
    """
    if not what:
        return np.zeros((len(steps.start), 0), np.int64)
    largest = int(np.diff(steps.first).max(initial=1))
    # As masks, all bits or none: a time that counts in an entry is `time & mask`.
    works = np.array([[0 if kind in one.kinds else -1 for one in what] for kind in range(WORK + 1)])
    together = np.array([0 if one.apart else -1 for one in what])
    ops = np.array([one.op if one.op >= 0 else _NO_OP for one in what])
    host = np.array([0 if one.prompt else -1 for one in what])
    found: Column = loop(replayed, len(steps.node))(
        largest, steps.first, steps.before, steps.lag_ps, steps.launch, steps.delay_ps, steps.length_ps,
        steps.edge_first, steps.edge, steps.node, graph.kind, graph.instance, len(graph.gate), op_of, works, ops,
        together, host, min(max(_ROOM // largest, 1), len(what)),
    )  # fmt: skip
    return found


def replayed(
    largest: int, first: Column, before: NDArray[np.int32], lag: Column,
    launch: NDArray[np.int32], delay: Column, length: Column, edge_first: NDArray[np.int32], edge: NDArray[np.int32],
    node: NDArray[np.int32], kind: NDArray[np.int8], instance: NDArray[np.int32], instances: int, op: NDArray[np.int32],
    works: Column, ops: Column, together: Column, host: Column, beside: int,
) -> Column:  # fmt: skip
    """See `replay`; times count from the step's begin, and `beside` columns are found at once.

    The end of a collective's member is its transfer behind the last start of the members: `done` holds the transfer,
    `met` the last start, which is complete before anything that waits for a member is looked at.
    """
    lengths = np.zeros((len(first) - 1, len(ops)), np.int64)
    done = np.zeros((largest, beside), np.int64)
    met, longest = np.zeros((instances, beside), np.int64), np.zeros((instances, beside), np.int64)
    ready, whole = np.zeros(beside, np.int64), np.zeros(beside, np.int64)
    turn, turn_of = 0, np.zeros(instances, np.int64)
    for low in range(0, len(ops), beside):
        many = min(beside, len(ops) - low)
        # Of the columns low to low + many; the loops over them are innermost, so that each node is read once.
        works_, ops_, together_, host_ = works[:, low:].copy(), ops[low:], together[low:], host[low:]
        for step in range(len(first) - 1):
            base, turn = first[step], turn + 1
            whole[:] = 0
            for p in range(base, first[step + 1]):
                gap, x = lag[p], before[p]
                for v in range(many):
                    ready[v] = gap & host_[v] if gap > 0 else gap
                if x >= 0:
                    m = instance[node[base + x]]
                    for v in range(many):
                        ready[v] = max(ready[v] + done[x, v] + (met[m, v] & together_[v] if m >= 0 else 0), 0)
                for q in range(edge_first[p], edge_first[p + 1]):
                    x = edge[q]
                    m = instance[node[base + x]]
                    for v in range(many):
                        ready[v] = max(ready[v], done[x, v] + (met[m, v] & together_[v] if m >= 0 else 0))
                x = launch[p]
                if x >= 0:
                    k, called, late = kind[node[base + x]], length[base + x], delay[p]
                    for v in range(many):
                        ready[v] = max(ready[v], done[x, v] - (called & works_[k, v]) + (late & host_[v]))
                i = node[p]
                k, own, m = kind[i], length[p], instance[i]
                if m < 0:
                    for v in range(many):
                        end = ready[v] + (0 if op[i] == ops_[v] else own & works_[k, v])
                        done[p - base, v] = end
                        whole[v] = max(whole[v], end)
                    continue
                if turn_of[m] != turn:
                    turn_of[m] = turn
                    for v in range(many):
                        met[m, v], longest[m, v] = ready[v], 0
                for v in range(many):
                    transfer = 0 if op[i] == ops_[v] else own & works_[k, v]
                    met[m, v] = max(met[m, v], ready[v])
                    longest[m, v] = max(longest[m, v], transfer)
                    done[p - base, v] = transfer + (ready[v] & ~together_[v])
                    end = met[m, v] + longest[m, v] if together_[v] else ready[v] + transfer
                    whole[v] = max(whole[v], end)
            for v in range(many):
                lengths[step, low + v] = whole[v]
    return lengths
