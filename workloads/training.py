"""Train LeNet on Fashion-MNIST by data-parallel SGD, on one device and then on two, on the same global batches.

Parameters are replicated, each device computes the gradients of its part of the batch, one all-reduce averages them
(Dive into Deep Learning, "Training on Multiple GPUs", is the experiment).

Must overlap: in phase "2 devices" both devices compute at the same time, each on half of the batch.
Must not: the update needs the averaged gradients, so nothing hides the end of the all-reduce and the update.
On one device the same program runs, with an all-reduce over one device, which is a copy.
Virtual CPU devices share the cores, most of which one device alone already uses. A speedup there does not prove a
contribution of the second device: on CPU two batches of 128 cost less than one of 256, even on one device
(docs/training.md has the figures).
A batch of 256 images is little work for an accelerator, where two devices may be slower than one.

`--forms` adds the same steps on two devices in the other forms that tutorials have (data_parallel.py), which must give
the same parameters, and prints what an all-reduce does to the values of each device:

* "pmap": like "2 devices", whose form is `shard_map`: jax builds the one from the other. Both devices must overlap.
* "by hand": a program a device, dispatched by a loop over the devices. Both must compute their gradients at the same
  time. There is no collective: the sum is made of copies, 16 a step (8 gradients to the first device, 8 sums back).
  Must not overlap: the sum needs the gradients of both, and each update needs the sum; on accelerators too.

`--loaders` adds steps on one device that are fed by loaders (loaders.py) which augment every image in Python, in the
host. The loss of each step is read, as the loops of tutorials do to print it, so that the host waits for the step:

* "plain in step", and with PyTorch or Grain installed "DataLoader in step" and "Grain in step": the batch is loaded and
  copied when the step before is done. Nothing may overlap: the device is idle while its batch is loaded, and the report
  calls that the input pipeline.
* "... prefetched": a thread loads and copies the next batch during the step. Must overlap, but for the first batch. On
  accelerators the gap is gone if loading takes less than a step; on CPU the loader takes cores from the step, too.
* "plain unread": as in the step, but no loss is read before the end. Dispatch does not wait, so that the host loads
  while the device computes: must overlap, without a thread.

By default it runs a few steps of each, which is what to capture. `--epochs N` trains whole epochs before, prints the
test accuracy and the seconds of each, and `--runs R` repeats that with other seeds; `--curve` draws both. Under capture
the epochs are left out of the trace (`tracekit.unrecorded`), and the steps after them tell what an epoch is made of: a
step records some 80 kB on CPU, where each convolution is split into many small tasks, and ten epochs on one and on two
devices would record 370 MB.

On 2 CPU cores it takes 12 to 15 s, most of it imports and compilation, which are not in the trace (1.3 MB).
"""

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import common
import jax
import lenet
import numpy as np
from data_parallel import Form, form_by_hand, pmap_form, shard_map_form, show_allreduce
from fashion_mnist import DEBIAN_DIR, Batch, Data, batches, load, synthetic
from lenet import LEARNING_RATE, Params, correct
from loaders import Images, Loader, available, in_step, plain, prefetched

import tracekit

AHEAD = 16  # steps queued before waiting: with 32, the CPU client of jax 0.10 can deadlock in one device's launch


class Epoch(NamedTuple):
    """What one epoch gave: the accuracy on the test images, and the seconds of its training steps alone."""

    accuracy: float
    seconds: float


Curves = dict[str, list[list[Epoch]]]  # by number of devices, each run's epochs


# --- steps


def train(form: Form, params: Any, feed: Iterator[Batch], numbers: Iterable[int]) -> Any:
    """Run a step per batch while there are numbers to mark them with; return the parameters when they are ready."""
    for number, batch in zip(numbers, feed, strict=False):
        with jax.profiler.StepTraceAnnotation("train", step_num=number):
            params = form.step(params, *form.split(batch))
        if number % AHEAD == AHEAD - 1:
            jax.block_until_ready(params)
    return jax.block_until_ready(params)


