"""Lists of devices that take part together, in forms that no version of XLA at hand prints."""

from tracekit.readers.hlo.instruction import group_text, iota_groups, mesh_groups, pair_text


def test_numbers_that_do_not_fit_together_list_no_group():
    assert iota_groups(2, 3, [2, 2], []) == []
    assert iota_groups(1, 4, [2, 2], [0, 2]) == []
    assert iota_groups(1 << 40, 2, [1 << 41], []) == []
    assert mesh_groups([2, 2], [0, 1, 2], [(0, 1, 2)]) == []
    assert mesh_groups([6], [], [(0, 4, 2)]) == []
    assert mesh_groups([8], [], [(0, 0, 2)]) == []


def test_one_group_is_its_members_and_several_keep_their_braces():
    assert group_text([[4, 5]]) == "4,5"
    assert group_text([[0, 1], [2, 3]]) == "{{0,1},{2,3}}"
    assert group_text([]) is None
    assert pair_text([[0, 1]]) == "{{0,1}}"
    assert pair_text([]) is None
