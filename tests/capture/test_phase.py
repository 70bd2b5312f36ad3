"""`tracekit.phase` marks a stretch of a program in the trace and prints its wall time."""

import io
import os
import re
import sys
import time

import jax
import pytest

from tracekit import cores, phase


def test_a_phase_prints_its_wall_time_once(capsys):
    with phase("device 0"):
        time.sleep(0.02)
    output = capsys.readouterr().out
    assert (match := re.fullmatch(r"device 0: (\d+\.\d+) (ms|s)\n", output))
    assert 0.02 <= float(match[1]) * {"ms": 1e-3, "s": 1}[match[2]] < 10


def test_a_phase_is_printed_in_the_letters_that_stdout_has(monkeypatch):
    monkeypatch.setattr(sys, "stdout", stdout := io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    with phase("naïve"):
        pass
    stdout.flush()
    assert re.fullmatch(rb"na\\xefve: \S+ (\\xb5s|ms|ns)\n", stdout.buffer.getvalue())


@pytest.mark.parametrize(
    ("cpu_s", "own_s", "other_cpu_s"),
    [
        (((3.0, 1.0, 9.0), (3.75, 1.25, 11.0)), (0.5, 0.75), 0.75),
        (((3.0, 1.0, 9.0), (3.0, 1.0, 9.0)), (0.5, 0.75), -0.25),
        (((None, None, None),) * 2, (0.5, 0.75), None),
    ],
    ids=["others too", "fewer ticks than its own", "unknown"],
)
def test_a_phase_tells_how_many_cores_others_used_meanwhile(monkeypatch, cpu_s, own_s, other_cpu_s):
    cpu, own = iter(cpu_s), iter(own_s)
    monkeypatch.setattr(cores, "times", lambda: next(cpu))
    monkeypatch.setattr(os, "times", lambda: (next(own), 0.0, 0.0, 0.0, 77.0))
    with phase("busy") as times:
        time.sleep(0.01)
    assert times.wall_ps >= 10**10
    expected = None if other_cpu_s is None else pytest.approx(other_cpu_s / (times.wall_ps / 10**12))
    assert times.other_cores == expected


def test_a_phase_that_fails_prints_nothing_and_lets_the_error_through(capsys):
    with pytest.raises(KeyError), phase("broken"):
        raise KeyError
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["", "a#b", "a,b", "a;b", "a=b"])
@pytest.mark.parametrize("where", ["name", "alone", "baseline"])
def test_a_name_that_would_break_the_encoding_is_refused(name, where):
    arguments = {"name": "x", "alone": ["y"]} | {where: [name] if where == "alone" else name}
    if where == "baseline":
        del arguments["alone"]
    with pytest.raises(ValueError, match="is empty or contains one of"), phase(**arguments):
        pytest.fail("the block must not run")


def test_alone_and_baseline_together_are_refused():
    with pytest.raises(ValueError, match="names both alone= and baseline="), phase("x", alone=["y"], baseline="z"):
        pytest.fail("the block must not run")


# jax 0.12 under Python 3.12: the type of event.stats warns on first use, and aborts where that is an error.
@pytest.mark.filterwarnings("ignore:builtin type event_stats:DeprecationWarning")
def test_a_phase_and_what_it_is_compared_with_are_in_the_trace(tmp_path):
    with jax.profiler.trace(str(tmp_path)):
        with phase("both", alone=["device 0", "device 1"]):
            pass
        with phase("two", baseline="one"):
            pass
        with phase("three", alone="two"):
            pass
    (path,) = tmp_path.glob("plugins/profile/*/*.xplane.pb")
    data = jax.profiler.ProfileData.from_file(str(path))
    events = [event for plane in data.planes for line in plane.lines for event in line.events]
    stats = {event.name: dict(event.stats) for event in events if dict(event.stats).get("tracekit") == "phase"}
    assert stats["both"]["alone"] == "device 0;device 1"
    assert stats["two"]["baseline"] == "one"
    assert stats["three"]["alone"] == "two"
    assert set(stats) == {"both", "two", "three"}
