"""The commands: each parses, calls one function, and says what was written. Heavy imports wait inside the commands."""

import errno
import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import tracekit
from tracekit.errors import CaptureError, TraceError, TracekitError, fault, missing_package, on_damage
from tracekit.export import FORMATS, FRAMES, PERFETTO
from tracekit.remote import base_name, child, parent, place
from tracekit.version import __version__


def _runs(ctx: typer.Context, incomplete: str) -> list[str]:
    """The runs of the trace on the command line, for the shell to complete --run."""
    # An option without its value stops the parser before it knows the arguments.
    paths = [ctx.params.get("source"), *ctx.args]
    trace_dir = next((Path(path) for path in paths if path and Path(path).is_dir()), None)
    # Like the rest of a completion, without the readers: only what stands in a log directory.
    runs = trace_dir.glob("**/plugins/profile/*/") if trace_dir else ()
    return sorted(run.name for run in runs if run.name.startswith(incomplete))


def _completion(words: Sequence[str]) -> Callable[[str], list[str]]:
    """What the shell completes for an option that takes one of `words`."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def _placed(value: Any) -> Any:
    """The paths and URLs of a parameter: a Path would lose a slash of gs://."""
    if value is None:
        return None
    return [place(each) for each in value] if isinstance(value, list) else place(value)


# A path or URL, several of which are called list[Path] for the help. What may not be read gets a sentence
# (readable=False), not with the usage.
_PLACE: dict[str, Any] = {"path_type": str, "readable": False, "callback": _placed}
_Trace = Annotated[
    Any, typer.Argument(**_PLACE, help="A trace file of any format, or a directory of runs, hosts or ranks.")
]
_Run = Annotated[
    str | None,
    typer.Option(help="The run to read, if there are several [default: the newest].", autocompletion=_runs),
]
# The part of a trace that a report and a figure are of.
_Phase = Annotated[str | None, typer.Option(help="Only all rounds of this phase or annotation.")]
_Step = Annotated[int | None, typer.Option(help="Only this step.")]
_From = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="Only from here on: time since the first device work, such as 12.5ms."),
]
_To = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Only up to here, likewise.")]
_Devices = Annotated[
    list[str] | None, typer.Option("--device", metavar="NAME", help="Only this device, such as gpu:0 (repeatable).")
]
_Checked = Annotated[
    list[Path],
    typer.Argument(**_PLACE, metavar="SOURCE...", help="Traces or saved reports, each a capture of one program."),
]

_Kinds = Annotated[
    Any, typer.Option(**_PLACE, help="TOML file with rules for what is compute, a collective or a copy.")
]

_OnlySteps = Annotated[
    str | None,
    typer.Option(
        "--only-steps",
        metavar="FIRST-LAST",
        help="Read only these steps, such as 7-9, and for a report one more on each side: a large run fits in memory.",
    ),
]

_Strict = Annotated[bool, typer.Option("--strict", help="Refuse a trace that is damaged or lacks a rank.")]

_Jobs = Annotated[
    int | None,
    typer.Option(min=1, help="Read the files of a run in so many processes [default: where that is faster]."),
]
_Dask = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Read them on a Dask cluster: tcp://SCHEDULER:8786.")
]

_Folder = Annotated[Any, typer.Option("--baselines", **_PLACE, help="The folder of baselines.")]
_Floor = Annotated[
    str | None, typer.Option(metavar="SHARE", help="By how much two captures of one program differ, such as 2%.")
]

_TRACEBACK = "TRACEKIT_TRACEBACK"
_TOO_MANY = (errno.EMFILE, errno.ENFILE)
_TOO_FEW = "too few files may be open at once (`ulimit -n` shows how many): allow more, as with `ulimit -n 1024`."
# Commands whose process runs what is not tracekit's: the user's script, TensorBoard, jax.
_OF_OTHERS = ("capture", "view", "doctor")

app = typer.Typer(
    name="tracekit",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Prove from a trace what ran in parallel, what did not, and why.",
)


