"""Which layout each logical vector of a function has.

Vectors that element-wise operations, loops and branches connect have one layout: the one that the
first operation with a layout of its own asks for, in program order. Loads, stores, masks and
broadcasts of scalars take any. Where an operation asks for another layout than its operand has,
the registers are rearranged there (layout tables of the assembler of 2026-08-21)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ptosim.ground.ir.core import Block, Operation, Value
from ptosim.ground.ir.lane_layout import (
    CONTIGUOUS,
    LaneLayout,
    deinterleaved,
    grouped,
    register_lanes,
    strided,
)
from ptosim.ground.records import dataclass, field
from ptosim.ops.lower.logical import names
from ptosim.ops.lower.logical.values import canonical

Wish = tuple[Value, LaneLayout]


@dataclass(slots=True)
class Layouts:
    """The layout of every vector; contiguous where nothing asks for one."""

    found: dict[Value, LaneLayout] = field(default_factory=dict)

    def of(self, value: Value) -> LaneLayout:
        """Return the layout of a vector."""
        return canonical(self.found.get(value, CONTIGUOUS), names.lanes_of(value))


class _Classes:
    def __init__(self) -> None:
        self.parent: dict[Value, Value] = {}

    def find(self, value: Value) -> Value:
        root = value
        while self.parent.get(root, root) is not root:
            root = self.parent[root]
        self.parent[value] = root
        return root

    def join(self, values: Iterable[Value | None]) -> None:
        vectors = [v for v in values if v is not None and names.is_vector(v)]
        for other in vectors[1:]:
            self.parent[self.find(other)] = self.find(vectors[0])


def assign(ops: Sequence[Operation], calls: dict[Operation, Operation] | None = None) -> Layouts:
    """Return the layouts for the operations of functions, in program order. `calls` are the
    functions that the calls among them are inlined from."""
    classes = _Classes()
    for op in ops:
        for group in _connected(op, calls or {}):
            classes.join(group)
    made = _decided([op for op in ops if names.is_operation(op)], classes)
    values = {v for op in ops for v in (*op.results, *op.operand_values(), *_arguments(op))}
    return Layouts({
        v: made[classes.find(v)] for v in values if names.is_vector(v) and classes.find(v) in made
    })  # fmt: skip


def _decided(ops: Sequence[Operation], classes: _Classes) -> dict[Value, LaneLayout]:
    """Return the layout of each class: the first that is asked for. Blocks of rows give way where
    something asks for another order of lanes than a reduction of the rows."""
    strong: dict[Value, LaneLayout] = {}
    weak: dict[Value, LaneLayout] = {}
    unlike = {
        classes.find(value)
        for op in ops
        if names.word(op) not in names.REDUCTIONS
        for value, layout in wishes(op)
        if layout.kind != "block_deinterleaved"
    }
    for op in ops:
        for value, layout in wishes(op):
            root = classes.find(value)
            if layout.kind == "block_deinterleaved" and root in unlike:
                continue
            if names.word(op) == "vcvt" and value in op.results:
                layout = _of_slots(strong.get(classes.find(names.vector(op, "src"))), op) or layout
            strong.setdefault(root, layout)
        for value, layout in _weak(op):
            weak.setdefault(classes.find(value), layout)
    return {**weak, **strong}


def _of_slots(source: LaneLayout | None, op: Operation) -> LaneLayout | None:
    """The layout of converted results of groups: each stays in its register."""
    if source is None or source.kind != "num_groups":
        return None
    ratio = _ratio(names.vector(op, "src"), names.result(op))
    if source.slots == 1:
        return source
    if ratio < 0 and source.stride == 1:
        return LaneLayout("num_groups", source.number, -ratio, source.slots)
    return LaneLayout("num_groups", source.number, slots=source.slots) if ratio == 1 else None


def _arguments(op: Operation) -> list[Value]:
    return [v for region in op.regions for block in region.blocks for v in block.values]


Group = Sequence[Value | None]
"""Values that have one layout."""


def _connected(op: Operation, calls: dict[Operation, Operation]) -> Iterator[Group]:
    if names.is_operation(op):
        yield from _of_operation(op)
    elif op in calls:
        called = calls[op]
        arguments = called.regions[0].blocks[0].values
        yield from zip(op.operand_values(), arguments, strict=False)
        last = called.regions[0].last
        if last is not None:
            yield from zip(op.results, last.operand_values(), strict=False)
    elif op.regions and not op.has("function"):
        for region in op.regions:
            for block in region.blocks:
                yield from _of_body(op, block)


def _of_operation(op: Operation) -> Iterator[Group]:
    word = names.word(op)
    if word in names.ELEMENTWISE:
        yield [*op.operand_values(), *op.results]
    elif word in ("vinterpret_cast", "vexpdif"):
        source, target = names.vector(op, "src"), names.result(op)
        taken = [v for v in op.operand_values() if names.is_vector(v)]
        same = names.bits_of(source) == names.bits_of(target)
        yield [*taken, target] if same else taken


def _of_body(op: Operation, block: Block) -> Iterator[Group]:
    starts = [o.value for o in op.bound.get("init", ()) or ()]
    last = block.ops[-1] if block.ops else None
    values = []
    if last is not None and last.has("yields"):
        values = [o.value for o in last.bound.get("values", ()) or ()]
        yield from zip(op.results, values, strict=False)
    shift = len(block.values) - len(starts)
    if op.has("loop") and starts and shift >= 0:
        yield from zip(starts, block.values[shift:], strict=False)
        yield from zip(starts, values, strict=False)


# -- what operations ask for -----------------------------------------------------------------------


def wishes(op: Operation) -> list[Wish]:
    """Return the layouts that an operation has for its operands and results."""
    word = names.word(op)
    if word in ("vcvt", "vexpdif"):
        source, target = names.vector(op, "src"), names.result(op)
        return _conversion(source, target)
    if word in names.REDUCTIONS:
        return _reduction(op)
    if word == "vbrc" and names.is_vector(names.value_of(op, "src")):
        source, target = names.vector(op, "src"), names.result(op)
        groups = names.lanes_of(source)
        if groups == 1:
            return []
        of = names.lanes_of(target) // groups
        return [(source, of_results(groups, of, names.bits_of(target)))]
    if word in ("vintlv", "vdintlv"):
        first = names.vector(op, "lhs")
        several = CONTIGUOUS.registers(names.lanes_of(first), names.bits_of(first)) > 1
        spread = deinterleaved(2) if several else CONTIGUOUS
        layouts = (CONTIGUOUS, spread) if word == "vintlv" else (spread, CONTIGUOUS)
        taken = [names.vector(op, "lhs"), names.vector(op, "rhs")]
        return [*((v, layouts[0]) for v in taken), *((v, layouts[1]) for v in op.results)]
    if word == "vload":
        return _group_load(op)
    if word in _CONTIGUOUS:
        vectors = [v for v in (*op.operand_values(), *op.results) if names.is_vector(v)]
        return [(v, CONTIGUOUS) for v in vectors]
    return []


_CONTIGUOUS = frozenset((
    "vgather", "vscatter", "vselr", "vchist", "vdhist", "compress", "compress_store",
    "active_prefix_index", "vci", "vsstb", "expand_load", "shuffle", "channel_split",
    "channel_merge",
))  # fmt: skip
KNOWN = frozenset((
    *names.ELEMENTWISE, *names.REDUCTIONS, *_CONTIGUOUS, "vcvt", "vexpdif", "vinterpret_cast",
    "vbrc", "vintlv", "vdintlv", "vload", "vstore", "masked_load", "constant", "constant_mask",
    "create_mask", "create_group_mask", "pge", "plt", "pset",
))  # fmt: skip
"""Operations of which it is known what layouts they ask for, or that any will do. What is not among
them has instructions that nobody has compared with the assembler's."""


