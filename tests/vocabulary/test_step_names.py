"""Names of steps as people and libraries write them, and names that only look like those."""

import pytest

from tests.vocabulary.step_name_table import FALSE_FRIENDS, MAY_COUNT, PARTS, RECURRING, WHOLE
from tracekit.vocabulary.step_names import StepName, counters, is_epoch, named_step, recurring, series, step_name


@pytest.mark.parametrize("name", WHOLE)
def test_a_name_says_that_it_is_a_step(name):
    number, of_series = WHOLE[name]
    assert named_step(name) == number
    assert series(name) == of_series


@pytest.mark.parametrize("name", PARTS)
def test_a_name_says_of_which_step_it_is_a_part(name):
    number, part = PARTS[name]
    step = step_name(name)
    assert isinstance(step, StepName)
    assert (step.number, step.part) == (number, part)
    assert named_step(name) is None


@pytest.mark.parametrize("name", RECURRING)
def test_a_name_without_a_number_recurs_in_each_step(name):
    assert recurring(name) is RECURRING[name]
    assert step_name(name) is None


@pytest.mark.parametrize("name", FALSE_FRIENDS)
def test_another_name_is_no_step(name):
    assert step_name(name) is None
    assert recurring(name) is None
    assert counters(name) is None or is_epoch(counters(name)[0])


@pytest.mark.parametrize("name", MAY_COUNT)
def test_a_name_may_count_what_recurs(name):
    assert step_name(name) is None
    assert counters(name) == MAY_COUNT[name]


def test_numbers_that_are_ids_count_nothing():
    assert counters("request 99999999999999999999") is None


@pytest.mark.parametrize("template", ["epoch #", "Epoch_# (train)", "trial #", "fold_#"])
def test_a_pass_over_the_data_holds_steps(template):
    assert is_epoch(template)


@pytest.mark.parametrize("template", ["epoch # step #", "request #"])
def test_a_step_of_a_pass_is_none(template):
    assert not is_epoch(template)


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("ProfilerStep#12", "ProfilerStep"),
        ("train#step_num=3#", "train"),
        ("train", "train"),
        ("17", "17"),
        ("#", "#"),
        ("[4]_step", "step"),
        ("step3/forward", "step"),
        ("[pl][profile]run_training_batch", "[pl][profile]run_training_batch"),
    ],
)
def test_the_name_of_a_series_is_without_the_number(name, bare):
    assert series(name) == bare


@pytest.mark.parametrize("filling", [" ", "_", "[", "=", ":", "0", "- ", "step ", "1/", "it"])
@pytest.mark.parametrize("begin", ["x", "step 1", "epoch "])
def test_a_name_of_ten_thousand_letters_is_no_step_and_is_known_at_once(begin, filling):
    name = f"{begin}{filling * (9_000 // len(filling))}z"
    assert (step_name(name), recurring(name), counters(name), series(name)) == (None, None, None, name)
