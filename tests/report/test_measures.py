"""The measures of a report by name, held to counts of single picoseconds; and why one is not known."""

from dataclasses import replace

import pytest

import tracekit
from tests import traces
from tests.frames import events, spans
from tests.frames import trace as make_trace
from tracekit import NotMeasurable, TracekitError, Unit
from tracekit.analysis.completeness import LOSS_COLUMNS
from tracekit.columns import frame
from tracekit.report.build import analyse
from tracekit.report.measures import MEASURES, OVERLAPS

# Two GPUs over 100 ps: (device, kind, start, end).
ROWS = (
    ("gpu:0", "compute", 0, 40),
    ("gpu:0", "collective", 30, 60),
    ("gpu:0", "memcpy", 55, 75, "copy", "H2D"),
    ("gpu:1", "compute", 20, 50),
    ("gpu:1", "collective", 40, 70),
    ("gpu:1", "memcpy", 60, 100, "copy", "D2H"),
)
PHASES = spans(("alone", 0, 30), ("train", 30, 100, "alone"))


@pytest.fixture(scope="module")
def report():
    return analyse(make_trace(events(*ROWS), PHASES))


@pytest.fixture(scope="module")
def stepped():
    return analyse(traces.trace("stepped-cpu.xplane.pb.gz"))


def instants(device, kinds, start=0, end=100):
    """The picoseconds in which the device did work of these kinds, one by one."""
    rows = [row for row in ROWS if row[0] == device and row[1] in kinds]
    return {at for _, _, first, last, *_ in rows for at in range(max(first, start), min(last, end))}


KINDS = ("compute", "collective", "memcpy")


@pytest.mark.parametrize(("phase", "start", "end"), [(None, 0, 100), ("whole", 0, 100), ("train", 30, 100)])
def test_every_measure_is_what_counting_picoseconds_gives(report, phase, start, end):
    def of(device, *kinds):
        return instants(device, kinds, start, end)

    gpus, length = ("gpu:0", "gpu:1"), end - start
    busy = {gpu: of(gpu, *KINDS) for gpu in gpus}
    hidden = [len(of(gpu, "collective") & of(gpu, "compute")) / len(of(gpu, "collective")) for gpu in gpus]
    copied = [len(of(gpu, "memcpy") & of(gpu, "compute")) / len(of(gpu, "memcpy")) for gpu in gpus]
    both = len(busy["gpu:0"] & busy["gpu:1"]) / min(map(len, busy.values()))
    expected = {
        ("idle", None): max(length - len(busy[gpu]) for gpu in gpus) / length,
        ("busy", None): min(len(busy[gpu]) for gpu in gpus) / length,
        ("exposed-collective", None): max(len(of(gpu, "collective") - of(gpu, "compute")) for gpu in gpus),
        ("exposed-copy", None): max(len(of(gpu, "memcpy") - of(gpu, "compute", "collective")) for gpu in gpus),
        ("overlap", "collective"): min(hidden),
        ("overlap", "copy"): min(copied),
        ("overlap", "H2D"): copied[0],
        ("overlap", "devices"): both,
        ("overlap", ("device 0", "gpu:1")): both,
        ("wall", None): length,
    }
    assert {key: report.measure(key[0], of=key[1], phase=phase).value for key in expected} == expected


def test_a_measure_names_its_scope_and_the_device_that_has_it(report):
    texts = {
        name: f"{it.text}, {it.where}" for name in ("idle", "wall") for it in [report.measure(name, phase="train")]
    }
    assert texts == {"idle": "35.7 %, gpu:0, phase train", "wall": "70 ps, phase train"}
    assert report.measure("idle", device="device 1", unit=Unit.TIME).where == "gpu:1, whole trace"
    assert report.overlap("device 0", "device 1") == report.overlap("gpu:1", "gpu:0") == 55 / 75
    assert report.overlap("collective", "compute") == report.overlap("compute", "collective") == 1 / 3


def test_steps_have_their_median_and_their_worst_and_each_its_own(stepped):
    steps = stepped.explanation.steps
    counted = steps.table[steps.table["left_out"].isna()]
    by_step = steps.by_device[steps.by_device["place"].isin(counted.index)].groupby("place")
    idle = (by_step["idle"].max() / by_step["wall_ps"].max()).sort_values()
    assert len(idle) == 7
    assert stepped.measure("idle", step="median").value == idle.iloc[3]
    assert stepped.measure("idle", step="worst").value == idle.iloc[6]
    assert stepped.measure("step-time").value == steps.summary["median_ps"].iloc[0]
    assert stepped.measure("wall", step=3).value == counted.set_index("step")["wall_ps"][3]
    assert stepped.measure("idle", step="worst").where == "cpu:1, worst of 7 steps (train)"


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"name": "overlap", "of": "D2D"}, "No D2D copies ran in the whole trace, or the trace does not record them."),
        ({"name": "overlap", "of": ("gpu:0", "gpu:2")}, "The trace holds no work of gpu:2; it holds that of gpu:0,"),
        ({"name": "step-time"}, "No step is known: "),
        ({"name": "idle", "phase": "eval"}, r"The trace has no phase 'eval'\. Its phases are alone, train\."),
        ({"name": "exposed-copy", "phase": "alone"}, "No copies ran in the phase alone, or the trace does not record"),
        ({"name": "speedup", "phase": "alone"}, "The speedup of phase alone is not known: "),
    ],
)
def test_what_the_trace_cannot_tell_says_why(report, asked, reason):
    with pytest.raises(NotMeasurable, match=reason):
        report.measure(**asked)


