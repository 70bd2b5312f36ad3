"""What HLO protos tell of an instruction, against the text that XLA itself prints of the same module."""

import re

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.readers.hlo import hlo_modules
from tests.readers.hlo.hlo_modules import needs_xla_parser
from tests.readers.xspaces import hlo_proto
from tracekit.export.protobuf_encoder import number
from tracekit.readers import protobuf_decoder as protobuf
from tracekit.readers.hlo import hlo_proto as hlo_proto_reader
from tracekit.readers.hlo import hlo_text
from tracekit.readers.hlo.hlo_proto import Program
from tracekit.readers.hlo.instruction import Op


@pytest.fixture(scope="module")
def module():
    def program(x):
        y = jax.lax.fori_loop(0, 3, lambda _, v: jnp.sin(v @ x) + 1, x)
        return jnp.where(y > 0, jnp.cumsum(y, axis=0), y).sum()

    compiled = jax.jit(program).lower(jnp.ones((16, 16))).compile()
    (hlo_module,) = compiled.runtime_executable().hlo_modules()
    return hlo_module


def program(module):
    return Program(hlo_proto(module.as_serialized_hlo_module_proto()))


def test_every_instruction_has_the_opcode_that_xla_prints(module):
    expected = dict(
        re.findall(r"^\s*(?:ROOT )?%?([\w.-]+) = (?:\(.*?\)|\S+) ([\w-]+)\(", module.to_string(), re.MULTILINE)
    )
    hlo_program = program(module)
    opcodes = {name: hlo_program.op(name).opcode for name in hlo_program.places}
    assert opcodes == expected
    assert {"while", "dot", "fusion"} & set(opcodes.values())


@needs_xla_parser
def test_shapes_operands_groups_and_channels_are_those_of_the_text_that_xla_prints():
    module = hlo_modules.module()
    hlo_program = program(module)
    n_compared = 0
    for line in hlo_modules.instruction_texts(module):
        text = hlo_text.parse(line)
        proto = hlo_program.instruction(text.name)
        for fact in ("shape", "operands", "operand_names", "ranks", "channel", "host_transfer"):
            # An async wrapper is printed as the op it wraps, with the attributes of that.
            wraps = fact in ("ranks", "channel") and proto.opcode.startswith("async-")
            assert wraps or getattr(proto, fact) == getattr(text, fact), (fact, line)
        n_compared += 1
    assert n_compared > 40  # all but what async wrappers run, which is printed as a part of them


RING = "0,1,2,3,4,5,6,7"


@needs_xla_parser
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ags", Op("all-gather-start", "all-gather", None, 64, "bf16", RING, "channel 3")),
        ("ars", Op("all-reduce-start", "all-reduce", None, 256 + 8, "f32,bf16", None, "channel 12")),
        ("a2a", Op("all-to-all", "all-to-all", None, 512, "f32", "{{0,1},{2,3},{4,5},{6,7}}", "channel 6")),
        ("cps", Op("collective-permute-start", "collective-permute", None, 256, "f32", "{{0,1},{1,2}}", "channel 4")),
        ("rs", Op("reduce-scatter", "reduce-scatter", None, 2048, "f32", RING, "channel 7")),
        # Wrappers and fusions do what is inside of them.
        ("rs-start", Op("async-start", "reduce-scatter", None, 2048, "f32", RING, "channel 7")),
        ("rs-done", Op("async-done", "reduce-scatter", None, 2048, "f32", RING, "channel 7")),
        ("off-start", Op("async-start", "all-gather", None, 2048, "f32", RING, "channel 5")),
        ("neg-start", Op("async-start", "negate")),
        ("fusion.1", Op("fusion", "all-reduce", None, 256, "f32", "{{0,2,4,6},{1,3,5,7}}", "channel 9")),
        ("copy_fusion", Op("fusion", "fusion")),
        ("call.2", Op("call", "call")),
        # Copies, and transfers from and to the host.
        ("cs", Op("copy-start", "copy", "D2H", 256)),
        ("cs.back", Op("copy-start", "copy", "H2D", 256)),
        ("cd", Op("copy-done", "copy", "D2H", 256)),
        ("in", Op("infeed", "infeed", "H2D", 3 * 4 + 5)),
        ("out", Op("outfeed", "outfeed", "D2H", 8)),
        ("send", Op("send", "send", "D2H", 8, "bf16", None, "channel 11")),
        ("recv", Op("recv", "recv", None, 8, "bf16", None, "channel 12")),
        ("dot", Op("dot", "dot")),
        ("no such op", None),
    ],
)
def test_what_an_instruction_does_how_much_it_moves_and_between_whom(name, expected):
    assert program(hlo_modules.module()).op(name) == expected


