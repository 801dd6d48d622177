"""Rewrites that need no template, each priced and proven: what became of the text, what it costs
before and after, and whether both programs are equal for all contents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ptosim.ground.errors import PtosimError
from ptosim.ground.ir.core import Block, Operation
from ptosim.ground.ir.types import TileType
from ptosim.ground.records import dataclass, replace
from ptosim.ground.source import Source
from ptosim.language.build import Builder
from ptosim.language.frontend import Front, FrontOptions
from ptosim.language.rewrite.abstract import Edit, before, edited, indent_of, loop_head
from ptosim.launch.description import Sidecar
from ptosim.launch.program import LoadedProgram
from ptosim.time.report.totals import CostReport
from ptosim.tools.search.prove import REFUSED, UNEQUAL, Launched, Proof, prove, same_values
from ptosim.tools.search.rewrite_buffers import double_buffered
from ptosim.tools.search.rewrite_sync import (
    NotApplicable,
    bodies,
    fresh,
    lean_sync,
    options_of,
    planned_sync,
    read,
    with_sync,
    without_sync,
)

# Rows in pieces: a load, computation and store of tiles of R rows becomes a loop over pieces of
# fewer rows, so that one piece is loaded while another is computed.
#
# All tiles and windows of R rows get the rows of a piece, and everything from the first window to
# the last store is put into a loop over rows. Whether the operations of a program let their rows
# be computed apart is not looked at here: the result is for a proof.

MOST_PIECES = (2, 4)
"""Numbers of pieces that are tried."""
_TYPE = re.compile(
    r"(!pto\.(?:tile_buf|tile)<\s*(?:\w+\s*,\s*)?|!pto\.partition_tensor_view<|valid=)(\d+)x"
)
_FIRST = {name: re.compile(rf"{name}\s*=\s*\[\s*(%[\w.$-]+)\s*,([^\]]*)\]") for name in
          ("offsets", "sizes")}  # fmt: skip


def split_rows(source: Source, options: FrontOptions, count: int) -> Source:
    """Return a program that works on `count` pieces of its rows. Raises NotApplicable where rows do
    not divide, or nothing is loaded and stored in one run of operations."""
    plain = without_sync(source, options)
    front = read(plain, replace(options, level=None))
    return with_sync(plain.changed(_split(front, count)), replace(options, level=None))


def _split(front: Front, count: int) -> str:
    block = _block(front)
    rows = _rows(block)
    if rows % count or rows == count:
        raise NotApplicable(f"{rows} rows have no {count} equal pieces of more than one row")
    suffix = fresh(front, "_piece")
    text = front.source.text
    windows = [op for op in block.ops if _is_window(front, op, rows)]
    stores = [op for op in block.ops if op.name == "pto.tstore"]
    if not windows:
        raise NotApplicable(f"no window of global memory has {rows} rows")
    first, last = windows[0], stores[-1]
    edits = [e for op in windows for e in _window(text, op, suffix)]
    margin = indent_of(text, first.start)
    b = Builder()
    for name, number in (("zero", 0), ("all", rows), ("rows", rows // count)):
        b.constant(f"%{name}{suffix}", number, "index")
    bounds = [f"%{name}{suffix}" for name in ("zero", "all", "rows")]
    head = before(text, first, b.ops)
    opened = Edit(first.start, first.start, f"{loop_head(f'%row{suffix}', bounds)}\n{margin}")
    made = edited(text, [head, opened, *edits, Edit(last.end, last.end, f"\n{margin}}}")])
    return _TYPE.sub(lambda m: f"{m[1]}{_fewer(m[2], rows, count)}x", made)


def _fewer(written: str, rows: int, count: int) -> str:
    """The rows of a piece where all are written; a comment may write thousands of digits."""
    return str(rows // count) if written == str(rows) else written


def _block(front: Front) -> Block:
    """The one run of operations that loads and stores."""
    found = [
        block
        for function in bodies(front.resolved)
        for op in function.op.walk()
        for region in op.regions
        for block in region.blocks
        if {"pto.tload", "pto.tstore"} <= {o.name for o in block.ops}
    ]
    if len(found) != 1:
        raise NotApplicable("the program does not load and store in one run of operations")
    return found[0]


def _rows(block: Block) -> int:
    """The rows that most loaded tiles have."""
    counts: Counter[int] = Counter()
    for op in block.ops:
        operand = op.bound.get("dst") if op.name == "pto.tload" else None
        type_ = getattr(operand, "type", None)
        if isinstance(type_, TileType) and type_.loc == "vec":
            counts[type_.rows] += 1
    if not counts:
        raise NotApplicable("no tile of a vector core is loaded")
    return counts.most_common(1)[0][0]


def _is_window(front: Front, op: Operation, rows: int) -> bool:
    if op.name != "pto.partition_view":
        return False
    text = front.source.text[op.start : op.end]
    sizes = _FIRST["sizes"].search(text)
    operands = op.bound.get("sizes")
    number = operands[0].const if isinstance(operands, list) and operands else None  # type: ignore[union-attr]
    return sizes is not None and "," not in sizes[2] and number == rows


def _window(text: str, op: Operation, suffix: str) -> Iterator[Edit]:
    """A window of the rows of one piece."""
    written = text[op.start : op.end]
    offsets, sizes = _FIRST["offsets"].search(written), _FIRST["sizes"].search(written)
    if offsets is None or sizes is None:
        raise NotApplicable("a window whose offsets are not values")
    name = f"%at_{op.results[0].name}{suffix}"
    offset = [offsets[1], f"%row{suffix}"]
    yield before(text, op, [Builder().op("arith.addi", offset, ["index"], results=[name])])
    yield Edit(op.start + offsets.start(1), op.start + offsets.end(1), name)
    yield Edit(op.start + sizes.start(1), op.start + sizes.end(1), f"%rows{suffix}")


@dataclass(frozen=True, slots=True)
class Launch:
    """How the programs that are compared are launched."""

    entry: str | None = None
    args: Mapping[str, Any] | None = None
    block_num: int = 1

    def of(self, program: LoadedProgram) -> Launched:
        """Return a program with this launch."""
        return Launched(program, self.entry, self.args, self.block_num)

    def report(self, program: LoadedProgram) -> CostReport:
        """Return what a program costs. Raises PtosimError where it cannot be told."""
        return program.cost(entry=self.entry, args=self.args, block_num=self.block_num)

    def cycles(self, program: LoadedProgram) -> int:
        """Return the cycles of a program. Raises PtosimError where they cannot be told."""
        return self.report(program).cycles


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A program after a rewrite; cycles are None where the cost could not be told."""

    source: Source
    proof: Proof
    before: int | None
    after: int | None

    def __str__(self) -> str:
        price = f"{self.before:,} -> {self.after:,} cycles" if self.before and self.after else ""
        told = f"proven equal {self.proof.about} ({self.proof.elements:,} elements)"
        if not self.proof.is_equal:
            told = f"not proven equal: {self.proof.why}"
        return ", ".join(part for part in (price, told) if part)


