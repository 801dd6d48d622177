"""`ptosim fmt FILE…`"""

from __future__ import annotations

import argparse
import difflib
import re
from pathlib import Path

from ptosim.ground.diagnostics.model import Diagnostic, ProgramError, Sink, finding, rejected
from ptosim.ground.errors import UsageError
from ptosim.ground.isa.dates import DATES, make_profile
from ptosim.ground.records import replace
from ptosim.ground.source import Source, in_program
from ptosim.language.frontend import FrontOptions
from ptosim.language.lint import directions
from ptosim.language.rewrite.forms import to_date
from ptosim.language.syntax.parser import parse
from ptosim.language.syntax.printer import print_module
from ptosim.launch.description import sidecar_of
from ptosim.launch.sources import by_part, open_file, source_path
from ptosim.shell import launching
from ptosim.shell.command import command
from ptosim.shell.fixing import byte_order_mark
from ptosim.shell.options import group, option, program, switch
from ptosim.shell.terminal import Terminal, write_file
from ptosim.views.report import Report, Verbatim, one_section


@command(
    "fmt",
    option(
        "--to", choices=("ssa", "dps", "quoted", "short", "pto"),
        help="convert operations to this form; pto: a kernel in C++ as the program it is",
    ),
    option("--entry", metavar="F", help="the kernel of a file in C++: `name<float, 64>`"),
    option("--compat-to", choices=DATES, help="move the program to this date of the language"),
    switch("--check", help="exit 1 if a file is not canonical"),
    switch("--diff", help="show what would change"),
    switch("-i", "--in-place", help="rewrite the files"),
    switch("--plan", help="write the planner's addresses into the program"),
    switch("--insert-sync", help="insert the flags and barriers that are needed"),
    switch(
        "--double-buffer",
        help="two buffers for loops that load, with addresses, flags and a proof of equality",
    ),
    group(
        "quant dialect",
        switch("--lower-quant", help="casts as tile operations, or arith"),
        option(
            "--quant-form", choices=("exact", "fast", "casts"), default="exact",
            help="of lowered casts: exact keeps their results, fast uses TQUANT where it can; "
            "casts: simulated quantisation only, as casts",
        ),
        switch("--normalize-quant", help="types of blocks as per tensor or per axis"),
        switch("--strip-quant", help="stored types in the signatures of functions"),
    ),
    program("files"),
    forms=("text",),
)  # fmt: skip
def run(options: argparse.Namespace, terminal: Terminal) -> Report | int:
    """Print, check or rewrite files."""
    if options.in_place and any(f == "-" or f.startswith("@") for f in options.files):
        raise UsageError("--in-place rewrites files; standard input and shipped programs are none")
    # No profile changes a text, but one that does not exist is a mistake here as everywhere.
    make_profile(options.profile or "hw", "a5", launching.switches(options.set))
    texts: list[str] = []
    lost: list[Diagnostic] = []  # what another date has no form for
    changed = 0
    for name in options.files:
        source = open_file(name)
        terminal.findings(list(directions(source)))
        text = by_part(source, lambda part: _made_of(part, options, terminal, lost))
        kept = _with_ends_of(source, text)
        changed += kept != source.own
        if options.diff:
            texts.append(_diff(source, kept))
        elif options.in_place:
            if kept != source.own:
                _rewrite(source_path(name), source, kept)
        elif options.check:
            texts.append(f"{source.label}: not canonical\n" if kept != source.own else "")
        else:
            texts.append(text)
    code = 1 if lost or (changed and options.check) else 0
    if options.output:  # a file is not shown: it gets the bytes that the program has
        terminal.write("".join(texts))
        return code
    texts = list(map(in_program, texts))
    return one_section(map(Verbatim, texts), exit_code=code)


def _with_ends_of(source: Source, text: str) -> str:
    """The text with the line ends of a file: those of Windows are as canonical as others."""
    return re.sub(r"\r?\n", "\r\n", text) if "\r\n" in source.own else text


def _rewrite(path: Path, source: Source, text: str) -> None:
    before, after = source.around
    write_file(path, f"{byte_order_mark(path, source)}{before}{text}{after}")


def _made_of(
    source: Source, options: argparse.Namespace, terminal: Terminal, lost: list[Diagnostic]
) -> str:
    """The text of a program; what another date has no form for goes to `lost`."""
    if options.compat_to:
        moved = to_date(source, _front_options(options, options.sync), options.compat_to)
        terminal.findings(list(moved.left))
        for one in moved.gone:
            told = (one.message.partition(" ")[2], one.notes[0])
            terminal.remark(f"{source.label}: left out {' ('.join(told)})")
        lost += moved.left
        source = source.changed(moved.text)
    return formatted(source, options, terminal)


