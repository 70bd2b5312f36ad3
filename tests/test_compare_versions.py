"""The comparison of two versions finds what was planted, whatever it is, and nothing where there is nothing."""

import dataclasses
import importlib
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import tracekit

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "benchmarks"
KINETO = ROOT / "tests" / "data" / "kineto-rank1.pt.trace.json"

FRAME = pd.DataFrame(
    {
        "device": pd.Categorical(["gpu:0", "gpu:1", "gpu:0"]),
        "start_ps": [1, 2, 3],
        "bytes": pd.array([5, None, 7], "Int64"),
        "ratio": pd.array([0.1, 0.2, None], "Float64"),
        "reason": pd.array([None, None, "no work"], "str"),
    }
)


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def compare(before, after, **how):
    """What comparing two values finds: (where, what), and the categorical columns of another order."""
    dump, differences = (importlib.import_module(name) for name in ("dump_version", "differences"))
    result = differences.compare(*(dict(dump.items("it", value)) for value in (before, after)), **how)
    changes = result.differences
    assert sum(result.compared.values()) - sum(result.equal.values()) == len({change.key for change in changes})
    return [(change.where, change.what) for change in changes], [order.where for order in result.orders]


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def test_a_frame_is_equal_to_its_copy():
    assert compare(FRAME, FRAME.copy()) == ([], [])


@pytest.mark.parametrize(
    ("planted", "difference"),
    [
        (FRAME.assign(start_ps=[1, 2, 4]), ("start_ps", "value")),
        (FRAME.assign(start_ps=pd.array([1, 2, 3], "Int64")), ("start_ps", "dtype")),
        (FRAME.assign(bytes=pd.array([5, 0, 7], "Int64")), ("bytes", "value")),
        (FRAME.assign(ratio=pd.array([np.nextafter(0.1, 1), 0.2, None], "Float64")), ("ratio", "value")),
        (FRAME.assign(device=pd.Categorical(["gpu:0", "gpu:1", "gpu:1"])), ("device", "value")),
        (FRAME.assign(reason=pd.array([None, None, "idle"], "str")), ("reason", "wording")),
        (FRAME.assign(reason=pd.array([None, None, None], "str")), ("reason", "value")),
        (FRAME.drop(index=2), ("", "rows")),
        (FRAME.drop(columns="bytes"), ("bytes", "missing")),
        (FRAME.assign(more=0), ("more", "added")),
        (FRAME.iloc[[1, 0, 2]].reset_index(drop=True), ("", "order of rows")),
        (FRAME.set_index(pd.Index([1, 2, 3])), ("(index)", "added")),
        (FRAME[["start_ps", "device", "bytes", "ratio", "reason"]], ("", "order of columns")),
    ],
)
def test_what_is_planted_in_a_frame_is_found(planted, difference):
    assert compare(FRAME, planted) == ([difference], [])


def test_categories_in_another_order_are_told_apart_from_what_differs():
    device = FRAME["device"].cat.set_categories(["gpu:1", "gpu:0"])
    assert compare(FRAME, FRAME.assign(device=device)) == ([], ["device"])


@dataclasses.dataclass
class Answer:
    table: pd.DataFrame
    unions: dict[str, np.ndarray]
    total_ps: int = 7
    headline: str = "nothing ran"


ANSWER = Answer(FRAME, {"gpu:0": np.array([[1, 2], [3, 5]])})


@pytest.mark.parametrize(
    ("planted", "difference"),
    [
        (dataclasses.replace(ANSWER, table=FRAME.assign(start_ps=[1, 2, 4])), ("start_ps", "value")),
        (dataclasses.replace(ANSWER, unions={"gpu:0": np.array([[1, 2], [3, 6]])}), ("", "value")),
        (dataclasses.replace(ANSWER, unions={"gpu:0": np.array([[1, 2]])}), ("", "rows")),
        (dataclasses.replace(ANSWER, unions={**ANSWER.unions, "gpu:1": np.array([0])}), ("", "added")),
        (dataclasses.replace(ANSWER, total_ps=8), ("", "value")),
        (dataclasses.replace(ANSWER, total_ps=None), ("", "value")),
        (dataclasses.replace(ANSWER, headline="all ran"), ("", "wording")),
        (dataclasses.replace(ANSWER, headline=""), ("", "value")),
    ],
)
def test_what_is_planted_inside_an_answer_is_found(planted, difference):
    assert compare(ANSWER, planted) == ([difference], [])


