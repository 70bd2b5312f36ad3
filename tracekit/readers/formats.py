"""Every format of a trace that is read, one record each: how it is recognised, who reads it, how to record it.

A new format is a package, a record here and a section of docs/formats.md. A file is recognised in two steps: its type
by its first bytes, and which profiler wrote a Chrome JSON file by all of its events.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tracekit.readers import chrome, nsys, nsys_jax, rocprof, summary, xspace
from tracekit.readers.chrome import Dialect, Document, jax_planes, kineto, mxnet
from tracekit.readers.content import Content, content
from tracekit.trace import Trace


@dataclass(frozen=True)
class FileType:
    """One type of file that profilers write: its name, what people call it, the suffixes that such files mostly have.

    `matches` says whether a file is one by its content; where its second argument is True, the user named the file, and
    it is enough that its reader can say what is wrong with it. `export_hint` is the sentence for a file that only its
    own tool reads: how to export it, "" where that tool is on this machine.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    matches: Callable[[Content, bool], bool]
    export_hint: Callable[[Path], str] | None = None


@dataclass(frozen=True)
class Recording:
    """How to record what a trace of the format lacks, as the end of the sentence "for the next trace, ...".

    None where the format cannot hold it, or its reader says so in a note. `hlo_ops` is a whole sentence.
    """

    device_work: str | None = None
    spans: str | None = None
    launches: str | None = None
    hlo_ops: str | None = None


@dataclass(frozen=True)
class Format:
    """One format: its name in `Trace.format`, what people call it, who writes it, and its section of docs/formats.md.

    `xla`: whether XLA ran the programs, so that rows may name HLO ops, and a CPU device is a queue that runs one
    operation at a time.
    """

    name: str
    title: str
    writer: str
    section: str
    file_type: FileType
    reader: Callable[[Path], Trace] | Dialect
    recording: Recording
    xla: bool = False


XSPACE = FileType("xplane", "XSpace", xspace.SUFFIXES, xspace.is_xspace)
NSYS = FileType("nsys", "Nsight Systems", (".sqlite",), nsys.is_export)
ROCPROF = FileType("rocprofv3", "rocprofv3", rocprof.SUFFIXES, rocprof.is_trace)
NSYS_PARQUET = FileType(
    "nsys-parquet", "Nsight Systems Parquet", nsys.parquet_export.SUFFIXES, nsys.parquet_export.is_export
)
NSYS_JAX = FileType("nsys-jax", "nsys-jax", nsys_jax.SUFFIXES, nsys_jax.is_archive)
CHROME = FileType("chrome", "Chrome JSON", (".json", ".json.gz"), chrome.is_trace)
NSYS_REPORT = FileType("nsys-rep", "Nsight Systems report", nsys.REPORT_SUFFIXES, nsys.is_report, nsys.export_hint)
SUMMARY = FileType("summary", "tracekit summary", (summary.SUFFIX,), summary.is_summary)
# Reports are told by their names alone. Of one run written as several other types the first is read: XSpace and SQLite
# hold what their JSON copies leave out.
FILE_TYPES = (NSYS_REPORT, XSPACE, NSYS, NSYS_PARQUET, NSYS_JAX, ROCPROF, CHROME, SUMMARY)

