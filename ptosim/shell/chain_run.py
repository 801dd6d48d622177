"""`ptosim run --chain FILE.toml`: kernels one after the other on shared buffers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.errors import UsageError
from ptosim.launch import array_files
from ptosim.launch.chain import chain as chains
from ptosim.launch.chain.file import ChainFile, read_chain
from ptosim.launch.chain.runner import ChainResult, run_chain
from ptosim.launch.compare import Comparison
from ptosim.launch.sources import described
from ptosim.shell import launching
from ptosim.shell.terminal import Terminal, write_file
from ptosim.views import run_report
from ptosim.views.chain_report import chain_report
from ptosim.views.report import Ending

_OF_A_PROGRAM = (
    "file", "entry", "level", "sync", "block_num", "ranks", "dump", "trace",
    "schedule", "schedules",
)  # fmt: skip
"""Options that mean nothing for a chain: its file says such things of each kernel or launch."""


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Run the chain on every target that is asked for, else on those of its file."""
    _refuse(options)
    file = read_chain(described(options.chain))
    given = launching.pairs(options.arg)
    outputs = [array_files.split(pair, "--out") for pair in options.out]
    for _, path in outputs:
        array_files.check_writable(path)
    expect = launching.pairs(options.expect, "--expect")
    _check_names(file, [*given, *expect, *(name for name, _ in outputs)])
    chain, results = _results(options, file, given, expect, terminal)
    for name, path in outputs:
        array = results[-1].buffers[name]
        write_file(Path(path), array_files.file_bytes(path, array, array_files.dtype_like(array)))
    findings = _findings(results)
    report = chain_report(chain, results, findings)
    report.ending = _ending(options, results, findings)
    terminal.tell(report)
    return 0 if report.ending.passed else 1


def _findings(results: Sequence[ChainResult]) -> list[Diagnostic]:
    """The findings of all targets, each once."""
    found: list[Diagnostic] = []
    for result in results:
        known = {(d.code, d.message, str(d.span)) for d in found}
        found += [d for d in result.findings if (d.code, d.message, str(d.span)) not in known]
    return found


def _results(
    options: argparse.Namespace,
    file: ChainFile,
    given: dict[str, str],
    expect: dict[str, str],
    terminal: Terminal,
) -> tuple[chains.Chain, list[ChainResult]]:
    asked = {"profile": options.profile, "compat": options.compat}
    choices = {name: word for name, word in asked.items() if word is not None}
    choices |= {"legacy": options.legacy, "switches": launching.switches(options.set)}
    targets = [t for t in launching.targets(options.target) if t] or list(file.targets)
    loaded = [chains.of_file(file, target, **choices) for target in targets]
    wanted = {name: array_files.parse_expectation(spec) for name, spec in expect.items()}
    results = []
    for chain in loaded:
        with terminal.busy(f"running on {chain.target}", file.count, "launches"):
            results.append(
                run_chain(
                    chain,
                    given,
                    expect=wanted,
                    tolerance=launching.tolerance(options),
                    sanitize=options.sanitize,
                    timing=options.timing,
                    uninit=options.uninit,
                    seed=options.seed,
                    max_instructions=options.max_instructions,
                )
            )
    return loaded[0], results


def _refuse(options: argparse.Namespace) -> None:
    for name in _OF_A_PROGRAM:
        if getattr(options, name, None):
            word = "FILE" if name == "file" else f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{word} and --chain do not go together",
                help="the file of the chain names kernels and how each is launched",
            )
    if options.commit != "program" or options.debug_on_error:
        raise UsageError(
            "--commit and --debug-on-error are for one program",
            help="run the kernel by itself: `ptosim run FILE`",
        )


def _check_names(file: ChainFile, names: list[str]) -> None:
    for name in names:
        if name not in file.buffers:
            raise UsageError(
                f"the chain has no buffer `{name}`", help=f"buffers: {', '.join(file.buffers)}"
            )


def _ending(
    options: argparse.Namespace, results: Sequence[ChainResult], findings: Sequence[Diagnostic]
) -> Ending:
    compared: list[Comparison] = []
    for result in results:
        compared += [*result.comparisons, *(c for s in result.stages for c in s.comparisons)]
    bad = [d for d in findings if launching.fails([d], launching.threshold(options))]
    wrong = run_report.differences(compared)
    if wrong:
        return Ending(False, wrong, _stage_of(results))
    if bad:
        return Ending(False, run_report.found(bad), launching.cure(options, bad))
    launches = sum(result.launches for result in results)
    return Ending(True, f"{launches:,} launches: {run_report.equal(compared)}")


def _stage_of(results: Sequence[ChainResult]) -> str:
    """The command that looks at the first kernel after which a buffer is wrong."""
    for result in results:
        for stage in result.stages:
            if any(not c.passed for c in stage.comparisons):
                return f"ptosim help chain (the stage `{stage.name}`)"
    return "ptosim help chain (`[expect]` of a stage says where it begins)"
