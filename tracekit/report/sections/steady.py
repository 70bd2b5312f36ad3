"""Which steps are the steady ones that figures are of, and what was left out of them."""

from collections.abc import Sequence

import pandas as pd

from tracekit.units import quantity, time

# What the breakdown of the steady steps is called.
STEADY = "steady steps"


def step_numbers(steps: Sequence[int]) -> str:
    """`step 3`, `steps 0 and 1`, `steps 2 to 9`, `steps 0, 1, 4 and 7 more`."""
    if len(steps) == 1:
        return f"step {steps[0]}"
    if len(steps) > 2 and list(steps) == list(range(steps[0], steps[-1] + 1)):
        return f"steps {steps[0]} to {steps[-1]}"
    if len(steps) > 4:
        return f"steps {', '.join(map(str, steps[:3]))} and {len(steps) - 3} more"
    return f"steps {', '.join(map(str, steps[:-1]))} and {steps[-1]}"


def steady_words(steps: pd.DataFrame) -> str:
    """Which steps count: `steps 2 to 9`, `step 2 of jit_f`, `12 steps of train, eval`; `steps` is the table of
    analysis.steps."""
    counted = steps[steps["left_out"].isna()]
    names = list(counted["name"].unique())
    if len(names) > 1 or counted["clock"].nunique() > 1 or counted["step"].isna().any():
        return f"{quantity(len(counted), 'step')} of {', '.join(names[:3])}{' and others' if len(names) > 3 else ''}"
    program = f" of {names[0]}" if counted["marked_by"].iloc[0] == "run_id" else ""
    return step_numbers(counted["step"].tolist()) + program


def aside_words(steps: pd.DataFrame, outside_ps: int) -> str:
    """What was told apart from them: steps that compiled or were warm-up, and compiling outside the steps for
    `outside_ps`."""
    compiled, warm = (steps[steps["left_out"] == reason] for reason in ("compiles", "warm-up"))
    parts = []
    if len(compiled):
        length = max(compiled.groupby("clock")["compile_ps"].sum())
        parts.append(f"{_which(compiled)} compiled for {time(int(length))}")
    if len(warm):
        parts.append(f"{_which(warm)} {'was' if len(warm) == 1 else 'were'} warm-up")
    if outside_ps:
        parts.append(f"compiling outside of steps took {time(outside_ps)}")
    return ", ".join(parts)


def _which(steps: pd.DataFrame) -> str:
    """Some steps by their numbers, which those of several names or clocks share."""
    if steps["step"].isna().any() or len(steps.groupby(["clock", "name"])) > 1:
        return quantity(len(steps), "step")
    return step_numbers(steps["step"].tolist())
