"""`ptosim run FILE`"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from ptosim.debug.program import LoadedProgram
from ptosim.engine.core.dump import Dump, Dumper
from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.errors import Trap, UsageError
from ptosim.ground.isa.dtypes import dtypes
from ptosim.ground.records import NamedTuple
from ptosim.launch import values
from ptosim.launch.choices import Choices
from ptosim.launch.compare import Comparison, compare
from ptosim.launch.parallel.wanted import available_cores
from ptosim.launch.results import Result
from ptosim.launch.tolerance import Tolerance
from ptosim.shell import dumping, launching
from ptosim.shell import options as shared
from ptosim.shell.formats import Formats, data, findings, tables, text
from ptosim.shell.jobs import add_jobs
from ptosim.shell.terminal import Terminal, trace_text, write_file
from ptosim.views import run_report
from ptosim.views.diagnostics.export import Findings
from ptosim.views.diagnostics.render import count_line
from ptosim.views.table import Part

_EPILOG = """SPEC of --arg: file.npy, file.npz:key, file.bin:dtype:RxC, zeros:dtype:RxC,
randn:dtype:RxC[:seed], randint:…, arange:dtype:RxC, or a number for a scalar. Arguments that are
left out get seeded random data; a shipped program (`@name`) brings its own."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.epilog = _EPILOG
    shared.add_program(parser, "file?")
    group = parser.add_argument_group("run")
    group.add_argument(
        "--chain", metavar="FILE.toml",
        help="launch several kernels one after the other on shared buffers, as the file says "
        "(`ptosim help chain`); a path, or `@name` of a shipped one",
    )  # fmt: skip
    launching.add_arguments(group)
    add_jobs(group, "blocks without dependences are executed in")
    group.add_argument("--out", action="append", default=[], metavar="NAME=FILE.npy|.bin")
    group.add_argument(
        "--dump", action="append", default=[], metavar="VALUE@OP[=FILE]",
        help="a value after an operation, which is named by line or mnemonic: show it, or write it "
        "to FILE.npy or FILE.bin",
    )  # fmt: skip
    group.add_argument("--expect", action="append", default=[], metavar="NAME=FILE")
    launching.add_tolerance(group, "--expect")
    group.add_argument("--bitexact", action="store_true", help="no tolerance (the default)")
    group.add_argument(
        "--debug-on-error",
        action="store_true",
        help="open the debugger at the operation that stops the run",
    )
    launching.add_trace(group)
    shared.add_fail_on(parser)
    shared.add_output(parser, FORMATS)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Run the program, or the chain, on every target asked for."""
    if options.chain is not None:
        from ptosim.shell import chain_run

        return chain_run.run(options, terminal)
    if options.file is None:
        raise UsageError("no program is named", help="`ptosim run FILE`, or `--chain FILE.toml`")
    _refuse_overwriting(options)
    return max(_run(options, choices, terminal) for choices in launching.each_target(options))


def _refuse_overwriting(options: argparse.Namespace) -> None:
    """Raise UsageError where what one target gives would be replaced by what the next one gives."""
    files = {"-o": options.output, "--out": options.out, "--trace": options.trace}
    given = [name for name, value in files.items() if value]
    count = len(shared.targets(options.target))
    if count > 1 and (given or options.format == "html"):
        what = given[0] if given else "--format html"
        raise UsageError(
            f"{what} of `run` is for one target, and {count} are named",
            help=f"`ptosim report {options.file} -o FILE.html` is one page with all targets; else "
            "run them one by one",
        )


def _run(options: argparse.Namespace, choices: Choices, terminal: Terminal) -> int:
    program = choices.program()
    entry = program.entry(choices.entry)
    args = choices.arguments()
    wanted = _outputs_wanted(options, program, entry)
    if options.trace and not options.timing:
        raise UsageError("--trace needs timing", help="leave out --no-timing")
    if options.debug_on_error and options.commit != "program":
        raise UsageError(
            "--debug-on-error is for runs in program order",
            help=f"leave out --commit {options.commit}",
        )
    expected = _expectations(options, choices)
    dumps = dumping.requests(options.dump)
    try:
        with terminal.busy(f"running {entry}"):
            result = program.run(
                args,
                entry=entry,
                observers=[Dumper(dumps)] if dumps else (),
                in_place=True,  # nobody else has the arrays
                **{"jobs": available_cores(), **choices.run_options()},
            )
    except Trap as trap:
        if not options.debug_on_error:
            raise
        return _post_mortem(trap, choices, terminal)
    if options.jobs is None:  # nobody asked for processes
        result.in_order = ""
    comparisons = [_compared(result, name, *e) for name, e in expected.items()]
    _write_outputs(result, wanted, program, entry, terminal)
    if options.trace:
        write_file(Path(options.trace), trace_text(result.trace(options.trace_unit)))
    dumping.write(dumps)
    if terminal.format == "text":
        terminal.findings(result.findings)
    if terminal.wants_report:
        terminal.report(_Report(program, entry, result, comparisons, dumps, options, args))
    why = _why_failed(result, comparisons, "warning" if options.strict else options.fail_on)
    if why and terminal.quiet:
        terminal.error(why)
    return 1 if why else 0


def _why_failed(result: Result, comparisons: Sequence[Comparison], fail_on: str) -> str:
    """Say in one line why the exit code is 1; "" if it is 0."""
    wrong = [c.name for c in comparisons if not c.passed]
    bad = [d for d in result.findings if shared.fails([d], fail_on)]
    told = [f"{', '.join(wrong)} differ{'s' if len(wrong) == 1 else ''} from what is expected"]
    told = told if wrong else []
    return "; ".join([*told, *([f"{count_line(bad)} ({bad[0].code})"] if bad else [])])


def _post_mortem(trap: Trap, choices: Choices, terminal: Terminal) -> int:
    """Run again in the debugger, up to where it stopped, and open the prompt there."""
    from ptosim.debug.session import session_of
    from ptosim.shell.debug_command import converse

    session = session_of(choices)
    stop = session.continue_()
    converse(session, terminal, stop)
    return trap.exit_code


def _expectations(
    options: argparse.Namespace, choices: Choices
) -> dict[str, tuple[Any, Tolerance]]:
    """Expected values of the sidecar, and those of the command line over them."""
    expected = choices.expected()
    chosen = Tolerance() if options.bitexact else launching.tolerance(options)
    for pair in options.expect:
        name, spec = values.split(pair, "--expect")
        expected[name] = (values.parse_expectation(spec), chosen)
    return expected


def _compared(result: Result, name: str, expected: Any, tolerance: Tolerance) -> Comparison:
    import numpy as np

    if name not in result.outputs:
        raise UsageError(
            f"there is no output `{name}`", help=f"outputs: {', '.join(result.outputs) or 'none'}"
        )
    return compare(name, result.outputs[name], np.asarray(expected), tolerance)


def _outputs_wanted(
    options: argparse.Namespace, program: LoadedProgram, entry: str
) -> dict[str, tuple[str, str]]:
    """Output files by name, checked before the run so that nothing is half done."""
    types = {a.name: a.dtype for a in program.signature(entry)}
    wanted: dict[str, tuple[str, str]] = {}
    for pair in options.out:
        name, path = values.split(pair, "--out")
        values.check_writable(path)
        wanted[name] = (path, types.get(name, ""))
    return wanted


def _write_outputs(
    result: Result,
    wanted: dict[str, tuple[str, str]],
    program: LoadedProgram,
    entry: str,
    terminal: Terminal,
) -> None:
    for name, (path, element) in wanted.items():
        if name not in result.outputs:
            raise UsageError(
                f"there is no output `{name}`",
                help=f"outputs: {', '.join(result.outputs) or 'none'}",
            )
        array = result.outputs[name]
        raw = dtypes().get(element) or values.dtype_like(array)  # of a quantised type: as it looks
        write_file(Path(path), values.file_bytes(path, array, raw))
        if array.dtype.kind == "V" and path.endswith(".npy"):
            terminal.remark(f"{path} holds the bits of {array.dtype}: NumPy has no such type")


class _Report(NamedTuple):
    """What a run gave."""

    program: LoadedProgram
    entry: str
    result: Result
    comparisons: list[Comparison]
    dumps: list[Dump]
    options: argparse.Namespace
    args: dict[str, Any]

    def renderables(self) -> list[Part]:
        """Return the report as rich renderables."""
        return run_report.renderables(*self[:5])

    def to_json(self) -> dict[str, object]:
        """Return the report as JSON data."""
        return run_report.to_json(*self[:5])

    def to_page(self) -> str:
        """Return the report as one HTML page."""
        from ptosim.shell.paging import run_page

        return run_page(
            self.options, self.program, self.entry, self.result, self.comparisons, self.args
        )

    @property
    def findings(self) -> list[Diagnostic]:
        """What was found."""
        return self.result.findings


class _Shown(Protocol):
    """The report of a program or of a chain."""

    def renderables(self) -> list[Part]: ...

    def to_json(self) -> dict[str, object]: ...

    def to_page(self) -> str: ...

    @property
    def findings(self) -> list[Diagnostic]: ...


FORMATS: Formats[_Shown] = {
    "text": tables(lambda report: report.renderables()),
    "json": data(lambda report: report.to_json()),
    "html": text(lambda report: report.to_page()),
    **{form: findings(form, lambda r: Findings(r.findings)) for form in ("jsonl", "sarif")},
}
