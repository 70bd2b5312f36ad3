"""Which op needs which, through all that leaves no row: modules with known answers, and random ones."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.readers.hlo import hlo_modules
from tests.readers.hlo.hlo_modules import needs_xla_parser
from tests.readers.xspaces import hlo_proto
from tracekit.readers.hlo.hlo_proto import Program
from tracekit.readers.hlo.operands import operands

pytestmark = needs_xla_parser

TEXT = """HloModule m, num_partitions=2

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %r = f32[] add(%a, %b)
}

%body (t: (s32[], f32[8], f32[8])) -> (s32[], f32[8], f32[8]) {
  %t = (s32[], f32[8], f32[8]) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %v = f32[8] get-tuple-element(%t), index=1
  %w = f32[8] get-tuple-element(%t), index=2
  %next = s32[] add(%i, %i)
  %step = f32[8] multiply(%v, %w)
  %twice = f32[8] add(%step, %step)
  ROOT %again = (s32[], f32[8], f32[8]) tuple(%next, %twice, %w)
}

%condition (t.1: (s32[], f32[8], f32[8])) -> pred[] {
  %t.1 = (s32[], f32[8], f32[8]) parameter(0)
  %i.1 = s32[] get-tuple-element(%t.1), index=0
  ROOT %less = pred[] compare(%i.1, %i.1), direction=LT
}

%on_true (p.t: f32[8]) -> f32[8] {
  %p.t = f32[8] parameter(0)
  ROOT %yes = f32[8] exponential(%p.t)
}

%on_false (p.f: f32[8]) -> f32[8] {
  %p.f = f32[8] parameter(0)
  ROOT %no = f32[8] negate(%p.f)
}

%called (p.c: f32[8], p.d: f32[8]) -> f32[8] {
  %p.c = f32[8] parameter(0)
  %p.d = f32[8] parameter(1)
  ROOT %in.call = f32[8] divide(%p.d, %p.d)
}

%shared (p.s: f32[8]) -> f32[8] {
  %p.s = f32[8] parameter(0)
  ROOT %in.shared = f32[8] sine(%p.s)
}

%wrapped (p.w: f32[8]) -> f32[8] {
  %p.w = f32[8] parameter(0)
  ROOT %in.wrapped = f32[8] cosine(%p.w)
}

