"""Two processes of one program, joined by jax.distributed over loopback: matrices of their own, sums over both.

    tracekit capture --processes 2 workloads/multiprocess.py

Each process holds its own devices, computes "compute" on them, and takes part in "all-reduce" over the devices of all
processes (gloo on CPU, the vendor's library elsewhere). Each leaves a trace file of its own, both in one run, which are
read as one trace. The capture notes that both ran on one machine, so their clock is one and nothing is shifted. Without
that note, as across machines, clocks are aligned by the all-reduces that they share.

Must overlap: both processes' products in "compute", and each all-reduce on all devices. Must not: an all-reduce cannot
end anywhere before the last device has begun it. That holds the alignment to account: read without the note, the files
must be shifted by zero but for the residual that is stated (the test does so).
On CPU the processes share the cores: with one product at a time in each of two processes, two cores do twice the work.

Run by plain python, it starts its processes itself. Where a cluster starts them (SLURM, Open MPI, Kubernetes, TPU pods)
jax.distributed finds the others by itself, and the same file runs there unchanged.
"""

import argparse
import os
import socket
import subprocess
import sys

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import tracekit

ROUNDS = 3
REDUCTIONS = 20


def free_port() -> int:
    """A port of the loopback interface that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def join(options: argparse.Namespace) -> bool:
    """Join the other processes, as the cluster or the options say; False where nobody has started any."""
    if options.process is not None:
        address = f"127.0.0.1:{options.port}"
        jax.distributed.initialize(address, options.processes, options.process, coordinator_bind_address=address)
        return True
    try:
        jax.distributed.initialize()
    except ValueError:  # no cluster
        return False
    return True


def start(options: argparse.Namespace) -> int:
    """Run this file in processes of its own; the exit code of the first that failed."""
    words = [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--port", str(free_port())]
    children = [subprocess.Popen([*words, "--process", str(at)]) for at in range(options.processes)]
    codes = [child.wait() for child in children]
    return next((code for code in codes if code), 0)


def experiment(size: int, products: int) -> None:
    """Time products on each process's own devices, and all-reduces over all of them."""
    mesh = jax.make_mesh((jax.device_count(),), ("all",), axis_types=(AxisType.Auto,))
    split = NamedSharding(mesh, PartitionSpec("all"))
    own = [jax.device_put(np.full((size, size), 1 / size, np.float32), device) for device in jax.local_devices()]
    multiply = jax.jit(lambda x: jax.lax.fori_loop(0, products, lambda _, y: y @ x, x))
    number = np.repeat(np.arange(jax.device_count(), dtype=np.float32)[:, None], size * size, axis=1)
    rows = jax.make_array_from_callback(number.shape, split, number.__getitem__)
    reduce = jax.jit(
        jax.shard_map(lambda x: jax.lax.psum(x, "all"), mesh=mesh, in_specs=split.spec, out_specs=PartitionSpec(None))
    )
    total = np.asarray(jax.block_until_ready(reduce(rows)).addressable_shards[0].data)  # compiles, outside the phases
    expected = sum(range(jax.device_count()))
    if not np.all(total == expected):
        raise RuntimeError(f"the all-reduce over {jax.device_count()} devices gave {total.flat[0]}, not {expected}.")
    jax.block_until_ready([multiply(x) for x in own])
    for _ in range(ROUNDS):
        jax.block_until_ready(reduce(rows))  # nobody begins before the others
        with tracekit.phase("compute"):
            jax.block_until_ready([multiply(x) for x in own])
        with tracekit.phase("all-reduce"):
            for _ in range(REDUCTIONS):
                jax.block_until_ready(reduce(rows))


def main() -> None:
    """Run as one of several processes, or start them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2, help="to start, where no cluster did [2]")
    parser.add_argument("--size", type=int, help="rows of the matrices [4000; on CPU 256]")
    parser.add_argument("--products", type=int, help="in a row on each device [50; on CPU 500]")
    parser.add_argument("--process", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not join(options):
        sys.exit(start(options))
    cpu = jax.default_backend() == "cpu"
    experiment(options.size or (256 if cpu else 4000), options.products or (500 if cpu else 50))
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