def check_replicas(copies: list[Params]) -> None:
    """Raise RuntimeError unless every device holds the same bits; `copies` are the parameters of each."""
    for path, leaf in jax.tree.leaves_with_path(copies[0]):
        if any(dict(jax.tree.leaves_with_path(copy))[path].tobytes() != leaf.tobytes() for copy in copies[1:]):
            raise RuntimeError(f"the replicas of {jax.tree_util.keystr(path)} differ: the all-reduce is broken.")


def distance(tree: Params, other: Params) -> float:
    """The largest relative distance (2-norm) of any parameter of two trees."""
    pairs = zip(*([np.asarray(leaf) for leaf in jax.tree.leaves(of)] for of in (tree, other)), strict=True)
    return max(float(np.linalg.norm(a - b) / np.linalg.norm(a)) for a, b in pairs)


def prepare(forms: dict[str, Form], params: Params, batch: Batch) -> dict[str, Any]:
    """Put the parameters on the devices of each form, and run one step for nothing, which compiles it.

    Raises RuntimeError unless that step gives the same parameters in all forms, but for float32 sums in another order.
    """
    placed = {name: form.replicate(params) for name, form in forms.items()}
    stepped = [form.copies(form.step(placed[name], *form.split(batch))) for name, form in forms.items()]
    for name, copies in zip(forms, stepped, strict=True):
        check_replicas(copies)
        if (away := distance(stepped[0][0], copies[0])) > 1e-5:
            raise RuntimeError(f"a step of {name} ends {away:.0e} away from the first form's (relative).")
    return placed


def run_steps(forms: dict[str, Form], placed: dict[str, Any], data: Data, args: argparse.Namespace) -> dict[str, float]:
    """Run a few steps of each form in a phase that is compared with the first; the seconds of each."""
    first, seconds = next(iter(forms)), {}
    for index, (name, form) in enumerate(forms.items()):
        feed = batches(data, args.batch, np.random.default_rng(args.seed))
        numbers = range(index * args.steps, (index + 1) * args.steps)
        with tracekit.phase(name, baseline=first if index else None) as times:
            params = train(form, placed[name], feed, numbers)
        seconds[name] = times.wall_ps / 10**12
        check_replicas(form.copies(params))
    print("replicas hold the same bits")
    return seconds


# --- loaders


@jax.jit
def step_and_loss(params: Params, images: jax.Array, labels: jax.Array) -> tuple[Params, jax.Array]:
    """One step of SGD on one device, and the loss before it."""
    value, gradients = jax.value_and_grad(lenet.loss)(params, images, labels)
    return lenet.descend(params, gradients), value


def losses(params: Params, feed: Iterator[Any], read: Callable[[jax.Array], Any], numbers: range) -> list[float]:
    """Take a step for each number, its batch the next of `feed`; `read` waits for the loss, or does not."""
    values = []
    for number in numbers:
        with jax.profiler.StepTraceAnnotation("train", step_num=number):
            params, value = step_and_loss(params, *next(feed))
            values.append(read(value))
    return [float(value) for value in values]


def run_loaders(ways: dict[str, Loader], images: Images, params: Params, start: int, args: argparse.Namespace) -> None:
    """Take the same steps, numbered from `start`, in a phase for each loader and use of it; all must give the same
    losses. The parameters are on the one device that takes them."""
    (device,) = jax.tree.leaves(params)[0].devices()
    phases: dict[str, tuple[Loader, Callable[..., Iterator[Any]], Callable[[jax.Array], Any]]] = {}
    for name, loader in ways.items():
        phases[f"{name} in step"] = loader, in_step, float
        phases[f"{name} prefetched"] = loader, prefetched, float
    phases["plain unread"] = plain, in_step, lambda value: value
    results = []
    for index, (phase, (loader, feed, read)) in enumerate(phases.items()):
        numbers = range(start + index * args.steps, start + (index + 1) * args.steps)
        first = f"{phase.split()[0]} in step"
        with tracekit.phase(phase, alone=() if phase == first else first):
            own = itertools.islice(loader(images, args.batch), args.steps)
            results.append(losses(params, feed(own, device), read, numbers))
    if not all(np.allclose(result, results[0], rtol=1e-3) for result in results):
        raise RuntimeError(f"the loaders gave other batches: losses {results}.")


# --- epochs