def _weak(op: Operation) -> list[Wish]:
    """Layouts that an operation takes where nobody else asks for one."""
    if names.word(op) == "vbrc" and names.is_vector(names.value_of(op, "src")):
        source, target = names.vector(op, "src"), names.result(op)
        bits = names.bits_of(target)
        size = names.lanes_of(target) // names.lanes_of(source)
        if names.lanes_of(source) > 1 and size < names.block_lanes(bits):
            return [(target, of_sources(size, bits))]
    return []


def _ratio(source: Value, target: Value) -> int:
    """How many times wider the wider side is: above 1 the target, below -1 the source."""
    a, b = names.bits_of(source), names.bits_of(target)
    return b // a if b >= a else -(a // b)


def _conversion(source: Value, target: Value) -> list[Wish]:
    ratio = _ratio(source, target)
    lanes = names.lanes_of(source)
    if abs(ratio) == 1:
        return []
    if lanes == 1:
        return [(source, CONTIGUOUS), (target, CONTIGUOUS)]
    if ratio > 1:
        if lanes <= register_lanes(names.bits_of(target)):
            return [(source, strided(ratio)), (target, CONTIGUOUS)]
        return [(source, CONTIGUOUS), (target, deinterleaved(ratio))]
    ratio = -ratio
    registers = CONTIGUOUS.registers(lanes, names.bits_of(source))
    if registers < ratio:
        return [(source, deinterleaved(registers)), (target, strided(ratio // registers))]
    return [(source, deinterleaved(ratio)), (target, CONTIGUOUS)]


def of_sources(size: int, bits: int) -> LaneLayout:
    """Return the layout of a vector whose groups of so many lanes are reduced."""
    block = names.block_lanes(bits)
    if size in (block // 2, block // 4) and size:
        return strided(block // size)
    if size in (2 * block, 4 * block):
        return deinterleaved(size // block)
    return CONTIGUOUS


def of_results(groups: int, size: int, bits: int) -> LaneLayout:
    """Return the layout of the results of groups of so many lanes."""
    return grouped(groups, 1 if size % register_lanes(bits) == 0 else 8)


def _reduction(op: Operation) -> list[Wish]:
    source, target = names.vector(op, "src"), names.result(op)
    groups = names.group_count(op)
    if groups is None:
        return [(source, CONTIGUOUS), (target, CONTIGUOUS)]
    size, bits = names.lanes_of(source) // groups, names.bits_of(source)
    return [(source, of_sources(size, bits)), (target, of_results(groups, size, bits))]


def _group_load(op: Operation) -> list[Wish]:
    """Rows of two or four blocks at a distance come block by block; single elements at a distance
    one to a register."""
    groups = names.group_count(op)
    if groups is None or not op.results or names.attribute(op, "dist_mode") == "brc":
        return []
    target = names.result(op)
    lanes, bits = names.lanes_of(target), names.bits_of(target)
    stride = names.constant(names.operand(op, "stride"))
    if lanes == groups:
        return [] if stride == 1 else [(target, grouped(groups, 1))]
    size, block = lanes // groups, names.block_lanes(bits)
    if size in (2 * block, 4 * block) and bits == 32 and stride != size:
        return [(target, LaneLayout("block_deinterleaved", size // block))]
    return []
