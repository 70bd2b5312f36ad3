"""HLO protos, as `/host:metadata` carries them, to the opcode of every instruction.

Schema: xla/service/hlo.proto. Field numbers used: HloProto.hlo_module = 1; HloModuleProto.computations = 3;
HloComputationProto.instructions = 2; HloInstructionProto.name = 1, opcode = 2.
"""

from typing import Any

from tracekit.readers import wire


def opcodes(proto: Any) -> dict[str, str]:
    """The opcode of every instruction of a serialised HloProto, by instruction name, over all its computations.

    Raises wire.Broken if the bytes are no message.
    """
    found = {}
    for module in _messages(proto, (0, len(proto)), 1):
        for computation in _messages(proto, module, 3):
            for instruction in _messages(proto, computation, 2):
                name = opcode = ""
                for number, wire_type, start, end in wire.fields(proto, *instruction):
                    if number == 1 and wire_type == wire.LENGTH:
                        name = wire.text(proto, start, end)
                    elif number == 2 and wire_type == wire.LENGTH:
                        opcode = wire.text(proto, start, end)
                found[name] = opcode
    return found


def _messages(buf: Any, span: tuple[int, int], wanted: int) -> list[tuple[int, int]]:
    """The spans of the message fields numbered `wanted` in the message that fills `span`."""
    return [
        (start, end)
        for number, wire_type, start, end in wire.fields(buf, *span)
        if number == wanted and wire_type == wire.LENGTH
    ]
