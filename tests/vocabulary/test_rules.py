"""A user's rules decide before anything else, once for each distinct value, and a mistake in them is one sentence."""

import re

import pandas as pd
import pytest

from tests.frames import events
from tracekit.columns import concat
from tracekit.errors import TracekitError
from tracekit.trace import EVENT_COLUMNS, KIND_DTYPE, Trace
from tracekit.vocabulary.rules import apply, read, unused


def rows() -> pd.DataFrame:
    """Four rows: a ring exchange, a collective, a copy, an op whose kernel says nothing."""
    frame = events(
        ("gpu:0", "compute", 0, 9, "ring_exchange"),
        ("gpu:0", "collective", 9, 12, "ncclDevKernel_Generic"),
        ("gpu:1", "memcpy", 0, 5, "MemcpyH2D", "H2D"),
        ("gpu:1", "compute", 5, 8, "kernel_7"),
    )
    frame["hlo_op"] = pd.Categorical([None, None, None, "ring_exchange.3"])
    frame["category"] = pd.Categorical([None, "all-reduce", None, "custom-call"])
    frame["known_by"] = pd.Categorical(["nothing", "name", "stat", None])
    return frame


def write(tmp_path, text: str):
    path = tmp_path / "Rules.toml"
    path.write_text(text, "utf-8")
    return path


def kinds_of(frame: pd.DataFrame) -> list[tuple]:
    columns = frame[["kind", "direction", "known_by"]].astype(object)
    return list(columns.where(columns.notna(), None).itertuples(index=False, name=None))


UNTOUCHED = kinds_of(rows())


def test_a_rule_decides_by_name_or_hlo_op_and_leaves_the_other_rows_alone(tmp_path):
    rules = read(write(tmp_path, '[[rule]]\nname = "^ring_"\nkind = "collective"\n'))
    assert kinds_of(apply(rows(), rules)) == [
        ("collective", None, "rule"),
        *UNTOUCHED[1:3],
        ("collective", None, "rule"),
    ]


def test_the_first_rule_that_matches_wins(tmp_path):
    text = """
        [[rule]]
        name = "exchange"
        lane = "compute"
        device = ":0$"
        kind = "memset"
        [[rule]]
        name = "ring"
        kind = "collective"
    """
    assert kinds_of(apply(rows(), read(write(tmp_path, text)))) == [
        ("memset", None, "rule"),
        *UNTOUCHED[1:3],
        ("collective", None, "rule"),
    ]


def test_all_patterns_of_a_rule_must_be_found_and_a_null_matches_none(tmp_path):
    text = '[[rule]]\nname="."\ncategory="."\ndevice="gpu:1"\nkind="collective"\n'
    assert kinds_of(apply(rows(), read(write(tmp_path, text)))) == [*UNTOUCHED[:3], ("collective", None, "rule")]


def test_a_copy_keeps_its_direction_unless_the_rule_gives_one_and_nothing_else_has_one(tmp_path):
    def after(kind: str) -> list[tuple]:
        return kinds_of(apply(rows(), read(write(tmp_path, f'[[rule]]\nname="Memcpy|kernel_7"\n{kind}\n'))))[2:]

    assert after('kind="memcpy"') == [("memcpy", "H2D", "rule"), ("memcpy", None, "rule")]
    assert after('kind="memcpy"\ndirection="P2P"') == [("memcpy", "P2P", "rule"), ("memcpy", "P2P", "rule")]
    assert after('kind="compute"') == [("compute", None, "rule"), ("compute", None, "rule")]


def test_the_result_keeps_the_contract_and_the_frame_that_was_given_is_left_as_it_was(tmp_path):
    frame, before = rows(), rows()
    rules = read(write(tmp_path, '[[rule]]\ndevice="gpu"\nkind="collective"\n'))
    ruled = Trace(events=apply(frame, rules)).events
    assert frame.equals(before)
    assert ruled["kind"].dtype == KIND_DTYPE
    assert ruled.drop(columns=["kind", "direction", "known_by"]).equals(
        before.drop(columns=["kind", "direction", "known_by"])
    )
    assert apply(apply(frame, rules), rules).equals(ruled)
    assert len(apply(concat(EVENT_COLUMNS, []), rules)) == 0


