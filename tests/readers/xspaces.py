"""Build XSpace files for tests from text protos, with jax's own serialiser."""

from pathlib import Path

from jax.profiler import ProfileData


def write(path: Path, text: str) -> Path:
    """Serialise the text proto of an XSpace into `path`; bad text does not raise there, so emptiness is asserted."""
    data = ProfileData.text_proto_to_serialized_xspace(text)
    assert data, "the text proto did not parse"
    path.write_bytes(data)
    return path


class PlaneText:
    """A text proto of one plane, built event by event; ids are handed out by name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.events: dict[str, int] = {}
        self.stats: dict[str, int] = {}
        self.lines: dict[str, list[str]] = {}

    def event(self, line: str, name: str, start_ns: int, duration_ns: int, **stats: int | str) -> "PlaneText":
        """Add an event to `line`; integer stats are int64, strings are str_value. `_` before digits stays as it is."""
        said = "".join(
            f"stats {{ metadata_id: {self.stats.setdefault(key, len(self.stats) + 1)} "
            + (f'str_value: "{value}"' if isinstance(value, str) else f"int64_value: {value}")
            + " } "
            for key, value in stats.items()
        )
        number = self.events.setdefault(name, len(self.events) + 1)
        self.lines.setdefault(line, []).append(
            f"events {{ metadata_id: {number} offset_ps: {start_ns * 1000} duration_ps: {duration_ns * 1000} {said}}}"
        )
        return self

    def text(self, line_stamp_ns: int = 1000) -> str:
        """The plane as text proto; every line starts at `line_stamp_ns`."""
        lines = "".join(
            f'lines {{ id: {at} name: "{name}" timestamp_ns: {line_stamp_ns} {" ".join(events)} }}\n'
            for at, (name, events) in enumerate(self.lines.items(), 1)
        )
        events = "".join(
            f'event_metadata {{ key: {at} value {{ id: {at} name: "{name}" }} }}\n' for name, at in self.events.items()
        )
        stats = "".join(
            f'stat_metadata {{ key: {at} value {{ id: {at} name: "{name}" }} }}\n' for name, at in self.stats.items()
        )
        return f'planes {{ name: "{self.name}"\n{lines}{events}{stats} }}\n'
