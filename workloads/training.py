"""Train LeNet on Fashion-MNIST by data-parallel SGD, on one device and then on two, on the same global batches.

Parameters are replicated, each device computes the gradients of its part of the batch, one all-reduce averages them.

Must overlap: in phase "2 devices" both devices compute at the same time, each on half of the batch.
Must not: the update needs the averaged gradients, so nothing hides the end of the all-reduce and the update.
On one device the same program runs, with an all-reduce over one device, which is a copy.
Virtual CPU devices share the cores, most of which one device alone already uses. A speedup there does not prove a
contribution of the second device: on CPU two batches of 128 cost less than one of 256, even on one device
(docs/training.md has the figures).
A batch of 256 images is little work for an accelerator, where two devices may be slower than one.

By default it runs a few steps of each, which is what to capture; `--epochs N` trains whole epochs instead and prints
the test accuracy. Do not capture whole epochs: a step records 7,000 events on CPU, where each convolution is split into
many small tasks, and ten epochs on one and on two devices would record 33 million.

On 2 CPU cores it takes 12 to 15 s, most of it imports and compilation, and within that spread under capture (140,000
to 170,000 events).
"""

import argparse
import gzip
import itertools
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import tracekit

BATCH = 256
LEARNING_RATE = 0.2
AXIS = "batch"
AHEAD = 16  # steps queued before waiting: with 32, the CPU client of jax 0.10 can deadlock in one device's launch
DEBIAN_DIR = Path("/usr/share/datasets/fashion-mnist")  # where Debian's dataset-fashion-mnist puts it

Params = dict[str, tuple[jax.Array, jax.Array]]
Bytes = npt.NDArray[np.uint8]


class Data(NamedTuple):
    """Images (n, 28, 28) and labels (n,), bytes both, for training and for the test."""

    images: Bytes
    labels: Bytes
    test_images: Bytes
    test_labels: Bytes


class Epoch(NamedTuple):
    """What one epoch gave: the accuracy on the test images, and the seconds of its training steps alone."""

    accuracy: float
    seconds: float


# --- data


def read_idx(path: Path) -> Bytes:
    """Read one IDX file of unsigned bytes, plain or gzipped: 0, 0, 8, ndim, then ndim big-endian sizes, then the bytes.

    Raises ValueError, naming the file, if it is anything else or its length is not what its header says.
    """
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        try:
            raw = gzip.decompress(raw)
        except (EOFError, OSError) as error:
            raise ValueError(f"{path} is a broken gzip file ({error}); fetch it again.") from error
    ndim = raw[3] if raw[:3] == b"\x00\x00\x08" and len(raw) > 3 else 0
    shape = np.frombuffer(raw, ">u4", count=ndim, offset=4).tolist() if len(raw) >= 4 + 4 * ndim else []
    if not shape or len(raw) != 4 + 4 * ndim + int(np.prod(shape)):
        raise ValueError(f"{path} is not a whole IDX file of unsigned bytes; fetch it again.")
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * ndim).reshape(shape)


def load(directory: Path) -> Data:
    """Read the four files of Fashion-MNIST, each plain or `.gz`, from one directory; ValueError if one is missing."""
    arrays = []
    for stem in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        paths = [path for path in (directory / f"{stem}-ubyte", directory / f"{stem}-ubyte.gz") if path.is_file()]
        if not paths:
            raise ValueError(
                f"{directory} holds no {stem}-ubyte[.gz]; --data wants the directory of the four IDX files."
            )
        arrays.append(read_idx(paths[0]))
    data = Data(*arrays)
    for images, labels in ((data.images, data.labels), (data.test_images, data.test_labels)):
        if images.shape != (len(labels), 28, 28) or labels.ndim != 1:
            raise ValueError(f"{directory}: images {images.shape} do not go with labels {labels.shape}.")
    return data


def synthetic(seed: int) -> Data:
    """Noise in the sizes of Fashion-MNIST: good for timing, useless for accuracy."""
    rng = np.random.default_rng(seed)
    images = [rng.integers(0, 256, (n, 28, 28), dtype=np.uint8) for n in (60_000, 10_000)]
    labels = [rng.integers(0, 10, len(of), dtype=np.uint8) for of in images]
    return Data(images[0], labels[0], images[1], labels[1])