@pytest.mark.parametrize(
    ("before", "after", "difference"),
    [
        ({"a": [{"n": 1}, {"n": 2}]}, {"a": [{"n": 1}, {"n": 3}]}, ("a/*/n", "value")),
        ({"a": 1}, {"a": 1.0}, ("a", "value")),
        ({"a": 1}, {"a": 1, "b": None}, ("b", "added")),
        ({"a": []}, {"a": {}}, ("a", "value")),
    ],
)
def test_what_is_planted_in_plain_data_is_found(before, after, difference):
    assert compare(before, before) == ([], [])
    assert compare(before, after) == ([difference], [])


def test_only_figures_count_where_sentences_are_left_out():
    worded = FRAME.assign(reason=pd.array([None, None, "idle"], "str"))
    assert compare(FRAME, worded, figures_only=True) == ([], [])
    without = FRAME.assign(reason=pd.array([None, None, None], "str"))
    assert compare(FRAME, without, figures_only=True) == ([("reason", "value")], [])
    moved = worded.assign(start_ps=[1, 2, 4])
    assert compare(FRAME, moved, figures_only=True) == ([("start_ps", "value")], [])
    before = {"notes": ["one thing"], "busy_ps": 3}
    assert compare(before, {"notes": ["another"], "busy_ps": 3}, figures_only=True) == ([], [])
    assert compare(before, {"notes": [], "busy_ps": 4}, figures_only=True)[0] == [
        ("notes", "value"),
        ("busy_ps", "value"),
    ]


@pytest.mark.parametrize("kind", ["picture", "panel"])
def test_one_pixel_is_a_difference(kind):
    differences = importlib.import_module("differences")
    pixels = np.zeros((4, 5, 4), np.uint8)
    before = {"it": (kind, png(pixels))}
    pixels[2, 3, 1] = 1
    changes = differences.compare(before, {"it": (kind, png(pixels))}, figures_only=True).differences
    assert [(change.what, change.detail) for change in changes] == [
        ("pixels", "1 of 20 pixels; the first at x 3, y 2: [0, 0, 0, 0] -> [0, 1, 0, 0]")
    ]
    assert not differences.compare(before, before).differences
    changes = differences.compare(before, {"it": (kind, png(pixels[1:]))}).differences
    assert [change.what for change in changes] == ["size"]


def test_a_picture_with_equal_panels_differs_in_wording():
    differences = importlib.import_module("differences")
    dark, light = (png(np.full((4, 5, 4), level, np.uint8)) for level in (0, 9))
    before = {"it": ("picture", dark), "it/panel 0": ("panel", dark)}
    for panel, what in ((dark, ["wording"]), (light, ["pixels", "pixels"])):
        after = {"it": ("picture", light), "it/panel 0": ("panel", panel)}
        assert [change.what for change in differences.compare(before, after).differences] == what
    assert differences.compare(before, {"it": ("picture", light)}).differences[0].what == "pixels"


def packets(*texts):
    """A protobuf of one packet (field 1) a text, which stands in its field 2 beside a number in field 3."""
    inside = [b"\x12" + bytes([len(text)]) + text.encode() + b"\x18\x07" for text in texts]
    return b"".join(b"\x0a" + bytes([len(each)]) + each for each in inside)


@pytest.mark.parametrize(
    ("key", "kind", "before", "after", "what", "detail"),
    [
        ("it", "text", "a\nb\nc", "a\nB\nc", "wording", "line 2 of 3: 'b' -> 'B'"),
        ("it.csv", "bytes", b"a\n1\n", b"a\n1\n2\n", "bytes", "line 3 of 3: '' -> '2'; 4 lines now"),
        (
            "it.pftrace",
            "bytes",
            packets("x", "kernel"),
            packets("x", "kernels"),
            "packets",
            "packet 1: [(2, 'kernel'), (3, 7)] -> [(2, 'kernels'), (3, 7)]; 1 of 2 packets differ",
        ),
    ],
)
def test_what_is_planted_in_a_text_or_a_file_is_found(key, kind, before, after, what, detail):
    differences = importlib.import_module("differences")
    changes = differences.compare({key: (kind, before)}, {key: (kind, after)}).differences
    assert [(change.what, change.detail) for change in changes] == [(what, detail)]
    assert not differences.compare({key: (kind, before)}, {key: (kind, before)}).differences