Rewrite = Callable[[LoadedProgram, Launch], Source]
"""Gives the text of a program after a rewrite; raises NotApplicable where there is nothing to do or
it cannot be done."""


def _lean(program: LoadedProgram, launch: Launch) -> Source:
    return lean_sync(program, program.entry(launch.entry), launch.args).front.source


def _planned(program: LoadedProgram, launch: Launch) -> Source:
    return planned_sync(program.front.source, options_of(program))


def _double(program: LoadedProgram, launch: Launch) -> Source:
    return double_buffered(program.front.source, options_of(program))


def _pieces(count: int) -> Rewrite:
    return lambda program, launch: split_rows(program.front.source, options_of(program), count)


REWRITES: dict[str, Rewrite] = {
    "flags and event ids planned anew": _planned,
    "redundant synchronisation out": _lean,
    "double buffering": _double,
    **{f"rows in {count} pieces": _pieces(count) for count in MOST_PIECES},
}
"""By what reports call them. They build on one another."""


def applied(program: LoadedProgram, rewrite: Rewrite, launch: Launch) -> LoadedProgram:
    """Return a program after a rewrite, read as the original was. Raises NotApplicable."""
    source = rewrite(program, launch)
    return LoadedProgram.of(read(source, options_of(program)), program.profile.name)


def checked(program: LoadedProgram, changed: Source, launch: Launch) -> Rewritten:
    """Price and prove what a rewrite made. Raises NotApplicable if it is refused."""
    after = LoadedProgram.of(read(changed, options_of(program)), program.profile.name)
    return Rewritten(
        changed, _proven(program, after, launch), _price(program, launch), _price(after, launch)
    )


def _proven(before: LoadedProgram, after: LoadedProgram, launch: Launch) -> Proof:
    try:
        return prove(launch.of(before), launch.of(after))
    except PtosimError as problem:
        return Proof(REFUSED, f"the launch is not known: {problem}")


def _price(program: LoadedProgram, launch: Launch) -> int | None:
    try:
        return launch.cycles(program)
    except PtosimError:
        return None


def double_buffer(source: Source, options: FrontOptions, sidecar: Sidecar | None) -> Rewritten:
    """Return a program with two buffers in its loops, flags included; equality is proven for the
    launch of the sidecar, else for data of the shapes that the views imply. Raises NotApplicable
    where there is no loop for it, where there is no room, or where the result would differ."""
    program = LoadedProgram.of(read(source, options), "hw", sidecar=sidecar)
    kept = sidecar.options if sidecar is not None else {}
    launch = Launch(kept.get("entry"), launch_args(sidecar), kept.get("block_num") or 1)
    made = checked(program, double_buffered(source, options), launch)
    if made.proof.verdict == UNEQUAL or made.proof.is_of_second:
        raise NotApplicable(f"second buffers would not be equal: {made.proof.why}")
    if made.before is not None and made.after is not None and made.after >= made.before:
        raise NotApplicable(f"second buffers win nothing: {made.before:,} -> {made.after:,} cycles")
    differs = "" if made.proof.is_equal else _compared(program, made.source, launch)
    if differs:
        raise NotApplicable(f"second buffers would change {differs}")
    return made


def _compared(program: LoadedProgram, changed: Source, launch: Launch) -> str:
    """Where values differ first, of programs of which there is no proof; '' also if they cannot be
    run: the warning that nothing is proven says that."""
    after = LoadedProgram.of(read(changed, options_of(program)), program.profile.name)
    try:
        return same_values(launch.of(program), launch.of(after), [launch.args or 0])
    except PtosimError:
        return ""


def launch_args(sidecar: Sidecar | None) -> Mapping[str, Any] | None:
    """Return the arguments that a sidecar keeps, None if there is none."""
    from ptosim.launch.description import kept_arguments

    return kept_arguments(sidecar) if sidecar is not None else None


__all__ = [
    "REWRITES",
    "Launch",
    "NotApplicable",
    "Rewritten",
    "applied",
    "checked",
    "double_buffer",
]
