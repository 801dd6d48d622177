"""`ptosim diff A B`: two programs; `ptosim port FILE --from a2a3 --to a5`: one on two targets."""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from ptosim.ground.diagnostics.model import Diagnostic, Origin, ProgramError, Severity, Trap
from ptosim.ground.errors import BudgetError, UsageError
from ptosim.ground.files import read_text
from ptosim.ground.isa.targets import MachineDef, machine
from ptosim.ground.progress import each, part_done
from ptosim.ground.records import replace
from ptosim.language.targets import check_target_word
from ptosim.launch.analysis.differences import Difference, Side, difference, hard_data, look_at
from ptosim.launch.paths.facts import range_of
from ptosim.launch.program import LoadedProgram
from ptosim.shell import launching
from ptosim.shell.command import command
from ptosim.shell.options import (
    BLOCKS,
    CERTIFICATE,
    FAIL_ON,
    FILE,
    INPUTS,
    READING,
    SEED,
    THRESHOLDS,
    available_cores,
    group,
    inputs,
    option,
    several,
    switch,
    tolerance,
)
from ptosim.shell.terminal import Terminal, write_file
from ptosim.tools.search.prove import (
    FOR_ALL,
    REASSOCIATED,
    REFUSED,
    UNEQUAL,
    Launched,
    Proof,
    judged_hard,
    prove,
    prove_each,
)
from ptosim.views.difference_report import difference_report
from ptosim.views.report import Report, Section
from ptosim.views.table import Text

_VALUES = (inputs("run"), BLOCKS, SEED, INPUTS, tolerance("values"))
_COMPARED = (
    group(
        "comparison",
        *_VALUES,
        option(
            "--slower", type=float, default=5.0, metavar="PERCENT",
            help="more cycles that count as worse (default: 5)",
        ),
    ),
    *FAIL_ON,
)  # fmt: skip


