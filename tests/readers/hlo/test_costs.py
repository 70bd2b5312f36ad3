"""Where an instruction comes from and what it costs, by protos of modules whose costs are known."""

import inspect

import jax
import jax.numpy as jnp
import pytest

from tests.readers.hlo import hlo_modules
from tests.readers.hlo.hlo_modules import needs_xla_parser
from tests.readers.xspaces import hlo_proto
from tracekit.readers.hlo.costs import Costs, OpFacts
from tracekit.readers.hlo.hlo_proto import Program

GEMM = '{"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["0"]}}}'
TEXT = """HloModule m

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

%inner (p.0: f32[8,16], p.1: f32[16,4]) -> f32[8,4] {
  %p.0 = f32[8,16] parameter(0)
  %p.1 = f32[16,4] parameter(1)
  ROOT %dot.in = f32[8,4] dot(%p.0, %p.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

%outer (p.2: f32[8,16], p.3: f32[16,4]) -> f32[8,4] {
  %p.2 = f32[8,16] parameter(0)
  %p.3 = f32[16,4] parameter(1)
  %nested = f32[8,4] fusion(%p.2, %p.3), kind=kLoop, calls=%inner
  ROOT %exp = f32[8,4] exponential(%nested)
}

%unknown_inside (p.4: f32[8,16], p.5: f32[16,4]) -> f32[8,4] {
  %p.4 = f32[8,16] parameter(0)
  %p.5 = f32[16,4] parameter(1)
  %dot.known = f32[8,4] dot(%p.4, %p.5), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %call.in = f32[8,4] custom-call(%dot.known), custom_call_target="what"
  ROOT %both = f32[8,4] add(%dot.known, %call.in)
}

%one_layer (p.6: f32[100,8,16], p.7: s32[]) -> f32[1,8,16] {
  %p.6 = f32[100,8,16] parameter(0)
  %p.7 = s32[] parameter(1)
  %zero = s32[] constant(0)
  ROOT %layer = f32[1,8,16] dynamic-slice(%p.6, %p.7, %zero, %zero), dynamic_slice_sizes={1,8,16}
}

ENTRY %main (x: f32[8,16], y: f32[16,4], z: c64[8,8], image: f32[1,10,10,3], kernel: f32[3,3,3,7], s: f32[100,8,16],
             i: s32[]) -> f32[8,4] {
  %x = f32[8,16] parameter(0)
  %y = f32[16,4] parameter(1)
  %z = c64[8,8] parameter(2)
  %image = f32[1,10,10,3] parameter(3)
  %kernel = f32[3,3,3,7] parameter(4)
  %s = f32[100,8,16] parameter(5)
  %i = s32[] parameter(6)
  %dot.self = f32[8,8] dot(%x, %x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  %dot.batch = f32[8,16,16] dot(%x, %x), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={},
    rhs_contracting_dims={}
  %dot.complex = c64[8,8] dot(%z, %z), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %conv = f32[1,8,8,7] convolution(%image, %kernel), window={size=3x3}, dim_labels=b01f_01io->b01f
  %conv.strided = f32[1,4,4,7] convolution(%image, %kernel), window={size=3x3 stride=2x2}, dim_labels=b01f_01io->b01f
  %conv.padded = f32[1,10,10,7] convolution(%image, %kernel), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  %gemm = (f32[16,16], s8[4096]) custom-call(%x, %x), custom_call_target="__cublas$gemm", backend_config=GEMM
  %call.0 = f32[8,8] custom-call(%x), custom_call_target="what"
  %fusion.dot = f32[8,4] fusion(%x, %y), kind=kLoop, calls=%outer
  %fusion.unknown = f32[8,4] fusion(%x, %y), kind=kLoop, calls=%unknown_inside
  %fusion.layer = f32[1,8,16] fusion(%s, %i), kind=kLoop, calls=%one_layer
  %double = f32[8,16] add(%x, %x)
  %i.f = f32[] convert(%i)
  %reduced = f32[16] reduce(%double, %i.f), dimensions={0}, to_apply=%add
  %cut = f32[4,16] slice(%x), slice={[0:4], [0:16]}
  %all = f32[8,16] all-reduce(%x), replica_groups={}, to_apply=%add
  ROOT %last = f32[8,4] negate(%fusion.dot)
}
""".replace("GEMM", GEMM)
X, Y, OUT = 8 * 16 * 4, 16 * 4 * 4, 8 * 4 * 4
IMAGE, KERNEL = 10 * 10 * 3 * 4, 3 * 3 * 3 * 7 * 4


