"""Train LeNet by data-parallel SGD (DistributedDataParallel): the twin of workloads/training.py.

    tracekit capture --processes 2 workloads/torch/torch_training.py

Rank 0 trains alone on whole batches, then all ranks on a part of each, which must change the weights alike (checked):
DDP averages the gradients by all-reduces, of NCCL on GPUs, of gloo on CPU.

Must overlap: in phase "2 devices" both devices compute at the same time. Should overlap: the all-reduce of a bucket of
gradients and the rest of the backward pass. LeNet's gradients (0.5 MB) fit one bucket of DDP's 25 MB, whose all-reduce
begins when the last of them is there: nothing is hidden; `--bucket-mb 0.1` makes several.
On CPU each rank has its share of the cores. With one rank it trains on the one device and says so.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.nn.parallel import DistributedDataParallel
from torch_ranks import TWO_RANKS, barrier, gpus, join, positive, rank, run, wait

import tracekit
from tracekit import cores

# What the twin trains on lies one directory up.
sys.path.append(str(Path(__file__).resolve().parents[1]))
from fashion_mnist import DEBIAN_DIR, Batch, batches, load, synthetic

LEARNING_RATE = 0.2
CHANGE_RTOL = 0.05  # of the 2-norm

Model: TypeAlias = Any  # torch.nn.Module


def lenet() -> Model:
    """LeNet as Dive into Deep Learning trains it on several GPUs: (n, 1, 28, 28) to (n, 10) logits."""
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def train(model: Model, steps: Sequence[Batch], device: str) -> None:
    """One step of SGD on each batch, and wait for the last."""
    optimizer = torch.optim.SGD(model.parameters(), LEARNING_RATE)
    loss = torch.nn.CrossEntropyLoss()
    for images, labels in steps:
        x = torch.from_numpy(images).to(device, torch.float32)[:, None] / 255
        optimizer.zero_grad()
        loss(model(x), torch.from_numpy(labels).to(device, torch.int64)).backward()
        optimizer.step()
    wait()


def new_model(device: str) -> Model:
    """A model of the same weights each time."""
    torch.manual_seed(0)
    return lenet().to(device)


def change(model: Model, device: str) -> list[torch.Tensor]:
    """What training has added to the weights."""
    return [new - old for new, old in zip(model.parameters(), new_model(device).parameters(), strict=True)]


def check_same_change(mine: Model, theirs: Model, device: str) -> None:
    """Raise RuntimeError unless both trainings changed the weights alike, but for rounding."""
    for one, other in zip(change(mine, device), change(theirs, device), strict=True):
        if not torch.linalg.vector_norm(one - other) <= CHANGE_RTOL * torch.linalg.vector_norm(other):
            raise RuntimeError("training on all ranks changed the weights in another way than on one.")


def main() -> None:
    """Train on one device, and on those of all ranks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=positive, default=10, help="of each training [10]")
    parser.add_argument("--batch", type=positive, help="images in a batch, all ranks together [256, or a few less]")
    parser.add_argument("--bucket-mb", type=float, default=25, help="gradients in one all-reduce, in MB [25]")
    parser.add_argument("--data", type=Path, help="directory of Fashion-MNIST [Debian's; else noise]")
    options = parser.parse_args()
    ranks = join()
    batch = options.batch or 256 - 256 % ranks
    if batch % ranks:  # the mean of the ranks' means is that of all only where their parts are alike
        sys.exit(f"--batch {batch} cannot be split alike over {ranks} ranks: give a multiple of {ranks}.")
    device = f"cuda:{torch.cuda.current_device()}" if gpus() else "cpu"
    if device == "cpu":
        torch.set_num_threads(max(1, int(cores.usable() / ranks)))
    directory = options.data or (DEBIAN_DIR if DEBIAN_DIR.is_dir() else None)
    data = load(directory) if directory else synthetic(0)
    every = batches(data, batch, np.random.default_rng(0))
    whole = [batch for _, batch in zip(range(options.steps), every, strict=False)]
    part = [(images[rank() :: ranks], labels[rank() :: ranks]) for images, labels in whole]
    with tracekit.unrecorded():  # the first steps choose algorithms
        train(new_model(device), whole[:2], device)
    alone = new_model(device)
    barrier()
    if rank() == 0:
        with tracekit.phase("1 device"):
            train(alone, whole, device)
    barrier()  # or what DistributedDataParallel broadcasts would wait in the phase
    if ranks < 2:
        print(f"One rank: data-parallel training needs two: {TWO_RANKS}.")
        return
    together = DistributedDataParallel(new_model(device), bucket_cap_mb=options.bucket_mb)
    barrier()
    with tracekit.phase(f"{ranks} devices", baseline="1 device"):
        train(together, part, device)
    if rank() == 0:
        check_same_change(together.module, alone, device)


if __name__ == "__main__":
    run(main)
