"""The commands: each parses, calls one function, and says what was written. Heavy imports wait inside the commands."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from tracekit import __version__
from tracekit.errors import TracekitError

# What may not be read is told in a sentence (readable=False), not with the usage.
_TRACE = "A trace file of any format, or a directory of runs, hosts or ranks."

app = typer.Typer(
    name="tracekit",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Prove from a trace what ran in parallel, what did not, and why.",
)


def main() -> None:
    """Run the command line; a user's mistake becomes one sentence on stderr and exit code 1."""
    try:
        app()
    except TracekitError as error:
        print(f"tracekit: {error}", file=sys.stderr)
        raise SystemExit(1) from None


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tracekit {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command(context_settings={"allow_interspersed_args": False})
def capture(
    script: Annotated[str, typer.Argument(help="The Python script to run, or with --module a module.")],
    args: Annotated[list[str] | None, typer.Argument(help="The script's own arguments.")] = None,
    module: Annotated[bool, typer.Option("--module", "-m", help="SCRIPT is a module, as in python -m.")] = False,
    out: Annotated[Path | None, typer.Option(help="Trace directory [default: traces/<script>-<time>-<id>].")] = None,
    devices: Annotated[int | None, typer.Option(min=1, help="Virtual CPU devices (with no accelerator).")] = None,
    python_tracer: Annotated[bool, typer.Option("--python-tracer", help="Record Python calls too (slow).")] = False,
    host_level: Annotated[int, typer.Option(min=0, max=3, help="Detail of host events, 0 to 3.")] = 2,
) -> None:
    """Run a script under the JAX profiler.

    Options come before SCRIPT; everything after it is the script's own. Exits with the script's exit code.
    """
    import os
    import shlex

    from tracekit.capture import NothingCapturedError, record

    sys.excepthook = sys.__excepthook__  # typer's hook is not the script's
    try:
        done = record(
            script,
            args or [],
            module=module,
            out=out,
            devices=devices,
            host_level=host_level,
            python_tracer=python_tracer,
        )
    except NothingCapturedError as error:
        print(f"tracekit: {error}", file=sys.stderr)
        raise typer.Exit(error.exit_code) from None
    # On stderr, like every line of tracekit's own during a capture: stdout is the script's.
    print(f"Wrote {done.run}", file=sys.stderr)
    print(f"tracekit report {shlex.quote(str(done.path))}", file=sys.stderr)
    if done.unfinished:  # jax's own clean-up would wait for the work that the user has just given up
        sys.stdout.flush()
        os._exit(done.exit_code)
    raise typer.Exit(done.exit_code)


@app.command("read")
def read_trace(
    path: Annotated[Path, typer.Argument(readable=False, help=_TRACE)],
    run: Annotated[
        str | None, typer.Option(help="Which run to read, if there are several [default: the newest].")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the same as JSON.")] = False,
    kinds: Annotated[
        Path | None, typer.Option(help="Your rules for what is compute, a collective or a copy (a TOML file).")
    ] = None,
) -> None:
    """Say what a trace holds, and what it lacks."""
    from tracekit.report.screen import run as show

    show(path, run, as_json, kinds)


@app.command()
def report(
    trace_dir: Annotated[Path, typer.Argument(readable=False, help=_TRACE)],
    out: Annotated[Path | None, typer.Option(help="Where the files go [default: reports/<trace>].")] = None,
    run: Annotated[
        str | None, typer.Option(help="Which run to read, if there are several [default: the newest].")
    ] = None,
    phase: Annotated[list[str] | None, typer.Option(help="Take this annotation as a phase too (repeatable).")] = None,
    alone: Annotated[
        list[str] | None, typer.Option(help="Compare the last --phase with this solo phase (repeatable).")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Compare the last --phase with this phase on fewer devices.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print summary.json instead of tables.")] = False,
    kinds: Annotated[
        Path | None, typer.Option(help="Your rules for what is compute, a collective or a copy (a TOML file).")
    ] = None,
) -> None:
    """Say what ran in parallel, and write tables and a timeline."""
    from tracekit.report.command import run as make

    make(trace_dir, out, run, phase or [], alone or [], baseline, as_json, kinds)


@app.command()
def view(
    trace_dir: Annotated[
        Path, typer.Argument(help="A trace that `tracekit capture` wrote, one of its runs, or a file.")
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on loopback; 0 picks a free one.")] = 6006,
) -> None:
    """Serve a trace in TensorBoard on this machine."""
    from tracekit.view import view as serve

    serve(trace_dir, port=port)
