"""The load of the machine in words."""

import pandas as pd
import pytest

from tracekit.analysis.machine import LOAD_COLUMNS, Machine
from tracekit.columns import frame
from tracekit.report.sections.machine import section, taken


def load(other, stolen=0.0, *, is_busy=False):
    row = {"cores": 2, "needed_cores": 2, "own_cores": 1.0, "other_cores": other, "stolen_cores": stolen}
    return frame(LOAD_COLUMNS, pd.DataFrame([row | {"phase": None, "is_busy": is_busy, "frequency_mhz": 2700.0}]))


def test_a_busy_machine_is_told_first_with_its_throttling_and_frequency():
    busy = Machine(load(0.98, is_busy=True), (2.5, 3.0), throttled_periods=4, throttled_s=1.5)
    assert section(busy).sentences == (
        "Other processes used 0.98 of 2 cores during the capture, the program 1.00. Its times are those of a busy "
        "machine.",
        "The quota of a cgroup stopped the program in 4 periods, for 1.50 s in all: its times are those of the quota.",
        "Load average 2.50 to 3.00; median frequency of the cores 2,700 MHz.",
    )


@pytest.mark.parametrize(
    ("stolen", "begin"),
    [
        (0.04, "Other processes used 0.98 of 2 cores"),
        (0.3, "Other processes used 0.98, and other virtual machines 0.30, of 2 cores"),
    ],
)
def test_other_virtual_machines_are_told_where_they_took_something(stolen, begin):
    assert taken({"cores": 2, "other_cores": 0.98, "stolen_cores": stolen}) == begin


def test_what_is_not_known_is_told_with_its_reason():
    (sentence, _) = section(Machine(load(None, None), (), reasons={"cpu": "there is no /proc"})).sentences
    assert sentence == "What other processes did during the capture is not known: there is no /proc."