@command(
    "diff",
    option("first", metavar="A", help=FILE),
    option("second", metavar="B", help=FILE),
    READING,
    _COMPARED,
    group(
        "proof",
        switch("--prove", help="are they equal for all contents of the arguments? If they are not, "
               "or it cannot be told, that is worse (`ptosim help tune`)"),
        option("--tolerance", choices=(REASSOCIATED,), default="",
               help="of --prove: sums of f32 in another order are equal, too"),
        several("--forall", "NAME=LOW..HIGH", "of --prove: for each of these values of a scalar "
                "(`LOW..HIGH:STEP`); what their runs have in common is executed once"),
        CERTIFICATE,
    ),
    forms=("text", "json", "html"),
    epilog="Both run on the same arguments (generated ones are seeded); exit code 1 if B has new "
    "findings, other values, a broken budget, or is slower than --slower allows.",
)  # fmt: skip
def diff(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Compare two programs."""
    if options.first == options.second == "-":
        raise UsageError("standard input can be one of the two programs only")
    if options.tolerance and not options.prove:
        raise UsageError("--tolerance is for --prove", help="of values: --rtol, --atol, --ulp")
    if options.certificate and not options.prove:
        raise UsageError("--certificate is for --prove")
    scalars = _scalars(options)
    target = launching.targets(options.target)[0]
    one, two = _sides(options, terminal, (options.first, target), (options.second, target))
    found = difference(one, two, launching.tolerance(options))
    if not options.prove or one.is_rejected or two.is_rejected:
        return _report(found, ("A", "B"), options)
    files = options.first, options.second
    ranks = max(launching.choices(options, file).ranks or 1 for file in files)
    if ranks > 1:
        proof = Proof(REFUSED, f"a launch of {ranks} devices is not followed")
        return _report(found, ("A", "B"), options, proof)
    if scalars:
        programs = _open(options, target, scalars)
        outside = _outside(programs, scalars, terminal)
        proof = _for_all(programs, scalars, options, terminal)
        if options.certificate and proof.is_equal:
            certify(*programs, options.certificate, terminal, scalars)
        return _report(found, ("A", "B"), options, proof, outside)
    first, second = (_launched(options, file, target) for file in files)
    outside = _outside((first, second), {}, terminal)
    proof = judged_hard(first, second, prove(first, second, tolerance=options.tolerance))
    if options.certificate and proof.is_equal:
        certify(first, second, options.certificate, terminal)
    return _report(found, ("A", "B"), options, proof, outside)


def _scalars(options: argparse.Namespace) -> dict[str, range]:
    """Return the values that --forall leaves open; for the run beside the proof a scalar without
    another value has the last of them. Raises UsageError for what is no range."""
    if not options.forall:
        return {}
    if not options.prove:
        raise UsageError("--forall is for --prove")
    found = {
        name: _range(name, text)
        for name, text in launching.pairs(options.forall, "--forall").items()
    }
    if launching.pairs(options.arg).keys() & found.keys():
        raise UsageError("a scalar has one value (--arg), or all of some (--forall), not both")
    sidecar = launching.choices(options, options.first).sidecar
    known = sidecar.args if sidecar is not None else {}
    options.arg = [
        *options.arg,
        *(f"{name}={some[-1]}" for name, some in found.items() if name not in known),
    ]
    return found


def _range(name: str, text: str) -> range:
    found = range_of(text)
    if found is None:
        raise UsageError(f"--forall takes NAME=LOW..HIGH, and {name} is `{text}`")
    if not found:
        raise UsageError(f"--forall {name}={text} has no value")
    return found


def _open(
    options: argparse.Namespace, target: str | None, scalars: Mapping[str, range]
) -> tuple[Launched, Launched]:
    """Both programs for a proof for all values of some scalars. Arrays are as large as each launch
    needs, but those that --arg gives."""
    first, second = (
        _launched(options, file, target, launching.pairs(options.arg).keys())
        for file in (options.first, options.second)
    )
    for name in scalars:
        _check_scalar(first.program, first.entry, name)
    return first, second


def _outside(
    programs: Sequence[Launched], scalars: Mapping[str, range], terminal: Terminal
) -> list[Diagnostic]:
    """What the entries require that scalars break, the least or the largest of their values: a
    text says it before the proof."""
    found: dict[str, Diagnostic] = {}
    ends = [{n: some[at] for n, some in scalars.items()} for at in ((0, -1) if scalars else (0,))]
    for one, given in product(programs, ends):
        args, name = {**(one.args or {}), **given}, one.program.entry(one.entry)
        for broken in launching.broken_by(one.program, name, args, one.block_num, is_run=True):
            found.setdefault(broken.message, broken)
    if terminal.format == "text":
        terminal.findings(list(found.values()))
    return list(found.values())


def _for_all(
    programs: Sequence[Launched], scalars: Mapping[str, range], options: argparse.Namespace,
    terminal: Terminal,
) -> Proof:  # fmt: skip
    """Prove both equal for all values of some scalars."""

    def launch(given: Mapping[str, int]) -> tuple[Launched, Launched]:
        first, second = (replace(one, args={**(one.args or {}), **given}) for one in programs)
        return first, second

    total = math.prod(map(len, scalars.values()))
    with terminal.busy("proving", total, "launches"):
        return prove_each(
            launch, scalars, tolerance=options.tolerance, jobs=available_cores(),
            done=lambda _: part_done(),
        )  # fmt: skip


def _check_scalar(program: LoadedProgram, entry: str | None, name: str) -> None:
    names = [each.name for each in program.signature(entry) if each.kind == "scalar"]
    if name not in names:
        raise UsageError(f"--forall {name}: the scalars are {', '.join(names) or 'none'}")


def certify(
    first: Launched, second: Launched, path: str, terminal: Terminal,
    scalars: Mapping[str, range] | None = None,
) -> None:  # fmt: skip
    """Write the certificate of two programs that are equal, for all values of some scalars. Raises
    UsageError where the second checker does not come to that end."""
    import json

    from ptosim.tools.certificate import certificate

    with terminal.busy("checking the proof"):
        made = certificate(first, second, scalars)
    write_file(Path(path), json.dumps(made, indent=1) + "\n")


@command(
    "prove",
    option("--check", required=True, metavar="FILE.json", help="a certificate that "
           "`ptosim diff --prove --certificate` or `ptosim tune --certificate` wrote"),
    forms=("text", "json"),
    epilog="Exit code 0 if it holds, 1 if it does not, 2 if it cannot be read.",
)  # fmt: skip
def prove_(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Go through a certificate with the second checker, which shares nothing with the prover."""
    import json

    from ptosim.tools.certificate import check

    path = Path(options.check)
    try:
        given = json.loads(read_text(path))
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"cannot read {path}: it is no JSON") from problem
    with terminal.busy("checking the proof"):
        why = check(given)
    claim = str(given.get("claim")) if not why else ""
    told = f"the certificate holds: {claim}" if not why else f"it does not hold: {why}"
    return Report(
        [Section("", [Text(told)])],
        title=f"Certificate {path.name}",
        fields=lambda: {"holds": not why, "why": why, "claim": claim},
        exit_code=1 if why else 0,
    )


