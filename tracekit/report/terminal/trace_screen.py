"""One screen that says what a trace holds: about 32 lines of 80 columns, the same on a terminal and in a pipe."""

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from tracekit import console as terminal
from tracekit.analysis.annotations import RUNTIME
from tracekit.devices import is_known, is_sparse_core, type_of
from tracekit.readers import formats
from tracekit.report.trace_contents import Annotation, Clock, Contents, Device
from tracekit.units import compact_count, count, percent, ppm, quantity, safe, time
from tracekit.vocabulary.kinds import Kind

WIDTH, HEIGHT, LABEL = 80, 32, 9
MAX_DEVICES, MAX_CLOCKS, MAX_NAME, MAX_ANNOTATIONS = 8, 4, 26, 8
NUMBERS, ANNOTATION_NUMBERS = range(1, 7), range(2, 5)  # columns of the tables of devices and of annotations
MIN_MODEL, MIN_NAME, MAX_THREAD = 12, 6, 12
# A note is never silent: where the screen is full, this many lines are still spent on notes.
MIN_NOTE_LINES = 4

_LEVELS = {"rule": "by your rules", "stat": "by the profiler's record", "nothing": "unclassified (counted as compute)"}
_TYPES = {"gpu": "GPU", "tpu": "TPU", "sc": "SparseCore", "cpu": "CPU device"}
_CARRIED = {
    "copy_direction": ("copies", "direction"),
    "copy_bytes": ("copies", "bytes"),
    "collective_bytes": ("collectives", "bytes"),
    "collective_ranks": ("collectives", "ranks"),
    "hlo_op": ("events", "HLO op"),
}


def show(inventory: Contents, on: Console, full: bool = False) -> None:
    """Print the screen on a console; with `full` every annotation, and no name is cut."""
    for line in lines(inventory, min(on.width, WIDTH), full):
        on.print(Text(terminal.printable(line, on)), soft_wrap=True)


def lines(inventory: Contents, width: int = WIDTH, full: bool = False) -> list[str]:
    """The screen, line by line; only a path, and with `full` a name, may be wider than `width`."""
    files = f", {inventory.files} files" if inventory.files > 1 else ""
    form = formats.by_name(inventory.format)
    screen = [f"{'trace':{LABEL}}{safe(inventory.source)}"]
    screen += _labelled("format", f"{inventory.format}: {form.title if form else 'of unknown origin'}{files}", width)
    if len(inventory.runs) > 1:
        read, *other = inventory.runs
        screen += _labelled("runs", f"{read} (this one), {_some(other, 3)}", width)
    screen += _hosts(inventory.clocks, width)
    screen += ["", *_devices(inventory, width), ""]
    screen += _labelled("spans", _spans(inventory), width)
    screen += _annotations(inventory.annotations, width, full)
    screen += _labelled("launches", _launches(inventory), width)
    screen += _labelled("recorded", recorded, width) if (recorded := _recorded(inventory)) else []
    screen += _labelled("kinds", levels, width) if (levels := _levels(inventory)) else []
    for label, sentences in (("missing", inventory.missing), ("notes", inventory.notes)):
        screen += _sentences(label, sentences, max(HEIGHT - len(screen), MIN_NOTE_LINES), width)
    return screen


def _labelled(label: str, text: str, width: int) -> list[str]:
    folded = terminal.folded(safe(text), width - LABEL)
    return [f"{label if at == 0 else '':{LABEL}}{line}" for at, line in enumerate(folded)]


def _some(names: Sequence[str], most: int) -> str:
    """The names, or where there are more than `most`, the first and the last and how many."""
    return ", ".join(names) if len(names) <= most else f"{names[0]} … {names[-1]} ({len(names)})"


