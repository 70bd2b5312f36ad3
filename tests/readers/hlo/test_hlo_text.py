"""HLO instructions from the text that stands in TPU traces."""

import pytest

from tracekit.readers.hlo.hlo_text import groups, head, parse
from tracekit.readers.hlo.instruction import Array, Instruction, describe


def test_tiles_memories_comments_and_nested_tuples_of_a_tpu_are_read():
    text = (
        "%slice-start = ((s8[10485760]{0:T(1024)(128)(4,1)}), s8[4194304]{0:T(1024)(128)(4,1)S(1)}, s32[]{:S(2)}) "
        "async-start(s8[10485760]{0:T(1024)(128)(4,1)} %bitcast.1985, /*index=1*/f32[<=2,3]{1,0} %b), "
        "calls=%async_computation"
    )
    start = Array("s8", 10485760)
    assert parse(text) == Instruction(
        "slice-start",
        "async-start",
        shape=((start,), Array("s8", 4194304, 1), Array("s32", 4, 2)),
        operands=(start, Array("f32", 24)),
        operand_names=("bitcast.1985", "b"),
    )


def test_attributes_are_read_behind_the_operands_and_nowhere_else():
    text = (
        "%all-reduce.1 = bf16[1024,5120]{1,0:T(8,128)(2,1)S(1)} all-reduce(bf16[1024,5120]{1,0:T(8,128)(2,1)S(1)} "
        "%channel_id=9), channel_id=3, replica_groups=[1,2]<=[2], use_global_device_ids=true, to_apply=%add.2.clone"
    )
    instruction = parse(text.replace("channel_id=9", "fusion"))
    assert (instruction.channel, instruction.ranks, instruction.operands[0].bytes) == (3, "0,1", 10485760)
    assert parse(text.replace("%channel_id=9", "%x").replace("channel_id=3, ", "")).channel is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%a = f32[] add(f32[] %b, f32[] %c)", ("a", "add")),
        ("ROOT %a.1 = (f32[], (s8[2]{0})) custom-call()", ("a.1", "custom-call")),
        (
            "%while.9 = (s32[]{:T(128)}, f32[2]{0}) while((s32[], f32[2]) %t), condition=%c, body=%b",
            ("while.9", "while"),
        ),
        ("fusion.3", None),
        ("jit_f(12190760917235803885)", None),
        ("", None),
    ],
)
def test_name_and_opcode_are_told_where_text_was_printed(text, expected):
    assert head(text) == expected


@pytest.mark.parametrize(("cut", "expected"), [(10, None), (32, None), (50, Instruction("ag", "all-gather-start"))])
def test_cut_text_tells_name_and_opcode_or_nothing(cut, expected):
    text = "%ag = (f32[4]{0}, f32[8]{0}) all-gather-start(f32[4]{0} %x), dimensions={0}"
    assert parse(text).operand_names == ("x",)
    assert parse(text[:cut]) == expected


@pytest.mark.parametrize(
    ("text", "bytes", "direction"),
    [
        ("%s = (s4[7]{0:E(4)S(5)}, s4[7]{0:E(4)}, u32[]) copy-start(s4[7]{0:E(4)} %p)", 4, "D2H"),
        ("%s = (s4[7]{0:S(5)}, s4[7]{0}, u32[]) copy-start(s4[7]{0} %p)", 7, "D2H"),
        ("%s = (pred[9]{0}, pred[9]{0:S(5)}, u32[]) copy-start(%p)", 9, None),
        ("%s = (c64[2]{0}, c64[2]{0:S(5)}, u32[]) copy-start(c64[2]{0:S(5)} %p)", 16, "H2D"),
        ("%s = (f8e4m3fn[3]{0:S(1)}, f8e4m3fn[3]{0}, u32[]) copy-start(f8e4m3fn[3]{0} %p)", 3, "D2D"),
        (
            "%d = ((f32[9]{0:S(5)}, s32[]), f32[2]{0}, u32[]) dynamic-slice-start(f32[9]{0:S(5)} %p, s32[] %i)",
            8,
            "H2D",
        ),
        (
            "%d = ((f32[9]{0:S(5)}, f32[2]{0}, s32[]), f32[9]{0:S(5)}, u32[]) dynamic-update-slice-start("
            "f32[9]{0:S(5)} %p, f32[2]{0} %u, s32[] %i)",
            8,
            "D2H",
        ),
        ('%h = f32[4]{0} custom-call(f32[4]{0} %p), custom_call_target="MoveToHost"', 16, "D2H"),
        ("%r = (f32[8]{0}, f32[8]{0}) ragged-all-to-all(f32[8]{0} %p, f32[8]{0} %q)", None, None),
    ],
)
def test_what_moves_between_memories_tells_how_much_and_whither(text, bytes, direction):
    op = describe(parse(text))
    assert (op.bytes, op.direction) == (bytes, direction)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mesh[a=2,b=2] {a}, use_global_device_ids=true", [[0, 2], [1, 3]]),
        ("mesh[i=2] {i}", [[0, 1]]),
        ("mesh[i=2] {j}", []),
        ("{{0,1},{2}}, to_apply=%add.{9}", [[0, 1], [2]]),
        ("[2,2]<=[4], dimensions={0}", [[0, 1], [2, 3]]),
        ("", []),
    ],
)
def test_text_is_read_up_to_where_the_groups_end(text, expected):
    assert groups(text) == expected
