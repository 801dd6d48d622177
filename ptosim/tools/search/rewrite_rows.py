"""Rows in pieces: a load, computation and store of tiles of R rows becomes a loop over pieces of
fewer rows, so that one piece is loaded while another is computed.

All tiles and windows of R rows get the rows of a piece, and everything from the first window to the
last store is put into a loop over rows. Whether the operations of a program let their rows be
computed apart is not looked at here: the result is for a proof."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from ptosim.ground.ir.core import Block, Operation
from ptosim.ground.ir.types import TileType
from ptosim.ground.records import replace
from ptosim.ground.source import Source
from ptosim.language.frontend import Front, FrontOptions
from ptosim.tools.search.rewrite_sync import with_sync, without_sync
from ptosim.tools.search.rewrite_text import (
    Edit,
    NotApplicable,
    bodies,
    edited,
    fresh,
    indent_of,
    read,
)

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
    margin = indent_of(text, first)
    lines = [
        f"%zero{suffix} = arith.constant 0 : index",
        f"%all{suffix} = arith.constant {rows} : index",
        f"%rows{suffix} = arith.constant {rows // count} : index",
        f"scf.for %row{suffix} = %zero{suffix} to %all{suffix} step %rows{suffix} {{",
    ]
    edits.append(Edit(first.start, first.start, "".join(f"{line}\n{margin}" for line in lines)))
    edits.append(Edit(last.end, last.end, f"\n{margin}}}"))
    made = edited(text, _one_insertion(edits))
    return _TYPE.sub(lambda m: f"{m[1]}{_fewer(m[2], rows, count)}x", made)


def _fewer(written: str, rows: int, count: int) -> str:
    """The rows of a piece where all are written; a comment may write thousands of digits."""
    return str(rows // count) if written == str(rows) else written


def _one_insertion(edits: list[Edit]) -> Iterator[Edit]:
    """Insertions at one place as one, in their order: the head of the loop first."""
    places: dict[int, list[str]] = {}
    for edit in sorted(edits, key=lambda e: "scf.for" not in e.text):
        if edit.start == edit.end:
            places.setdefault(edit.start, []).append(edit.text)
        else:
            yield edit
    for at, texts in places.items():
        yield Edit(at, at, "".join(texts))


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
    line = f"{name} = arith.addi {offsets[1]}, %row{suffix} : index\n{indent_of(text, op)}"
    yield Edit(op.start, op.start, line)
    yield Edit(op.start + offsets.start(1), op.start + offsets.end(1), name)
    yield Edit(op.start + sizes.start(1), op.start + sizes.end(1), f"%rows{suffix}")
