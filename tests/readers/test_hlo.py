"""Opcodes from HLO protos, against the text that XLA itself prints of the same module."""

import re

import jax
import jax.numpy as jnp
import pytest

from tracekit.readers import hlo, wire


def length_prefixed(message: bytes) -> bytes:
    """The message as field 1 of another: HloProto.hlo_module."""
    size, head = len(message), bytearray(b"\x0a")
    while size >= 0x80:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes(head) + bytes([size]) + message


@pytest.fixture(scope="module")
def module():
    def program(x):
        y = jax.lax.fori_loop(0, 3, lambda _, v: jnp.sin(v @ x) + 1, x)
        return jnp.where(y > 0, jnp.cumsum(y, axis=0), y).sum()

    compiled = jax.jit(program).lower(jnp.ones((16, 16))).compile()
    (found,) = compiled.runtime_executable().hlo_modules()
    return found


def test_every_instruction_has_the_opcode_that_xla_prints(module):
    printed = dict(
        re.findall(r"^\s*(?:ROOT )?%?([\w.-]+) = (?:\(.*?\)|\S+) ([\w-]+)\(", module.to_string(), re.MULTILINE)
    )
    found = hlo.opcodes(length_prefixed(module.as_serialized_hlo_module_proto()))
    assert found == printed
    assert {"while", "dot", "fusion"} & set(found.values())


def test_no_proto_has_no_opcodes_and_a_cut_one_is_broken(module):
    proto = length_prefixed(module.as_serialized_hlo_module_proto())
    assert hlo.opcodes(b"") == {}
    with pytest.raises(wire.Broken):
        hlo.opcodes(proto[: len(proto) // 2])
