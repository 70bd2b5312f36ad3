"""The figures: a stretch of a trace or a report in a call; what the command writes, where, and what it refuses."""

import pytest

from tests import traces
from tests.frames import events, spans, trace
from tests.report.figures.figure_parts import words
from tracekit import cli
from tracekit.errors import TracekitError
from tracekit.report.build import analyse, headline
from tracekit.report.figures.figure import FIGURES, figure, write_figures
from tracekit.report.figures.selection import select
from tracekit.report.part import choose
from tracekit.report.sections.overview import TITLES
from tracekit.timeline.timeline import timeline_of

ROWS = events(("gpu:0", "compute", 0, 60), ("gpu:1", "compute", 40, 80))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    demo = trace(ROWS, spans(("a/b c", 0, 50), ("..", 50, 80), ("é ü", 0, 80), ("con", 10, 20)))
    monkeypatch.setattr("tracekit.timeline.timeline.read", lambda path, run, kinds, **_: demo)
    return tmp_path


def files_below(folder) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_all_figures_are_written_beside_the_report(here, capsys):
    cli.figure(here / "traces" / "demo")
    names = ["concurrency.png", "gantt.png", "overlap.png", "partition.png", "phases.png"]
    assert files_below(here) == [f"reports/demo/figures/{name}" for name in names]
    out = capsys.readouterr()
    assert (out.out, out.err) == (
        "",
        "Wrote reports/demo/figures/ (gantt.png, partition.png, concurrency.png, overlap.png, phases.png)\n",
    )


def test_what_and_format_take_several_names(here):
    paths = write_figures(
        here / "t", what="overlap, GANTT,overlap", formats="svg,png", out=here / "o", theme="dark", width=6
    )
    assert [path.name for path in paths] == ["overlap.svg", "overlap.png", "gantt.svg", "gantt.png"]
    assert files_below(here / "o") == ["gantt.png", "gantt.svg", "overlap.png", "overlap.svg"]


@pytest.mark.parametrize(
    ("stretch", "name"),
    [
        ({"phase": "con"}, "partition-phase-con"),
        ({"phase": "é ü"}, "partition-phase-é-ü"),
        ({"phase": "a/b c"}, "partition-phase-a_b-c-b61f28e0"),
        ({"phase": ".."}, "partition-phase-.."),
        ({"start": "10ps", "end": "0.02ns"}, "partition-from-10-ps-to-20-ps"),
        ({"start": "50 ps"}, "partition-from-50-ps-to-80-ps"),
    ],
)
def test_the_stretch_is_part_of_a_safe_name(here, stretch, name):
    (path,) = write_figures(here / "t", what="partition", formats="svg", out=here / "o", **stretch)
    assert path == here / "o" / f"{name}.svg"
    assert files_below(here / "o") == [path.name]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            {"what": "gant"},
            "--what 'gant' is not known: say gantt, partition, concurrency, overlap, phases or fleet, "
            "or several with commas.",
        ),
        (
            {"what": ","},
            "--what names nothing: say gantt, partition, concurrency, overlap, phases or fleet, "
            "or several with commas.",
        ),
        ({"formats": "jpg"}, "--format 'jpg' is not known: say png, svg or pdf, or several with commas."),
        ({"theme": "blue"}, "There is no theme 'blue': say light or dark."),
        ({"width": 2}, "A figure cannot be 2 inches wide: give a width from 3.3 to 48."),
        ({"start": "5"}, "--from '5' could be of any unit: say 5s, 5ms, 5us, 5ns or 5ps."),
        (
            {"phase": "con", "end": "5ps"},
            "Give one of --phase, --step, or --from and --to: each is another part of the trace.",
        ),
        (
            {"start": "1s"},
            "The range from 1 s on is outside the trace. The trace lasts from 0 s to 80 ps, counted from the first "
            "device work.",
        ),
    ],
)
def test_a_mistake_is_one_sentence_and_writes_nothing(here, arguments, sentence):
    with pytest.raises(TracekitError) as caught:
        write_figures(here / "t", out=here / "o", **arguments)
    assert str(caught.value) == sentence
    assert files_below(here) == []