def epochs(form: Form, params: Params, data: Data, seed: int, args: argparse.Namespace) -> Iterator[Epoch]:
    """Train whole epochs, yielding each as it ends; its seconds leave out compiling and the test."""
    placed = prepare({"epochs": form}, params, (data.images[: args.batch], data.labels[: args.batch]))["epochs"]
    rng = np.random.default_rng(seed)
    parts = [slice(first, first + 1000) for first in range(0, len(data.test_labels), 1000)]
    for _ in range(args.epochs):
        start = time.perf_counter()
        placed = train(form, placed, batches(data, args.batch, rng), itertools.count())
        seconds = time.perf_counter() - start
        copies = form.copies(placed)
        check_replicas(copies)
        hits = [int(correct(copies[0], data.test_images[part], data.test_labels[part])) for part in parts]
        yield Epoch(sum(hits) / len(data.test_labels), seconds)


def run_epochs(forms: dict[str, Form], data: Data, args: argparse.Namespace) -> Curves:
    """Train with each form in turn, as often as there are runs, each with a seed of its own; print every epoch."""
    curves: Curves = {name: [] for name in forms}
    for run in range(args.runs):
        seed = args.seed + run
        for name, form in forms.items():
            trained: list[Epoch] = []
            curves[name].append(trained)
            for epoch in epochs(form, lenet.init(jax.random.key(seed)), data, seed, args):
                trained.append(epoch)
                words = f"{name}, " + (f"run {run + 1}, " if args.runs > 1 else "") + f"epoch {len(trained)}"
                print(f"{words}: test accuracy {epoch.accuracy:.4f}, {epoch.seconds:.2f} s", flush=True)
    for name, runs in curves.items():
        last, seconds = [run[-1].accuracy for run in runs], [epoch.seconds for run in runs for epoch in run]
        of = f"{len(runs)} runs of {args.epochs}" if len(runs) > 1 else f"{args.epochs}"
        of += " epochs" if args.epochs > 1 else " epoch"
        accuracy, time_s = _spread(last, ".4f"), _spread(seconds, ".2f")
        print(f"{name}: {of}, test accuracy {accuracy}, median {time_s} s per epoch")
    return curves


def _spread(values: list[float], form: str) -> str:
    """The median, and between which the values lie if there are several."""
    middle = format(statistics.median(values), form)
    return f"{middle} ({min(values):{form}} to {max(values):{form}})" if len(values) > 1 else middle


def compare_with_epochs(seconds: dict[str, float], curves: Curves, data: Data, args: argparse.Namespace) -> None:
    """Print what an epoch of the steps in the trace would take, beside what the epochs took."""
    steps = len(data.labels) // args.batch
    for name, runs in curves.items():
        whole = statistics.median(epoch.seconds for run in runs for epoch in run)
        made = seconds[name] / args.steps * steps
        print(f"{name}: an epoch of {steps} steps took {whole:.2f} s; at the pace of the phase it takes {made:.2f} s")


