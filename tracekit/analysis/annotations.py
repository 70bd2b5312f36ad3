"""The phases, steps and annotations of a trace by name: what `--phase` and `--step` can be given."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.columns import categorical, frame
from tracekit.readers import formats
from tracekit.timeline.named_steps import inside_runtime
from tracekit.timeline.timeline import Source, Timeline, timeline_of
from tracekit.vocabulary.host_calls import names_runtime, of_any_call, serves_runtime
from tracekit.vocabulary.step_names import series

PHASE, STEP, ANNOTATION, RUNTIME = KINDS = ("phase", "step", "annotation", "runtime")

ANNOTATION_COLUMNS = {
    "kind": "str",
    "name": "str",
    "host": "str",
    "thread": "str",
    "threads": "int64",
    "count": "int64",
    "total_ps": "int64",
    "median_ps": "int64",
    "first_step": "Int64",
    "last_step": "Int64",
}
_THREAD = ["host", "process", "thread"]


def annotations(source: Source) -> pd.DataFrame:
    """The phases, the steps and the annotations of a trace, one row per kind and name (ANNOTATION_COLUMNS).

    `kind` is "phase" (`tracekit.phase`), "step" (what the report takes for steps, whatever marks them: `first_step` and
    `last_step` are their numbers, null of other kinds), "annotation" (TraceAnnotation, record_function, NVTX ranges),
    or "runtime": of the events of XLA's profiler that say nothing of who wrote them, those that JAX, XLA or a compiler
    did. `count` spans took `total_ps` together, which counts what overlaps as often as it does, and `median_ps` in the
    median; of steps that is their wall time. `host` and `thread` are where they stand, null where they stand on several
    (`threads` counts them, 0 of steps that nothing on the host marks). Phases come in the order of their first starts,
    then steps, then annotations and the runtime's by total time. The names are what `--phase` and `--as-phase` take: of
    an operator without what PyTorch's emit_nvtx adds to every call of it (`aten::mm` of `aten::mm, op_id = 7`).
    """
    timeline = timeline_of(source)
    steps = timeline.steps.table
    spans = timeline.spans
    spans = spans.assign(kind=_kinds(timeline), time_ps=spans["end_ps"] - spans["start_ps"])
    annotated = steps.loc[steps["host_start_ps"].notna(), "name"].unique()
    if len(annotated):
        is_step = spans["step"].notna().to_numpy(bool)
        names = spans["name"].cat.codes.to_numpy()
        of_steps = np.array([series(str(name)) in set(annotated) for name in spans["name"].cat.categories], bool)
        marks = is_step & of_steps[names]
        step_marks, spans = spans[marks], spans[~marks]
    else:
        step_marks = spans[:0]
    return frame(ANNOTATION_COLUMNS, pd.concat([_by_name(spans), _steps(steps, step_marks)]).pipe(_in_order))


def _kinds(timeline: Timeline) -> NDArray[np.int64]:
    """The place in KINDS of each span, shape (n,)."""
    spans = timeline.spans
    kind = np.full(len(spans), KINDS.index(ANNOTATION))
    form = formats.by_name(timeline.trace.format)
    if form is None or form.xla:
        by_name, by_thread = (
            np.append([test(str(label)) for label in spans[column].cat.categories], False).astype(bool)[
                spans[column].cat.codes.to_numpy()
            ]
            for column, test in (("name", names_runtime), ("thread", serves_runtime))
        )
        kind[by_name | by_thread | inside_runtime(spans)] = KINDS.index(RUNTIME)
    kind[(spans["tracekit"] == "phase").to_numpy(bool)] = KINDS.index(PHASE)
    return kind


def _by_name(spans: pd.DataFrame) -> pd.DataFrame:
    """Spans with their kind and length by kind and name, as ANNOTATION_COLUMNS but with `first_ps`."""
    names = [of_any_call(str(name)) for name in spans["name"].cat.categories]
    spans = spans.assign(name=categorical(names, spans["name"].cat.codes.to_numpy().astype(np.int64)))
    spans = spans.assign(thread_code=spans.groupby(_THREAD, observed=True, dropna=False, sort=False).ngroup())
    by_name = spans.groupby(["kind", "name"], observed=True, sort=False)
    table = by_name.agg(
        host=("host", "first"),
        hosts=("host", "nunique"),
        thread=("thread", "first"),
        threads=("thread_code", "nunique"),
        count=("time_ps", "size"),
        total_ps=("time_ps", "sum"),
        median_ps=("time_ps", "median"),
        first_ps=("start_ps", "min"),
    ).reset_index()
    return table.assign(
        kind=table["kind"].astype("int64"),
        name=table["name"].astype("str"),
        host=table["host"].astype(object).where(table["hosts"] == 1, None),
        thread=table["thread"].astype(object).where(table["threads"] == 1, None),
        median_ps=table["median_ps"].round().astype("int64"),
    )


def _steps(steps: pd.DataFrame, marks: pd.DataFrame) -> pd.DataFrame:
    """The steps by name, likewise; `marks` are the spans that mark them, where any do."""
    names = marks["name"].astype("str").map(series)
    rows = []
    for name, its in steps.groupby("name", sort=False):
        where = marks.loc[(names == name).to_numpy(bool), _THREAD].drop_duplicates()
        rows.append(
            {
                "kind": KINDS.index(STEP),
                "name": name,
                "host": where["host"].iloc[0] if where["host"].nunique() == 1 else None,
                "thread": where["thread"].iloc[0] if len(where) == 1 else None,
                "threads": len(where),
                "count": len(its),
                "total_ps": iv.sum_exactly(its["wall_ps"].to_numpy()),
                "median_ps": round(float(its["wall_ps"].median())),
                "first_ps": int(its["start_ps"].min()),
                "first_step": its["step"].min(),
                "last_step": its["step"].max(),
            }
        )
    return pd.DataFrame(rows)


def _in_order(table: pd.DataFrame) -> pd.DataFrame:
    """By kind; phases and steps by their first start, the others by total time, then by name."""
    by_start = table["kind"] < KINDS.index(ANNOTATION)
    rank = table["first_ps"].where(by_start, -table["total_ps"])
    table = table.assign(rank=rank).sort_values(["kind", "rank", "name"], kind="stable")
    return table.assign(kind=[KINDS[kind] for kind in table["kind"]])