GROUPED = """HloModule m, num_partitions=8

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %r = f32[] add(%a, %b)
}

ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8] parameter(0)
  ROOT %ar = f32[8] all-reduce(%x), channel_id=1, replica_groups=GROUPS, use_global_device_ids=true, to_apply=%add
}
"""


@needs_xla_parser
@pytest.mark.parametrize(
    ("groups", "ranks"),
    [
        ("{{0,1,2,3},{4,5,6,7}}", "{{0,1,2,3},{4,5,6,7}}"),
        ("{{3,1}}", "3,1"),
        ("{}", None),
        ("[1,8]<=[8]", RING),
        ("[2,4]<=[4,2]T(1,0)", "{{0,2,4,6},{1,3,5,7}}"),
        ('mesh["a"=2,"b"=4] {"b"}', "{{0,1,2,3},{4,5,6,7}}"),
        ('mesh["a"=2,"b"=4] {"a"}', "{{0,4},{1,5},{2,6},{3,7}}"),
        ('mesh["a"=2,"b"=4], device_ids=([4,2]T(1,0)) {"b"}', "{{0,2,4,6},{1,3,5,7}}"),
        ('mesh["a"=2,"b"=4], device_ids=(7,6,5,4,3,2,1,0) {"b"}', "{{7,6,5,4},{3,2,1,0}}"),
        # Parts of an axis, as xla/hlo/ir/replica_group.cc explains them: [8] is [2,4], [2,2,2], [2,2,2].
        ('mesh["a"=8] {"a":(1)2}', "{{0,4},{1,5},{2,6},{3,7}}"),
        ('mesh["a"=8] {"a":(2)2}', "{{0,2},{1,3},{4,6},{5,7}}"),
        ('mesh["a"=8] {"a":(4)2, "a":(1)2}', "{{0,4,1,5},{2,6,3,7}}"),
    ],
)
def test_replica_groups_are_read_from_protos_and_text_alike_in_every_form(groups, ranks):
    try:
        module = hlo_modules.module(GROUPED.replace("GROUPS", groups))
    except RuntimeError:
        pytest.skip("this jaxlib does not know the form")
    (line,) = [line for line in hlo_modules.instruction_texts(module) if " all-reduce(" in line]
    assert program(module).op("ar").ranks == ranks
    assert hlo_text.parse(line).ranks == ranks


