"""Train LeNet by data-parallel SGD with Gluon, on one device and then on two, on the same global batches: the twin of
workloads/training.py.

    tracekit capture --python PYTHON workloads/mxnet/mxnet_training.py

Must overlap: in phase "2 devices" both contexts compute at the same time, each on half of the batch. Must not: the
update, which needs the gradients of both. Gluon's Trainer sums them by copies through its store, of which MXNet records
the copies and the sums (no collective); steps are frames of its profiler.

The images are noise of the size of Fashion-MNIST's, for what is shown is time. Two CPU contexts share the cores, so
that a speedup there does not prove a contribution of the second.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any, Sequence  # noqa: UP035 - Python 3.8 subscripts no others

from mxnet_common import contexts, phase, positive, run, unrecorded

LEARNING_RATE = 0.1


def lenet(devices: Sequence[Any]) -> Any:
    """LeNet with the same weights on each device: conv 3x3x20, conv 5x5x50, dense 128, dense 10."""
    import mxnet as mx
    from mxnet.gluon import nn

    mx.random.seed(0)
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(20, 3, activation="relu"),
        nn.AvgPool2D(2, 2),
        nn.Conv2D(50, 5, activation="relu"),
        nn.AvgPool2D(2, 2),
        nn.Dense(128, activation="relu"),
        nn.Dense(10),
    )
    net.initialize(mx.init.Xavier(), ctx=list(devices))
    return net


def train(net: Any, devices: Sequence[Any], images: Any, labels: Any, steps: range) -> None:
    """Take the steps, each on its part of the images, and wait for the last."""
    import mxnet as mx
    from mxnet import autograd, gluon

    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": LEARNING_RATE}, kvstore="device")
    domain = mx.profiler.Domain("train")
    batch = len(labels) // len(steps)
    for at, number in enumerate(steps):
        frame = mx.profiler.Frame(domain, f"step {number}")
        frame.start()
        part = slice(at * batch, (at + 1) * batch)
        xs = gluon.utils.split_and_load(images[part], list(devices))
        ys = gluon.utils.split_and_load(labels[part], list(devices))
        with autograd.record():
            losses = [loss_of(net(x), y) for x, y in zip(xs, ys)]
        for loss in losses:
            loss.backward()
        trainer.step(batch)
        mx.nd.waitall()  # or a frame ends before its step does
        frame.stop()


def trained(net: Any, devices: Sequence[Any]) -> list[Any]:
    """The weights. Raises RuntimeError unless every device holds the same bits."""
    weights = []
    for parameter in net.collect_params().values():
        first, *others = (parameter.data(device).asnumpy() for device in devices)
        if any((first != other).any() for other in others):
            raise RuntimeError(f"the replicas of {parameter.name} differ.")
        weights.append(first)
    return weights


def main() -> None:
    """Take the same steps on one context and on two."""
    parser = argparse.ArgumentParser(description="Data-parallel LeNet on one and on two devices.")
    parser.add_argument("--batch", type=positive, default=256, help="images in a batch of all devices (default: 256)")
    parser.add_argument("--steps", type=positive, default=8, help="steps in each phase (default: 8)")
    options = parser.parse_args()
    if options.batch < 2 or options.batch % 2 or options.steps < 1:
        sys.exit("mxnet_training.py: a batch is split over two devices, and there is at least one step.")
    import mxnet as mx

    devices = contexts()
    count = options.batch * options.steps
    images = mx.nd.random.uniform(shape=(count, 1, 28, 28), ctx=mx.cpu())
    labels = mx.nd.random.randint(0, 10, shape=(count,), ctx=mx.cpu()).astype("float32")
    weights = []
    for number in range(1, len(devices) + 1):
        name = f"{number} device" + ("s" if number > 1 else "")
        with unrecorded():  # a step of another net, and the weights of this one, which are drawn when it is first used
            train(lenet(devices[:number]), devices[:number], images[: options.batch], labels[: options.batch], range(1))
            net = lenet(devices[:number])
            for device in devices[:number]:
                net(images[:1].as_in_context(device))
        steps = range((number - 1) * options.steps, number * options.steps)
        with phase(name, baseline="1 device" if number > 1 else None):
            train(net, devices[:number], images, labels, steps)
        weights.append(trained(net, devices[:number]))
    largest = max(float(abs(a - b).max()) for a, b in zip(weights[0], weights[-1]))
    print(f"replicas hold the same bits; weights on one and on two devices differ by at most {largest:.1e}")


if __name__ == "__main__":
    run(main)
