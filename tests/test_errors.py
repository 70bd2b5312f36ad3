"""What a sentence on a damaged file says of an exception: never a bare key, nor nothing."""

import pytest

from tracekit.errors import reason


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("time_ps"), "it has no time_ps"),
        (
            KeyError("There is no item named 'a.parquet' in the archive"),
            "There is no item named 'a.parquet' in the archive",
        ),
        (KeyError(), "it lacks something"),
        (IndexError("list index out of range"), "it is not as tracekit writes it (list index out of range)"),
        (TypeError(), "it is not as tracekit writes it (TypeError)"),
        (ValueError("a number\n of no text."), "a number of no text"),
        (EOFError(), "EOFError"),
    ],
)
def test_a_reason_is_the_end_of_a_sentence(error, text):
    assert reason(error) == text
