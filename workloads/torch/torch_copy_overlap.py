"""Computing while copying to the host: the twin of workloads/copy_overlap.py, on a GPU.

Must not overlap: "compute" and "copy", the two halves by themselves. Must not either: "naive", which copies each result
into pageable memory, for which the host waits. Must overlap: "pipelined", where a stream of its own copies each result
into pinned memory as soon as an event says that it is there, while the next is computed.

On CPU PyTorch has one device, to and from which nothing is copied: there it says so and ends.
"""

import argparse

import torch
from torch_ranks import gpus, positive, run, wait

import tracekit


def experiment(size: int, products: int) -> None:
    """Time the products, the copies of their results, and both in two ways, as phases."""
    x = torch.full((size, size), 1 / size, device="cuda:0")
    pinned = [torch.empty((size, size), pin_memory=True) for _ in range(products)]
    copying = torch.cuda.Stream()
    pinned[0].copy_(x @ x)
    wait()
    with tracekit.phase("compute"):
        results = [x @ x for _ in range(products)]
        wait()
    with tracekit.phase("copy"):
        with torch.cuda.stream(copying):
            for there, result in zip(pinned, results, strict=True):
                there.copy_(result, non_blocking=True)
        wait()
    with tracekit.phase("naive", alone=["compute", "copy"]):
        for _ in range(products):
            (x @ x).cpu()
    with tracekit.phase("pipelined", alone=["compute", "copy"]):
        for there in pinned:
            result = x @ x
            done = torch.cuda.Event()
            done.record()
            copying.wait_event(done)
            with torch.cuda.stream(copying):
                there.copy_(result, non_blocking=True)
            result.record_stream(copying)  # its memory is not used again before it is copied
        wait()


def main() -> None:
    """Run the experiment on the first GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=positive, default=4000, help="rows of the matrix [4000]")
    parser.add_argument("--products", type=positive, default=50, help="products, and copies of their results [50]")
    options = parser.parse_args()
    if not gpus():
        print("No GPU: to and from PyTorch's one CPU device nothing is copied, so nothing can be shown.")
        return
    experiment(options.size, options.products)


if __name__ == "__main__":
    run(main)