def test_patterns_are_sought_once_for_each_distinct_value(monkeypatch, tmp_path):
    (rule,) = read(write(tmp_path, '[[rule]]\nname="ring"\nkind="collective"\n'))
    texts = []

    class Counting:
        def search(self, text: str):
            texts.append(text)
            return re.search("ring", text)

    counting = type(rule)(rule.label, {"name": Counting()}, rule.kind)
    apply(concat(EVENT_COLUMNS, [rows()] * 100), [counting])
    assert sorted(texts) == ["MemcpyH2D", "kernel_7", "ncclDevKernel_Generic", "ring_exchange", "ring_exchange.3"]


def test_a_rule_that_decides_nothing_is_told(tmp_path):
    path = write(
        tmp_path, "".join(f'[[rule]]\nname="{name}"\nkind="compute"\n' for name in ("ring", "other", "ring_e"))
    )
    assert unused(rows(), read(path)) == (
        f"Rule 2 of {path} matches no row.",
        f"Rule 3 of {path} decides nothing: rules before it match every row that it matches.",
    )


GOOD = '[[rule]]\nname = "x"\nkind = "compute"\n'
MISTAKES = {
    "name = ": "is not TOML: Invalid value (at end of document). docs/kinds.md shows one.",
    "": "holds no rules: each rule is a table that begins [[rule]].",
    "[rule]\nname = 'x'": "holds no rules: each rule is a table that begins [[rule]].",
    "rule = [1]": "holds no rules: each rule is a table that begins [[rule]].",
    GOOD + "[rules]": "holds 'rules', which is no rule: each rule is a table that begins [[rule]].",
    GOOD + "[[rule]]\nnmae='x'": "Rule 2 of {path}: 'nmae' is no key of a rule; it may hold "
    "name, lane, device, category, kind, direction.",
    GOOD + "[[rule]]\nkind='compute'": "Rule 2 of {path} does not say which rows it is about: "
    "give it a name, lane, device or category.",
    "[[rule]]\nname='['\nkind='compute'": "Rule 1 of {path}: name = '[' is no regular expression: "
    "unterminated character set at position 0.",
    "[[rule]]\nlane=3\nkind='compute'": "Rule 1 of {path}: lane is 3; it must be a regular expression in quotes.",
    "[[rule]]\nname='x'": "Rule 1 of {path}: kind is missing; it must be one of compute, collective, memcpy, memset.",
    "[[rule]]\nname='x'\nkind='copy'": "Rule 1 of {path}: kind is 'copy'; it must be one of "
    "compute, collective, memcpy, memset.",
    "[[rule]]\nname='x'\nkind='compute'\ndirection='H2D'": "Rule 1 of {path}: only a memcpy has a direction; "
    "leave it out, or say kind = 'memcpy'.",
    "[[rule]]\nname='x'\nkind='memcpy'\ndirection=['H2D']": "Rule 1 of {path}: direction is ['H2D']; "
    "it must be one of H2D, D2H, D2D, P2P.",
}


@pytest.mark.parametrize(("text", "sentence"), MISTAKES.items())
def test_a_mistake_is_one_sentence_that_names_the_file_and_the_rule(tmp_path, text, sentence):
    path = write(tmp_path, text)
    with pytest.raises(TracekitError) as caught:
        read(path)
    message = str(caught.value)
    assert sentence.format(path=path) in message
    assert str(path) in message
    assert "\n" not in message


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(TracekitError, match=r"The rules file .*none\.toml does not exist\. Check --kinds\."):
        read(tmp_path / "none.toml")
    with pytest.raises(TracekitError, match="cannot be read: Is a directory"):
        read(tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(TracekitError, match="is not TOML"):
        read(binary)
