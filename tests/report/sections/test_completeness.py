"""What the report says of what its trace does not hold."""

import pytest

from tracekit.analysis.completeness import GROUP_COLUMNS, LOSS_COLUMNS, Completeness
from tracekit.columns import frame
from tracekit.report.sections.completeness import section

GIVE = "Give the files of all ranks or hosts, as one directory."


@pytest.mark.parametrize(
    ("lost", "total", "evidence", "sentence"),
    [
        (1, 4, "rank 3", f"1 of 4 ranks or hosts of the job is not in the trace (rank 3). {GIVE}"),
        (2, None, "ranks 1-2", f"2 ranks or hosts of the job are not in the trace (ranks 1-2). {GIVE}"),
        (1, None, "rank 1", f"1 rank or host of the job is not in the trace (rank 1). {GIVE}"),
        (None, None, "why", "which ranks are missing is not known (why). Give the files of one job, as one directory."),
    ],
)
def test_ranks_without_a_file_are_said_once(lost, total, evidence, sentence):
    losses = frame(LOSS_COLUMNS, [("", "ranks", lost, total, evidence)])
    alone = section(Completeness(frame(GROUP_COLUMNS), losses, "", ""))
    assert (alone.sentences, alone.data["complete"]) == ((sentence,), False)
    groups = frame(GROUP_COLUMNS, [("g", 4, None, 3, "3", 9, 100)])
    beside = section(Completeness(groups, losses, "9 collectives are of 4 ranks, of which the trace holds 3.", ""))
    assert (sentence in beside.sentences) is (lost is None)
