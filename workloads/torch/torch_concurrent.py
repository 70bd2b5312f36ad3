"""The same matrix products on device 0, on device 1, and on both at once: the twin of workloads/concurrent.py.

    tracekit capture --processes 2 workloads/torch/torch_concurrent.py

Must overlap: phase "both". Must not: the two solo phases. With two GPUs one process feeds both. On CPU PyTorch has one
device, so that two devices are two processes, and there are two experiments as in the twin:

* "both": products of 128x128, each rank on one thread. Two cores then do twice the work: speedup near 2.
* "both wide": products of 1000x1000, each rank on every core. Both are busy at once and nothing is gained.

With one GPU, or one process on CPU, device 0 shows what it does alone.
"""

import argparse
from collections.abc import Sequence

import torch
from torch_ranks import TWO_RANKS, barrier, gpus, join, positive, rank, run, wait

import tracekit
from tracekit import cores

ROUNDS = 3


def multiply(x: torch.Tensor, products: int) -> torch.Tensor:
    """`products` products, each of x (n, n) and the one before; x is idempotent, so nothing overflows."""
    y = x
    for _ in range(products):
        y = y @ x
    return y


def of_ranks(size: int, products: int, ranks: int, label: str) -> None:
    """Time the products on the CPU of each rank alone, and on all at once, as phases whose names end in `label`."""
    x = torch.full((size, size), 1 / size)
    multiply(x, 3)
    solo = [f"device {at}{label}" for at in range(ranks)]
    for _ in range(ROUNDS):
        for at, name in enumerate(solo):
            barrier()
            if at == rank():
                with tracekit.phase(name):
                    multiply(x, products)
        if ranks > 1:
            barrier()
            with tracekit.phase(f"both{label}", alone=solo):
                multiply(x, products)


def of_gpus(size: int, products: int) -> None:
    """Time the products on each of two GPUs alone, and on both at once; on one, alone."""
    xs = [torch.full((size, size), 1 / size, device=f"cuda:{at}") for at in range(min(gpus(), 2))]
    for x in xs:
        multiply(x, 3)
    wait()
    solo = [f"device {at}" for at in range(len(xs))]
    phases: list[tuple[str, Sequence[str], Sequence[torch.Tensor]]] = [
        (name, (), [x]) for name, x in zip(solo, xs, strict=True)
    ]
    if len(xs) > 1:
        phases.append(("both", solo, xs))
    for _ in range(ROUNDS):
        for name, alone, of_phase in phases:
            with tracekit.phase(name, alone=alone):
                for x in of_phase:
                    multiply(x, products)
                wait()


def main() -> None:
    """Run the experiment on two GPUs, on the CPUs of the ranks, or on the one device there is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=positive, help="rows of the matrix [4000; on CPU 128 and 1000]")
    parser.add_argument("--products", type=positive, help="products per device [50; on CPU 5000 and 20]")
    options = parser.parse_args()
    if gpus():
        if gpus() < 2:
            print("One GPU: running apart and together needs two. Showing what this one does alone.")
        of_gpus(options.size or 4000, options.products or 50)
        return
    ranks = join()
    if ranks < 2:
        print(f"One process is one CPU device; for two: {TWO_RANKS}. Showing what this one does alone.")
    experiments: list[tuple[int, int, int, str]] = [
        (1, 128, 5000, ""),
        (max(1, int(cores.usable())), 1000, 20, " wide"),
    ]
    for threads, size, products, label in experiments:
        torch.set_num_threads(threads)
        of_ranks(options.size or size, options.products or products, ranks, label)


if __name__ == "__main__":
    run(main)
