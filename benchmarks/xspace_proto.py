"""The protobuf class of XSpace, built from a table of its fields: protobuf's own reading, as a peer and as an oracle.

Source of the table: tsl/profiler/protobuf/xplane.proto. No package installs the generated class; the tests hold this
one against the schema inside jax.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

# Message -> its fields as (number, name, type, oneof). `*` repeats a field; `a: B` in braces is a map<int64, B>.
_FIELDS: dict[str, list[tuple[int, str, str, str]]] = {
    "XSpace": [
        (1, "planes", "*XPlane", ""),
        (2, "errors", "*string", ""),
        (3, "warnings", "*string", ""),
        (4, "hostnames", "*string", ""),
    ],
    "XPlane": [
        (1, "id", "int64", ""),
        (2, "name", "string", ""),
        (3, "lines", "*XLine", ""),
        (4, "event_metadata", "{XEventMetadata}", ""),
        (5, "stat_metadata", "{XStatMetadata}", ""),
        (6, "stats", "*XStat", ""),
    ],
    "XLine": [
        (1, "id", "int64", ""),
        (10, "display_id", "int64", ""),
        (2, "name", "string", ""),
        (11, "display_name", "string", ""),
        (3, "timestamp_ns", "int64", ""),
        (9, "duration_ps", "int64", ""),
        (4, "events", "*XEvent", ""),
    ],
    "XEvent": [
        (1, "metadata_id", "int64", ""),
        (2, "offset_ps", "int64", "data"),
        (5, "num_occurrences", "int64", "data"),
        (3, "duration_ps", "int64", ""),
        (4, "stats", "*XStat", ""),
    ],
    "XStat": [
        (1, "metadata_id", "int64", ""),
        (2, "double_value", "double", "value"),
        (3, "uint64_value", "uint64", "value"),
        (4, "int64_value", "int64", "value"),
        (5, "str_value", "string", "value"),
        (6, "bytes_value", "bytes", "value"),
        (7, "ref_value", "uint64", "value"),
    ],
    "XEventMetadata": [
        (1, "id", "int64", ""),
        (2, "name", "string", ""),
        (4, "display_name", "string", ""),
        (3, "metadata", "bytes", ""),
        (5, "stats", "*XStat", ""),
        (6, "child_id", "*int64", ""),
    ],
    "XStatMetadata": [(1, "id", "int64", ""), (2, "name", "string", ""), (3, "description", "string", "")],
}
_PACKAGE = "tensorflow.profiler"


def xspace_class() -> Any:
    """The message class `XSpace`, in a pool of its own, so that no other copy of the schema can clash with it."""
    file = descriptor_pb2.FileDescriptorProto(name="xplane.proto", package=_PACKAGE, syntax="proto3")
    for message_name, fields in _FIELDS.items():
        message = file.message_type.add(name=message_name)
        for number, name, type_name, oneof in fields:
            if type_name.startswith("{"):
                entry = message.nested_type.add(name="".join(part.title() for part in name.split("_")) + "Entry")
                entry.options.map_entry = True
                _add(entry, 1, "key", "int64")
                _add(entry, 2, "value", type_name[1:-1])
                _add(message, number, name, f"*{message_name}.{entry.name}")
                continue
            field = _add(message, number, name, type_name)
            if oneof:
                if not message.oneof_decl:
                    message.oneof_decl.add(name=oneof)
                field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.XSpace"))


def _add(message: Any, number: int, name: str, type_name: str) -> Any:
    kinds = descriptor_pb2.FieldDescriptorProto
    field = message.field.add(name=name, number=number)
    field.label = kinds.LABEL_REPEATED if type_name.startswith("*") else kinds.LABEL_OPTIONAL
    type_name = type_name.removeprefix("*")
    if type_name in ("int64", "uint64", "double", "string", "bytes"):
        field.type = getattr(kinds, f"TYPE_{type_name.upper()}")
    else:
        field.type = kinds.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{type_name}"
    return field
