"""What the name of a device tells: its type, its number, whether it is known, and its place among others."""

import pytest

from tracekit.devices import is_known, is_sparse_core, known_first, natural, number, on_host, type_of, unknown
from tracekit.vocabulary.losses import Loss, loss
from tracekit.vocabulary.ranks import xla_device

# Name -> type, number, whether it is a SparseCore, whether it is known.
NAMES = {
    "gpu:0": ("gpu", 0, False, True),
    "gpu:13": ("gpu", 13, False, True),
    "cpu:7": ("cpu", 7, False, True),
    "tpu:3": ("tpu", 3, False, True),
    "tpu:3/sc:1": ("tpu", None, True, True),
    "tpu:3/sc-tensor:1": ("tpu", None, True, True),
    "cpu:?": ("cpu", None, False, False),
    "gpu:?": ("gpu", None, False, False),
    "device:?": ("device", None, False, False),
    "rank1/gpu:3": ("gpu", 3, False, True),
    "rank1/gpu:?": ("gpu", None, False, False),
    "a/b:c/tpu:2": ("tpu", 2, False, True),
    "host-2/tpu:0/sc:4": ("tpu", None, True, True),
    "host/gpu:2/tpu:0/sc-a:4": ("tpu", None, True, True),
    "gpu": ("", None, False, True),
    "GPU 0": ("", None, False, True),
    "": ("", None, False, True),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_tells_what_the_device_is(name):
    assert (type_of(name), number(name), is_sparse_core(name), is_known(name)) == NAMES[name]


def test_what_is_named_is_understood():
    assert on_host("rank1", unknown("cpu")) == "rank1/cpu:?"
    assert not is_known(on_host("rank1", unknown("cpu")))


def test_a_number_of_more_digits_than_python_takes_is_a_name_like_any_other():
    long = "gpu:" + "9" * 5000
    assert sorted([long, "gpu:00012", "gpu:9", "gpu:12"], key=natural) == ["gpu:9", "gpu:00012", "gpu:12", long]
    assert (type_of(long), number(long)) == ("", None)
    assert xla_device(f"XlaLauncher:#global=1,local=2,process={'9' * 5000}") is None
    assert loss(f"dropped {'9' * 5000} events") == (Loss.RECORDS, None)


def test_numbers_are_ordered_as_numbers_and_unknown_devices_come_last():
    names = ["gpu:10", "b/gpu:1", "gpu:2", "cpu:?", "a10/gpu:0", "a2/gpu:0"]
    assert sorted(names, key=natural) == ["a2/gpu:0", "a10/gpu:0", "b/gpu:1", "cpu:?", "gpu:2", "gpu:10"]
    assert sorted(names, key=known_first)[-1] == "cpu:?"