def _launched(
    options: argparse.Namespace, file: str, target: str | None, only: Container[str] | None = None
) -> Launched:
    """A file as it is launched; with `only`, of arrays those alone, the others as it needs them."""
    choices = replace(launching.choices(options, file), target=target)
    program, args = choices.program(), choices.arguments()
    if only is not None:
        args = {n: v for n, v in args.items() if n in only or np.ndim(v) == 0}
    return Launched(program, choices.entry, args or None, choices.block_num)


@command(
    "port",
    option("file", metavar="FILE", help="path, or `@name`; `#part`"),
    option("--from", dest="source", required=True, metavar="T", help="a target, or a chip"),
    option("--to", required=True, metavar="T", help="the target to move to"),
    READING,
    _COMPARED,
    forms=("text", "json", "html"),
    epilog="Runs the program on both targets: what becomes illegal, which races appear, which bits,"
    " budgets and cycles change. Exit code 3 if the new target rejects it, 1 if it is worse.",
)
def port(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Compare one program on two targets."""
    one, two = (_machine(word) for word in (options.source, options.to))
    if one is two:
        raise UsageError(
            f"--from and --to both name {one.label}",
            help="name two targets: a2a3 and a5, or two chips (`ptosim targets`)",
        )
    if options.target:
        raise UsageError("port takes --from and --to, not --target")
    if options.file == "-":
        raise UsageError("port reads the program twice; give a file")
    first, second = _sides(
        options, terminal, (options.file, options.source), (options.file, options.to)
    )
    found = difference(first, second, launching.tolerance(options))
    return _report(found, (f"on {one.label}", f"on {two.label}"), options)


def _machine(word: str) -> MachineDef:
    named = check_target_word(word)
    return machine(named.chip or named.architecture)


@command(
    "validate",
    option("first", metavar="SOURCE", help=FILE),
    option("second", metavar="EMITTED", help="what was made of it: C++, or a dump of passes"),
    READING,
    group(
        "comparison",
        *_VALUES,
        option("--emitted-entry", metavar="NAME", help="the kernel of EMITTED, if it has several"),
    ),
    *FAIL_ON,
    forms=("text", "json", "html"),
    epilog="EMITTED has its parameters in the order of SOURCE's, whatever their names. Exit code 0 "
    "if both are equal for all contents of the arguments, or on hard data where no proof can "
    "follow, and EMITTED has no race, deadlock or lost flag of its own; 1 if they differ, or "
    "EMITTED alone is rejected or stops; 5 if EMITTED cannot be followed.",
)
def validate(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Is what the assembler emitted the program that it was given?"""
    target = launching.targets(options.target)[0]
    source = replace(launching.choices(options, options.first), target=target)
    front = source.front()
    target = target or front.chip
    own = launching.choices(options, options.second)
    emitted = replace(
        own, target=target, level=None, sync=None, entry=options.emitted_entry, args=source.args,
        sidecar=own.sidecar or source.sidecar,
        seed=source.seed if own.seed is None else own.seed,
        block_num=source.block_num if own.block_num is None else own.block_num,
    )  # fmt: skip
    if not front.sink.is_rejected:
        names = [a.name for a in source.program(front).signature(source.entry)]
        emitted = replace(emitted, parameters=names, dump=True)
    with terminal.busy("running both", 2, "sides") as progress:
        one, two = (look_at(side) for side in each(progress, (source, emitted)))
    found = _of_its_own(difference(one, two, launching.tolerance(options)))
    proof = None
    if one.program is not None and two.program is not None:
        # What was emitted calls the library, so the source means what the library does too.
        programs = (LoadedProgram(one.program.front, two.program.profile), two.program)
        first, second = (
            Launched(p, c.entry, c.arguments() or None, c.block_num)
            for p, c in zip(programs, (source, emitted), strict=True)
        )
        proof = judged_hard(first, second, prove(first, second))
    return _validated(found, proof)


def _of_its_own(found: Difference) -> Difference:
    """Leave out the findings of what was emitted that its source has too: names differ."""
    before, after = (Counter(d.code for d in s.findings) for s in (found.first, found.second))
    return replace(found, new=[d for d in found.new if after[d.code] > before[d.code]])


def _validated(found: Difference, proof: Proof | None) -> Report:
    """Return the report of a text that was emitted: what it does otherwise than its source."""
    worse = found.regressions(math.inf, Severity.ERROR)
    lost = [d for d in found.new if d.origin is Origin.HARDWARE and d.severity is Severity.WARNING]
    worse += [f"{d.code}: {d.message}" for d in lost]
    told, proven = "", None
    if proof is not None:
        proven = proof.to_dict()
        told = f"equal {proof.about}: {proof.why} ({proof.elements:,} elements)"
        if proof.verdict == UNEQUAL:
            told = ""
            worse.append(f"they are not equal {FOR_ALL}: {proof.why}")
        elif not proof.is_equal:
            told = f"equal on hard data, not proven {FOR_ALL}: {proof.why}"
    report = difference_report(found, worse, ("source", "emitted"), told, proven)
    report.exit_code = _exit_code(found) or (1 if worse else 0)
    return report


def _exit_code(found: Difference) -> int:
    """That of a source which is no program itself, or of arguments; of what was emitted 5 if it is
    not followed, 1 if it is no program or stops where its source does not."""
    code, second = found.exit_code, found.second
    is_own = found.first.is_rejected or (found.compares_nothing and found.first.stop_code)
    if not code or is_own or second.stop_code == UsageError.exit_code:
        return code
    return 5 if any(d.code.startswith("PTO8") for d in second.findings) else 1


# -- both ------------------------------------------------------------------------------------------


def _side(
    options: argparse.Namespace, file: str, target: str | None, given: Mapping[str, Any] | None
) -> Side:
    """Return what a file gives on a target, with the arguments of its sidecar and those given."""
    return look_at(replace(launching.choices(options, file), target=target), given)


def _sides(
    options: argparse.Namespace, terminal: Terminal, *wanted: tuple[str, str | None]
) -> list[Side]:
    """Return what files give on targets; meanwhile a terminal shows how far that is."""
    given = _hard(options, wanted) if options.inputs != "normal" else None
    with terminal.busy("running both", len(wanted), "sides") as progress:
        return [_side(options, file, target, given) for file, target in each(progress, wanted)]


def _hard(
    options: argparse.Namespace, wanted: Sequence[tuple[str, str | None]]
) -> dict[str, Any] | None:
    """Hard data, the same for both; None where the first cannot be run, which its side says."""
    every = [replace(launching.choices(options, file), target=target) for file, target in wanted]
    try:
        programs = [(one.program(), one.entry) for one in every]
        first = every[0].run_options("block_num", "ranks")
        args = every[0].run_arguments()
        return hard_data(programs, args, [options.inputs], every[0].seed or 0, **first)[0]
    except BudgetError:
        raise
    except (ProgramError, Trap):
        return None


def _report(
    found: Difference,
    names: tuple[str, str],
    options: argparse.Namespace,
    proof: Proof | None = None,
    outside: Sequence[Diagnostic] = (),
) -> Report:
    """Return the report; its exit code is 3 if a side is rejected, 5 if its target does not execute
    it, 1 if something is worse or a proof was asked for and is none; of what gave no values to
    compare, what kept it from it."""
    worse = found.regressions(options.slower, THRESHOLDS[launching.threshold(options)])
    told, proven = "", None
    if proof is not None:
        proven = {**proof.to_dict(), "outside": [each.to_dict() for each in outside]}
        if proof.is_equal:
            told = f"equal {proof.about}: {proof.why} ({proof.elements:,} elements)"
        else:
            worse.append(f"{proof.verdict}, not proven {proof.about}: {proof.why}")
    report = difference_report(found, worse, names, told, proven)
    report.exit_code = found.exit_code or (1 if worse else 0)
    return report
