"""Files as profilers lay them out, with next to nothing in them."""

import sqlite3
from contextlib import closing

from tests.readers.xspaces import write

KINETO = b'{"schemaVersion": 1, "traceEvents": []}'
XSPACE = 'planes { name: "/device:GPU:0" lines { id: 7 name: "Stream #7(Compute)" timestamp_ns: 5 } }'


def xspace(path):
    return write(path, XSPACE)


def write_file(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def sqlite(path, table="StringIds"):
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(f"CREATE TABLE {table} (id INTEGER)")
    return path
