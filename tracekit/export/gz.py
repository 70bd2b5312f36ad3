"""Files of blocks, as they are or as one gzip member whose pieces are compressed beside each other.

Each block is compressed by itself and ends on a byte, so that the blocks in their order are one deflate stream, as pigz
does it (https://zlib.net/pigz/). The bytes depend neither on the number of threads nor on the time of day.
"""

import zlib
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

from tracekit import cores

# https://www.rfc-editor.org/rfc/rfc1952: deflate, no name, no time, no system.
_HEADER = bytes([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255])
# The fastest levels differ by a few percent in size; the default takes nearly three times as long for a tenth less.
_LEVEL = 2
_MOST_THREADS = 8


def write(path: Path, blocks: Iterable[bytes], gzip: bool) -> None:
    """Write `blocks` to the file `path`, compressed if `gzip`; about a megabyte each is best."""
    with path.open("wb") as file:
        if gzip:
            _compress(file, blocks)
        else:
            file.writelines(blocks)


def _compress(file: BinaryIO, blocks: Iterable[bytes]) -> None:
    threads = cores.threads(_MOST_THREADS)
    check, size = 0, 0
    file.write(_HEADER)
    with ThreadPoolExecutor(threads) as pool:
        pending: deque[Future[bytes]] = deque()
        for block in blocks:
            check, size = zlib.crc32(block, check), size + len(block)
            pending.append(pool.submit(_compressed, block))
            if len(pending) > 2 * threads:
                file.write(pending.popleft().result())
        for future in pending:
            file.write(future.result())
    file.write(b"\x03\x00")  # the last block of the stream, empty
    file.write(check.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little"))


def _compressed(block: bytes) -> bytes:
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflate.compress(block) + deflate.flush(zlib.Z_FULL_FLUSH)
