"""How far apart blocks of a launch, or ranks, store in global memory, as far as the text says."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.ir.core import Operand, Operation, Region, Value
from ptosim.ground.ir.program import Function
from ptosim.ground.ir.types import PtrType, ViewType
from ptosim.ground.isa.schema import Role
from ptosim.ground.source import Source
from ptosim.language.toolchains import BLOCK, LANE, told_by
from ptosim.machine.effects.storage import MAX_STEPS, named_values, operand_value

LINE = 64
"""Bytes of a line of the scalar unit's cache."""

_SAME = ("arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui", "arith.trunci")
_Base = Callable[[Value], bool]


def is_block_index(value: Value) -> bool:
    """True for the number of the block."""
    if value.owner is not None and not value.is_argument:
        return value.owner.has("tells_block")
    return told_by(value) == BLOCK


def _is_lane(value: Value) -> bool:
    """True for the number of the vector core in its cluster."""
    if value.owner is not None and not value.is_argument:
        return value.owner.has("tells_lane")
    return told_by(value) == LANE


def _is_rank(value: Value) -> bool:
    return is_block_index(value) or (value.is_argument and "rank" in value.name)


def factor(operand: Operand | None, base: _Base, steps: int = MAX_STEPS) -> int | None:
    """Return by how much an operand grows where the base grows by 1; None if nobody knows."""
    value = operand.value if operand is not None else None
    if value is None or (operand is not None and operand.const is not None):
        return 0
    if base(value):
        return 1
    op = value.owner
    if op is None or value.is_argument or not steps:
        return 0 if steps else None
    parts = [o for o in op.bound.values() if isinstance(o, Operand)]
    grown = [factor(part, base, steps - 1) for part in parts]
    if None in grown:
        return None
    return _combined(op, parts, [g for g in grown if g is not None])


def _combined(op: Operation, parts: list[Operand], grown: list[int]) -> int | None:
    if not any(grown):
        return 0
    if op.name in _SAME:
        return grown[0]
    if op.name in ("arith.addi", "arith.subi"):
        return grown[0] + grown[1] if op.name.endswith("addi") else grown[0] - grown[1]
    if op.has("shift_left"):
        const = parts[1].const
        return grown[0] << const if isinstance(const, int) and 0 <= const < 64 else None
    if op.name == "arith.muli":
        for part, other in ((0, 1), (1, 0)):
            const = parts[part].const
            if isinstance(const, int):
                return const * grown[other]
    return None


def _bytes_apart(op: Operation, base: _Base) -> int | None:
    """By how many bytes the place of a store grows; None if nobody knows."""
    place = op.bound.get("ptr")
    value = operand_value(op, "ptr")
    if value is None or not isinstance(place, Operand):
        return _of_view(next((v for v in op.operand_values() if _is_view(v)), None), base)
    if not isinstance(value.type, PtrType) or value.type.space != "gm":
        return None
    offset = op.bound.get("offset")
    own = factor(offset if isinstance(offset, Operand) else None, base)
    return _sum(own, value, base)