def test_memsets_are_no_copies_that_overlap():
    rows = [("gpu:0", "compute", 0, 50), ("gpu:0", "memset", 50, 90)]
    for asked in ({"name": "overlap", "of": "copy"}, {"name": "exposed-copy"}):
        with pytest.raises(NotMeasurable, match="No copies ran in the whole trace"):
            analyse(make_trace(events(*rows))).measure(**asked)
    copied = analyse(make_trace(events(*rows, ("gpu:0", "memcpy", 40, 60, "copy", "H2D"))))
    assert copied.overlap("copy", "compute") == 0.5


def test_collectives_of_cpu_devices_tell_something_only_where_some_ran_beside_compute():
    rows = [("cpu:0", "compute", 0, 50), ("cpu:0", "collective", 50, 60), ("cpu:1", "compute", 0, 60)]
    with pytest.raises(
        NotMeasurable, match=r"No collective ran beside compute \(cpu:0, whole trace\)\. On CPU devices"
    ):
        analyse(make_trace(events(*rows))).overlap("collective", "compute")
    hidden = analyse(make_trace(events(*rows, ("cpu:0", "compute", 58, 70)))).measure("overlap", of="collective")
    assert (hidden.value, hidden.caveat) == (0.2, "on CPU devices XLA seldom runs a collective beside compute")
    gpus = [(device.replace("c", "g"), *rest) for device, *rest in rows]
    assert analyse(make_trace(events(*gpus))).overlap("collective", "compute") == 0


def test_a_device_without_work_overlaps_with_nothing(report):
    rows = events(("gpu:0", "compute", 0, 40), ("gpu:1", "compute", 60, 100))
    idle = analyse(make_trace(rows, spans(("first", 0, 50))))
    measure = idle.measure("overlap", of="devices", phase="first")
    assert (measure.value, measure.where) == (
        0,
        "gpu:0 and gpu:1; gpu:1 was idle throughout the window, phase first",
    )


def test_a_trace_without_rows_measures_nothing():
    nothing = analyse(make_trace(events()))
    for name in ("idle", "wall", "exposed-collective"):
        with pytest.raises(NotMeasurable):
            nothing.measure(name)


def test_of_an_incomplete_trace_no_measure_is_known(report):
    incomplete = replace(report.explanation.completeness, rows="The profiler dropped 3 % of all records.")
    lossy = replace(report, explanation=replace(report.explanation, completeness=incomplete))
    of_devices, of_copies = {"of": "devices"}, {"of": "copy"}
    in_phase = {"phase": "train"}
    for name, scope in [
        *(("idle", {}), ("exposed-copy", {}), ("overlap", of_devices), ("overlap", of_copies), ("wall", {})),
        *(("wall", in_phase), ("speedup", in_phase), ("step-time", {}), ("wall", {"phase": "whole"})),
    ]:
        with pytest.raises(NotMeasurable, match="dropped 3 %"):
            lossy.measure(name, **scope)


def test_a_measure_of_all_devices_says_which_ranks_are_missing_and_one_of_a_device_need_not(report):
    losses = frame(LOSS_COLUMNS, [("", "ranks", 1, 3, "rank 2")])
    known = replace(report.explanation.completeness, losses=losses)
    lacking = replace(report, explanation=replace(report.explanation, completeness=known))
    told = "the trace is not whole: 1 of 3 ranks or hosts have no file: rank 2"
    for name, scope in (("wall", {}), ("idle", {}), ("overlap", {"of": "devices"}), ("busy", {"phase": "whole"})):
        assert lacking.measure(name, **scope).caveat.endswith(told)
        assert lacking.measure(name, **scope).value == report.measure(name, **scope).value
    pair = tuple(report.devices)[:2]
    for name, scope in (("idle", {"device": pair[0]}), ("overlap", {"of": pair})):
        assert lacking.measure(name, **scope) == report.measure(name, **scope)


def test_devices_that_share_cores_overlap_by_time_sharing(stepped):
    with pytest.raises(NotMeasurable, match="2 CPU devices share 1 core, so that their overlap is time-sharing"):
        replace(stepped, cores=1).overlap("cpu:0", "cpu:1")
    assert "more CPU devices than the 1 core" in replace(stepped, cores=1).measure("idle").caveat


def test_copies_of_unknown_devices_are_no_devices_copies(stepped):
    with pytest.raises(NotMeasurable, match="Which devices ran the copies is not known in this trace"):
        stepped.measure("exposed-copy", phase="whole")


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"name": "idel"}, "There is no measure 'idel'; did you mean 'idle'?"),
        ({"name": "overlap", "of": "colective"}, "There is no overlap of 'colective'; did you mean 'collective'?"),
        ({"name": "overlap"}, "Say what overlaps: devices, collective, copy"),
        ({"name": "wall", "unit": Unit.RATIO}, "The wall is no share."),
        ({"name": "idle", "step": "mean"}, "A step is its number, median or worst, not 'mean'."),
        ({"name": "idle", "step": 1, "phase": "train"}, "Give a phase or a step"),
        ({"name": "speedup"}, "A speedup is that of a phase"),
        ({"name": "overlap", "of": "devices", "step": 1}, "By step the overlap of collectives and of all copies"),
    ],
)
def test_a_question_that_no_trace_could_answer_is_an_error(report, asked, sentence):
    with pytest.raises(TracekitError) as caught:
        report.measure(**asked)
    assert not isinstance(caught.value, NotMeasurable)
    assert str(caught.value).startswith(sentence)


def test_a_saved_report_measures_the_same(stepped, tmp_path):
    loaded = tracekit.load(stepped.save(tmp_path))
    for name in MEASURES:
        for of in OVERLAPS if name == "overlap" else (None,):
            answers = []
            for report in (stepped, loaded):
                try:
                    answers.append(report.measure(name, of=of))
                except TracekitError as error:
                    answers.append(str(error))
            assert answers[0] == answers[1], (name, of)
