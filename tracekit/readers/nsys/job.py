"""How many ranks took part in the job of an Nsight Systems export, by all that tells it.

NCCL tells it of each communicator in the NVTX payload of the call that makes or ends it (`NcclNvtxParamsCommInitRank`
and those after it in NCCL's src/include/nvtx_payload_schemas.h), in exports with --include-blobs=true. MPI's
communicators have a table (MPI_COMMUNICATORS in the SQLite Schema Reference of Nsight Systems' User Guide). What
started the processes tells it in the environment and the command line, which exports hold as they were.
"""

import re
from collections.abc import Mapping
from pathlib import PurePath

from tracekit.readers.nsys.sqlite_export import Export, rows, tables_of, texts
from tracekit.vocabulary.ranks import world_sizes

_COMMUNICATOR = "NCCL communicator ID"
_COUNTS = ("No. of ranks", "No. of devices")
# NVTX_PAYLOAD_ENTRY_TYPE_UINT64 and _INT (nvToolsExtPayload.h).
_UINT64, _INT = 18, 5
_HEADER = 32
_MOST = 1 << 24

_NODES = re.compile(r"--?nnodes[= ](\d{1,6})\b")
_PER_NODE = re.compile(r"--?nproc[-_]per[-_]node[= ](\d{1,6})(?= |$)")
_LAUNCHERS = ("torchrun", "torch.distributed.run", "torch.distributed.launch")


def communicators(export: Export) -> dict[int, int]:
    """How many ranks each of NCCL's communicators has whose making or end is in the export, by its id."""
    entries: dict[tuple[int, int], dict[str, int]] = {}
    for domain, schema, name, kind, offset in rows(
        export, "NVTX_PAYLOAD_SCHEMA_ENTRIES", "domainId", "schemaId", "name", "type", "offset"
    ):
        what = "count" if name in _COUNTS and kind == _INT else "id" if name == _COMMUNICATOR else ""
        if what and isinstance(domain, int) and isinstance(schema, int) and (what == "count" or kind == _UINT64):
            entries.setdefault((domain, schema), {})[what] = offset if isinstance(offset, int) else 0
    sizes: dict[int, int] = {}
    for table in tables_of(export, "NVTX_EVENTS"):
        for (domain, schema), at in entries.items():
            if {"binaryData", "domainId"} <= export.tables[table] and {"count", "id"} <= at.keys():
                number = schema.to_bytes(8, "little", signed=schema < 0).hex()
                where = f"domainId = {domain} AND substr(binaryData, 9, 8) = x'{number}'"
                for blob in texts(export, table, "binaryData", where):
                    identity, count = (_number(blob or b"", _HEADER + at[what], wide) for what, wide in _WIDTHS)
                    if identity is not None and count is not None and 0 < count <= _MOST:
                        sizes[identity] = max(count, sizes.get(identity, 0))
    return sizes


_WIDTHS = (("id", 8), ("count", 4))


def _number(blob: bytes, at: int, width: int) -> int | None:
    return int.from_bytes(blob[at : at + width], "little") if 0 <= at <= len(blob) - width else None


def world_size(export: Export, communicators: Mapping[int, int]) -> int | None:
    """How many ranks the job has at least, None where nothing tells."""
    sizes = [*communicators.values()]
    sizes += [size for (size,) in rows(export, "MPI_COMMUNICATORS", "size") if isinstance(size, int)]
    settings = [(str(name), str(value)) for name, value in rows(export, "META_DATA_CAPTURE", "name", "value")]
    environment = [value for name, value in settings if name.endswith(":ENVIRONMENT_VARIABLE")]
    environment += [
        str(value) for name, value in rows(export, "TARGET_INFO_SYSTEM_ENV", "name", "value")
        if name == "DeviceEnvironment"
    ]  # fmt: skip
    sizes += [size for text in environment for size in world_sizes(text)]
    words = [value for name, value in settings if re.search(r":(COMMAND|ARGUMENT_\d+)$", name)]
    sizes += _launched(words)
    return max((size for size in sizes if 0 < size <= _MOST), default=None)


def _launched(words: list[str]) -> list[int]:
    """How many workers the `words` of a command line make torchrun start, none where it is not called or does not
    say."""
    if not any(PurePath(word).name in _LAUNCHERS for word in words):
        return []
    line = " ".join(words)
    per_node, nodes = _PER_NODE.search(line), _NODES.search(line)
    return [int(per_node[1]) * (int(nodes[1]) if nodes else 1)] if per_node else []
