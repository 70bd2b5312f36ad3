"""Phases in the names of ranges."""

import numpy as np
import pytest

from tracekit.capture.nvtx_ranges import encoded
from tracekit.vocabulary.phase_names import is_phase, span_columns


def columns(*names):
    """The columns of spans that are called so, as lists, None for null."""
    found = span_columns(names, np.arange(len(names)))
    return {key: [None if label != label else label for label in column] for key, column in found.items()}


def test_the_name_of_a_phase_is_split_into_what_it_is_called_and_what_it_is_compared_with():
    names = "load", "one#tracekit=phase#", "both#tracekit=phase,alone=one;two#", "2#tracekit=phase,baseline=one#"
    assert columns(*names) == {
        "name": ["load", "one", "both", "2"],
        "tracekit": [None, "phase", "phase", "phase"],
        "alone": [None, None, "one;two", None],
        "baseline": [None, None, None, "one"],
    }


@pytest.mark.parametrize(
    "name", ["", "phase", "train#step_num=3#", "a#tracekit=phase", "#tracekit=phase#", "a#tracekit=phases#", "a#b#"]
)
def test_other_names_stay_as_they_are(name):
    assert not is_phase(name)
    assert columns(name) == {"name": [name], "tracekit": [None], "alone": [None], "baseline": [None]}


def test_what_marks_a_phase_by_nvtx_is_understood():
    name = encoded("both", {"tracekit": "phase", "alone": "device 0;device 1"})
    assert is_phase(name)
    assert columns(name)["alone"] == ["device 0;device 1"]
    assert encoded("inner", {}) == "inner"