ENTRY %main (x: f32[8], n: s32[], q: pred[]) -> (f32[8], f32[8]) {
  %x = f32[8] parameter(0)
  %n = s32[] parameter(1)
  %q = pred[] parameter(2)
  %first = f32[8] negate(%x)
  %second = f32[8] exponential(%first)
  %start = (f32[8], f32[8]) all-reduce-start(%first, %second), replica_groups={}, to_apply=%add
  %done = (f32[8], f32[8]) all-reduce-done(%start)
  %of.done = f32[8] get-tuple-element(%done), index=1
  %seen = f32[1,8] bitcast(%of.done)
  %back = f32[8] bitcast(%seen)
  %count = s32[] negate(%n)
  %begin = (s32[], f32[8], f32[8]) tuple(%count, %back, %second)
  %loop = (s32[], f32[8], f32[8]) while(%begin), condition=%condition, body=%body
  %result = f32[8] get-tuple-element(%loop), index=1
  %kept = f32[8] get-tuple-element(%loop), index=2
  %after = f32[8] cosine(%result)
  %after.kept = f32[8] cosine(%kept)
  %flag = pred[] not(%q)
  %choice = f32[8] conditional(%flag, %after, %first), true_computation=%on_true, false_computation=%on_false
  %chosen = f32[8] sine(%choice)
  %call = f32[8] call(%after, %chosen), to_apply=%called
  %of.call = f32[8] floor(%call)
  %call.1 = f32[8] call(%first), to_apply=%shared
  %call.2 = f32[8] call(%second), to_apply=%shared
  %of.shared = f32[8] floor(%call.1)
  %a-start = ((f32[8]), f32[8]) async-start(%of.call), calls=%wrapped
  %a-done = f32[8] async-done(%a-start)
  %of.async = f32[8] ceil(%a-done)
  %pair = (f32[8], f32[8]) tuple(%first, %of.async)
  %barrier = (f32[8], f32[8]) opt-barrier(%pair)
  %second.of = f32[8] get-tuple-element(%barrier), index=1
  %of.barrier = f32[8] abs(%second.of)
  ROOT %out = (f32[8], f32[8]) tuple(%of.barrier, %of.shared)
}
"""
ROWLESS = {"done", "loop", "choice", "call", "call.1", "call.2", "a-start", "a-done", "barrier", "r"}
SILENT = ("parameter", "tuple", "get-tuple-element", "bitcast")


def program(text):
    return Program(hlo_proto(hlo_modules._hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()))


def needs(names=None):
    module = program(TEXT)
    rows = names or [name for name in module.places if name not in ROWLESS and module.op(name).opcode not in SILENT]
    operands_of: dict[str, set[str]] = {}
    for op, operand in operands(module, rows):
        operands_of.setdefault(op, set()).add(operand)
    return operands_of


def test_an_op_needs_the_rows_behind_dones_bitcasts_tuples_loops_branches_and_calls():
    assert needs() == {
        "second": {"first"},
        "start": {"first", "second"},
        # The first round needs what stood before the loop.
        "next": {"count"},
        "less": {"count"},
        "step": {"start", "second"},
        "twice": {"step"},
        # What comes out of the loop is what its body made, or what it only carried.
        "after": {"twice"},
        "after.kept": {"second"},
        "yes": {"after"},
        "no": {"first"},
        "chosen": {"yes", "no", "flag"},
        "in.call": {"chosen"},
        "of.call": {"in.call"},
        # Two places call it: its parameter is of neither, its result of both.
        "of.shared": {"in.shared"},
        "in.wrapped": {"of.call"},
        "of.async": {"in.wrapped"},
        "of.barrier": {"of.async"},
    }


def test_only_what_left_rows_is_named():
    assert needs(["first", "after", "of.barrier"]) == {"after": {"first"}, "of.barrier": {"first", "after"}}


def test_names_that_the_program_does_not_hold_need_nothing():
    assert operands(program(TEXT), ["no such op"]) == []
    assert operands(Program(b""), ["first"]) == []


def test_a_long_chain_without_rows_is_followed_to_its_end():
    steps = "\n".join(f"  %v.{at} = f32[] negate(%v.{at - 1})" for at in range(1, 3000))
    text = f"""HloModule m
ENTRY %main (x: f32[]) -> f32[] {{
  %x = f32[] parameter(0)
  %v.0 = f32[] negate(%x)
{steps}
  ROOT %last = f32[] negate(%v.2999)
}}"""
    assert operands(program(text), ["v.0", "last"]) == [("last", "v.0")]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), st.booleans()), min_size=1, max_size=12))
def test_any_graph_gives_what_a_walk_over_all_paths_gives(ops):
    lines, before = ["  %v.0 = f32[] parameter(0)"], {0: set()}
    for at, (a, b, _) in enumerate(ops, 1):
        a, b = a % at, b % at
        lines.append(f"  {'ROOT ' if at == len(ops) else ''}%v.{at} = f32[] add(%v.{a}, %v.{b})")
        before[at] = {a, b}
    rows = {at for at, (_, _, has_row) in enumerate(ops, 1) if has_row}

    def behind(at):
        return {at} if at in rows else set().union(*map(behind, before[at]))

    expected = {(f"v.{at}", f"v.{row}") for at in rows for operand in before[at] for row in behind(operand)}
    text = "HloModule m\nENTRY %main (v.0: f32[]) -> f32[] {\n" + "\n".join(lines) + "\n}"
    assert set(operands(program(text), [f"v.{at}" for at in rows])) == expected
