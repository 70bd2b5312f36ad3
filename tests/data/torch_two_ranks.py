"""What torch-two-ranks/ was captured from: three steps of two ranks, after one that is left out."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import tracekit

torch.set_num_threads(1)
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(16, 8))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
x = torch.ones(4, 16)


def train(steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()


with tracekit.unrecorded():
    train(2)
with tracekit.phase("steps"):
    train(3)
dist.destroy_process_group()