def main() -> None:
    """Run the command line; a user's mistake becomes one sentence on stderr and the error's exit code."""
    asked = on_damage.set(on_damage.get())  # so that what a command sets is that of no other
    try:
        try:
            app()
        finally:
            on_damage.reset(asked)
            if sys.stdout is not None:
                sys.stdout.flush()
    except TracekitError as error:
        # What says that a file cannot be written gives advice for other reasons; a capture says that there is none.
        cause = error.__context__
        is_full = isinstance(cause, OSError) and cause.errno in _TOO_MANY and not isinstance(error, CaptureError)
        _tell(f"tracekit: {_TOO_FEW if is_full else error}")
        raise SystemExit(error.exit_code) from None
    except OSError as error:
        _tell(f"tracekit: {_environment(error)}")
        with suppress(OSError, ValueError):  # what is still to be written to stdout would fail once more at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except MemoryError:
        _tell("tracekit: there is not enough memory for that: take a shorter trace, or a larger machine.")
        raise SystemExit(1) from None
    except Exception as error:
        if os.environ.get(_TRACEBACK):
            raise
        if sentence := missing_package(error):
            _tell(f"tracekit: {sentence}")
            raise SystemExit(1) from None
        _tell(
            f"tracekit: a bug of tracekit ended this command: {fault(error)}. Please report that, with the command, "
            f"and the trace if it may be shared; {_TRACEBACK}=1 shows the traceback."
        )
        raise SystemExit(1) from None


def _tell(sentence: str) -> None:
    try:
        from tracekit.console import tell
    except OSError:  # no file can be opened, not even that of a module
        with suppress(OSError, ValueError):
            print(ascii(sentence)[1:-1], file=sys.stderr, flush=True)
    else:
        tell(sentence)


def _heed_damage(strict: bool) -> None:
    """Tell of each trace that is damaged, or lacks ranks, when it is read, or with `strict` refuse it; `report` and
    `read` print what is missing themselves."""

    def refuse(sentence: str, remedy: str) -> None:
        raise TraceError(f"{sentence} {remedy}")

    on_damage.set(refuse if strict else lambda sentence, remedy: _tell(f"tracekit: {sentence}"))


def _environment(error: OSError) -> str:
    """What of the surroundings does not let a command work."""
    if error.errno in _TOO_MANY:
        return _TOO_FEW
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)} cannot be used: {error.strerror}."
    if isinstance(error, FileNotFoundError):
        return "the working directory no longer exists; change to another."
    return f"what was printed cannot be written: {error.strerror or error}."


