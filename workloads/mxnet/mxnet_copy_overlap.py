"""Computing while copying: products, copies of their results, and both in two ways: the twin of
workloads/copy_overlap.py.

    tracekit capture --python PYTHON workloads/mxnet/mxnet_copy_overlap.py

Must not overlap: "compute" and "copy", the halves by themselves. May overlap: "naive", where each copy is waited for.
Must overlap: "pipelined", where the copy of each result is queued behind its product and nothing is waited for until
the end: MXNet's engine runs it on another worker as soon as the result is there.

On GPUs the copies go to the host, and CUDA runs them on a copy engine. On CPU they go from cpu(0) to cpu(1), as
operators of cpu(0): MXNet gives a context one worker, which would run them in turn, so that this asks for two.
"""

from __future__ import annotations

import argparse
import os

from mxnet_common import contexts, phase, positive, run, set_threads


def main() -> None:
    """Run the experiment from the first context to the host, or to the second CPU context."""
    parser = argparse.ArgumentParser(description="Copies behind products.")
    parser.add_argument("--size", type=positive, help="rows of the matrix [4000; on CPU 1000]")
    parser.add_argument("--products", type=positive, help="products, and copies of their results [50; on CPU 20]")
    options = parser.parse_args()
    set_threads(1)  # or the products take the cores that the copies need
    os.environ["MXNET_CPU_WORKER_NTHREADS"] = "2"  # or one thread runs a context's products and its copies in turn
    import mxnet as mx

    source, *others = contexts()
    on_cpu = source.device_type == "cpu"
    target = others[0] if on_cpu else mx.cpu()
    size, products = options.size or (1000 if on_cpu else 4000), options.products or (20 if on_cpu else 50)
    x = mx.nd.full((size, size), 1 / size, ctx=source)
    copies = [mx.nd.zeros((size, size), ctx=target) for _ in range(products)]
    mx.nd.dot(x, x).copyto(copies[0]).wait_to_read()
    with phase("compute"):
        results = [mx.nd.dot(x, x) for _ in range(products)]
        mx.nd.waitall()
    with phase("copy"):
        for result, copy in zip(results, copies):
            result.copyto(copy).wait_to_read()
    with phase("naive", alone=["compute", "copy"]):
        results = [mx.nd.dot(x, x) for _ in range(products)]
        for result, copy in zip(results, copies):
            result.copyto(copy).wait_to_read()
    with phase("pipelined", alone=["compute", "copy"]):
        for copy in copies:
            mx.nd.dot(x, x).copyto(copy)
        mx.nd.waitall()


if __name__ == "__main__":
    run(main)
