import pytest

from tracekit.vocabulary.losses import Loss, loss


@pytest.mark.parametrize(
    ("message", "what"),
    [
        ("WARNING:2024-05-22 CuptiActivityApi.cpp:303] Dropped 12 activity records", (Loss.RECORDS, 12)),
        ("Dropped 0 activity records", None),
        ("Exceeded max GPU buffer count (129 > 128) - terminating tracing", (Loss.END, None)),
        ("Not all CUDA events might have been collected.", (Loss.PERHAPS, None)),
        ("2097152 events dropped: total device(activity) events reaches max", (Loss.RECORDS, 2097152)),
        ("total driver(callback) events reaches max", (Loss.RECORDS, None)),
        ("Enabling GPU tracing", None),
        ("CUDA profiling might have not been started correctly.", None),
        ("No CUDA events collected. Does the process use CUDA?", None),
    ],
)
def test_a_profilers_message_says_what_it_lost(message, what):
    assert loss(message) == what