def test_a_sentence_in_packets_is_no_figure():
    differences = importlib.import_module("differences")
    before, after = ({"it.pftrace": ("bytes", packets(text))} for text in ("two words", "three more words"))
    assert [change.what for change in differences.compare(before, after).differences] == ["wording"]


@pytest.mark.parametrize(
    ("before", "after", "how", "what"),
    [
        (("refusal", "TraceError", "no"), ("refusal", "TraceError", "no"), {}, []),
        (("refusal", "TraceError", "no"), ("refusal", "TraceError", "never"), {}, ["wording"]),
        (("refusal", "TraceError", "no"), ("refusal", "TraceError", "never"), {"figures_only": True}, []),
        (("refusal", "TraceError", "no"), ("refusal", "ViewError", "no"), {"figures_only": True}, ["class"]),
        (("refusal", "TraceError", "no"), ("failure", "KeyError", "no"), {}, ["kind"]),
        # Two tracebacks are no agreement, unless the trace is one that is known to end in them.
        (("failure", "KeyError", "no"), ("failure", "KeyError", "no"), {}, ["failure"]),
        (("failure", "KeyError", "no"), ("failure", "KeyError", "yes"), {"errors_too": True}, []),
        (("failure", "KeyError", "no"), ("failure", "TypeError", "no"), {"errors_too": True}, ["class"]),
    ],
)
def test_errors_are_equal_if_their_class_and_sentence_are(before, after, how, what):
    differences = importlib.import_module("differences")
    items = [{"trace": (kind, {"class": name, "sentence": sentence})} for kind, name, sentence in (before, after)]
    assert [change.what for change in differences.compare(*items, **how).differences] == what


def test_what_stands_below_an_answer_that_failed_is_told_once():
    differences = importlib.import_module("differences")
    before = {"report/phases": ("data", 1), "report/notes": ("data", 2), "steps": ("data", 3)}
    after = {"report": ("failure", {"class": "KeyError", "sentence": "x"}), "steps": ("data", 3)}
    changes = differences.compare(before, after).differences
    assert [(change.key, change.what) for change in changes] == [("report", "added")]


def test_a_type_that_is_not_known_is_no_agreement(monkeypatch):
    dump, first = (importlib.import_module(name) for name in ("dump_version", "version_first"))
    monkeypatch.setattr(first, "WAYS", {"it": lambda at: {"it": object()}})
    assert dump.dump("", ["*"], True)["it"].kind == "failure"


def test_known_differences_are_accepted_and_no_others(tmp_path):
    script, differences = (importlib.import_module(name) for name in ("compare_versions", "differences"))
    path = tmp_path / "known.toml"
    path.write_text('[[difference]]\nkey = "report/*"\nwhere = "ratio"\nreason = "rounded once"\n')
    outcome = script.Outcome(script.read_known(path))
    before = {name: ("data", {"ratio": 1, "busy_ps": 2}) for name in ("report/a", "report/b", "steps")}
    after = {
        "report/a": ("data", {"ratio": 2, "busy_ps": 2}),
        "report/b": ("data", {"ratio": 2, "busy_ps": 3}),
        "steps": ("data", {"ratio": 2, "busy_ps": 2}),
    }
    outcome.add("trace", before, after, differences.compare(before, after))
    assert (outcome.compared["data"], outcome.equal["data"], outcome.meant["data"]) == (3, 0, 1)
    assert outcome.different["data"] == 2
    assert list(outcome.differences) == ["report/b|busy_ps|value", "steps|ratio|value"]


@pytest.mark.parametrize(
    "entry", ['key = "a"', 'reason = "b"', 'key = "a"\nreason = " "', 'key = "a"\nreason = "b"\nx = "c"']
)
def test_a_known_difference_needs_its_key_and_its_reason(tmp_path, entry):
    script = importlib.import_module("compare_versions")
    path = tmp_path / "known.toml"
    path.write_text(f"[[difference]]\n{entry}\n")
    with pytest.raises(ValueError, match="needs key and reason"):
        script.read_known(path)


def test_the_known_differences_of_the_tree_can_be_read():
    script = importlib.import_module("compare_versions")
    assert all(entry.reason for entry in script.read_known(BENCHMARKS / "compare_versions.toml"))


