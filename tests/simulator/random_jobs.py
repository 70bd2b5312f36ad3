"""Random training loops: how many ranks, what they run, how they wait, all drawn from a seed."""

import random
from dataclasses import dataclass
from typing import Any

from tests.simulator.job import (
    BACKWARD,
    COMMUNICATION_STREAM,
    COMPUTE_STREAM,
    COPY_STREAM,
    MAIN,
    Builder,
    Job,
    Mark,
    Sort,
)

# So many rows of devices a job has at the most.
DEVICE_ROWS = 1000
US = 1000


@dataclass(frozen=True)
class Habits:
    """What all ranks and steps of a job have in common; times in ns.

    `waits`: how the host waits for its device at a step's end every `each` steps, "" for never ("item": an
    asynchronous copy of the loss and then its stream, "copy": a copy whose call returns after it). `kernel_ns`: the
    median length of each layer's kernel, backward twice that. `straggler`: how much longer kernels of each rank take.
    `bucket`: so many layers share an all-reduce. `work_ns`: the median work between two calls. `has_ops`: the host's
    work has rows; `reads_named`: data loading has; `has_sync_records`: Kineto says what is waited for.
    `backward_thread`: the backward pass has a thread of its own.
    """

    ranks: int
    steps: int
    layers: int
    kernel_ns: list[int]
    spread: float
    straggler: list[float]
    bucket: int
    transfer_ns: int
    copy_ns: int
    work_ns: int
    read_ns: int
    waits: str
    each: int
    depth: int
    has_ops: bool
    reads_named: bool
    backward_thread: bool
    has_memset: bool
    has_sync_records: bool
    step_label: str

    @property
    def has_evidence(self) -> bool:
        """Whether the trace shows what the host did, and what it and the streams waited for."""
        return self.has_ops and self.reads_named and self.has_sync_records


def habits(seed: int) -> Habits:
    """The habits of the job of a seed."""
    draw = random.Random(f"habits {seed}")
    ranks = draw.choice([1, 2, 2, 3, 4, 4, 6, 8])
    steps, layers = draw.randint(4, 20), draw.randint(2, 10)
    while ranks * steps * (3 * layers + 4) > DEVICE_ROWS:
        steps, layers = max(steps - 1, 4), max(layers - 1, 2)
    scale = draw.choice([5, 20, 60, 150]) * US
    straggler = [1.0] * ranks
    if draw.random() < 0.5:
        straggler[draw.randrange(ranks)] = draw.uniform(1.05, 1.6)
    waits = draw.choice(["", "", "item", "item", "copy", "device", "stream", "event"])
    return Habits(
        ranks=ranks,
        steps=steps,
        layers=layers,
        kernel_ns=[round(scale * draw.lognormvariate(0, 0.5)) for _ in range(layers)],
        spread=draw.choice([0.01, 0.05, 0.2]),
        straggler=straggler,
        bucket=draw.choice([1, 2, 4, 100]),
        transfer_ns=round(scale * draw.choice([0.3, 1, 3])),
        copy_ns=draw.choice([5, 20, 80]) * US,
        work_ns=draw.choice([1, 3, 8, 20]) * US,
        read_ns=draw.choice([10, 50, 300, 2000]) * US,
        waits=waits,
        each=draw.choice([1, 1, 1, 3]),
        depth=draw.choice([0, 0, 1024, 64]),
        has_ops=draw.random() < 0.6,
        reads_named=draw.random() < 0.7,
        backward_thread=draw.random() < 0.4,
        has_memset=draw.random() < 0.5,
        has_sync_records=draw.random() < 0.8,
        step_label=draw.choice(["ProfilerStep#{}", "ProfilerStep#{}", "step {}", "iteration {}"]),
    )


def random_job(seed: int) -> Job:
    """The job of a seed."""
    return job_with(habits(seed), seed)


def job_with(habits: Habits, seed: int = 0) -> Job:
    """A job of these habits; the seed draws the lengths of everything in it."""
    return _Loop(habits, random.Random(seed)).job()


