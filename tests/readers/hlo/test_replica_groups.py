"""Replica groups written out, in forms that no version of XLA at hand prints."""

import pytest

from tracekit.readers.hlo.replica_groups import iota, members, mesh, pairs, parse


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("mesh[a=2,b=2] {a}, use_global_device_ids=true", [[0, 2], [1, 3]]),
        ("mesh[i=2] {i}", [[0, 1]]),
        ("mesh[i=2] {j}", []),
        ("{{0,1},{2}}, to_apply=%add.{9}", [[0, 1], [2]]),
        ("[2,2]<=[4], dimensions={0}", [[0, 1], [2, 3]]),
        ("", []),
    ],
)
def test_text_is_read_up_to_where_the_groups_end(text, groups):
    assert parse(text) == groups


def test_numbers_that_do_not_fit_together_list_no_group():
    assert iota(2, 3, [2, 2], []) == []
    assert iota(1, 4, [2, 2], [0, 2]) == []
    assert iota(1 << 40, 2, [1 << 41], []) == []
    assert mesh([2, 2], [0, 1, 2], [(0, 1, 2)]) == []
    assert mesh([6], [], [(0, 4, 2)]) == []
    assert mesh([8], [], [(0, 0, 2)]) == []


def test_one_group_is_its_members_and_several_keep_their_braces():
    assert members([[4, 5]]) == "4,5"
    assert members([[0, 1], [2, 3]]) == "{{0,1},{2,3}}"
    assert members([]) is None
    assert pairs([[0, 1]]) == "{{0,1}}"
    assert pairs([]) is None
