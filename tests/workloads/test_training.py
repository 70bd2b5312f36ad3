"""The data-parallel workload: reading the data set, equal gradients on one and on two devices, real accuracy."""

import argparse
import gzip
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "workloads" / "training.py"
IMAGES = Path("/usr/share/datasets/fashion-mnist")


@pytest.fixture(scope="module")
def training() -> ModuleType:
    """The workload as a module; importing it starts no jax backend."""
    spec = importlib.util.spec_from_file_location("training", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


@pytest.fixture
def small_set(tmp_path) -> Path:
    """A directory with a data set of 512 training and 1000 test images of noise, one file plain, the others gzipped."""
    rng = np.random.default_rng(0)
    for stem, shape, high in (
        ("train-images-idx3-ubyte", (512, 28, 28), 256),
        ("train-labels-idx1-ubyte", (512,), 10),
        ("t10k-images-idx3-ubyte", (1000, 28, 28), 256),
        ("t10k-labels-idx1-ubyte", (1000,), 10),
    ):
        content = idx(rng.integers(0, high, shape, dtype=np.uint8))
        if stem.startswith("train-images"):
            (tmp_path / stem).write_bytes(content)
        else:
            (tmp_path / f"{stem}.gz").write_bytes(gzip.compress(content))
    return tmp_path


def arguments(**options) -> argparse.Namespace:
    return argparse.Namespace(**{"data": None, "steps": 1, "epochs": None, "train_images": None, "seed": 0, **options})


@pytest.mark.parametrize("packed", [bytes, gzip.compress], ids=["plain", "gzipped"])
def test_an_idx_file_gives_back_its_array(training, tmp_path, packed):
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    (tmp_path / "a").write_bytes(packed(idx(array)))
    np.testing.assert_array_equal(training.read_idx(tmp_path / "a"), array)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\x00",
        b"not an idx file",
        idx(np.zeros(4, np.uint8))[:-1],
        idx(np.zeros(4, np.uint8)) + b"\x00",
        b"\x00\x00\x08\xff",
        b"\x00\x00\x0d\x01" + idx(np.zeros(4, np.uint8))[4:],
        gzip.compress(idx(np.zeros(400, np.uint8)))[:-12],
    ],
    ids=["empty", "two bytes", "text", "cut", "too long", "cut in its sizes", "floats", "cut gzip"],
)
def test_anything_but_a_whole_idx_file_is_refused_by_name(training, tmp_path, content):
    (tmp_path / "odd").write_bytes(content)
    with pytest.raises(ValueError, match="odd is"):
        training.read_idx(tmp_path / "odd")


def test_the_four_files_are_found_plain_or_gzipped(training, small_set):
    data = training.load(small_set)
    assert [array.shape for array in data] == [(512, 28, 28), (512,), (1000, 28, 28), (1000,)]


def test_images_without_their_labels_are_refused(training, small_set):
    (small_set / "train-labels-idx1-ubyte.gz").write_bytes(idx(np.zeros(511, np.uint8)))
    with pytest.raises(ValueError, match="do not go with labels"):
        training.load(small_set)


def test_a_directory_without_the_files_is_a_sentence(training, tmp_path):
    with pytest.raises(SystemExit, match=r"holds no train-images-idx3-ubyte\[\.gz\]"):
        training.data_set(arguments(data=tmp_path))


def test_more_steps_than_batches_is_a_sentence(training, small_set):
    with pytest.raises(SystemExit, match="512 training images make 2 batches of 256"):
        training.data_set(arguments(data=small_set, steps=3))