class _Loop:
    """A training loop in the making; `draw` gives all durations."""

    def __init__(self, habits: Habits, draw: random.Random) -> None:
        self.habits, self.draw = habits, draw
        self.builder = Builder(habits.ranks, habits.depth)
        self.collective = 0

    def job(self) -> Job:
        for rank in range(self.habits.ranks):
            self.builder.work(rank, self.draw.randint(0, 50 * US))
        for step in range(self.habits.steps):
            self.builder.step = step
            first = self.collective
            for rank in range(self.habits.ranks):
                self.collective = first
                self._step(rank, step)
        habits = self.habits
        return self.builder.job(
            reads_named=habits.reads_named, has_sync_records=habits.has_sync_records, step_label=habits.step_label
        )

    def _step(self, rank: int, step: int) -> None:
        """One step of one rank."""
        habits, builder = self.habits, self.builder
        begin = self._python(rank)
        read = builder.work(rank, self._ns(habits.read_ns, 0.3, heavy=0.05), loads=True)
        if habits.reads_named:
            builder.span(Sort.RANGE, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", rank, read)
        self._copy_in(rank)
        if habits.has_memset:
            self._launch(
                rank, Sort.MEMSET, "Memset (Device)", self._ns(2 * US, 0.2), call="cudaMemsetAsync", op="aten::zero_"
            )
        forward = builder.next()
        for layer, ns in enumerate(habits.kernel_ns):
            self._kernel(rank, f"forward_layer_{layer}", ns)
        builder.span(Sort.RANGE, "forward", rank, forward)
        self._backward(rank)
        for number in range(1 + habits.layers // 3):
            self._kernel(rank, f"adam_{number}", habits.kernel_ns[0] // 3)
        if habits.waits and step % habits.each == habits.each - 1:
            self._wait(rank)
        elif step == habits.steps - 1:
            self._python(rank)
        builder.span(Sort.STEP, "step", rank, begin)
        if step == habits.steps - 1:
            builder.sync(rank, wake_ns=self._ns(3 * US, 0.3))

    def _copy_in(self, rank: int) -> None:
        """The batch comes on the copy stream, and the compute stream waits for it."""
        self._launch(
            rank, Sort.MEMCPY, "Memcpy HtoD (Pinned -> Device)", self._ns(self.habits.copy_ns, 0.1),
            stream=COPY_STREAM, call="cudaMemcpyAsync", op="aten::copy_", size=self.habits.copy_ns * 25,
            direction="H2D",
        )  # fmt: skip
        self.builder.hold(rank, COMPUTE_STREAM, self.builder.record(rank, COPY_STREAM))

    def _backward(self, rank: int) -> None:
        """The backward pass, on its own thread if there is one, with all-reduces beside it that are then awaited."""
        habits, builder = self.habits, self.builder
        thread = BACKWARD if habits.backward_thread else MAIN
        if thread == BACKWARD:
            builder.hand_over(rank, MAIN, BACKWARD, self._ns(8 * US, 0.3))
        first = builder.next()
        reduced: list[Mark] = []
        for layer in reversed(range(habits.layers)):
            self._kernel(rank, f"backward_layer_{layer}", 2 * habits.kernel_ns[layer], thread)
            if layer % habits.bucket == 0 and habits.ranks > 1:
                reduced.append(self._all_reduce(rank, thread))
        builder.span(Sort.RANGE, "backward", rank, first, thread)
        if thread == BACKWARD:
            builder.hand_over(rank, BACKWARD, MAIN, self._ns(8 * US, 0.3))
        for mark in reduced[-1:]:
            builder.hold(rank, COMPUTE_STREAM, mark)

    def _all_reduce(self, rank: int, thread: int) -> Mark:
        """An all-reduce of what was computed so far, and the event of its end."""
        self.builder.hold(
            rank, COMMUNICATION_STREAM, self.builder.record(rank, COMPUTE_STREAM, thread), thread
        )  # fmt: skip
        # All members move the same bytes, and are drawn apart from the rank's other times.
        length = round(self.habits.transfer_ns * random.Random(self.collective).lognormvariate(0, 0.2))
        self._launch(
            rank, Sort.KERNEL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", length,
            thread=thread, stream=COMMUNICATION_STREAM, call="cudaLaunchKernelExC", op="c10d::allreduce_",
            collective=self.collective, size=4 << 20,
        )  # fmt: skip
        self.collective += 1
        return self.builder.record(rank, COMMUNICATION_STREAM, thread)

    def _kernel(self, rank: int, name: str, ns: int, thread: int = MAIN) -> None:
        length = round(self._ns(ns, self.habits.spread, heavy=0.01) * self.habits.straggler[rank])
        self._launch(rank, Sort.KERNEL, f"void {name}<float>(float*, int)", length, thread=thread, op=f"aten::{name}")

    def _launch(
        self, rank: int, sort: Sort, name: str, length: int, *, op: str, thread: int = MAIN, **more: Any
    ) -> None:
        """Work of the host, then a launch, in one op where the job has them."""
        first = self.builder.work(rank, self._work(), thread)
        self.builder.launch(
            rank, sort, name, length, thread=thread, call_ns=self._ns(2500, 0.2), latency_ns=self._ns(1500, 0.3),
            gap_ns=self._ns(1200, 0.2), **more,
        )  # fmt: skip
        if self.habits.has_ops:
            self.builder.span(Sort.OP, op, rank, first, thread)

    def _wait(self, rank: int) -> None:
        """What the host does at a step's end to wait for its device."""
        habits, builder = self.habits, self.builder
        wake = self._ns(3 * US, 0.3)
        if habits.waits in ("item", "copy"):
            self._launch(
                rank, Sort.MEMCPY, "Memcpy DtoH (Device -> Pageable)", self._ns(2 * US, 0.1),
                call="cudaMemcpyAsync" if habits.waits == "item" else "cudaMemcpy", op="aten::_local_scalar_dense",
                size=4, direction="D2H", wake_ns=None if habits.waits == "item" else wake,
            )  # fmt: skip
            if habits.waits == "item":
                builder.sync(rank, stream=COMPUTE_STREAM, wake_ns=wake)
        elif habits.waits == "event":
            builder.sync(rank, mark=builder.record(rank, COMPUTE_STREAM), wake_ns=wake)
        else:
            builder.sync(rank, stream=COMPUTE_STREAM if habits.waits == "stream" else -1, wake_ns=wake)
        self._python(rank)

    def _python(self, rank: int) -> int:
        """Work of the main thread without a launch."""
        number = self.builder.work(rank, self._work())
        if self.habits.has_ops:
            self.builder.span(Sort.OP, "train.py: loop", rank, number)
        return number

    def _work(self) -> int:
        return self._ns(self.habits.work_ns, 0.5, heavy=0.01)

    def _ns(self, median: int, spread: float, heavy: float = 0.0) -> int:
        """A length around a median; `heavy` is how often it is many times that."""
        length = median * self.draw.lognormvariate(0, spread)
        if self.draw.random() < heavy:
            length *= self.draw.uniform(5, 20)
        return max(round(length), 1)
