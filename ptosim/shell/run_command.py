"""`ptosim run FILE`"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ptosim.engine.core.dump import Dumper
from ptosim.ground.diagnostics.model import Diagnostic, Trap
from ptosim.ground.errors import UsageError
from ptosim.ground.isa.schema import dtypes
from ptosim.ground.words import nearest
from ptosim.launch import array_files
from ptosim.launch.compare import Choices, Comparison, compare
from ptosim.launch.description import Tolerance
from ptosim.launch.program import LoadedProgram
from ptosim.launch.results import Result
from ptosim.shell import launching
from ptosim.shell.command import command
from ptosim.shell.options import (
    EXPECT,
    FAIL_ON,
    INPUTS,
    LAUNCH,
    TRACE,
    available_cores,
    from_one,
    from_zero,
    group,
    jobs,
    option,
    program,
    several,
    switch,
)
from ptosim.shell.terminal import Terminal, trace_text, write_file
from ptosim.views import run_report as outcome
from ptosim.views.report import Ending
from ptosim.views.run_report import Ran, run_report

_EPILOG = """SPEC of --arg: file.npy, file.npz:key, file.bin:dtype:RxC, zeros:dtype:RxC,
randn:dtype:RxC[:seed], randint:…, arange:dtype:RxC, or a number for a scalar. Arguments that are
left out get seeded random data; a shipped program (`@name`) brings its own."""


@command(
    "run",
    program("file?"),
    group(
        "run",
        option(
            "--chain", metavar="FILE.toml",
            help="launch several kernels one after the other on shared buffers, as the file says "
            "(`ptosim help chain`); a path, or `@name` of a shipped one",
        ),
        LAUNCH,
        option(
            "--schedule", type=from_zero, metavar="K",
            help="run blocks and pipes in the K-th order that nothing forbids (0: the text's)",
        ),
        option(
            "--schedules", type=from_one, metavar="N",
            help="run again in N orders, and say which outputs they change",
        ),
        INPUTS,
        jobs("blocks without dependences are executed in"),
        several("--out", "NAME=FILE.npy|.bin"),
        several(
            "--dump", "VALUE@OP[=FILE]",
            "a value after an operation, which is named by line or mnemonic: show it, or write it "
            "to FILE.npy or FILE.bin",
        ),
        EXPECT,
        switch("--cost", help="show what it costs, too: cycles by operation and by pipe"),
        switch(
            "--bands",
            help="show which values other orders of accumulation allow, and what decides them",
        ),
        switch(
            "--debug-on-error", help="open the debugger at the operation that stops the run"
        ),
        TRACE,
    ),
    FAIL_ON,
    forms=("text", "json", "html", "jsonl", "sarif"),
    epilog=_EPILOG,
)  # fmt: skip
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
    count = len(launching.targets(options.target))
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
    for name in ("trace", "cost"):
        if getattr(options, name) and not options.timing:
            raise UsageError(f"--{name} needs timing", help="leave out --no-timing")
    other = "--schedule" if options.schedule else f"--commit {options.commit}"
    if options.debug_on_error and (options.commit != "program" or options.schedule):
        raise UsageError("--debug-on-error is for runs in program order", help=f"leave out {other}")
    if options.schedules and (options.dump or options.schedule or options.commit != "program"):
        raise UsageError(
            "--schedules compares runs in many orders with that of the text",
            help="leave out --dump, --schedule and --commit, or run one order by its --schedule",
        )
    expected = expectations(options, choices)
    dumps = launching.dumps_of(options.dump)
    broken = _broken(options, choices, program, entry)
    if terminal.format == "text":
        terminal.findings(broken)
    try:
        with terminal.busy(f"running {entry}"):
            result = program.run(
                choices.run_arguments(),
                entry=entry,
                observers=[Dumper(dumps)] if dumps else (),
                in_place=True,  # nobody else has the arrays
                schedules=options.schedules or 0,
                **{"jobs": available_cores(), **choices.run_options()},
            )
    except Trap as trap:
        if not options.debug_on_error:
            trap.diagnostics = tuple(_joined(trap.findings, broken, terminal))
            raise
        return _post_mortem(trap, choices, terminal)
    result.findings = _joined(result.findings, broken, terminal)
    if options.jobs is None:  # nobody asked for processes
        result.in_order = ""
    comparisons = [compared_with(result.outputs, name, *e) for name, e in expected.items()]
    _write_outputs(result, wanted, program, entry, terminal)
    _write_trace(options, result)
    launching.write_dumps(dumps)
    found = _bands(options, choices, program, entry) if options.bands else None
    ran = Ran(program, entry, result, comparisons, dumps, found)
    report = run_report(ran, args, launching.command_line(options), costs=options.cost)
    report.ending = _ending(options, choices, ran, broken)
    terminal.tell(report)
    return 0 if report.ending.passed else 1


def _joined(
    found: Sequence[Diagnostic], broken: Sequence[Diagnostic], terminal: Terminal
) -> list[Diagnostic]:
    """What a text said before the run is said by data with what the run found."""
    if not broken:
        return list(found)
    from ptosim.launch.paths.caller import joined, untold

    return untold(found, broken) if terminal.format == "text" else joined(broken, found)


def _write_trace(options: argparse.Namespace, result: Result) -> None:
    if options.trace:
        write_file(Path(options.trace), trace_text(result.trace(options.trace_unit)))


def _broken(
    options: argparse.Namespace, choices: Choices, program: LoadedProgram, entry: str
) -> list[Diagnostic]:
    """What the entry requires that the scalars of the launch break: told before the run, if its
    sidecar does not say all of them."""
    if not (options.arg or options.block_num):
        return []
    how = choices.run_options("block_num", "ranks", "sanitize")
    if how.get("sanitize") == "none" or how.get("ranks", 1) != 1:
        return []
    blocks = how.get("block_num")
    return launching.broken_by(program, entry, choices.arguments(), blocks, is_run=True)


def _bands(
    options: argparse.Namespace, choices: Choices, program: LoadedProgram, entry: str
) -> dict[str, Any]:
    """The bands of a run that was done, on the same arguments."""
    from ptosim.tools.bands import bands

    how = choices.run_options("block_num", "seed", "inputs", "ranks")
    return bands(program, choices.run_arguments(), entry=entry, **how).to_dict()


def _ending(
    options: argparse.Namespace, choices: Choices, ran: Ran, broken: Sequence[Diagnostic]
) -> Ending:
    told = {id(d): d for d in (*broken, *ran.result.findings)}
    bad = [d for d in told.values() if launching.fails([d], launching.threshold(options))]
    wrong = outcome.differences(ran.compared)
    if wrong:
        what = "; ".join([wrong, *([outcome.found(bad)] if bad else [])])
        return Ending(False, what, _why(options, choices, ran.compared))
    if bad:
        return Ending(False, outcome.found(bad), launching.cure(options, bad))
    return Ending(True, outcome.equal(ran.compared) + outcome.time_of(ran.result.cost))


def _why(options: argparse.Namespace, choices: Choices, compared: Sequence[Comparison]) -> str:
    """The command that looks for the cause of the first element that differs."""
    first = next(c for c in compared if not c.passed)
    element = f"{first.name}[{', '.join(map(str, first.first or ()))}]"
    given = {"target": choices.target if options.target else None}
    return launching.again(options, "why", element, **given)


def _post_mortem(trap: Trap, choices: Choices, terminal: Terminal) -> int:
    """Run again in the debugger, up to where it stopped, and open the prompt there."""
    from ptosim.debug.session import session_of
    from ptosim.shell.debug_command import converse

    session = session_of(choices)
    stop = session.continue_()
    converse(session, terminal, stop)
    return trap.exit_code


def expectations(options: argparse.Namespace, choices: Choices) -> dict[str, tuple[Any, Tolerance]]:
    """Expected values of the sidecar, and those of the command line over them."""
    expected = choices.expected()
    chosen = Tolerance() if options.bitexact else launching.tolerance(options)
    for pair in options.expect:
        name, spec = array_files.split(pair, "--expect")
        expected[name] = (array_files.parse_expectation(spec), chosen)
    return expected


def compared_with(
    outputs: Mapping[str, Any], name: str, expected: Any, tolerance: Tolerance
) -> Comparison:
    """Return how an output compares. Raises UsageError if there is none of that name."""
    import numpy as np

    if name not in outputs:
        raise _no_output(name, outputs)
    return compare(name, outputs[name], np.asarray(expected), tolerance)


def _no_output(name: str, outputs: Mapping[str, Any]) -> UsageError:
    known = f"outputs: {', '.join(outputs) or 'none'}"
    return UsageError(f"there is no output `{name}`", help=nearest(name, outputs, known))


def _outputs_wanted(
    options: argparse.Namespace, program: LoadedProgram, entry: str
) -> dict[str, tuple[str, str]]:
    """Output files by name, checked before the run so that nothing is half done."""
    types = {a.name: a.dtype for a in program.signature(entry)}
    wanted: dict[str, tuple[str, str]] = {}
    for pair in options.out:
        name, path = array_files.split(pair, "--out")
        array_files.check_writable(path)
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
            raise _no_output(name, result.outputs)
        array = result.outputs[name]
        raw = dtypes().get(element) or array_files.dtype_like(
            array
        )  # of a quantised type: as it looks
        write_file(Path(path), array_files.file_bytes(path, array, raw))
        if array.dtype.kind == "V" and path.endswith(".npy"):
            terminal.remark(f"{path} holds the bits of {array.dtype}: NumPy has no such type")