def _hosts(clocks: Sequence[Clock], width: int) -> list[str]:
    """Hosts, clocks, time span and wall-clock start."""
    if not clocks:
        return []
    if len(clocks) == 1:
        clock = clocks[0]
        shared = ", on one clock" if len(clock.hosts) > 1 else ""
        hosts = _labelled("hosts", f"{_some(clock.hosts, 4)}{shared}{_fitted(clock)}", width)
        return hosts + _labelled("time", _lasted(clock), width) + _labelled("began", _began(clock), width)
    block = _labelled("clocks", f"{len(clocks)} that are not aligned: no time is compared across them", width)
    for clock in clocks[:MAX_CLOCKS]:
        lasted = f"{_some(clock.hosts, 4)}: {_lasted(clock)}; began {_began(clock)}{_fitted(clock)}"
        block += _labelled("", lasted, width)
    if len(clocks) > MAX_CLOCKS:
        block += _labelled("", f"… and {len(clocks) - MAX_CLOCKS} more", width)
    return block


def _fitted(clock: Clock) -> str:
    shifted = f", shifted by up to {time(clock.shift_ps)}" if clock.shift_ps else ""
    drift = f", which drifted by up to {ppm(clock.drift_ppm)}" if clock.drift_ppm else ""
    residual = f", collectives end within {time(clock.residual_ps)}" if clock.residual_ps else ""
    return shifted + drift + residual


def _lasted(clock: Clock) -> str:
    if clock.start_ps is None or clock.end_ps is None:
        return "no event"
    whole = f"{time(clock.end_ps - clock.start_ps)} in all"
    if clock.device_start_ps is None or clock.device_end_ps is None:
        return f"{whole}, no device event"
    return f"{whole}, {time(clock.device_end_ps - clock.device_start_ps)} from first to last device event"


def _began(clock: Clock) -> str:
    if clock.began_ns is None:
        return "at an unknown time of day"
    seconds, rest = divmod(clock.began_ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest // 1000:06d} UTC"


def _devices(inventory: Contents, width: int) -> list[str]:
    """One line for each device with rows, and one for all without; of more than MAX_DEVICES one for each model."""
    devices = inventory.devices
    if not devices:
        return _labelled("devices", "none", width)
    about = _number_of([device for device in devices if is_known(device.device)] or devices) + _models(devices)
    windows = {device.window_ps for device in devices if device.window_ps}
    if len(windows) == 1:
        about += f"; busy = share of those {time(next(iter(windows)))}"
    elif windows:
        about += "; busy = share of the time from first to last event on that clock"
    idle = [device for device in devices if not any(device.rows.values())]
    working = [device for device in devices if device not in idle]
    several = len({device.model for device in working}) > 1
    rows = [["", "lanes", *(kind.value for kind in Kind), "busy", *(["model"] if several else [])]]
    for name, group in _groups(working):
        rows.append([name, *_cells(group), *([group[0].model or "-"] if several else [])])
    table = _table(rows, width) if len(rows) > 1 else []
    return _labelled("devices", about, width) + table + ([f"{_number_of(idle)} without events"] if idle else [])


def _models(devices: Sequence[Device]) -> str:
    """What the devices are, as far as it is known: `, H100` or `: 2 H100, 1 T4`."""
    models = [device.model for device in devices if device.model]
    counts = {model: models.count(model) for model in dict.fromkeys(models)}
    if len(counts) < 2:
        return f", {models[0]}" if models else ""
    return ": " + _some([f"{number} {model}" for model, number in counts.items()], 3)


def _groups(devices: Sequence[Device]) -> list[tuple[str, list[Device]]]:
    """The devices by what one line of the table stands for, with the line's name."""
    if len(devices) <= MAX_DEVICES:
        return [(_short(device.device), [device]) for device in devices]
    alike: dict[tuple[str, str | None, bool], list[Device]] = {}
    for device in devices:
        alike.setdefault((_type(device), device.model, is_known(device.device)), []).append(device)
    groups = [(_short(_number_of(group)), group) for group in alike.values()]
    if len(groups) <= MAX_DEVICES:
        return groups
    others = [device for _, group in groups[MAX_DEVICES - 1 :] for device in group]
    return [*groups[: MAX_DEVICES - 1], ("others", others)]


def _type(device: Device) -> str:
    """Its type, `sc` of a SparseCore, or its name if that tells no type."""
    return "sc" if is_sparse_core(device.device) else type_of(device.device) or device.device


def _number_of(devices: Sequence[Device]) -> str:
    if len(devices) == 1:
        return devices[0].device
    types = [_type(device) for device in devices]
    return " and ".join(quantity(types.count(name), _TYPES.get(name, name)) for name in dict.fromkeys(types))


def _short(name: str) -> str:
    """`name`, without its middle where it is long."""
    return terminal.cut(safe(name), MAX_NAME)


def _cells(group: Sequence[Device]) -> list[str]:
    numbers = [[device.lanes for device in group], *([device.rows[kind.value] for device in group] for kind in Kind)]
    busy = [device.busy_ps / device.window_ps for device in group if device.window_ps]
    return [*map(_numbers, numbers), _busy(busy)]


def _numbers(numbers: Sequence[int]) -> str:
    """The number, or of several the least and the largest, short."""
    low, high = min(numbers), max(numbers)
    return count(low) if low == high else _range(compact_count(low), compact_count(high))


def _busy(ratios: Sequence[float]) -> str:
    return _range(percent(min(ratios)), percent(max(ratios))) if ratios else "-"


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low.removesuffix(' %')}-{high}"