def batches(data: Data, rng: np.random.Generator) -> Iterator[tuple[Bytes, Bytes]]:
    """Yield the shuffled training set once, in whole batches; the rest is dropped, so that one shape is compiled."""
    order = rng.permutation(len(data.labels))
    for start in range(0, len(order) - BATCH + 1, BATCH):
        rows = order[start : start + BATCH]
        yield data.images[rows], data.labels[rows]


# --- model


def init(key: jax.Array) -> Params:
    """Draw the weights (He, for relu) and zero biases: conv 3x3x20, conv 5x5x50, dense 800-128, dense 128-10."""
    shapes = {"conv1": (3, 3, 1, 20), "conv2": (5, 5, 20, 50), "dense1": (800, 128), "dense2": (128, 10)}
    draw = jax.nn.initializers.he_normal()
    keys = dict(zip(shapes, jax.random.split(key, len(shapes)), strict=True))
    return {name: (draw(keys[name], shape, jnp.float32), jnp.zeros(shape[-1])) for name, shape in shapes.items()}


def logits(params: Params, images: jax.Array) -> jax.Array:
    """LeNet: (n, 28, 28) bytes to (n, 10) logits."""
    x = images[..., None].astype(jnp.float32) / 255
    for name in ("conv1", "conv2"):
        weight, bias = params[name]
        x = jax.lax.conv_general_dilated(x, weight, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu(x + bias)
        x = jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4  # average pooling
    x = x.reshape(len(x), -1)
    x = jax.nn.relu(x @ params["dense1"][0] + params["dense1"][1])
    return x @ params["dense2"][0] + params["dense2"][1]


def loss(params: Params, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean cross-entropy of a batch."""
    log_p = jax.nn.log_softmax(logits(params, images))
    return -jnp.take_along_axis(log_p, labels[:, None].astype(jnp.int32), axis=1).mean()


# --- what every device runs on its part of a batch


def gradients(params: Params, images: jax.Array, labels: jax.Array) -> Params:
    """Gradients of the mean loss over the whole batch: the mean over devices, whose parts are of one size."""
    # Without the cast, shard_map sums the gradients of replicated parameters itself, and the all-reduce stands nowhere.
    own = jax.lax.pcast(params, AXIS, to="varying")
    averaged: Params = jax.lax.pmean(jax.grad(loss)(own, images, labels), AXIS)
    return averaged


def sgd(params: Params, images: jax.Array, labels: jax.Array) -> Params:
    """One step of plain SGD."""
    updated: Params = jax.tree.map(lambda p, g: p - LEARNING_RATE * g, params, gradients(params, images, labels))
    return updated


def correct(params: Params, images: jax.Array, labels: jax.Array) -> jax.Array:
    """How many images of the whole batch get their label."""
    hits: jax.Array = jax.lax.psum((logits(params, images).argmax(axis=1) == labels).sum(), AXIS)
    return hits


# --- meshes


def on_mesh(function: Callable[..., Any], mesh: Mesh) -> Callable[..., Any]:
    """Compile `function(params, images, labels)` for replicated parameters, a split batch and a replicated result."""
    # out_specs without an axis: shard_map refuses to trace a result that could differ between devices.
    specs = (PartitionSpec(), PartitionSpec(AXIS), PartitionSpec(AXIS))
    return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=PartitionSpec()))


def place(batch: tuple[Bytes, Bytes], mesh: Mesh) -> tuple[jax.Array, jax.Array]:
    """Copy a batch to the devices, split over them."""
    images, labels = jax.device_put(batch, NamedSharding(mesh, PartitionSpec(AXIS)))
    return images, labels


def replicate(params: Params, mesh: Mesh) -> Params:
    """Copy the parameters to every device."""
    copies: Params = jax.device_put(params, NamedSharding(mesh, PartitionSpec()))
    return copies


def check_replicas(params: Params) -> None:
    """Raise RuntimeError unless every device holds the same bits."""
    for path, leaf in jax.tree.leaves_with_path(params):
        if len({np.asarray(shard.data).tobytes() for shard in leaf.addressable_shards}) != 1:
            raise RuntimeError(f"the replicas of {jax.tree_util.keystr(path)} differ: the all-reduce is broken.")


def gradients_apart(meshes: list[Mesh], params: Params, batch: tuple[Bytes, Bytes]) -> float:
    """Compare the gradients of one batch on two meshes: the largest relative distance (2-norm) of any parameter."""
    trees = [on_mesh(gradients, mesh)(replicate(params, mesh), *place(batch, mesh)) for mesh in meshes]
    pairs = zip(*([np.asarray(leaf) for leaf in jax.tree.leaves(tree)] for tree in trees), strict=True)
    return max(float(np.linalg.norm(a - b) / np.linalg.norm(a)) for a, b in pairs)


# --- the two experiments


def compiled_step(mesh: Mesh, params: Params, data: Data) -> Callable[..., Any]:
    """Compile one SGD step and run it once for nothing, so that neither counts in what is measured."""
    step = on_mesh(sgd, mesh)
    jax.block_until_ready(step(params, *place((data.images[:BATCH], data.labels[:BATCH]), mesh)))
    return step


def train(
    step: Callable[..., Any], params: Params, feed: Iterator[tuple[Bytes, Bytes]], mesh: Mesh, numbers: Iterable[int]
) -> Params:
    """Run a step per batch while there are numbers to mark them with; return the parameters when they are ready."""
    for number, batch in zip(numbers, feed, strict=False):
        with jax.profiler.StepTraceAnnotation("train", step_num=number):
            params = step(params, *place(batch, mesh))
        if number % AHEAD == AHEAD - 1:
            jax.block_until_ready(params)
    jax.block_until_ready(params)
    return params


def train_steps(mesh: Mesh, params: Params, data: Data, numbers: range, seed: int, **phase: str) -> Params:
    """Run a few SGD steps inside one `tracekit.phase(**phase)` and return the parameters; `numbers` mark the steps."""
    params = replicate(params, mesh)
    step = compiled_step(mesh, params, data)
    feed = batches(data, np.random.default_rng(seed))
    with tracekit.phase(**phase):
        return train(step, params, feed, mesh, numbers)


def train_epochs(mesh: Mesh, params: Params, data: Data, epochs: int, seed: int) -> Iterator[Epoch]:
    """Train whole epochs, yielding each as it ends; the shuffle is that of `train_steps`."""
    params = replicate(params, mesh)
    step = compiled_step(mesh, params, data)
    count = on_mesh(correct, mesh)
    rng = np.random.default_rng(seed)
    for _ in range(epochs):
        start = time.perf_counter()
        params = train(step, params, batches(data, rng), mesh, itertools.count())
        seconds = time.perf_counter() - start
        check_replicas(params)
        parts = [slice(first, first + 1000) for first in range(0, len(data.test_labels), 1000)]
        hits = [int(count(params, *place((data.test_images[p], data.test_labels[p]), mesh))) for p in parts]
        yield Epoch(sum(hits) / len(data.test_labels), seconds)


def draw_curves(curves: dict[str, list[Epoch]], path: Path) -> None:
    """Write the test accuracy per epoch, one line per mesh, as an image."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import MaxNLocator

    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for (name, curve), style in zip(curves.items(), ("o-", "s--"), strict=False):
        axes.plot(range(1, len(curve) + 1), [epoch.accuracy for epoch in curve], style, label=name)
    axes.set(xlabel="epoch", ylabel="test accuracy", title="LeNet on Fashion-MNIST, data-parallel SGD")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    plt.close(figure)


# --- command line


def positive(text: str) -> int:
    """Read a whole number of at least 1."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Data-parallel LeNet on one and on two devices.")
    add = parser.add_argument
    add("--data", type=Path, metavar="DIR", help=f"directory of the IDX files (default: {DEBIAN_DIR})")
    add("--steps", type=positive, default=8, metavar="N", help="steps on each number of devices (default: 8)")
    add("--epochs", type=positive, metavar="N", help="train N whole epochs instead; not for capture")
    add("--train-images", type=positive, metavar="N", help="train on the first N images only")
    add("--seed", type=int, default=0, help="of the weights and of the order of images (default: 0)")
    add("--curve", type=Path, metavar="PNG", help="with --epochs: draw the accuracy curves (needs matplotlib)")
    return parser.parse_args()


def data_set(args: argparse.Namespace) -> Data:
    """Find the data the arguments ask for; exit with a sentence where that is impossible."""
    try:
        if args.data or DEBIAN_DIR.is_dir():
            data = load(args.data or DEBIAN_DIR)
        else:
            print(f"*** No data set in {DEBIAN_DIR}: training on NOISE. The accuracy below means NOTHING. ***")
            print("*** Install dataset-fashion-mnist (Debian), or give --data DIR. ***", flush=True)
            data = synthetic(args.seed)
    except (ValueError, OSError) as error:
        sys.exit(f"training.py: {error}")
    data = data._replace(images=data.images[: args.train_images], labels=data.labels[: args.train_images])
    available = len(data.labels) // BATCH
    if available < (1 if args.epochs else args.steps):
        sys.exit(f"training.py: {len(data.labels)} training images make {available} batches of {BATCH}; ask for less.")
    return data


def run_steps(names: list[str], meshes: list[Mesh], params: Params, data: Data, args: argparse.Namespace) -> None:
    """Run the phases, then check that one and two devices agree."""
    for index, (name, mesh) in enumerate(zip(names, meshes, strict=True)):
        phase = {"name": name, "baseline": names[0]} if index else {"name": name}
        numbers = range(index * args.steps, (index + 1) * args.steps)
        trained = train_steps(mesh, params, data, numbers, args.seed, **phase)
        check_replicas(trained)
    if len(meshes) == 2:
        apart = gradients_apart(meshes, params, (data.images[:BATCH], data.labels[:BATCH]))
        print(f"replicas hold the same bits; gradients on 1 and 2 devices are {apart:.0e} apart (relative, float32)")


def run_epochs(names: list[str], meshes: list[Mesh], params: Params, data: Data, args: argparse.Namespace) -> None:
    """Train on each mesh in turn, print every epoch, and draw the curves where asked."""
    curves: dict[str, list[Epoch]] = {name: [] for name in names}
    for name, mesh in zip(names, meshes, strict=True):
        for number, epoch in enumerate(train_epochs(mesh, params, data, args.epochs, args.seed), 1):
            print(f"{name}, epoch {number}: test accuracy {epoch.accuracy:.4f}, {epoch.seconds:.2f} s", flush=True)
            curves[name].append(epoch)
    for name, curve in curves.items():
        seconds = statistics.median(epoch.seconds for epoch in curve)
        print(f"{name}: {len(curve)} epochs, test accuracy {curve[-1].accuracy:.4f}, median {seconds:.2f} s per epoch")
    if args.curve:
        draw_curves(curves, args.curve)
        print(f"Wrote {args.curve}")


def main() -> None:
    """Run the steps, or the epochs, on one device and on two."""
    args = arguments()
    data = data_set(args)
    config: Any = jax.config  # its flags are attributes that no type checker sees in every jax
    if config.jax_num_cpu_devices < 0 and "host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        config.update("jax_num_cpu_devices", 2)  # counts only where there is no accelerator
    devices = jax.devices()
    meshes = [
        jax.make_mesh((n,), (AXIS,), axis_types=(AxisType.Auto,), devices=devices[:n])
        for n in (1, 2)
        if n <= len(devices)
    ]
    names = ["1 device", "2 devices"][: len(meshes)]
    print(f"{len(data.labels)} training images, batch {BATCH}, lr {LEARNING_RATE}, on {devices[0].device_kind}")
    run = run_epochs if args.epochs else run_steps
    run(names, meshes, init(jax.random.key(args.seed)), data, args)
    if len(meshes) < 2:
        print(f'Phase "2 devices" needs two devices, and there is one ({devices[0]}); what one can do is above.')
        print("On CPU: tracekit capture --devices 2, or unset JAX_NUM_CPU_DEVICES and XLA_FLAGS.")


if __name__ == "__main__":
    main()
