"""Names of steps as people and libraries write them, and names that only look like those."""

import pytest

from tracekit.vocabulary.step_names import counters, is_epoch, named_step, series


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("step 12", 12),
        ("step_000012", 12),
        ("Step: 3", 3),
        ("step=3", 3),
        ("steps12", 12),
        ("iteration 12", 12),
        ("iteration12", 12),
        ("Iteration_3", 3),
        ("Iteration 3 of 10", 3),
        ("iter: 12", 12),
        ("step 3/100", 3),
        ("Batch 3", 3),
        ("batch_idx=3", 3),
        ("## step_3 ##", 3),
        ("epoch 3 step 4", 4),
        ("Epoch: 1, iter: 7", 7),
        ("iteration epoch=1 batch=5", 5),
        ("train_step_3", 3),
        ("[rank 0] step 5", 5),
        ("trainer:step 4", 4),
    ],
)
def test_a_name_says_that_it_is_a_step(name, number):
    assert named_step(name) == number


@pytest.mark.parametrize(
    "name",
    [
        "step",
        "epoch 3",
        "layer 3",
        "iter_3_forward",
        "data copy in 3",
        "circuit 5",
        "hit 3",
        "Optimizer.step#Adam.step",
        "aten::mm, op_id = 12, seq = 4",
        "fusion.3",
        "step 99999999999999999999",
    ],
)
def test_another_name_is_no_step(name):
    assert named_step(name) is None


@pytest.mark.parametrize(
    ("name", "template", "numbers"),
    [
        ("request 7", "request #", [7]),
        ("iter_3_forward", "iter_#_forward", [3]),
        ("sample 1 of epoch 2", "sample # of epoch #", [1, 2]),
    ],
)
def test_a_name_may_count_what_recurs(name, template, numbers):
    assert counters(name) == (template, numbers)


@pytest.mark.parametrize(
    "name",
    [
        "forward",
        "layer 3",
        "DecoderLayer3",
        "expert_2",
        "rank 1",
        "aten::mm, op_id = 12, seq = 4",
        "fusion.3",
        "TSL:Thunk:#hlo_op=dot.3,_p=1#",
        "request 99999999999999999999",
    ],
)
def test_numbers_of_places_and_calls_count_nothing(name):
    assert counters(name) is None


def test_an_epoch_is_no_step_of_one():
    assert is_epoch("epoch #")
    assert is_epoch("Epoch_# (train)")
    assert not is_epoch("epoch # step #")
    assert not is_epoch("request #")


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("ProfilerStep#12", "ProfilerStep"),
        ("train#step_num=3#", "train"),
        ("train", "train"),
        ("step_3", "step"),
        ("Step 14", "Step"),
        ("epoch 3 step 4", "step"),
        ("[rank 0] step 5", "step"),
        ("## step_3 ##", "step"),
        ("Iteration 3 of 10", "Iteration"),
        ("17", "17"),
        ("#", "#"),
        ("global_step_4_epoch_1", "global_step_epoch"),
        ("[4]_step", "step"),
    ],
)
def test_the_name_of_a_series_is_without_the_number(name, bare):
    assert series(name) == bare
