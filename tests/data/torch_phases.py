"""What torch-phases.pt.trace.json.gz was captured from: two phases, the second on two threads of Python."""

import threading

import torch

import tracekit

x = torch.full((96, 96), 1 / 96)
torch.set_num_threads(1)


def work() -> None:
    for _ in range(4):
        torch.tanh(torch.nn.functional.linear(x, x) + x)


def in_threads() -> None:
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


with tracekit.unrecorded():
    in_threads()
with tracekit.phase("one"):
    work()
    work()
with tracekit.phase("two", alone="one"):
    in_threads()
