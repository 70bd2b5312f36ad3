"""Fashion-MNIST from its four IDX files, noise of the same sizes, and shuffled batches of either."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

DEBIAN_DIR = Path("/usr/share/datasets/fashion-mnist")  # where Debian's dataset-fashion-mnist puts it

Bytes = npt.NDArray[np.uint8]
Batch = tuple[Bytes, Bytes]  # images (n, 28, 28), labels (n,)


class Data(NamedTuple):
    """Images (n, 28, 28) and labels (n,), bytes both, for training and for the test."""

    images: Bytes
    labels: Bytes
    test_images: Bytes
    test_labels: Bytes


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


def batches(data: Data, size: int, rng: np.random.Generator) -> Iterator[Batch]:
    """Yield the shuffled training set once, in whole batches; the rest is dropped, so that one shape is compiled."""
    order = rng.permutation(len(data.labels))
    for start in range(0, len(order) - size + 1, size):
        rows = order[start : start + size]
        yield data.images[rows], data.labels[rows]
