"""The same matrix products on device 0, on device 1, and on both at once: the twin of workloads/concurrent.py.

    tracekit capture --python PYTHON workloads/mxnet/mxnet_concurrent.py

Must overlap: phase "both", where MXNet's engine has a worker for each context. Must not: the two solo phases, which
wait for their results. Two CPU contexts are names for the same cores, so that there are two experiments:

* by default each product takes one core, and two cores can do twice the work. It is the work of the twin in larger
  products, for what MXNet takes to queue one: 625 of 256x256 are as many multiplications as 5000 of 128x128.
* with `--wide` each takes every core, in phases called "both wide": nothing can be gained. The products are those of
  `FullyConnected` (oneDNN): two workers that call `dot` with several threads each, which is OpenBLAS's, wait for ever.

The products of both are queued in turn: where those of one context were all queued first, its worker kept the other
waiting on two shared cores. On GPUs both experiments are 50 products of a 4000x4000 matrix.
"""

from __future__ import annotations

import argparse
import os
from typing import Any, Sequence  # noqa: UP035 - Python 3.8 subscripts no others

from mxnet_common import contexts, phase, positive, run, set_threads

ROUNDS = 3


def main() -> None:
    """Run the experiment on two contexts, or on the one GPU there is."""
    parser = argparse.ArgumentParser(description="Products on two devices, apart and at once.")
    parser.add_argument("--wide", action="store_true", help="on CPU: products that take every core")
    parser.add_argument("--size", type=positive, help="rows of the matrix [4000; on CPU 256, wide 1000]")
    parser.add_argument("--products", type=positive, help="products per device [50; on CPU 625, wide 20]")
    options = parser.parse_args()
    set_threads((os.cpu_count() or 1) if options.wide else 1)
    import mxnet as mx

    devices = contexts()
    on_cpu = devices[0].device_type == "cpu"
    size = options.size or ((1000 if options.wide else 256) if on_cpu else 4000)
    products = options.products or ((20 if options.wide else 625) if on_cpu else 50)
    xs = [mx.nd.full((size, size), 1 / size, ctx=device) for device in devices]

    def product(x: Any) -> Any:
        if on_cpu and options.wide:  # of a matrix that is symmetric
            return mx.nd.FullyConnected(x, x, no_bias=True, num_hidden=size)
        return mx.nd.dot(x, x)

    def multiply(xs: Sequence[Any]) -> None:
        for _ in range(products):  # in turn: one worker that finds all of its work queued may keep the other waiting
            for x in xs:
                product(x)
        mx.nd.waitall()

    multiply(xs)  # starts the workers, outside the phases
    label = " wide" if on_cpu and options.wide else ""
    solo = [f"device {number}{label}" for number in range(len(xs))]
    for _ in range(ROUNDS):
        for name, x in zip(solo, xs):
            with phase(name):
                multiply([x])
        if len(xs) > 1:
            with phase(f"both{label}", alone=solo):
                multiply(xs)


if __name__ == "__main__":
    run(main)