def test_what_only_changed_its_name_is_the_same(monkeypatch):
    dump = importlib.import_module("dump_version")
    monkeypatch.setattr(dump, "RENAMED_KEYS", (("reasons/", "explanation/"),))
    monkeypatch.setattr(dump, "RENAMED_NAMES", (("explanation/*", "began_ps", "start_ps"),))
    monkeypatch.setattr(dump, "RENAMED_VALUES", (("explanation/*", "device", "gpu 1", "gpu:1"),))
    today = FRAME.rename(columns={"start_ps": "began_ps"})
    today["device"] = today["device"].cat.rename_categories({"gpu:1": "gpu 1"})
    (before,) = dump.items("explanation/table", FRAME)
    (renamed,) = (dump.rename(*pair) for pair in dump.items("reasons/table", today))
    differences = importlib.import_module("differences")
    assert not differences.compare(dict([before]), dict([renamed])).differences
    data = dump.rename("explanation/it", dump.Item("data", [{"began_ps": 1, "device": "gpu 1"}]))
    assert data == ("explanation/it", dump.Item("data", [{"start_ps": 1, "device": "gpu:1"}]))


def test_files_of_one_set_are_a_trace_together_and_each_for_itself(tmp_path):
    script = importlib.import_module("compare_versions")
    names = ("set/rank0.json", "set/rank1.json", "kineto/a.json", "kineto/b.json", "README.md", "expected.json")
    for name in names:
        (tmp_path / "traces" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "traces" / name).touch()
    unit_names = {unit.name for unit in script.find_units(tmp_path / "traces")}
    assert unit_names == {f"traces/{name}" for name in (*names[:4], "set")}


def test_every_part_of_the_tree_is_asked_for_and_answers():
    dump, first = (importlib.import_module(name) for name in ("dump_version", "version_first"))
    items = dump.dump(str(KINETO), ["*"], dump.digest(Path(tracekit.__file__).parent) == first.DIGEST)
    assert {key: item.value for key, item in items.items() if item.kind == "failure"} == {}
    answered = {part for part in first.WAYS if any(f"{key}/".startswith(f"{part}/") for key in items)}
    # A trace with steps has a picture of one, and one with phases is compared as it is.
    assert first.WAYS.keys() - answered <= {"pictures/step", "comparison"}
    trace = tracekit.read(KINETO)
    lasted = (trace.events["end_ps"] - trace.events["start_ps"]).tolist()
    header = items["files/report.html/timeline/header"].value
    durations = items["files/report.html/timeline/duration"].value[: len(lasted)]
    assert sorted((durations * int(header["unit_ps"])).tolist()) == sorted(lasted)


# Of a copy of the tree: one version reads a picosecond more than the other, of one of two traces.
LATER = """

import dataclasses as _dataclasses

_read = __getattr__("read")


def read(path, *rest):
    trace = _read(path, *rest)
    if "kineto" not in str(path):
        return trace
    events = trace.events.copy()
    events.loc[0, "end_ps"] += 1
    return _dataclasses.replace(trace, events=events)
"""


def test_a_picosecond_between_two_trees_is_found_where_it_is(tmp_path):
    shutil.copytree(ROOT / "tracekit", tmp_path / "tree" / "tracekit", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "tree" / "tracekit" / "__init__.py").open("a", encoding="utf-8") as file:
        file.write(LATER)
    (tmp_path / "known.toml").touch()
    out = tmp_path / "out.json"
    process = subprocess.run(
        [
            *(sys.executable, BENCHMARKS / "compare_versions.py", "--old", sys.executable, "--old-path", ROOT),
            *("--new", sys.executable, "--new-path", tmp_path / "tree", "--traces", ROOT / "tests" / "data"),
            *("--only", "data/kineto*", "data/mxnet_two_contexts_naive*", "--known", tmp_path / "known.toml"),
            *("--parts", "partition", "report", "pictures/gantt", "exports/csv", "--figures-only", "--json", out),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 1, process.stdout + process.stderr
    result = json.loads(out.read_text())
    assert {difference["trace"] for difference in result["differences"]} == {"data/kineto-rank1.pt.trace.json"}
    (row,) = [difference for difference in result["differences"] if difference["key"] == "trace/events"]
    assert (row["where"], row["what"]) == ("end_ps", "value")
    keys = {difference["key"] for difference in result["differences"]}
    assert {"partition", "report/whole/partition", "exports/csv/events.csv"} <= keys
    assert result["compared"]["panel"] == 2
    assert "1 rows differ" in row["detail"]
