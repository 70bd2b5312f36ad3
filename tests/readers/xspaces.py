"""Build XSpace files for tests from text protos, with jax's own serialiser."""

from collections.abc import Mapping
from pathlib import Path

from jax.profiler import ProfileData

Value = int | float | str | bytes


class Ref(str):
    """A text that stands as the name of a stat, and is referred to: of all texts that repeat, XLA writes them so."""


def write(path: Path, text: str) -> Path:
    """Serialise the text proto of an XSpace into `path`; bad text does not raise there, so emptiness is asserted."""
    data = ProfileData.text_proto_to_serialized_xspace(text)
    assert data, "the text proto did not parse"
    path.write_bytes(data)
    return path


def quote(value: str | bytes) -> str:
    """A string or bytes as text protos write them."""
    raw = value.encode() if isinstance(value, str) else value
    return '"' + "".join(f"\\{byte:03o}" if byte in b'"\\' or not 32 <= byte < 127 else chr(byte) for byte in raw) + '"'


class PlaneText:
    """A text proto of one plane, built event by event; ids are handed out by name.

    Integer stats are int64, floats double, strings str (`Ref` ref) and bytes bytes. `stats` of the
    constructor are the plane's own.
    """

    def __init__(self, name: str, **stats: Value) -> None:
        self.name = name
        self.events: dict[str, int] = {}
        self.stats: dict[str, int] = {}
        self.lines: dict[str, list[str]] = {}
        self.described: dict[str, str] = {}
        self.own = self._stats(stats)

    def event(self, line: str, name: str, start_ns: int, duration_ns: int, /, **stats: Value) -> "PlaneText":
        """Add an event to `line`. `_` before digits stays as it is."""
        number = self.events.setdefault(name, len(self.events) + 1)
        self.lines.setdefault(line, []).append(
            f"events {{ metadata_id: {number} offset_ps: {start_ns * 1000} duration_ps: {duration_ns * 1000} "
            f"{self._stats(stats)}}}"
        )
        return self

    def describe(self, event: str, display: str = "", **stats: Value) -> "PlaneText":
        """Give the metadata of the events called `event` a display name and stats."""
        self.events.setdefault(event, len(self.events) + 1)
        self.described[event] = f"display_name: {quote(display)} {self._stats(stats)}"
        return self

    def text(self, line_stamp_ns: int = 1000, lines: Mapping[str, int] | None = None, number: int = 0) -> str:
        """The plane `number` as text proto; every line starts at `line_stamp_ns`, and has its id from `lines` if there.

        By their numbers JAX tells planes apart when it writes JSON; else they may all be 0.
        """
        ids = dict(zip(self.lines, range(1, len(self.lines) + 1), strict=True)) | dict(lines or {})
        line_texts = "".join(
            f"lines {{ id: {ids[name]} name: {quote(name)} timestamp_ns: {line_stamp_ns} {' '.join(events)} }}\n"
            for name, events in self.lines.items()
        )
        events = "".join(
            f"event_metadata {{ key: {at} value {{ id: {at} name: {quote(name)} {self.described.get(name, '')} }} }}\n"
            for name, at in self.events.items()
        )
        names = "".join(
            f"stat_metadata {{ key: {at} value {{ id: {at} name: {quote(name)} }} }}\n"
            for name, at in self.stats.items()
        )
        head = f"id: {number} name: {quote(self.name)}" if number else f"name: {quote(self.name)}"
        return f"planes {{ {head}\n{line_texts}{events}{names}{self.own} }}\n"

    def _stats(self, stats: Mapping[str, Value]) -> str:
        return "".join(
            f"stats {{ metadata_id: {self._stat(key)} {self._value(value)} }} " for key, value in stats.items()
        )

    def _value(self, value: Value) -> str:
        return f"ref_value: {self._stat(value)}" if isinstance(value, Ref) else _typed_value(value)

    def _stat(self, name: str) -> int:
        return self.stats.setdefault(name, len(self.stats) + 1)


def _typed_value(value: Value) -> str:
    if isinstance(value, str | bytes):
        return f"{'str' if isinstance(value, str) else 'bytes'}_value: {quote(value)}"
    return f"{'double' if isinstance(value, float) else 'int64'}_value: {value}"


def metadata_plane(**programs: bytes) -> str:
    """`/host:metadata` with the HLO module of each program, keyed `module_id` for the program `module(id)`."""
    plane = PlaneText("/host:metadata")
    for key, module in programs.items():
        name, _, number = key.rpartition("_")
        plane.describe(f"{name}({number})", **{"Hlo Proto": hlo_proto(module)})
    return plane.text()


def hlo_proto(module: bytes) -> bytes:
    """An HloModuleProto as field 1 of an HloProto."""
    size, head = len(module), bytearray(b"\x0a")
    while size >= 0x80:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes(head) + bytes([size]) + module
