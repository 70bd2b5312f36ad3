"""Many small operations, dispatched one by one: the twin of workloads/small_ops.py.

Each operation is x * a + b on a short vector, next to nothing to compute. All phases compute the same numbers
(asserted):

* "eager": two operators each, a product and a sum.
* "in place": the same two, without memory of their own.
* "one operator": a sum that scales, half as many dispatches.
* "graph", on GPUs: all operators of "eager" as one CUDA graph, launched once.

Must overlap: nothing, since each operation needs the result before it. A table printed first, and left out of the
trace, has what an operation costs by the length of the vector, and from which length on computing takes longer than
dispatching.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
from torch_ranks import gpus, positive, run, wait

import tracekit

ROUNDS = 3
LENGTHS = [10**power for power in range(3, 7)]
TABLE_OPERATIONS = 100
SCALE, SHIFT = 0.5, 1.0

Chain = Callable[[torch.Tensor, int], torch.Tensor]


def eager(x: torch.Tensor, operations: int) -> torch.Tensor:
    """A product and a sum, each into new memory."""
    for _ in range(operations):
        x = x * SCALE + SHIFT
    return x


def in_place(x: torch.Tensor, operations: int) -> torch.Tensor:
    """A product and a sum, into a copy."""
    x = x.clone()
    for _ in range(operations):
        x.mul_(SCALE).add_(SHIFT)
    return x


def one_operator(x: torch.Tensor, operations: int) -> torch.Tensor:
    """A sum that scales."""
    shift = torch.full_like(x, SHIFT)
    for _ in range(operations):
        x = torch.add(shift, x, alpha=SCALE)
    return x


CHAINS: dict[str, Chain] = {"eager": eager, "in place": in_place, "one operator": one_operator}


def graph_of(x: torch.Tensor, operations: int) -> Callable[[], torch.Tensor]:
    """All operations of "eager" as one CUDA graph; gives what launches it."""
    eager(x, operations)
    wait()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = eager(x, operations)

    def launch() -> torch.Tensor:
        graph.replay()
        return result

    return launch


def cost_us(chain: Chain, x: torch.Tensor, operations: int) -> float:
    """What one operation of a chain costs, in microseconds: the median of ROUNDS chains."""
    chain(x, operations)
    wait()
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        chain(x, operations)
        wait()
        seconds.append(time.perf_counter() - start)
    return median(seconds) / operations * 1e6


def print_costs(device: str, lengths: list[int], operations: int) -> None:
    """Print what an operation costs in each chain, by length."""
    print(f"{'length':>10s}" + "".join(f"  {name:>12s}" for name in CHAINS) + "  for one operation")
    for length in sorted(lengths):
        x = torch.zeros(length, device=device)
        costs = [cost_us(chain, x, operations) for chain in CHAINS.values()]
        print(f"{length:10,d}" + "".join(f"  {cost:9.2f} us" for cost in costs))


def experiment(device: str, length: int, operations: int) -> None:
    """Time each chain, and on a GPU its graph, against "eager"."""
    x = torch.zeros(length, device=device)
    results = [chain(x, operations) for chain in CHAINS.values()]
    assert all(torch.allclose(result, results[0]) for result in results), "the chains computed different numbers"
    launch = graph_of(x, operations) if gpus() else None
    for _ in range(ROUNDS):
        for name, chain in CHAINS.items():
            with tracekit.phase(name, alone=() if name == "eager" else "eager"):
                chain(x, operations)
                wait()
        if launch:
            with tracekit.phase("graph", alone="eager"):
                launch()
                wait()


def main() -> None:
    """Run on the first device."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=positive, default=1000, help="of the vectors [1000]")
    parser.add_argument("--operations", type=positive, default=500, help="in each chain [500]")
    parser.add_argument("--lengths", type=positive, nargs="+", default=LENGTHS, help="of the table [1000 to 1000000]")
    options = parser.parse_args()
    device = "cuda:0" if gpus() else "cpu"
    with tracekit.unrecorded():
        print_costs(device, options.lengths, min(options.operations, TABLE_OPERATIONS))
    experiment(device, options.length, options.operations)


if __name__ == "__main__":
    run(main)