def _table(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """The first and the model column to the left, numbers to the right; without models that would be cut to nothing.

    Where the numbers do not fit, the first column gives way to them, then the gaps.
    """
    widths = [max(cell_len(row[at]) for row in rows) for at in range(len(rows[0]))]
    if len(widths) > NUMBERS.stop and sum(widths[: NUMBERS.stop]) + 2 * NUMBERS.stop + MIN_MODEL > width:
        widths = widths[: NUMBERS.stop]
    gap = 2 if MIN_NAME + sum(widths[1 : NUMBERS.stop]) + 2 * len(NUMBERS) <= width else 1
    room = width - sum(widths[1 : NUMBERS.stop]) - gap * len(NUMBERS)
    widths[0] = min(widths[0], max(room, MIN_NAME))
    table = []
    for row in rows:
        cells = [
            cell.rjust(wide) if at in NUMBERS else terminal.padded(cell, wide)
            for at, (cell, wide) in enumerate(zip(row, widths, strict=False))
        ]
        table.append(set_cell_size((" " * gap).join(cells), width).rstrip())
    return table


def _spans(inventory: Contents) -> str:
    spans = inventory.spans
    if not spans.count:
        return "none"
    phases = f"phases {_some([repr(name) for name in spans.phases], 4)}" if spans.phases else "no phases"
    # Steps that are told by the runs of a program are no spans.
    steps = quantity(spans.steps, "annotated step") if spans.steps else "no annotated steps"
    return (
        f"{quantity(spans.count, 'host span')} of {quantity(spans.names, 'name')} "
        f"on {quantity(spans.threads, 'thread')}; {phases}; {steps}"
    )


def _annotations(annotations: Sequence[Annotation], width: int, full: bool) -> list[str]:
    """A line for each phase, for the steps of each name, and each annotation, the first of them; what the runtime did,
    and what is too much, is counted."""
    users = [annotation for annotation in annotations if annotation.kind != RUNTIME]
    shown = annotations if full else users[:MAX_ANNOTATIONS]
    rows = [["", "name", "n", "total", "median", "thread"]] if shown else []
    for annotation in shown:
        times = time(annotation.total_ps), time(annotation.median_ps)
        rows.append([_kind(annotation), annotation.name, count(annotation.count), *times, _where(annotation)])
    if len({row[-1] for row in rows[1:]}) == 1:
        rows = [row[:-1] for row in rows]
    block = _columns([[safe(cell) for cell in row] for row in rows], width, full)
    runtime = len(annotations) - len(users)
    more, names = len(users) - len(users[:MAX_ANNOTATIONS]), quantity(runtime, "name")
    hidden = [quantity(more, "more annotation")] if more else []
    hidden += [f"{names} of JAX, XLA and the runtime"] if runtime else []
    return [
        *block,
        *(_labelled("", f"and {' and '.join(hidden)}: --full lists all", width) if hidden and not full else []),
    ]


def _kind(annotation: Annotation) -> str:
    """`phase`, `step 3`, `steps 0-9`."""
    first, last = annotation.first_step, annotation.last_step
    if first is None or last is None:
        return annotation.kind
    return f"step {first}" if first == last else f"steps {first}-{last}"


def _where(annotation: Annotation) -> str:
    """Its thread, or on how many it stands; of steps that no host marks what tells them."""
    if not annotation.threads:
        return "(executions)"
    return annotation.thread or quantity(annotation.threads, "thread")


def _columns(rows: Sequence[Sequence[str]], width: int, full: bool) -> list[str]:
    """The lines of a table of annotations, whose names give way to the rest, and then their threads."""
    if not rows:
        return []
    widths = [max(cell_len(row[at]) for row in rows) for at in range(len(rows[0]))]
    if not full:
        widths[ANNOTATION_NUMBERS.stop :] = [min(wide, MAX_THREAD) for wide in widths[ANNOTATION_NUMBERS.stop :]]
        room = width - LABEL - sum(widths) + widths[1] - 2 * (len(widths) - 1)
        widths[1] = min(widths[1], max(room, MIN_NAME))
    table = []
    for row in rows:
        cells = [
            cell.rjust(wide) if at in ANNOTATION_NUMBERS else terminal.padded(terminal.cut(cell, wide), wide)
            for at, (cell, wide) in enumerate(zip(row, widths, strict=True))
        ]
        table.append(" " * LABEL + "  ".join(cells).rstrip())
    return table


def _launches(inventory: Contents) -> str:
    linked = inventory.carried["launch"]
    calls = quantity(inventory.launches, "call") if inventory.launches else "none"
    if not linked.of:
        return calls
    return f"{calls}; {linked.have:,} of {linked.of:,} events with a correlation id are linked"


def _recorded(inventory: Contents) -> str:
    """What the rows carry: only of kinds of rows that there are, and HLO ops only where XLA ran."""
    form = formats.by_name(inventory.format)
    parts: dict[str, list[str]] = {}
    for key, (whose, what) in _CARRIED.items():
        share = inventory.carried[key]
        if share.of and (key != "hlo_op" or share.have or (form and form.xla)):
            parts.setdefault(whose, []).append(f"{what} {percent(share.have / share.of)}")
    return "; ".join(f"{whose}: {', '.join(shares)}" for whose, shares in parts.items())


def _levels(inventory: Contents) -> str:
    """By what the kinds of the work are known, the most of the busy time first."""
    parts = sorted(inventory.kinds_known_by.items(), key=lambda part: -part[1])
    levels = [f"{percent(ratio)} {_LEVELS.get(level, f'by {level}')}" for level, ratio in parts if ratio]
    return f"{', '.join(levels)}, of busy time" if levels else ""


def _sentences(label: str, sentences: Sequence[str], room: int, width: int) -> list[str]:
    """As many whole sentences as fit into `room` lines, at least one, and how many are left out."""
    block: list[str] = []
    for at, sentence in enumerate(sentences):
        wrapped = _labelled(label if at == 0 else "", sentence, width)
        last = at == len(sentences) - 1
        if block and len(block) + len(wrapped) + (not last) > room:
            return [*block, *_labelled("", f"… and {len(sentences) - at} more: --json prints all.", width)]
        block += wrapped
    return block