def test_without_a_data_set_it_says_loudly_that_accuracy_means_nothing(training, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(training, "DEBIAN_DIR", tmp_path / "absent")
    data = training.data_set(arguments())
    assert "accuracy below means NOTHING" in capsys.readouterr().out
    assert [array.shape for array in data] == [(60_000, 28, 28), (60_000,), (10_000, 28, 28), (10_000,)]


def test_an_epoch_takes_whole_batches_of_different_images_in_seeded_order(training):
    labels = (np.arange(600) % 256).astype(np.uint8)
    data = training.Data(np.broadcast_to(labels[:, None, None], (600, 28, 28)), labels, labels[:0], labels[:0])
    first = list(training.batches(data, np.random.default_rng(3)))
    again = list(training.batches(data, np.random.default_rng(3)))
    assert [len(y) for _, y in first] == [256, 256]
    assert max(np.bincount(np.concatenate([y for _, y in first]))) <= 3  # as often as in the whole set
    assert all((x[:, 0, 0] == y).all() for x, y in first)
    assert all((y == z).all() for (_, y), (_, z) in zip(first, again, strict=True))


def test_two_devices_give_the_gradients_of_one_and_stay_replicas(python, tmp_path):
    # Oracle: jax.grad over the whole batch, without a mesh. What is left is the rounding of float32 sums over 256
    # images, taken in two halves: 3e-7 was seen, 1e-5 is allowed.
    (tmp_path / "driver.py").write_text(f"""
import importlib.util, jax, numpy as np
jax.config.update("jax_num_cpu_devices", 2)
spec = importlib.util.spec_from_file_location("training", {str(SCRIPT)!r})
training = importlib.util.module_from_spec(spec)
spec.loader.exec_module(training)
rng = np.random.default_rng(0)
batch = rng.integers(0, 256, (256, 28, 28), dtype=np.uint8), rng.integers(0, 10, 256, dtype=np.uint8)
params = training.init(jax.random.key(1))
whole = jax.tree.leaves(jax.jit(jax.grad(training.loss))(params, *batch))
for n in (1, 2):
    mesh = jax.make_mesh((n,), ("batch",), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices()[:n])
    placed = training.place(batch, mesh)
    own = training.on_mesh(training.gradients, mesh)(training.replicate(params, mesh), *placed)
    apart = [np.linalg.norm(np.asarray(a) - b) / np.linalg.norm(b) for a, b in zip(jax.tree.leaves(own), whole)]
    assert max(apart) < 1e-5, apart
trained, step = training.replicate(params, mesh), training.on_mesh(training.sgd, mesh)
for _ in range(3):
    trained = step(trained, *placed)
training.check_replicas(trained)
assert [len(leaf.addressable_shards) for leaf in jax.tree.leaves(trained)] == [2] * 8
spoiled = jax.make_array_from_single_device_arrays(
    (1,), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec()),
    [jax.device_put(np.float32([i]), device) for i, device in enumerate(jax.devices())],
)
try:
    training.check_replicas({{"conv1": (spoiled, spoiled)}})
except RuntimeError as error:
    print("refused:", error)
""")
    process = python(tmp_path / "driver.py")
    assert process.returncode == 0, process.stderr
    assert "refused: the replicas of ['conv1'][0] differ" in process.stdout


def test_by_default_a_few_steps_run_on_one_and_on_two_devices(python, small_set):
    process = python(SCRIPT, "--data", small_set, "--steps", "2")
    assert process.returncode == 0, process.stderr
    assert re.search(
        r"^1 device: [\d.]+ m?s\n2 devices: [\d.]+ m?s\nreplicas hold the same bits", process.stdout, re.MULTILINE
    )


def test_one_device_shows_what_it_can_and_says_what_it_lacks(python, small_set):
    process = python(SCRIPT, "--data", small_set, "--steps", "1", JAX_NUM_CPU_DEVICES="1")
    assert (process.returncode, process.stderr) == (0, "")
    assert re.search(r"^1 device: [\d.]+ m?s$", process.stdout, re.MULTILINE)
    assert 'Phase "2 devices" needs two devices, and there is one' in process.stdout


@pytest.mark.skipif(not IMAGES.is_dir(), reason="needs Debian's package dataset-fashion-mnist")
def test_part_of_an_epoch_learns_real_fashion_mnist_on_one_and_on_two_devices(training, python, tmp_path):
    # The first 1,000 test images: all 10,000 take longer than the training.
    kept = {"train-images-idx3": 3000, "train-labels-idx1": 3000, "t10k-images-idx3": 1000, "t10k-labels-idx1": 1000}
    for stem, array in zip(kept, training.load(IMAGES), strict=True):
        (tmp_path / f"{stem}-ubyte").write_bytes(idx(array[: kept[stem]]))
    # 10 steps, before rounding decides where each lands: this seed gave 0.44 on either number of devices, four others
    # 0.28 to 0.41, and guessing gives 0.10.
    process = python(
        *(SCRIPT, "--data", tmp_path, "--epochs", "1", "--train-images", "2560", "--seed", "3"),
        *("--curve", tmp_path / "curve.png"),
    )
    assert process.returncode == 0, process.stderr
    accuracy = dict(re.findall(r"^(1 device|2 devices), epoch 1: test accuracy ([\d.]+)", process.stdout, re.MULTILINE))
    assert accuracy.keys() == {"1 device", "2 devices"}
    assert min(map(float, accuracy.values())) > 0.3, accuracy
    assert (tmp_path / "curve.png").read_bytes()[:4] == b"\x89PNG"