@pytest.fixture(scope="module")
def costs():
    return Costs(Program(hlo_proto(hlo_modules._hlo.hlo_module_from_text(TEXT).as_serialized_hlo_module_proto())))


@needs_xla_parser
@pytest.mark.parametrize(
    ("name", "flops", "size"),
    [
        ("dot.self", 2 * 8 * 8 * 16, X + 8 * 8 * 4),  # an operand that stands twice is read once
        ("dot.batch", 2 * 8 * 16 * 16, X + 8 * 16 * 16 * 4),
        ("dot.complex", None, 2 * 8 * 8 * 8),
        ("conv", 2 * 8 * 8 * 7 * 3 * 3 * 3, IMAGE + KERNEL + 8 * 8 * 7 * 4),
        ("conv.strided", 2 * 4 * 4 * 7 * 3 * 3 * 3, IMAGE + KERNEL + 4 * 4 * 7 * 4),
        ("conv.padded", None, IMAGE + KERNEL + 10 * 10 * 7 * 4),  # products with padding may or may not count
        ("gemm", 2 * 16 * 16 * 8, X + 16 * 16 * 4),  # without its workspace
        ("call.0", None, None),
        ("fusion.dot", 2 * 8 * 4 * 16, X + Y + OUT),
        ("fusion.unknown", None, None),
        ("fusion.layer", None, None),  # reads one layer of a hundred
        ("double", None, 2 * X),
        ("reduced", None, X + 4 + 16 * 4),
        ("cut", None, None),
        ("all", None, None),
        ("no such op", None, None),
    ],
)
def test_products_and_sizes_are_told_where_they_are_exact(costs, name, flops, size):
    assert costs.of(name) == OpFacts(None, None, flops, size)


def test_the_source_is_the_line_that_called_whether_a_frame_or_the_instruction_tells_it():
    def program(x):
        y = jnp.sin(x)  # second line
        return y @ y

    first = inspect.getsourcelines(program)[1]
    compiled = jax.jit(program).lower(jnp.ones((16, 16))).compile()
    (module,) = compiled.runtime_executable().hlo_modules()
    hlo_program = Program(hlo_proto(module.as_serialized_hlo_module_proto()))
    facts_by_op = {facts.framework_op: facts for facts in map(Costs(hlo_program).of, hlo_program.places)}
    for name, line in (("sin", first + 1), ("dot_general", first + 2)):
        assert facts_by_op[f"jit(program)/{name}"].source == f"{__file__}:{line}"
    assert sum(facts.flops or 0 for facts in facts_by_op.values()) >= 2 * 16**3


@needs_xla_parser
def test_an_older_proto_names_file_and_line_itself():
    text = """HloModule m
ENTRY %main (x: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  ROOT %neg = f32[] negate(%x), metadata={op_name="jit(f)/neg" source_file="/a/model.py" source_line=7}
}"""
    module = hlo_modules._hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    assert Costs(Program(hlo_proto(module))).of("neg") == OpFacts("/a/model.py:7", "jit(f)/neg", None, 8)


def test_no_proto_tells_nothing():
    assert Costs(Program(b"")).of("dot.1") == OpFacts()


@pytest.mark.parametrize("holder", ["fusion", "add"])
def test_a_computation_that_many_fusions_call_is_looked_through_once(holder, monkeypatch):
    computations = [[(holder, [2])] * 100, [("add", [])] * 100, [("fusion", [1])] * 100]
    hlo_program = Program(hlo_modules.of_computations(computations))
    looked_at = []
    opcode = Costs._opcode
    monkeypatch.setattr(Costs, "_opcode", lambda costs, span: looked_at.append(span) or opcode(costs, span))
    assert {*map(Costs(hlo_program).of, hlo_program.places)} == {OpFacts(bytes_accessed=0)}
    assert len(looked_at) < 8 * len(hlo_program.places)
