"""What a profiler's own messages say, as losses and as notes."""

import pytest

from tests.readers.xspaces import PlaneText, write
from tracekit.readers import losses, xspace
from tracekit.readers.losses import Lost
from tracekit.vocabulary.losses import Loss

NUMBERED = [f"e{number}" for number in range(102)]


@pytest.mark.parametrize(
    ("messages", "notes"),
    [
        ([], []),
        (["x"], ["Profiler error: x"]),
        (["x", "y", " x\n"] + 998 * ["x"], ["Profiler error, 1,000 times: x", "Profiler error: y"]),
        (NUMBERED[:100], [f"Profiler error: {text}" for text in NUMBERED[:100]]),
        (
            NUMBERED[:101],
            [
                *(f"Profiler error: {text}" for text in NUMBERED[:100]),
                "The profiler wrote 1 other error or warning, which is not listed here.",
            ],
        ),
        (
            [*NUMBERED, *NUMBERED],
            [
                *(f"Profiler error, 2 times: {text}" for text in NUMBERED[:100]),
                "The profiler wrote 2 other errors and warnings, which are not listed here.",
            ],
        ),
    ],
)
def test_a_message_is_one_note_however_often_it_stands_and_of_many_the_first_are_notes(messages, notes):
    assert losses.told(("Profiler error", message) for message in messages) == notes


def test_of_many_messages_of_loss_the_last_are_one_loss_of_each_kind():
    messages = [f"Dropped {number} records" for number in range(1, 104)]
    found = losses.from_messages([*messages, *messages, "events dropped: some, buffer full"])
    assert [each.lost for each in found[:100]] == [*range(1, 101)]
    assert found[100:] == [Lost(Loss.RECORDS, None, None, "4 more messages")]
    assert losses.from_messages(messages)[100:] == [Lost(Loss.RECORDS, 101 + 102 + 103, None, "3 more messages")]


def test_equal_errors_of_an_xspace_are_one_note(tmp_path):
    plane = PlaneText("/device:GPU:0").event("Stream #1", "k", 0, 1)
    path = write(tmp_path / "h.xplane.pb", plane.text() + 'warnings: "x" hostnames: "h"')
    path.write_bytes(path.read_bytes() + b"\x12\x01x" * 100_000)
    notes = xspace.read(path).notes
    assert notes[:2] == ("Profiler error, 100,000 times: x", "Profiler warning: x")
    assert sum("Profiler" in note for note in notes) == 2