def test_no_proto_has_no_ops_and_a_cut_one_is_broken(module):
    proto = hlo_proto(module.as_serialized_hlo_module_proto())
    assert Program(b"").op("dot") is None
    assert Program(b"").places == {}
    with pytest.raises(protobuf.Broken):
        Program(proto[: len(proto) // 2]).op("dot")


@pytest.mark.parametrize(("assignment", "devices"), [((), None), ((1, 8), 8), ((2, 4), 8), ((0, 0), None)])
def test_a_program_runs_on_as_many_devices_as_it_was_assigned(assignment, devices):
    fields = b"".join(number(at, count) for at, count in enumerate(assignment, 1))
    module = b"\x7a" + bytes([len(fields)]) + fields if assignment else b""  # field 15
    assert Program(hlo_proto(b"\x0a\x01f" + module)).devices == devices


def inside(computations, opcode, called, looked_into):
    """The name of what an instruction holds, looked for from the start."""
    for at in called:
        if at > len(computations) or at in looked_into:
            continue
        looked_into.add(at)
        instructions = computations[at - 1]
        if opcode == "async-start" and instructions:
            root, of_root = instructions[0]
            found = inside(computations, root, of_root, looked_into) if root in ("fusion", "call") else None
            return found or f"{at}.1"
        for place, (each, of_each) in enumerate(instructions, 1):
            if each == "all-reduce":
                return f"{at}.{place}"
            if each in ("fusion", "call") and (found := inside(computations, each, of_each, looked_into)):
                return found
    return None


CALLED = st.lists(st.integers(1, 5), max_size=2)
INSTRUCTION = st.one_of(
    st.just(("add", [])), st.just(("all-reduce", [])), st.tuples(st.sampled_from(["fusion", "call"]), CALLED)
)
COMPUTATIONS = st.lists(st.lists(INSTRUCTION, max_size=3), min_size=1, max_size=5)


@given(COMPUTATIONS, st.lists(st.tuples(st.sampled_from(["fusion", "async-start"]), CALLED), max_size=6))
def test_what_is_held_is_found_as_if_it_was_looked_for_from_the_start_though_computations_call_themselves(
    computations, asked
):
    computations = [*computations, [("add", []), *asked]]
    hlo_program = Program(hlo_modules.of_computations(computations))
    for place, (opcode, called) in enumerate(asked, 2):
        instruction = hlo_program.instruction(f"{len(computations)}.{place}")
        found = instruction.inner.name if instruction.inner else None
        assert found == inside(computations, opcode, called, set())


@pytest.mark.parametrize(
    "computation",
    [
        [("add", [])] * 100,
        [("add", [])] * 99 + [("all-reduce", [])],
        [("call", [2])] * 100,
        [("call", [1])] * 99 + [("all-reduce", [])],
    ],
)
def test_a_computation_that_many_fusions_call_is_looked_through_once(computation, monkeypatch):
    hlo_program = Program(hlo_modules.of_computations([computation, [("add", [])] * 100, [("fusion", [1])] * 100]))
    looked_at = []
    head = hlo_proto_reader.head
    names = list(hlo_program.places)
    monkeypatch.setattr(hlo_proto_reader, "head", lambda *where: looked_at.append(where) or head(*where))
    for name in names:
        hlo_program.op(name)
    assert len(looked_at) < 6 * len(names)


@pytest.mark.parametrize("last", [[("add", [])], [("async-start", [1])]])
def test_wrappers_in_wrappers_are_looked_through_once_and_refused_where_they_run_themselves(last, monkeypatch):
    chain = [*([("async-start", [at])] for at in range(2, 101)), last]
    hlo_program = Program(hlo_modules.of_computations(chain))
    looked_at = []
    head = hlo_proto_reader.head
    names = list(hlo_program.places)
    monkeypatch.setattr(hlo_proto_reader, "head", lambda *where: looked_at.append(where) or head(*where))
    told, refused = [], 0
    for name in names:
        try:
            told.append(hlo_program.op(name).opcode)
        except hlo_proto_reader.DAMAGED:
            refused += 1
    is_endless = last != [("add", [])]
    assert (told, refused) == (([], 100) if is_endless else (["async-start"] * 99 + ["add"], 0))
    assert len(looked_at) < 6 * len(names)


def test_wrappers_nested_too_deep_to_be_told_from_outside_are_told_from_inside_whatever_was_asked_before():
    proto = hlo_modules.of_computations([*([("async-start", [at])] for at in range(2, 701)), [("add", [])]])

    def told(program, number):
        try:
            return program.op(f"{number}.1").opcode
        except hlo_proto_reader.DAMAGED:
            return None

    program, numbers = Program(proto), range(1, 701, 9)
    in_order = [told(program, number) for number in numbers]
    assert in_order == [told(Program(proto), number) for number in numbers]
    assert {*in_order} == {None, "async-start"}
