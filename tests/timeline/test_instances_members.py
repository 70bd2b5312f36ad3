from tracekit.timeline.instances import Membership, members, rank_groups


def test_groups_are_read_in_both_forms():
    assert rank_groups("0,1,2", pairs=False) == [[0, 1, 2]]
    assert rank_groups("{{0,4},{1,5}}", pairs=False) == [[0, 4], [1, 5]]
    assert rank_groups("7", pairs=False) == [[7]]


def test_what_the_pairs_of_a_permute_connect_is_one_group():
    assert rank_groups("{{0,1},{1,2},{2,0}}", pairs=True) == [[0, 1, 2]]
    assert rank_groups("{{2,3},{0,1},{1,0}}", pairs=True) == [[0, 1], [2, 3]]
    assert rank_groups("{{0,1},{2,3},{1,2}}", pairs=True) == [[0, 1, 2, 3]]


def test_without_a_list_all_take_part_and_their_number_is_unknown():
    assert members("", False, ["gpu:0", "gpu:1"], ["h", "h"]) == Membership((0, 0), (0, 0))


def test_one_group_takes_any_devices_that_are_not_more_than_it_has():
    assert members("0,1,2,3", False, ["a/gpu:0", "b/gpu:0"], ["a", "b"]) == Membership((0, 0), (4, 4))


def test_two_programs_on_two_hosts_each_have_a_group_of_their_own():
    devices, hosts = ["a/gpu:0", "a/gpu:1", "b/gpu:0", "b/gpu:1"], ["a", "a", "b", "b"]
    assert members("0,1", False, devices, hosts) == Membership((0, 0, 1, 1), (2, 2, 2, 2))


def test_more_devices_than_ranks_cannot_be_told_apart():
    assert members("0,1", False, ["gpu:0", "gpu:1", "gpu:2"], ["h"] * 3) == Membership((-1,) * 3, (2,) * 3)


def test_several_groups_are_the_devices_of_one_host_in_order():
    devices = ["gpu:0", "gpu:1", "gpu:2", "gpu:3"]
    assert members("{{0,1},{2,3}}", False, devices, ["h"] * 4) == Membership((0, 0, 1, 1), (2,) * 4, in_order=True)


def test_several_groups_over_hosts_or_with_ranks_that_are_not_there_are_not_told():
    assert members("{{0,1},{2,3}}", False, ["a/gpu:0", "b/gpu:0"], ["a", "b"]) == Membership((-1, -1), (2, 2))
    assert members("{{0,1},{2,3}}", False, ["gpu:0", "gpu:1"], ["h", "h"]) == Membership((-1, -1), (2, 2))
    assert members("{{0},{1,2}}", False, ["gpu:0", "gpu:1"], ["h", "h"]) == Membership((-1, -1), (0, 0))


def test_ranks_are_not_told_by_the_numbers_of_devices_on_several_hosts_or_of_several_kinds():
    devices = ["a/gpu:0", "a/gpu:1", "b/gpu:2", "b/gpu:3"]
    assert members("{{0,1},{2,3}}", False, devices, ["a", "a", "b", "b"]).group == (-1,) * 4
    assert members("{{0},{1}}", False, ["tpu:0/sc:0", "tpu:0/sc:1"], ["h", "h"]).group == (-1, -1)
    assert members("{{0,1}}", True, ["cpu:0", "gpu:0", "gpu:1"], ["h"] * 3).group == (-1,) * 3


def test_a_permute_of_which_a_rank_is_not_there_is_not_told_by_the_numbers_of_devices():
    assert members("{{0,1},{2,5}}", True, ["gpu:0", "gpu:1", "gpu:2"], ["h"] * 3) == Membership((-1,) * 3, (2,) * 3)
    assert members("{{0,1},{2,3}}", True, [f"gpu:{k}" for k in range(5)], ["h"] * 5).group == (0, 0, 1, 1, -1)


def test_a_device_that_a_permute_leaves_out_is_alone_with_itself():
    devices = ["gpu:0", "gpu:1", "gpu:2"]
    assert members("{{0,2}}", True, devices, ["h"] * 3) == Membership((0, -1, 0), (2, 1, 2), in_order=True)