def _sum(own: int | None, pointer: Value, base: _Base) -> int | None:
    """Elements that an offset grows by, with those of the pointer, in bytes."""
    for _ in range(MAX_STEPS):
        if own is None or not isinstance(pointer.type, PtrType):
            return None
        step = pointer.owner
        if step is None or pointer.is_argument or step.name != "pto.addptr":
            return own * max(pointer.type.elem.bits // 8, 1)
        more = step.bound.get("offset")
        grown = factor(more if isinstance(more, Operand) else None, base)
        source = operand_value(step, "ptr")
        if grown is None or source is None:
            return None
        own, pointer = own + grown, source
    return None


def _is_view(value: Value) -> bool:
    return isinstance(value.type, ViewType)


def _of_view(view: Value | None, base: _Base) -> int | None:
    part = view.owner if view is not None else None
    whole = operand_value(part, "source") if part is not None and part.has("window") else None
    made = whole.owner if whole is not None else None
    if part is None or made is None or not made.has("view"):
        return None
    offsets, strides = part.bound.get("offsets") or (), made.bound.get("strides") or ()
    own = 0
    for offset, stride in zip(offsets, strides, strict=False):
        grown = factor(offset, base)
        if grown is None or (grown and not isinstance(stride.const, int)):
            return None
        own += grown * stride.const if grown else 0
    pointer = operand_value(made, "ptr")
    return _sum(own, pointer, base) if pointer is not None else None


def of_blocks(function: Function, source: Source, blocks: int | None) -> Iterator[Diagnostic]:
    """Report what the blocks of a launch of so many (None: nobody knows) do to each other, and
    ranks and vector cores, as far as the distance between them tells."""
    yield from _shared_lines(function, source, is_alone=blocks == 1)
    if blocks != 1:
        yield from _block_overlaps(function, source)


def _shared_lines(function: Function, source: Source, *, is_alone: bool) -> Iterator[Diagnostic]:
    """Report scalar stores of several blocks, and signals of several ranks, in one line of the
    scalar unit's cache."""
    sharers = ((is_block_index, "blocks"), (_is_lane, "vector cores"))[is_alone:]
    for op in function.ops:
        if op.has("writes_memory") and not op.has("atomic_update") and "ptr" in op.bound:
            for base, of in sharers:
                apart = _bytes_apart(op, base)
                if apart is not None and 0 < abs(apart) < LINE and not _is_for_one(op, base):
                    yield _shared(op, apart, of, source)
                    break
        elif op.has("publishes") and _sets(op):
            apart = _bytes_apart(op, _is_rank)
            if apart is not None and 0 < abs(apart) < LINE and not _is_for_one(op, _is_rank):
                yield _signals(op, apart, source)


def _is_for_one(op: Operation, base: _Base) -> bool:
    """True where a branch asks whether the number is one that it compares with: one alone comes
    by."""
    inner = op
    for outer in op.around():
        taken = _region_for_one(outer, base) if outer.has("branch") else None
        if taken is not None and any(each is inner for each in taken.ops):
            return True
        inner = outer
    return False


def _region_for_one(branch: Operation, base: _Base) -> Region | None:
    """The region of a branch that is executed where the base equals something else."""
    test = operand_value(branch, "condition")
    made = test.owner if test is not None else None
    word = getattr(made.bound.get("predicate"), "const", None) if made is not None else None
    sides = [made.bound.get(n) for n in ("lhs", "rhs")] if made is not None else []
    grown = [factor(side, base) for side in sides if isinstance(side, Operand)]
    if len(grown) != 2 or None in grown or grown[0] == grown[1]:
        return None
    if word == "eq":
        return branch.regions[0]
    return branch.regions[1] if word == "ne" and len(branch.regions) > 1 else None


def _block_overlaps(function: Function, source: Source) -> Iterator[Diagnostic]:
    """Report stores of tiles whose windows in different blocks overlap; of atomic additions of
    floats that their order decides the last bits."""
    for op in function.ops:
        for view in _stored_views(op):
            found = _overlap(op, view, source)
            if found is not None:
                yield found


def _stored_views(op: Operation) -> list[Value]:
    if op.has("same_storage") or op.has("window") or op.has("view") or op.variant is None:
        return []
    return [v for _, r, v in named_values(op) if r is not Role.IN and _is_view(v)]


def _overlap(op: Operation, view: Value, source: Source) -> Diagnostic | None:
    part = view.owner
    if part is None or not part.has("window"):
        return None
    offsets, sizes = part.bound.get("offsets") or (), part.bound.get("sizes") or ()
    grown = [factor(offset, is_block_index) for offset in offsets]
    moving = [(g, s.const) for g, s in zip(grown, sizes, strict=False) if g != 0]
    if len(moving) != 1:
        return None
    step, size = moving[0]
    if step is None or not isinstance(size, int) or abs(step) >= size:
        return None
    kind = op.attributes.get("atomicType")
    word = str(getattr(kind, "member", kind))
    if word == "atomic_add":
        is_whole = isinstance(view.type, ViewType) and view.type.elem.is_integer
        return None if is_whole else _float_order(op, source)
    if word not in ("None", "atomic_none"):
        return None
    return finding(
        "PTO5208",
        f"'{op.name}' of block b + 1 is {abs(step)} further than that of block b and {size} wide: "
        "blocks overwrite each other",
        op.span(source),
        notes=("nothing orders the blocks of a launch: which of them stays is undefined",),
        help=f"let the offset grow by {size} a block, or add with `atomicType = #pto<atomic_type "
        "atomic_add>` to zeroed memory",
        context={"step": step, "size": size},
    )


def _float_order(op: Operation, source: Source) -> Diagnostic:
    return finding(
        "PTO5209",
        f"'{op.name}' adds floats of several blocks: the last bits depend on their order",
        op.span(source),
        notes=("the destination has to be zeroed before, by someone that all blocks come after",),
    )


def _sets(op: Operation) -> bool:
    kind = op.attributes.get("notifyOp")
    return str(getattr(kind, "member", kind)).lower() == "set"


def _shared(op: Operation, apart: int, of: str, source: Source) -> Diagnostic:
    return finding(
        "PTO6112",
        f"'{op.name}' of different {of} is {abs(apart)} bytes apart: several store to one "
        "64-byte line",
        op.span(source),
        notes=(
            "a scalar store fills its line and writes all of it back later, over what others wrote",
            _ASSUMED,
        ),
        help=f"let the offset grow by {_elements(op)} elements (64 bytes) for each, let one of "
        "them store, or build the row in UB and tstore it",
        context={"bytes": apart},
    )


def _elements(op: Operation) -> int:
    value = operand_value(op, "ptr")
    bits = value.type.elem.bits if value is not None and isinstance(value.type, PtrType) else 32
    return max(8 * LINE // max(bits, 8), 1)


def _signals(op: Operation, apart: int, source: Source) -> Diagnostic:
    return finding(
        "PTO6113",
        f"'{op.name}' of different ranks is {abs(apart)} bytes apart: several signals are in one "
        "64-byte line",
        op.span(source),
        notes=("a signal that is set is a scalar store that writes its whole line back", _ASSUMED),
        help="put signals 64 bytes apart (16 words), or use `atomic_add`",
        context={"bytes": apart},
    )


_ASSUMED = "an argument is assumed to begin at a line"