def test_nothing_is_written_into_the_trace_or_over_a_file(here):
    (here / "t").mkdir()
    with pytest.raises(TracekitError, match="lies inside the trace"):
        write_figures(here / "t", out=here / "t" / "figures")
    (here / "file").write_text("kept")
    with pytest.raises(TracekitError, match=r"The figures cannot be written to .*file: .* Give another --out\."):
        write_figures(here / "t", out=here / "file")
    assert (here / "file").read_text() == "kept"


GIVEN = trace(
    events(("gpu:0", "compute", 0, 60), ("gpu:1", "compute", 40, 80)), spans(("warm", 0, 30), ("both", 30, 80))
)


# The sections of the report that show the same.
SHOWN = {"partition": "time", "concurrency": "concurrency", "overlap": "together"}


@pytest.mark.parametrize("what", FIGURES)
def test_a_stretch_is_said_in_words_or_numbers(what):
    caption = {
        "gantt": "Timeline: {}, ",
        "phases": "Phases on one scale of time, ",
        "fleet": "Ranks over steps, ",
        **{key: f"{TITLES[name]}, " for key, name in SHOWN.items()},
    }[what]
    assert f"test · {caption.format('10 ps')}from 10 ps to 20 ps" in words(figure(GIVEN, what, start="10ps", end=20))
    assert f"test · {caption.format('50 ps')}phase both, from 30 ps to 80 ps" in words(
        figure(GIVEN, what, phase="both")
    )
    whole = f"test · {caption.format('80 ps')}from the first phase to the last"
    assert whole in words(figure(timeline_of(GIVEN), what))


CASES = (
    "stepped-cpu.xplane.pb.gz",
    "two-cpu-devices-jax0.12.0.xplane.pb",
    "kineto/dlrm-8xV100",
    "nsys/mfu_2gpu_before-2xH100",
)
PARTS = {}, {"devices": ["gpu:0"]}, {"start": 10, "end": 50}, {"phase": "both"}


def the_title_is_the_headline_of_the_report(given, **part):
    report, selection = analyse(given, **part), choose(timeline_of(given), **part)
    title = headline(timeline_of(given), selection)
    assert report.headline == (f"Only {report.part}: {title}" if report.part else title)
    drawn = select(given, part=selection), select(given, report, selection)
    assert {FIGURES["gantt"].title(each) for each in drawn} == {title.removesuffix(".")}


@pytest.mark.parametrize("case", traces.cases(*CASES))
def test_the_timeline_has_the_title_of_the_report_without_making_one(case):
    the_title_is_the_headline_of_the_report(traces.trace(case))


@pytest.mark.parametrize("part", PARTS)
def test_the_timeline_of_a_part_has_the_title_of_its_report(part):
    the_title_is_the_headline_of_the_report(GIVEN, **part)


def test_a_path_is_read():
    path = traces.path("stepped-cpu.xplane.pb.gz")
    assert words(figure(path, "partition")) == words(figure(traces.trace(path.name), "partition"))


def test_title_theme_and_width_are_the_users(tmp_path):
    drawing = figure(GIVEN, title="mine", theme="dark", width=6)
    assert words(drawing)[0] == "mine"
    assert drawing.get_size_inches()[0] == pytest.approx(6, abs=0.02)
    drawing.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"start": "soon"}, "start 'soon' is not a time"),
        ({"what": "gant"}, "There is no figure 'gant': say gantt, partition, concurrency, overlap, phases or fleet."),
    ],
)
def test_a_mistake_in_a_call_is_a_sentence(arguments, sentence):
    with pytest.raises(TracekitError, match=sentence):
        figure(GIVEN, **arguments)