def formatted(source: Source, options: argparse.Namespace, terminal: Terminal) -> str:
    """Return the canonical text of a source in the form asked for; raises ProgramError if it cannot
    be parsed, or not be planned."""
    if source.is_cpp:
        return _from_cpp(source, options, terminal)
    source = _quantised(source, options)
    if options.plan or options.insert_sync:
        source = _completed(source, options, terminal)
    if options.double_buffer:
        source = _buffered(source, options, terminal)
    if options.to in ("quoted", "short"):
        from ptosim.language.rewrite.requoted import requoted

        return requoted(source, options.to, options.target, options.compat)
    if options.to and options.to != "pto":
        from ptosim.language.rewrite.forms import convert

        return convert(source, options.to, options.target, options.compat)
    sink = Sink()
    module = parse(source, sink)
    if sink.has_errors:
        raise ProgramError(list(sink))
    return print_module(module)


def _from_cpp(source: Source, options: argparse.Namespace, terminal: Terminal) -> str:
    """A kernel in C++ as the program that it is read as. Raises UsageError unless that is asked
    for, ProgramError if it cannot be read."""
    from ptosim.language.frontend import run_frontend

    if options.to != "pto":
        raise UsageError("a kernel in C++ is not rewritten", help="fmt FILE --entry F --to pto")
    front = run_frontend(
        source, replace(_front_options(options, options.sync), entry=options.entry)
    )
    if front.sink.is_rejected:
        raise rejected(list(front.sink))
    terminal.findings(list(front.sink))
    return print_module(front.module)


def _quantised(source: Source, options: argparse.Namespace) -> Source:
    """The program after the passes on quantised types."""
    if options.normalize_quant:
        from ptosim.machine.quant.mlir.passes import normalized, rewritten
        from ptosim.machine.quant.mlir.types import UniformType

        def simpler(type_: object) -> str:
            return str(normalized(type_) if isinstance(type_, UniformType) else type_)

        source = source.changed(rewritten(source.text, simpler))
    if options.strip_quant:
        from ptosim.language.rewrite.strip_quant import stripped_signatures

        source = source.changed(stripped_signatures(source))
    if options.lower_quant:
        from ptosim.models.quant_dialect import lowered

        asked = _front_options(options, options.sync)
        source = source.changed(lowered(source, asked, options.quant_form))
    return source


def _completed(source: Source, options: argparse.Namespace, terminal: Terminal) -> Source:
    """The program with addresses and synchronisation."""
    from ptosim.launch.analysis.insert_sync.write import rewritten

    if options.to == "ssa":
        raise UsageError("addresses and flags are written into the DPS form", help="drop --to ssa")
    asked = _front_options(options, None)
    text, notes = rewritten(source, asked, plan=options.plan, insert_sync=options.insert_sync)
    terminal.findings(list(notes))
    return source.changed(text)


def _buffered(source: Source, options: argparse.Namespace, terminal: Terminal) -> Source:
    """The program with second buffers; as it was where there is no loop or no room for them."""
    from ptosim.tools.search.rewrite import NotApplicable, double_buffer

    if options.to == "ssa":
        raise UsageError("addresses and flags are written into the DPS form", help="drop --to ssa")
    path = Path(source.name)
    try:
        asked = _front_options(options, options.sync)
        made = double_buffer(source, asked, sidecar_of(path) if path.suffix else None)
    except NotApplicable as reason:
        terminal.findings([finding("PTO7620", f"{source.label} is left as it is: {reason}")])
        return source
    if made.proof.verdict == "equal":
        terminal.remark(f"{Path(source.label).name}: {made}")
    else:
        what = f"{source.label} got second buffers, but: {made}"
        terminal.findings([finding("PTO7621", what, made.proof.span)])
    return made.source


def _front_options(options: argparse.Namespace, sync: str | None) -> FrontOptions:
    return FrontOptions(
        options.target,
        options.level,
        sync,
        options.compat,
        legacy=options.legacy,
        planner=options.planner,
        maker=options.maker,
        defines=launching.defines(options.define),
    )


def _diff(source: Source, text: str) -> str:
    lines = difflib.unified_diff(
        source.own.splitlines(keepends=True),
        text.splitlines(keepends=True),
        source.name,
        f"{Path(source.name).name} (formatted)",
    )
    return "".join(lines)
