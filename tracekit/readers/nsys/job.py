"""How many ranks took part in the job of an Nsight Systems export, by all that tells it.

NCCL tells it of each communicator in the NVTX payload of the call that makes or ends it (`NcclNvtxParamsCommInitRank`
and those after it in NCCL's src/include/nvtx_payload_schemas.h), in exports with --include-blobs=true. MPI's
communicators have a table (MPI_COMMUNICATORS in the SQLite Schema Reference of Nsight Systems' User Guide). What
started the processes tells it in the environment and the command line, which exports hold as they were.
"""

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

from tracekit.readers.nsys.machine import process_of
from tracekit.readers.nsys.sqlite_export import MISSING, Export, integers, rows, tables_of, texts
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


class Communicator(NamedTuple):
    """One of NCCL's communicators, by a call that makes or ends it: its id, how many ranks it has, the process that
    called and when, in ns."""

    identity: int
    ranks: int
    process: int
    start_ns: int


def communicators(export: Export) -> list[Communicator]:
    """What each call that is in the export tells of NCCL's communicators."""
    entries: dict[tuple[int, int], dict[str, int]] = {}
    for domain, schema, name, kind, offset in rows(
        export, "NVTX_PAYLOAD_SCHEMA_ENTRIES", "domainId", "schemaId", "name", "type", "offset"
    ):
        what = "count" if name in _COUNTS and kind == _INT else "id" if name == _COMMUNICATOR else ""
        if what and isinstance(domain, int) and isinstance(schema, int) and (what == "count" or kind == _UINT64):
            entries.setdefault((domain, schema), {})[what] = offset if isinstance(offset, int) else 0
    found = []
    for table in tables_of(export, "NVTX_EVENTS"):
        for (domain, schema), at in entries.items():
            if {"binaryData", "domainId"} <= export.tables[table] and {"count", "id"} <= at.keys():
                number = schema.to_bytes(8, "little", signed=schema < 0).hex()
                where = f"domainId = {domain} AND substr(binaryData, 9, 8) = x'{number}'"
                when = integers(export, table, ("start", "globalTid"), where)
                blobs, processes = texts(export, table, "binaryData", where), process_of(when["globalTid"])
                for blob, process, start in zip(blobs, processes.tolist(), when["start"].tolist(), strict=True):
                    identity, count = (_number(blob or b"", _HEADER + at[what], wide) for what, wide in _WIDTHS)
                    if identity is not None and count is not None and 0 < count <= _MOST:
                        found.append(Communicator(identity, count, process, start))
    return found


def sizes(communicators: Sequence[Communicator]) -> dict[int, int]:
    """How many ranks each of NCCL's communicators has, by its id."""
    found: dict[int, int] = {}
    for each in communicators:
        found[each.identity] = max(each.ranks, found.get(each.identity, 0))
    return found


def only_communicators(communicators: Sequence[Communicator]) -> dict[int, Communicator]:
    """The communicator of each process that is known to be in one alone, by the process, as it was made or ended
    first."""
    found: dict[int, dict[int, Communicator]] = {}
    for each in sorted(communicators, key=lambda each: each.start_ns):
        if each.process != MISSING:
            found.setdefault(each.process, {}).setdefault(each.identity, each)
    return {process: next(iter(its.values())) for process, its in found.items() if len(its) == 1}


_WIDTHS = (("id", 8), ("count", 4))


def _number(blob: bytes, at: int, width: int) -> int | None:
    return int.from_bytes(blob[at : at + width], "little") if 0 <= at <= len(blob) - width else None


def world_size(export: Export, communicators: Sequence[Communicator]) -> int | None:
    """How many ranks the job has at least, None where nothing tells."""
    told = [each.ranks for each in communicators]
    told += [size for (size,) in rows(export, "MPI_COMMUNICATORS", "size") if isinstance(size, int)]
    settings = [(str(name), str(value)) for name, value in rows(export, "META_DATA_CAPTURE", "name", "value")]
    environment = [value for name, value in settings if name.endswith(":ENVIRONMENT_VARIABLE")]
    environment += [
        str(value) for name, value in rows(export, "TARGET_INFO_SYSTEM_ENV", "name", "value")
        if name == "DeviceEnvironment"
    ]  # fmt: skip
    told += [size for text in environment for size in world_sizes(text)]
    words = [value for name, value in settings if re.search(r":(COMMAND|ARGUMENT_\d+)$", name)]
    told += _launched(words)
    return max((size for size in told if 0 < size <= _MOST), default=None)


def _launched(words: list[str]) -> list[int]:
    """How many workers the `words` of a command line make torchrun start, none where it is not called or does not
    say."""
    if not any(PurePath(word).name in _LAUNCHERS for word in words):
        return []
    line = " ".join(words)
    per_node, nodes = _PER_NODE.search(line), _NODES.search(line)
    return [int(per_node[1]) * (int(nodes[1]) if nodes else 1)] if per_node else []