def draw_curves(curves: Curves, path: Path) -> None:
    """Write the test accuracy and the seconds of the epochs as an image: medians, and the range of the runs."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), width_ratios=(3, 2), layout="constrained")
    runs = max(map(len, curves.values()))
    for (place, (name, trained)), style in zip(enumerate(curves.items()), ("o-", "s--"), strict=False):
        accuracy = np.array([[epoch.accuracy for epoch in run] for run in trained])  # runs, epochs
        median, numbers = np.median(accuracy, axis=0), np.arange(1, accuracy.shape[1] + 1)
        around = abs(np.array([accuracy.min(axis=0), accuracy.max(axis=0)]) - median)
        drawn = left.errorbar(numbers + 0.06 * place, median, around, fmt=style, capsize=3, label=name)
        color = drawn.lines[0].get_color()
        for run, epochs_of_run in enumerate(trained):
            seconds = [epoch.seconds for epoch in epochs_of_run]
            right.plot(
                [place + (run + 1) / (runs + 1) / 2 - 0.25] * len(seconds), seconds, style[0], color=color, alpha=0.6
            )
        middle = statistics.median(epoch.seconds for run in trained for epoch in run)
        right.hlines(middle, place - 0.3, place + 0.3, colors=color)
        right.annotate(f" {middle:.3g} s", (place + 0.3, middle), va="center")
    title = "Accuracy" + (f", median and range of {runs} runs" if runs > 1 else "")
    left.set(xlabel="epoch", ylabel="test accuracy", title=title, xticks=numbers, xlim=(0.5, len(numbers) + 0.6))
    left.grid(alpha=0.3)
    left.legend(loc="lower right")
    columns = "each epoch, a column for each run;\nthe median" if runs > 1 else "each epoch, and the median"
    right.set(xticks=range(len(curves)), xticklabels=curves, xlim=(-0.6, len(curves) - 0.1), xlabel=columns)
    right.set_title("Seconds per epoch")
    right.set_ylim(bottom=0)
    right.grid(axis="y", alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    plt.close(figure)
    print(f"Wrote {path}")


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
    add("--batch", type=positive, default=256, metavar="N", help="images in a batch of all devices (default: 256)")
    add("--steps", type=positive, default=8, metavar="N", help="steps in each phase (default: 8)")
    add("--forms", action="store_true", help="also take the steps by pmap, and by hand")
    add("--loaders", action="store_true", help="also take steps whose images are loaded in the step, or ahead")
    add("--epochs", type=positive, metavar="N", help="train N whole epochs before, which a capture leaves out")
    add("--runs", type=positive, default=1, metavar="N", help="with --epochs: as often, with other seeds (default: 1)")
    add("--curve", type=Path, metavar="PNG", help="with --epochs: draw accuracy and seconds (needs matplotlib)")
    add("--train-images", type=positive, metavar="N", help="train on the first N images only")
    add("--seed", type=int, default=0, help="of the weights and of the order of images (default: 0)")
    args = parser.parse_args()
    if args.batch % 2:
        parser.error(f"--batch {args.batch} cannot be split over two devices")
    if not args.epochs and (args.curve or args.runs > 1):
        parser.error("--runs and --curve need --epochs")
    return args


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
    if (available := len(data.labels) // args.batch) < args.steps:
        sys.exit(
            f"training.py: {len(data.labels)} training images make {available} batches of {args.batch}; ask for less."
        )
    return data


def other_forms(devices: list[Any]) -> dict[str, Form]:
    """The forms beside `shard_map`; one line for `pmap` where this jax has it no more."""
    if not hasattr(jax, "pmap"):
        print(f"jax {jax.__version__} has no jax.pmap: that form is left out.")
        return {"by hand": form_by_hand(devices)}
    return {"pmap": pmap_form(devices), "by hand": form_by_hand(devices)}


def main() -> None:
    """Run what the arguments ask for; the trace holds the phases alone."""
    args = arguments()
    data = data_set(args)
    curves: Curves = {}
    with tracekit.unrecorded():
        devices = common.devices(at_most=2)
        print(
            f"{len(data.labels)} training images, batch {args.batch}, lr {LEARNING_RATE}, on {devices[0].device_kind}"
        )
        forms = {name: shard_map_form(devices[:n]) for n, name in ((1, "1 device"), (2, "2 devices"))[: len(devices)]}
        if args.epochs:
            curves = run_epochs(forms, data, args)
            if args.curve:
                draw_curves(curves, args.curve)
        if args.forms and len(devices) > 1:
            show_allreduce(devices)
            forms |= other_forms(devices)
        params = lenet.init(jax.random.key(args.seed))
        placed = prepare(forms, params, (data.images[: args.batch], data.labels[: args.batch]))
        if args.loaders:
            images, own = Images(data, args.seed), jax.device_put(params, devices[0])
            ways = available()
            for loader in ways.values():  # imports and compiles
                jax.block_until_ready(step_and_loss(own, *next(in_step(loader(images, args.batch), devices[0]))))
    seconds = run_steps(forms, placed, data, args)
    compare_with_epochs(seconds, curves, data, args)
    if args.loaders:
        run_loaders(ways, images, own, len(forms) * args.steps, args)
    if len(devices) < 2:
        print(f'Phase "2 devices" needs two devices, and there is one ({devices[0]}); what one can do is above.')
        print("On CPU: tracekit capture --devices 2, or unset JAX_NUM_CPU_DEVICES and XLA_FLAGS.")


if __name__ == "__main__":
    main()