_HOST_TRACER = "keep host_tracer_level at 1 or more"
_XLA_DEVICE_WORK = (
    f"wait for the results inside the profile (jax.block_until_ready), and {_HOST_TRACER}: CPU devices are seen "
    "through host threads"
)
_NSYS_RECORDING = Recording(
    spans="mark ranges with NVTX, and record them with --trace=cuda,nvtx", launches="record with --trace=cuda"
)
FORMATS = (
    Format(
        name="xplane",
        title="XSpace of the XLA profiler (JAX, TensorFlow)",
        writer="JAX",
        section="JAX (and TensorFlow): XSpace",
        file_type=XSPACE,
        reader=xspace.read,
        recording=Recording(
            device_work=_XLA_DEVICE_WORK,
            spans=_HOST_TRACER,
            hlo_ops="No event names its HLO op: the program is no XLA program, or CUDA graphs hide its ops, which "
            "XLA_FLAGS=--xla_gpu_enable_command_buffer= turns off.",
        ),
        xla=True,
    ),
    Format(
        name="kineto",
        title="PyTorch profiler",
        writer="PyTorch",
        section="PyTorch: Kineto",
        file_type=CHROME,
        reader=kineto.DIALECT,
        recording=Recording(
            spans="mark them with torch.profiler.record_function, and add ProfilerActivity.CPU to the activities",
            launches="add ProfilerActivity.CPU to the activities",
        ),
    ),
    Format(
        name="jax-json",
        title="trace.json of the JAX profiler",
        writer="JAX",
        section="JAX: `trace.json.gz`",
        file_type=CHROME,
        reader=jax_planes.DIALECT,
        recording=Recording(device_work=_XLA_DEVICE_WORK, spans=_HOST_TRACER),
        xla=True,
    ),
    Format(
        name="mxnet",
        title="MXNet profiler",
        writer="MXNet",
        section="MXNet",
        file_type=CHROME,
        reader=mxnet.DIALECT,
        recording=Recording(spans="record with profiler.set_config(profile_all=True)"),
    ),
    Format(
        name="nsys",
        title="Nsight Systems",
        writer="Nsight Systems (SQLite, Parquet)",
        section="Nsight Systems",
        file_type=NSYS,
        reader=nsys.read,
        recording=_NSYS_RECORDING,
    ),
    Format(
        name="nsys-parquet",
        title="Nsight Systems, a directory of Parquet",
        writer="Nsight Systems (SQLite, Parquet)",
        section="Nsight Systems",
        file_type=NSYS_PARQUET,
        reader=nsys.read_parquet,
        recording=_NSYS_RECORDING,
    ),
    Format(
        name="nsys-jax",
        title="archive of nsys-jax",
        writer="nsys-jax",
        section="nsys-jax",
        file_type=NSYS_JAX,
        reader=nsys_jax.read,
        recording=Recording(
            spans="mark ranges with NVTX", launches="use Nsight Systems 2024.4 or older, or its report"
        ),
        xla=True,
    ),
    Format(
        name="rocprofv3",
        title="rocprofv3 of ROCm",
        writer="rocprofv3 (JSON)",
        section="rocprofv3 (ROCm)",
        file_type=ROCPROF,
        reader=rocprof.read,
        recording=Recording(
            device_work="record with --kernel-trace --memory-copy-trace",
            spans="mark ranges with roctx, and record them with --marker-trace",
            launches="record with --hip-trace",
        ),
    ),
)


def by_name(name: str) -> Format | None:
    """The format that `Trace.format` calls `name`, None for another: a trace may be made of frames."""
    return next((record for record in FORMATS if record.name == name), None)


def file_type(path: Path, sure: bool = False) -> FileType | None:
    """The type of the file at `path`, None if it is not a trace.

    gzip is looked through. JSON counts where it looks like a trace. With `sure`, where the user named the file, any
    JSON or `.pb` file does: its reader says what is wrong.
    """
    beginning = content(path)
    if beginning.is_perfetto:
        return None
    return next((each for each in FILE_TYPES if each.matches(beginning, sure)), None)


def dialect(document: Document) -> tuple[str, Dialect] | None:
    """The name of the format of a Chrome JSON document and how its profiler writes it, None if no format matches."""
    dialects = ((each.name, each.reader) for each in FORMATS if isinstance(each.reader, Dialect))
    return next(((name, each) for name, each in dialects if each.is_own(document)), None)


def writers(*file_types: FileType) -> str:
    """Who writes files of these types, as words: `JAX, PyTorch or MXNet`."""
    *names, last = dict.fromkeys(record.writer for record in FORMATS if record.file_type in file_types)
    return f"{', '.join(names)} or {last}" if names else last
