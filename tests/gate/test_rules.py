"""Rules as users write them: bounds with units, scopes, and one sentence for what is wrong."""

import pytest

from tracekit import Rule, TracekitError, Unit
from tracekit.gate.rules import from_options, read, rule

RULES = """
[[rule]]
measure = "overlap"
of = ["gpu:0", "gpu:1"]
min = "80%"
phase = "together"

[[rule]]
name = "communication"
measure = "exposed-collective"
max = "2ms"
step = "median"
device = "gpu:1"

[[rule]]
measure = "idle"
min = 0.01
max = 0.1
"""


def test_a_file_of_rules_is_read_in_order(tmp_path):
    (tmp_path / "rules.toml").write_text(RULES)
    assert read(tmp_path / "rules.toml") == (
        Rule("overlap", 0.8, None, Unit.RATIO, ("gpu:0", "gpu:1"), phase="together"),
        Rule("exposed-collective", None, 2 * 10**9, Unit.TIME, step="median", device="gpu:1", name="communication"),
        Rule("idle", 0.01, 0.1, Unit.RATIO),
    )
    assert [rule.text for rule in read(tmp_path / "rules.toml")] == [
        "overlap of gpu:0 and gpu:1 in phase together at least 80.0 %",
        "communication: exposed collective of gpu:1 in the median step at most 2.00 ms",
        "idle at least 1.0 % and at most 10.0 %",
    ]


@pytest.mark.parametrize(
    ("measure", "bound", "value", "unit"),
    [
        ("idle", "10%", 0.1, Unit.RATIO),
        ("idle", "12.5 %", 0.125, Unit.RATIO),
        ("idle", 0.1, 0.1, Unit.RATIO),
        ("idle", 1, 1, Unit.RATIO),
        ("idle", "5ms", 5 * 10**9, Unit.TIME),
        ("exposed-copy", "300us", 3 * 10**8, Unit.TIME),
        ("exposed-copy", 0, 0, Unit.TIME),
        ("exposed-copy", "7%", 0.07, Unit.RATIO),
        ("wall", "1.5 s", 15 * 10**11, Unit.TIME),
    ],
)
def test_a_bound_has_the_unit_that_is_written_with_it(measure, bound, value, unit):
    assert rule("here", measure, most=bound) == Rule(measure, None, value, unit)


def test_a_speedup_is_a_factor():
    factor = Rule("speedup", 1.5, None, Unit.FACTOR, phase="both")
    assert rule("here", "speedup", "1.5x", phase="both") == rule("here", "speedup", 1.5, phase="both") == factor


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[[rule]]\nmeasure = "idel"\nmax = 1', "Rule 1 of F: There is no measure 'idel'; did you mean 'idle'?"),
        ('[[rule]]\nmeasure = "idle"\nmaximum = 1', "Rule 1 of F: 'maximum' is no key of a rule; did you mean 'max'?"),
        ('[[rule]]\nmeasure = "idle"', "Rule 1 of F: give it a min or a max."),
        ('[[rule]]\nmeasure = "idle"\nmax = true', "Rule 1 of F: max = True is none; docs/howto/ci.md shows one."),
        ('[[rule]]\nmeasure = "idle"\nmax = 10', "Rule 1 of F: 10 is more than the whole: give a share such as 0.8"),
        ('[[rule]]\nmeasure = "idle"\nmax = "fast"', "Rule 1 of F: the bound of idle 'fast' is not a time"),
        ('[[rule]]\nmeasure = "wall"\nmax = 2', "Rule 1 of F: the bound of wall '2' could be of any unit: say 2s,"),
        ('[[rule]]\nmeasure = "wall"\nmax = "5%"', "Rule 1 of F: the wall is no share, so that it cannot be 5%."),
        ('[[rule]]\nmeasure = "idle"\nmin = 0.5\nmax = 0.1', "Rule 1 of F: min is 0.5, which is more than the max"),
        ('[[rule]]\nmeasure = "idle"\nmin = "1ms"\nmax = 0.1', "Rule 1 of F: min is 1ms and max is 0.1: give both as"),
        ('[[rule]]\nmeasure = "overlap"\nmin = 0.5', "Rule 1 of F: Say what overlaps: devices, collective, copy"),
        (
            '[[rule]]\nmeasure = "overlap"\nof = ["gpu:0"]\nmin = 0.5',
            "Rule 1 of F: an overlap is of two devices, not ['gpu:0'].",
        ),
        ("[[rule]]\nmax = 1", "Rule 1 of F names no measure: overlap, idle,"),
        ("[rules]\nmax = 1", "F holds 'rules', which is no rule: each rule is a table that begins [[rule]]."),
        ("", "F holds no rules"),
        ("max idle 1", "The rules file F is not TOML: "),
    ],
)
def test_what_is_no_rule_is_refused_in_a_sentence(tmp_path, text, sentence):
    (tmp_path / "rules.toml").write_text(text)
    with pytest.raises(TracekitError) as caught:
        read(tmp_path / "rules.toml")
    assert str(caught.value).replace(str(tmp_path / "rules.toml"), "F").startswith(sentence)


def test_a_rules_file_that_is_not_there_or_no_toml_leads_to_its_option_and_its_page(tmp_path):
    with pytest.raises(TracekitError, match=r"The rules file .*none\.toml does not exist\. Check --rules\."):
        read(tmp_path / "none.toml")
    with pytest.raises(TracekitError, match=r"cannot be read: Is a directory\. Check --rules\."):
        read(tmp_path)
    (tmp_path / "rules.toml").write_text("max idle 1")
    with pytest.raises(TracekitError, match=r"is not TOML: .* docs/howto/ci\.md shows one\."):
        read(tmp_path / "rules.toml")


def test_options_are_rules_in_one_scope():
    bounds = {"min-overlap": ["H2D=0.5", "copy=80%"], "max-idle": "5%", "max-wall": None}
    assert from_options(None, bounds, phase="copies") == (
        Rule("overlap", 0.5, None, Unit.RATIO, "H2D", phase="copies"),
        Rule("overlap", 0.8, None, Unit.RATIO, "copy", phase="copies"),
        Rule("idle", None, 0.05, Unit.RATIO, phase="copies"),
    )
    pair = from_options(None, {"min-overlap": ["gpu:0,gpu:1=0.8"]})
    assert pair == (Rule("overlap", 0.8, None, Unit.RATIO, ("gpu:0", "gpu:1")),)
    assert from_options(None, {"max-idle": "5%"}, step="3")[0].step == 3


def test_options_that_bound_nothing_are_refused():
    with pytest.raises(TracekitError, match=r"--min-overlap 0\.8: say what overlaps"):
        from_options(None, {"min-overlap": ["0.8"]})
    with pytest.raises(TracekitError, match="--phase is for bounds on the command line, of which there is none"):
        from_options(None, {"max-idle": None}, phase="copies")
