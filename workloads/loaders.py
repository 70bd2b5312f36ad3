"""Load batches of augmented images by plain Python, PyTorch's DataLoader or Grain, in the step or ahead of it."""

import importlib.util
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from fashion_mnist import Batch, Bytes, Data

SHIFT = 2  # pixels


class Images:
    """The training images in shuffled order, each shifted and half of them mirrored when it is asked for.

    That is host work of some 20 us an image in Python. By its length and index PyTorch and Grain take it for a data
    set. The same index always gives the same image.
    """

    def __init__(self, data: Data, seed: int) -> None:
        self.data, self.seed = data, seed
        self.order = np.random.default_rng(seed).permutation(len(data.labels))

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, index: int) -> tuple[Bytes, np.uint8]:
        row = self.order[index]
        down, right, mirrored = np.random.default_rng((self.seed, index)).integers(0, (5, 5, 2))
        padded = np.zeros((28 + 2 * SHIFT, 28 + 2 * SHIFT), np.uint8)
        padded[SHIFT:-SHIFT, SHIFT:-SHIFT] = self.data.images[row]
        image = padded[down : down + 28, right : right + 28]
        return (image[:, ::-1] if mirrored else image).copy(), self.data.labels[row]


Loader = Callable[[Images, int], Iterator[Batch]]


def plain(images: Images, size: int) -> Iterator[Batch]:
    """Whole batches, in plain Python."""
    for start in range(0, len(images) - size + 1, size):
        examples = [images[index] for index in range(start, start + size)]
        yield np.stack([image for image, _ in examples]), np.array([label for _, label in examples])


def torch_loader(images: Images, size: int) -> Iterator[Batch]:
    """The same by PyTorch's DataLoader.

    In this process: its worker processes are forked by default, which threads of jax do not survive; give it
    `multiprocessing_context="spawn"` where loading needs them.
    """
    from torch.utils.data import DataLoader

    loader: Any = DataLoader(images, batch_size=size, drop_last=True)
    for image, label in loader:
        yield image.numpy(), label.numpy()


def grain_loader(images: Images, size: int) -> Iterator[Batch]:
    """The same by Grain, batch by batch: its own iterator would load far ahead on 16 threads, beside the steps."""
    import grain

    dataset = grain.MapDataset.source(images).batch(size, drop_remainder=True)
    yield from (dataset[index] for index in range(len(dataset)))


def available() -> dict[str, Loader]:
    """The loaders that can run here; one line for each that is not installed."""
    loaders: dict[str, Loader] = {"plain": plain}
    for name, package, loader in (("DataLoader", "torch", torch_loader), ("Grain", "grain", grain_loader)):
        if (spec := importlib.util.find_spec(package)) and spec.origin:  # a directory of that name has none
            loaders[name] = loader
        else:
            print(f"{name} is left out: pip install {package}.")
    return loaders


def loaded(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Load each batch when it is asked for, marked in the trace as "load batch"."""
    while True:
        with jax.profiler.TraceAnnotation("load batch"):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def in_step(batches: Iterator[Batch], device: Any) -> Iterator[Any]:
    """Load and copy each batch to the device when it is asked for."""
    return (jax.device_put(batch, device) for batch in loaded(batches))


def prefetched(batches: Iterator[Batch], device: Any) -> Iterator[Any]:
    """Load and copy to the device one batch ahead, on a thread; the wait for it is marked as "next batch"."""
    feed = in_step(batches, device)
    with ThreadPoolExecutor(1, "loader") as thread:
        pending = thread.submit(next, feed, None)
        while True:
            with jax.profiler.TraceAnnotation("next batch"):
                batch = pending.result()
            if batch is None:
                return
            pending = thread.submit(next, feed, None)
            yield batch
