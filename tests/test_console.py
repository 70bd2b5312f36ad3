"""What reaches a terminal: nothing that it would obey, nothing wider than it is, and colours only where it has them."""

import io
import os
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tracekit import console as terminal
from tracekit import units

WORDS = st.text(st.sampled_from("ab -%漢👩\u200d\x1b\t\u202e…é"), max_size=60)


@given(st.text(max_size=40))
def test_no_control_or_direction_character_is_left(text):
    harmless = units.safe(text)
    assert {unicodedata.category(letter) for letter in harmless} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} == set()


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        ("plain [red]x[/red] :smile:", "plain [red]x[/red] :smile:"),
        ("\x1b[2J\x07", "␛[2J␇"),
        ("a\tb\nc\r\n", "a b c  "),
        ("\x9b31m\u202eevil\ufeff", "�31m�evil�"),
        ("漢字 👩\u200d👧 é", "漢字 👩👧 é"),
        ("\udcff", "�"),
        ("a\u200bb\U000e0041c\u200dd\ufe0fe\u034ff\u3164g\u2800", "a�b�c�d�e�f�g�"),
        ("☁\ufe0f☁\ufe0f\ufe0f 葛\U000e0100 می\u200cم", "☁\ufe0f☁\ufe0f� 葛\U000e0100 میم"),
    ],
)
def test_names_keep_their_letters_and_lose_their_power(text, harmless):
    assert units.safe(text) == harmless


def test_whatever_unicode_calls_a_format_is_revealed():
    hidden = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == "Cf"]
    assert {letter for letter in hidden if units.revealed(f"a{letter}") != "a�"} == set()
    assert units.revealed("é, 漢字 👩\u200d👧 🏳\ufe0f\u200d🌈\n\x1b") == "é, 漢字 👩\u200d👧 🏳\ufe0f\u200d🌈\n\x1b"


@given(WORDS, st.integers(2, 30))
def test_folded_lines_fit_and_lose_no_letter(text, width):
    text = units.safe(text)
    lines = terminal.folded(text, width)
    assert max(map(cell_len, lines)) <= width
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_a_number_keeps_its_unit():
    assert terminal.folded("of all the time 84.3 % was idle", 20) == ["of all the time", "84.3 % was idle"]
    assert terminal.folded("of all the time 84.3 µs was idle", 20) == ["of all the time", "84.3 µs was idle"]


@given(WORDS, st.integers(4, 20))
def test_a_padded_name_fills_exactly_its_columns(text, width):
    assert cell_len(terminal.padded(units.safe(text), width)) == width


def test_a_long_name_loses_its_middle():
    assert terminal.cut("fusion_of_everything_12", 11) == "fusio…ng_12"
    assert terminal.cut("漢字漢字漢字", 7) == "漢…漢字"
    assert terminal.cut("short", 11) == "short"


SAY = """
import sys
from rich.text import Text
from tracekit import console as terminal
from tracekit import units
on = terminal.console()
on.print(Text("busy", style="red"))
on.print(Text(terminal.printable(sys.argv[1], on)))
"""


def print_name(name: str, **environment: str) -> bytes:
    """What a program with a coloured word and a name writes into a pipe."""
    cleared = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    command = [sys.executable, "-c", SAY, name]
    return subprocess.run(command, capture_output=True, env=cleared | environment, check=True).stdout


def test_a_pipe_gets_no_escape_codes_unless_they_are_asked_for():
    assert print_name("gpu:0") == b"busy\ngpu:0\n"
    assert b"\x1b[31mbusy" in print_name("gpu:0", FORCE_COLOR="1", TERM="xterm-256color")
    assert print_name("gpu:0", FORCE_COLOR="1", NO_COLOR="1", TERM="xterm-256color") == b"busy\ngpu:0\n"


def test_a_name_that_cannot_be_encoded_ends_nothing():
    assert print_name("µs … 漢字", PYTHONIOENCODING="ascii", PYTHONUTF8="0") == b"busy\nus ... \\u6f22\\u5b57\n"


def test_progress_is_silent_where_stderr_is_no_terminal(capsys, monkeypatch):
    monkeypatch.setattr(terminal, "_AFTER_S", 0.0)
    with terminal.progress(("reading", "analysing")) as step:
        step("reading")
        step("analysing")
    assert capsys.readouterr() == ("", "")


def test_a_stream_that_cannot_be_reconfigured_is_taken_as_it_is():
    assert terminal.is_unicode(terminal.console(io.StringIO(), width=20))
