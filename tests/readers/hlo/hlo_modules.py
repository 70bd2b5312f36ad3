"""HLO modules for tests, parsed from HLO text by XLA itself."""

import pytest

from tests.readers.xspaces import hlo_proto
from tracekit.export.protobuf_encoder import message, number

try:
    from jaxlib import _hlo
except ImportError:  # where it stands depends on the version
    _hlo = None

needs_xla_parser = pytest.mark.skipif(_hlo is None, reason="this jaxlib shows no parser of HLO text")

# What a GPU or TPU compiler makes of collectives: async pairs, wrappers, fusions around them, copies to the host.
TEXT = """HloModule jit_f, num_partitions=8

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %r = f32[] add(%a, %b)
}

%wrapped_scatter (p: f32[64,8]) -> f32[8,8] {
  %p = f32[64,8] parameter(0)
  ROOT %rs = f32[8,8] reduce-scatter(%p), channel_id=7, replica_groups=[1,8]<=[8], use_global_device_ids=true,
    dimensions={0}, to_apply=%add
}

%wrapped_negate (q: f32[8,8]) -> f32[8,8] {
  %q = f32[8,8] parameter(0)
  ROOT %neg.0 = f32[8,8] negate(%q)
}

%holds_sum (p.1: f32[8,8]) -> f32[8,8] {
  %p.1 = f32[8,8] parameter(0)
  %ar.in = f32[8,8] all-reduce(%p.1), channel_id=9, replica_groups=[2,4]<=[4,2]T(1,0), use_global_device_ids=true,
    to_apply=%add
  ROOT %neg = f32[8,8] negate(%ar.in)
}

%holds_none (p.2: f32[8,8]) -> f32[8,8] {
  %p.2 = f32[8,8] parameter(0)
  ROOT %copy.in = f32[8,8] copy(%p.2)
}

%offloaded (p.3: f32[8,8]) -> f32[8,8] {
  %p.3 = f32[8,8] parameter(0)
  %ags.in = (f32[8,8], f32[64,8]) all-gather-start(%p.3), channel_id=5, replica_groups={{0,1,2,3,4,5,6,7}},
    dimensions={0}, use_global_device_ids=true
  %agd.in = f32[64,8] all-gather-done(%ags.in)
  ROOT %cut = f32[8,8] slice(%agd.in), slice={[0:8], [0:8]}
}

%calls_offloaded (p.4: f32[8,8]) -> f32[8,8] {
  %p.4 = f32[8,8] parameter(0)
  ROOT %call.1 = f32[8,8] call(%p.4), to_apply=%offloaded
}

ENTRY %main (x: f32[64,8], y: bf16[4]) -> f32[8,8] {
  %x = f32[64,8]{1,0} parameter(0)
  %y = bf16[4]{0} parameter(1)
  %rs-start = ((f32[64,8]), f32[8,8], u32[]) async-start(%x), calls=%wrapped_scatter
  %rs-update = ((f32[64,8]), f32[8,8], u32[]) async-update(%rs-start)
  %rs-done = f32[8,8] async-done(%rs-update)
  %neg-start = ((f32[8,8]), f32[8,8]) async-start(%rs-done), calls=%wrapped_negate
  %neg-done = f32[8,8] async-done(%neg-start)
  %off-start = ((f32[8,8]), f32[8,8]) async-start(%neg-done), calls=%calls_offloaded
  %off-done = f32[8,8] async-done(%off-start)
  %ags = (bf16[4], bf16[32]) all-gather-start(%y), channel_id=3, replica_groups={{0,1,2,3,4,5,6,7}}, dimensions={0},
    use_global_device_ids=true
  %agd = bf16[32] all-gather-done(%ags)
  %fusion.1 = f32[8,8] fusion(%off-done), kind=kCustom, calls=%holds_sum
  %copy_fusion = f32[8,8] fusion(%fusion.1), kind=kLoop, calls=%holds_none
  %cps = (f32[8,8]{1,0}, f32[8,8]{1,0}, u32[], u32[]) collective-permute-start(%copy_fusion), channel_id=4,
    source_target_pairs={{0,1},{1,2}}
  %cpd = f32[8,8] collective-permute-done(%cps)
  %cs = (f32[8,8]{1,0:S(5)}, f32[8,8]{1,0}, u32[]) copy-start(%cpd)
  %cd = f32[8,8]{1,0:S(5)} copy-done(%cs)
  %cs.back = (f32[8,8]{1,0}, f32[8,8]{1,0:S(5)}, u32[]) copy-start(%cd)
  %cd.back = f32[8,8]{1,0} copy-done(%cs.back)
  %tok = token[] after-all()
  %send = (bf16[4], u32[], token[]) send(%y, %tok), channel_id=11, is_host_transfer=true
  %send-done = token[] send-done(%send), channel_id=11, is_host_transfer=true
  %recv = (bf16[4], u32[], token[]) recv(%tok), channel_id=12
  %recv-done = (bf16[4], token[]) recv-done(%recv), channel_id=12
  %in = ((f32[3], s8[5]), token[]) infeed(%tok)
  %out = token[] outfeed(%y, %tok), outfeed_shape=bf16[4]{0}
  %ars = (f32[8,8], bf16[4]) all-reduce-start(%fusion.1, %y), channel_id=12, replica_groups={}, to_apply=%add
  %ard = (f32[8,8], bf16[4]) all-reduce-done(%ars)
  %a2a = (f32[8,8], f32[8,8]) all-to-all(%fusion.1, %cd.back), channel_id=6, replica_groups={{0,1},{2,3},{4,5},{6,7}}
  %c4 = s4[7]{0:E(4)} parameter(2)
  %call.2 = f32[8,8] call(%fusion.1), to_apply=%offloaded
  ROOT %dot = f32[8,8] dot(%call.2, %cd.back), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def module(text: str = TEXT):
    """The HLO module that XLA parses from `text`."""
    return _hlo.hlo_module_from_text(
        text.replace("(x: f32[64,8], y: bf16[4])", "(x: f32[64,8], y: bf16[4], c4: s4[7])")
    )


def instruction_texts(module) -> list[str]:
    """The instructions of a module as XLA prints them on a TPU: one a line, with the shapes of their operands."""
    options = _hlo.HloPrintOptions()
    options.print_operand_shape = True
    return [line.strip() for line in module.to_string(options).splitlines() if " = " in line]


def of_computations(computations: list[list[tuple[str, list[int]]]]) -> bytes:
    """The proto of a program of these computations: of each instruction the opcode and the computations that it calls;
    each is named by where it stands, and the first is the root."""
    module = b""
    for at, instructions in enumerate(computations, 1):
        parts = b"".join(
            message(
                2,
                message(1, f"{at}.{place}")
                + message(2, opcode)
                + number(35, place)
                + b"".join(number(38, each) for each in called),
            )
            for place, (opcode, called) in enumerate(instructions, 1)
        )
        module += message(3, parts + number(5, at) + number(6, 1))
    return hlo_proto(module)