def _version(is_asked: bool) -> None:
    if is_asked:
        print(f"tracekit {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    on_damage.set(lambda sentence, remedy: None)  # not that of who runs the command in a process of theirs
    if ctx.invoked_subcommand not in _OF_OTHERS:
        from tracekit import heap

        heap.suit_a_command()


class _CaptureCommand(TyperCommand):
    """A command whose options stand before the script, and say so where they do not."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse what stands before the script; what is unknown there may be the script's."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            refused: Any = error
            if hasattr(refused, "possibilities"):  # an unknown option
                where = f"tracekit capture SCRIPT {refused.option_name}"
                refused.message += f". If it is the script's, it comes after the script: {where}"
            raise


def _say_whose_options(ctx: typer.Context, script: str, args: Sequence[str]) -> None:
    """Say which options of tracekit stand after the script, unless the script knows them too."""
    try:
        text = Path(script).read_text("utf-8", "replace")
    except (OSError, ValueError):
        return
    own = {option for parameter in ctx.command.params for option in parameter.opts if option.startswith("--")}
    given = dict.fromkeys(word.partition("=")[0] for word in args)
    for option in given:
        names = option, *(f"{quote}{option.lstrip('-')}{quote}" for quote in "'\"")
        if option in own and not any(name in text for name in names):
            _tell(
                f"tracekit: {option} stands after {script}, so it is the script's; tracekit's own options come before "
                "the script."
            )


@app.command(cls=_CaptureCommand, context_settings={"allow_interspersed_args": False})
def capture(
    ctx: typer.Context,
    script: Annotated[str, typer.Argument(help="The Python script to run, or with --module a module.")],
    args: Annotated[list[str] | None, typer.Argument(help="The script's own arguments.")] = None,
    module: Annotated[bool, typer.Option("--module", "-m", help="SCRIPT is a module, as in python -m.")] = False,
    out: Annotated[Any, typer.Option(**_PLACE, help="Trace directory [default: traces/<script>-<time>-<id>].")] = None,
    devices: Annotated[int | None, typer.Option(min=1, help="Virtual CPU devices (without accelerator).")] = None,
    processes: Annotated[
        int, typer.Option(min=1, help="Processes to start, joined by jax.distributed over loopback.")
    ] = 1,
    repeat: Annotated[
        int, typer.Option(min=1, help="Capture so many times, one run each: a side of tracekit compare.")
    ] = 1,
    framework: Annotated[
        str | None,
        typer.Option(metavar="jax|torch", help="Whose profiler [default: torch if SCRIPT imports it and not jax]."),
    ] = None,
    python_tracer: Annotated[bool, typer.Option("--python-tracer", help="Also record Python calls (slow).")] = False,
    host_level: Annotated[int, typer.Option(min=0, max=3, help="Detail of host events, 0 to 3.")] = 2,
    start_step: Annotated[int | None, typer.Option(min=0, help="Profile from the step of this number on.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Profile so many steps, and no more.")] = None,
    step_function: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Steps are the calls of this jitted function, from 0 [default: StepTraceAnnotation]."
        ),
    ] = None,
    after: Annotated[
        str | None, typer.Option(metavar="TIME", help="Profile from here on: time since the start, such as 90s.")
    ] = None,
    duration: Annotated[str | None, typer.Option("--for", metavar="TIME", help="Profile for so long, as 2s.")] = None,
    python: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Run the script by this Python, which has MXNet, under MXNet's profiler."),
    ] = None,
    profiler: Annotated[
        str | None,
        typer.Option(
            metavar="nsys",
            help="Run the script under Nsight Systems.",
            autocompletion=_completion(["nsys"]),
        ),
    ] = None,
) -> None:
    """Run a script under the profiler of JAX or PyTorch.

    Options come before SCRIPT; everything after it is the script's own. Exits with the script's exit code.
    """
    from tracekit.capture.capture import say_written
    from tracekit.times import parse

    after_s, for_s = (
        None if text is None else parse(text, option) / 10**12
        for text, option in ((after, "--after"), (duration, "--for"))
    )
    given = start_step, steps, step_function, after_s, for_s
    stretch = None if all(part is None for part in given) else tracekit.Stretch(*given)
    if not module:
        _say_whose_options(ctx, script, args or [])
    sys.excepthook = sys.__excepthook__  # typer's hook is not the script's
    captured = tracekit.capture(
        script,
        args or [],
        module=module,
        out=out,
        devices=devices,
        host_level=host_level,
        python_tracer=python_tracer,
        stretch=stretch,
        processes=processes,
        repeat=repeat,
        framework=framework,
        python=python,
        profiler=profiler,
        restore=False,
    )
    if repeat > 1:  # each has said where it is
        _tell(f"Next: tracekit compare {shlex.quote(str(captured.path))} OTHER")
    else:
        say_written(captured)
    if captured.unfinished:  # the framework's own clean-up would wait for the work that the user has just given up
        sys.stdout.flush()
        os._exit(captured.exit_code)
    raise typer.Exit(captured.exit_code)


@app.command()
def read(
    source: _Trace,
    run: _Run = None,
    full: Annotated[bool, typer.Option("--full", help="List every phase, step and annotation by name.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the output as JSON.")] = False,
    kinds: _Kinds = None,
    only_steps: _OnlySteps = None,
    strict: _Strict = False,
    jobs: _Jobs = None,
    dask: _Dask = None,
) -> None:
    """Show what a trace contains, its phases, steps and annotations by name, and what it lacks."""
    from tracekit import console, executors
    from tracekit.report.terminal import trace_screen
    from tracekit.report.trace_contents import contents
    from tracekit.timeline.timeline import timeline_of

    with console.progress(["reading", "counting"]) as progress:
        progress("reading")
        with executors.executor_of(jobs, dask) as executor:
            steps = _steps(only_steps)
            trace = tracekit.read(source, run, kinds, steps=steps, strict=strict, executor=executor)
        progress("counting")
        if strict and (missing := _missing(timeline_of(trace), source)):
            raise TraceError(f"{source} {missing} Record it again, or read without --strict what is there.")
        inventory = contents(trace)
    if as_json:
        print(json.dumps(inventory.data, indent=1))
    else:
        trace_screen.show(inventory, console.console(), full)


@app.command()
def report(
    source: Annotated[
        Any,
        typer.Argument(
            **_PLACE,
            help="A trace file of any format, a directory of runs, hosts or ranks, or that of a saved report.",
        ),
    ],
    out: Annotated[Any, typer.Option(**_PLACE, help="Output directory [default: reports/<trace>].")] = None,
    run: _Run = None,
    phase: _Phase = None,
    step: _Step = None,
    start: _From = None,
    end: _To = None,
    device: _Devices = None,
    as_phase: Annotated[
        list[str] | None, typer.Option(help="Also treat this annotation as a phase (repeatable).")
    ] = None,
    alone: Annotated[
        list[str] | None, typer.Option(help="Compare the last --as-phase with this solo phase (repeatable).")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Compare the last --as-phase with this phase on fewer devices.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print every section and table, as in report.md.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print summary.json instead of tables.")] = False,
    kinds: _Kinds = None,
    only_steps: _OnlySteps = None,
    reduce: Annotated[
        bool,
        typer.Option(
            "--reduce",
            help="Leave out rows of compute, as is done where those of all hosts would take more memory than is free.",
        ),
    ] = False,
    strict: _Strict = False,
    jobs: _Jobs = None,
    dask: _Dask = None,
) -> None:
    """Report what ran in parallel, with tables and a timeline."""
    from tracekit import console, executors
    from tracekit.files import is_saved_report
    from tracekit.report.part import choose, one_part
    from tracekit.report.report import default_directory, drawn, file_names, read_timeline, reduction, refuse_out
    from tracekit.report.terminal import printout

    saved = is_saved_report(source)
    if saved and (jobs is not None or dask is not None):
        raise TracekitError(f"{source} is a saved report, which no executor reads. Leave out --jobs and --dask.")
    with console.progress(["reading", "analysing", "tables", "timeline", "page"]) as progress:
        progress("reading")
        one_part(phase, step, start, end)
        steps = _steps(only_steps)
        timeline = None
        if not saved:
            refuse_out(out, source)  # before it is read, which may take minutes
            of_phases = {"as-phase": as_phase, "alone": alone, "baseline": baseline}
            of_rows: dict[str, Any] = {"phase": phase, "step": step, "from": start, "to": end, "device": device}
            how = reduction(reduce, {**of_phases, **of_rows, "kinds": kinds, "only-steps": steps})
            with executors.executor_of(jobs, dask) as executor:
                timeline = read_timeline(
                    source, run=run, kinds=kinds, steps=steps, strict=strict, executor=executor, reduction=how
                )
        if strict and (missing := _missing(timeline, source)):
            raise TraceError(f"{source} {missing} Record it again, or report without --strict what is there.")
        result = tracekit.report(
            timeline or source,
            out,
            phases=as_phase or [],
            alone=alone or [],
            baseline=baseline,
            phase=phase,
            step=step,
            start=start,
            end=end,
            devices=device or [],
            run=run,
            kinds=kinds,
            steps=steps,
            reduce=reduce and saved,
            progress=progress,
        )
        only: dict[str, Any] = {"phase": phase, "step": step, "start": start, "end": end, "devices": device or []}
        part = timeline and choose(timeline, **only, steps=steps)
        shown = timeline and drawn(timeline, result)
    if as_json:
        print(json.dumps(result.summary(), indent=1))
    else:
        printout.show(result, console.console(), full, part.of(shown) if part and shown else None)
    if out or not saved:
        directory = out or default_directory(source, part.name if part else "")
        _tell(f"Wrote {directory}/ ({', '.join(file_names(result, timeline))})")
    if timeline is not None and timeline.left_out:
        of_drawn = "are told of the devices that stand for all alone, and no critical path" if shown else "are not told"
        _tell(
            "Rows of compute were left out to save memory, so operations and causes of idle time "
            f"{of_drawn}{'' if shown else ', nor the critical path, and there are no timelines'}. Report few steps for "
            "them (--only-steps), or few hosts."
        )


def _steps(text: str | None) -> tuple[int, int] | None:
    """The first and the last step that `--only-steps` names."""
    if text is None:
        return None
    from tracekit.readers import step_range

    return step_range.parse(text)


def _missing(timeline: Any, source: Any) -> str:
    """What is missing from a trace, as its launches and collectives may tell too, or from a saved report where no
    `timeline` is given; "" where nothing is."""
    from tracekit.analysis.completeness import completeness

    if timeline:
        return completeness(timeline).not_whole(len(timeline.recorded.trace.hosts))
    return str(tracekit.load(source).not_whole)


class _CompareCommand(TyperCommand):
    """A command whose --a and --b take all words up to the next option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words with the option before each of its values."""
        words, option = [], None
        for word in args:
            if word in ("--a", "--b"):
                option = word
            elif word.startswith("-") or option is None:
                option = None
                words.append(word)
            else:
                words += [option, word]
        return super().parse_args(ctx, words)


def _share(text: str, option: str) -> float:
    """The share that `2%`, `2 %` or `0.02` is."""
    number = text.strip().removesuffix("%")
    try:
        return float(number) / (100 if number != text.strip() else 1)
    except ValueError:
        raise TracekitError(f"{option} {text!r} is not a share: give a percentage, such as 2%.") from None


@app.command(cls=_CompareCommand)
def compare(
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            **_PLACE,
            metavar="A B [C]...",
            help="Traces, saved reports or directories of several captures; A is what the others are compared with.",
        ),
    ] = None,
    a: Annotated[
        list[Path] | None,
        typer.Option("--a", **_PLACE, metavar="CAPTURES...", help="Several captures of A; then --b, those of B."),
    ] = None,
    b: Annotated[
        list[Path] | None, typer.Option("--b", **_PLACE, metavar="CAPTURES...", help="Several captures of B.")
    ] = None,
    out: Annotated[
        Any, typer.Option(**_PLACE, help="Directory for page, picture, Markdown and comparison.json.")
    ] = None,
    floor: _Floor = None,
    margin: Annotated[
        str, typer.Option(metavar="SHARE", help="What is called no difference is no larger than this.")
    ] = "5%",
    control: Annotated[
        str | None,
        typer.Option(metavar="PHASE", help="A phase that the change does not touch: judge all else at its pace."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print every scope and table.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print comparison.json instead of tables.")] = False,
    strict: _Strict = False,
) -> None:
    """Compare two variants of a program: did the change help?

    With three captures of each, a verdict; with one of each, what differs within these runs.
    """
    _heed_damage(strict)
    from tracekit import console
    from tracekit.comparison.faces import show, write_comparison

    pairs = _sides(sources or [], a or [], b or [])
    floor_share, margin_share = None if floor is None else _share(floor, "--floor"), _share(margin, "--margin")
    results = []
    for first, second in pairs:
        with console.progress(["comparing"]) as progress:
            progress("comparing")
            result = tracekit.compare(first, second, floor=floor_share, margin=margin_share, control=control)
        results.append(result)
        if not as_json:
            show(result, console.console(), full)
        if out is not None:
            where = out if len(pairs) == 1 else child(out, f"{len(results)}")
            files = write_comparison(result, where)
            _tell(f"Wrote {where}/ ({', '.join(files)})")
    if as_json:
        found = [result.summary() for result in results]
        print(json.dumps(found[0] if len(found) == 1 else found, indent=1))


def _sides(sources: Sequence[Any], a: Sequence[Any], b: Sequence[Any]) -> list[tuple[list[Path], list[Any]]]:
    """The captures of each two sides that are compared."""
    if a or b:
        if sources or not (a and b):
            raise TracekitError("Give either A and B, or the captures of both: --a RUN... --b RUN...")
        return [([*a], [*b])]
    if len(sources) < 2:
        raise TracekitError("A comparison takes two sides: tracekit compare A B.")
    return [([sources[0]], [source]) for source in sources[1:]]


@app.command()
def check(
    sources: _Checked,
    rules: Annotated[Any, typer.Option(**_PLACE, help="TOML file with rules.")] = None,
    min_overlap: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHAT=SHARE",
            help="Overlap of devices, of two as gpu:0,gpu:1, or of collective, copy, H2D, … with compute (repeatable).",
        ),
    ] = None,
    max_idle: Annotated[
        str | None, typer.Option(metavar="BOUND", help="Idle share or time, such as 10% or 5ms.")
    ] = None,
    min_busy: Annotated[str | None, typer.Option(metavar="BOUND", help="Busy share or time, such as 80%.")] = None,
    max_exposed_collective: Annotated[
        str | None, typer.Option(metavar="BOUND", help="Collectives beside no compute, such as 2ms or 5%.")
    ] = None,
    max_exposed_copy: Annotated[
        str | None, typer.Option(metavar="BOUND", help="Copies beside no other work, likewise.")
    ] = None,
    max_wall: Annotated[str | None, typer.Option(metavar="BOUND", help="Length of the scope, such as 1.5s.")] = None,
    max_step_time: Annotated[
        str | None, typer.Option(metavar="BOUND", help="Median time of the steps that count.")
    ] = None,
    min_speedup: Annotated[str | None, typer.Option(metavar="BOUND", help="Speedup of --phase, such as 1.5.")] = None,
    phase: Annotated[str | None, typer.Option(help="The bounds are for this phase; whole is the whole trace.")] = None,
    step: Annotated[str | None, typer.Option(help="The bounds are for a step: its number, median or worst.")] = None,
    device: Annotated[str | None, typer.Option(help="The bounds are for this device, such as gpu:0.")] = None,
    as_phase: Annotated[
        list[str] | None, typer.Option(help="Also treat this annotation as a phase (repeatable).")
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="Also be no slower than this baseline.")] = None,
    folder: _Folder = Path("baselines"),
    floor: _Floor = None,
    junit: Annotated[Any, typer.Option(**_PLACE, help="Also write the results as JUnit XML to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    run: _Run = None,
    kinds: _Kinds = None,
    strict: _Strict = False,
) -> None:
    """Check rules on a trace: exit 0 if they hold, 3 if not.

    4: a trace cannot tell; 5: inconclusive, as where some of several captures keep a rule and others break it. In
    GitHub Actions the results are also annotations and a summary.
    """
    if strict:  # else it is told beside the results
        _heed_damage(strict)
    from tracekit import console
    from tracekit.gate.baselines import find
    from tracekit.gate.faces import publish
    from tracekit.gate.rules import from_options

    bounds = {
        "min-overlap": min_overlap,
        "max-idle": max_idle,
        "min-busy": min_busy,
        "max-exposed-collective": max_exposed_collective,
        "max-exposed-copy": max_exposed_copy,
        "max-wall": max_wall,
        "max-step-time": max_step_time,
        "min-speedup": min_speedup,
    }
    todo = from_options(rules, bounds, phase=phase, step=step, device=device)
    with console.progress(["checking"]) as progress:
        progress("checking")
        result = tracekit.check(
            sources,
            todo,
            baseline=None if baseline is None else find(baseline, folder),
            floor=None if floor is None else _share(floor, "--floor"),
            phases=as_phase or [],
            run=run,
            kinds=kinds,
        )
    publish(result, junit, as_json)
    raise typer.Exit(result.exit_code)


_baselines = typer.Typer(no_args_is_help=True, help="Save reports as named baselines, and list them.")
app.add_typer(_baselines, name="baseline")


@_baselines.command("save")
def baseline_save(
    name: Annotated[str, typer.Argument(help="The name of the baseline, in place of one that has it.")],
    sources: Annotated[list[Path], typer.Argument(**_PLACE, help="Saved reports or traces, one a capture.")],
    folder: _Folder = Path("baselines"),
    strict: _Strict = False,
) -> None:
    """Save reports as a baseline, small enough for a repository."""
    _heed_damage(strict)
    from tracekit import console
    from tracekit.gate.baselines import save

    with console.progress(["saving"]) as progress:
        progress("saving")
        baseline = save(name, sources, folder)
    console.show([baseline.text])
    _tell(f"Wrote {baseline.path}/")


@_baselines.command("list")
def baseline_list(folder: _Folder = Path("baselines")) -> None:
    """List the baselines."""
    from tracekit import console
    from tracekit.gate.baselines import baselines

    console.show(baseline.text for baseline in baselines(folder))


@app.command()
def history(
    source: Annotated[Any, typer.Argument(metavar="DIR", **_PLACE, help="A directory of saved reports.")],
    measure: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help='A measure to follow, as idle or "overlap devices" (repeatable).'),
    ] = None,
    phase: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Follow the measures in this phase too (repeatable)."),
    ] = None,
    phases: Annotated[bool, typer.Option("--phases", help="Follow them in every phase that all reports have.")] = False,
    out: Annotated[Any, typer.Option(**_PLACE, help="Directory for page, picture and Parquet tables.")] = None,
) -> None:
    """Follow measures over many saved reports: where did they change?

    Reports are in the order of their captures. A change is told where chance gives its like in 1 % of series.
    """
    from tracekit import console
    from tracekit.trends.history import FOLLOWED, lines
    from tracekit.trends.page import write_history

    if phase and phases:
        raise TracekitError("Give --phase or --phases: the one names phases, the other takes all that are shared.")
    with console.progress(["reading"]) as progress:
        progress("reading")
        result = tracekit.history(source, measure or FOLLOWED, None if phases else phase or ())
    console.show(lines(result))
    if out is not None:
        files = write_history(result, source, out)
        _tell(f"Wrote {out}/ ({', '.join(files)})")


@app.command()
def figure(
    source: _Trace,
    what: Annotated[
        str | None,
        typer.Option(
            help="gantt, partition, concurrency, overlap, phases, fleet, or a comma-separated list [default: all]."
        ),
    ] = None,
    phase: _Phase = None,
    step: _Step = None,
    start: _From = None,
    end: _To = None,
    device: _Devices = None,
    threads: Annotated[bool, typer.Option("--threads", help="A lane for each thread of a CPU device.")] = False,
    formats: Annotated[str, typer.Option("--format", help="png, svg, pdf, or a comma-separated list.")] = "png",
    out: Annotated[Any, typer.Option(**_PLACE, help="Output directory [default: reports/<trace>/figures].")] = None,
    theme: Annotated[str, typer.Option(help="light or dark.")] = "light",
    width: Annotated[float, typer.Option(help="Width in inches, 3.3 (a column of a paper) to 48.")] = 12,
    font_size: Annotated[
        float | None, typer.Option(help="Size of small text in points [default: 8.5, below 5 inches 7].")
    ] = None,
    dpi: Annotated[float, typer.Option(help="Dots per inch of a PNG.")] = 300,
    title: Annotated[str | None, typer.Option(help="The title [default: what the figure shows].")] = None,
    no_title: Annotated[bool, typer.Option("--no-title", help="Leave out titles: a paper has a caption.")] = False,
    run: _Run = None,
    kinds: _Kinds = None,
    jobs: _Jobs = None,
    dask: _Dask = None,
    strict: _Strict = False,
) -> None:
    """Draw the timeline, the partition, concurrency, overlap, the phases on one scale of time, and a fleet's ranks.

    Pictures for a paper or a pull request, of the whole trace or of a part of it.
    """
    _heed_damage(strict)
    from tracekit import executors
    from tracekit.report.figures.figure import write_figures

    with executors.executor_of(jobs, dask) as executor:
        files = write_figures(
            source,
            what,
            phase=phase,
            step=step,
            start=start,
            end=end,
            devices=device or [],
            threads=threads,
            formats=formats,
            out=out,
            title="" if no_title else title,
            theme=theme,
            width=width,
            font_size=font_size,
            dpi=dpi,
            run=run,
            kinds=kinds,
            executor=executor,
        )
    _tell(f"Wrote {parent(files[0])}/ ({', '.join(map(base_name, files))})")


@app.command()
def export(
    source: _Trace,
    to: Annotated[
        str | None,
        typer.Option(
            help="perfetto, parquet, csv, json or arrow [default: by the suffix of --out, else perfetto].",
            autocompletion=_completion(FORMATS),
        ),
    ] = None,
    out: Annotated[
        Any,
        typer.Option(
            **_PLACE, help="The file, or the directory of tables [default: exports/<trace>.pftrace.gz or -csv …]."
        ),
    ] = None,
    run: _Run = None,
    table: Annotated[
        str | None,
        typer.Option(
            help="Only this table, to one file: events, spans, launches, …", autocompletion=_completion(FRAMES)
        ),
    ] = None,
    gzip: Annotated[bool, typer.Option("--gzip", help="Compress csv and json files.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    kinds: _Kinds = None,
    jobs: _Jobs = None,
    dask: _Dask = None,
    strict: _Strict = False,
) -> None:
    """Write a trace for Perfetto, or as tables."""
    _heed_damage(strict)
    from tracekit import executors
    from tracekit.console import progress

    with progress(["exporting"]) as step, executors.executor_of(jobs, dask) as executor:
        step("exporting")
        files = tracekit.export(
            source, out, to=to, table=table, gzip=gzip, force=force, run=run, kinds=kinds, executor=executor
        )
    if len(files) == 1:
        _tell(f"Wrote {files[0]}")
        return
    if to in (None, PERFETTO):
        reason = f"The clocks of {len(files)} hosts are not aligned, and Perfetto has one time axis"
        _tell(f"{reason}: each has a file of its own.")
    _tell(f"Wrote {parent(files[0])}/ ({', '.join(map(base_name, files))})")


@app.command()
def summarise(
    source: Annotated[Any, typer.Argument(**_PLACE, help="The trace file of one host, of any format.")],
    out: Annotated[  # as it is written: a Path would lose the slash of a directory
        Any, typer.Option("--out", "-o", path_type=str, help="The file, or a directory for it [default: summaries].")
    ] = None,
    run: _Run = None,
    only_steps: _OnlySteps = None,
    strict: _Strict = False,
) -> None:
    """Write one host's trace as a small file that every command takes in its place.

    Put those of all hosts of a run into one directory, and report on that.
    """
    _heed_damage(strict)
    from tracekit.console import progress

    with progress(["summarising"]) as step:
        step("summarising")
        file = tracekit.summarise(source, out, run=run, steps=_steps(only_steps))
    _tell(f"Wrote {file}")


@app.command()
def view(
    source: Annotated[
        Any, typer.Argument(**_PLACE, help="A trace, one of its runs, or a file; with --perfetto of any format.")
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on loopback; 0 picks a free one.")] = 6006,
    run: Annotated[
        str | None,
        typer.Option(help="The run to open, if there are several [default: the newest].", autocompletion=_runs),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the address in a browser, if there is a display.")
    ] = True,
    perfetto: Annotated[
        bool, typer.Option("--perfetto", help="Use a Perfetto UI that is installed on this machine.")
    ] = False,
    perfetto_ui: Annotated[
        Any,
        typer.Option(
            **_PLACE,
            help="The Perfetto UI, a directory or perfetto-ui.zip [default: TRACEKIT_PERFETTO_UI, or one installed].",
        ),
    ] = None,
) -> None:
    """Serve a trace in TensorBoard, or in Perfetto, on this machine."""
    tracekit.view(source, port=port, run=run, browser=browser, perfetto=perfetto, perfetto_ui=perfetto_ui)


@app.command()
def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")] = False) -> None:
    """Check whether tracekit works here, and how to fix problems."""
    from tracekit.console import console
    from tracekit.doctor.doctor import show

    if sys.stderr is not None and sys.stderr.isatty():
        _tell("Querying jax and capturing a test program ...")
    diagnosis = tracekit.doctor()
    if as_json:
        print(json.dumps(diagnosis.to_dict(), indent=1))
    else:
        show(diagnosis, console())
    raise typer.Exit(0 if diagnosis.works else 1)
