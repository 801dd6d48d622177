"""What the maker of an operation on logical vectors sees, and what becomes of its mask.

An operation gives an instruction that computes all lanes of its results at once. Three things come
around it, all decided before the run: what inactive lanes become, what `merge` does, and, where a
program has masks that the assembler drops, the second reading of every value (`mask_readings`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ptosim.ground.diagnostics.model import UnsupportedError, finding
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.attributes import Dense, attr_value
from ptosim.ground.ir.core import Operand
from ptosim.ground.ir.types import REGISTER_BYTES, VirtualMaskType, VirtualVRegType
from ptosim.ground.records import dataclass
from ptosim.machine.core import Core
from ptosim.machine.numbers.formats import BF16
from ptosim.machine.numbers.lanes import is_float
from ptosim.machine.vector import LogicalMask, lane_dtype
from ptosim.ops.base.binding import OpFault, typed_scalar
from ptosim.ops.base.functions import vector
from ptosim.ops.base.orders import computed, constant, several, taker
from ptosim.ops.micro.context import Computed, VectorContext, with_rows
from ptosim.ops.vmi import mask_readings
from ptosim.ops.vmi.mask_readings import is_all_true

MOST_LANES = 1 << 24
"""Lanes of a vector or mask that are executed: more than any memory of a core has bytes."""

Run = Callable[[Core], None]
Function = Callable[..., Any]
Maker = Callable[["LogicalContext"], Run]

MERGE = "merge"


def logical(*names: str, drops: bool = False) -> Callable[[Maker], Maker]:
    """Register the maker of operations on logical vectors, by their names without `pto.vmi.`.
    `drops` says that the assembler drops their mask."""
    full = tuple(f"pto.vmi.{name}" for name in names)
    if drops:
        mask_readings.DROPPING.update(full)

    def register(maker: Maker) -> Maker:
        @vector(*full)
        def make(ctx: VectorContext) -> Run:
            return LogicalContext.of(ctx).finished(maker)

        return maker

    return register


@dataclass(slots=True, eq=False)
class LogicalContext(VectorContext):
    """One operation on logical vectors. `other` is what the other reading of a dropped mask
    executes, `gate` the mask on which the two differ, `planned` what a store would write."""

    other: Run | None = None
    gate: int | None = None
    planned: Callable[[Core], Any] | None = None
    is_quiet: bool = False

    @classmethod
    def of(cls, ctx: VectorContext) -> LogicalContext:
        """Return the operation of a vector instruction whose registers are logical."""
        made = cls(
            ctx.op, ctx.slots, ctx.results, ctx.profile, ctx.report, ctx.new_slot, ctx.place,
            ctx.in_doubt,
        )  # fmt: skip
        made.report = made._unless_quiet(ctx.report)
        return made

    def _unless_quiet(self, report: Callable[..., None]) -> Callable[..., None]:
        """Nothing is reported while the second reading of operands is computed."""

        def told(*finding: Any) -> None:
            if not self.is_quiet:
                report(*finding)

        return told

    # -- what the text says -----------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name that its operands go by, without `pto.vmi.`: of an older spelling that of the
        operation which it means."""
        return self.op.meaning.removeprefix("pto.vmi.")

    def many(self, name: str) -> tuple[int, ...]:
        """Return the slots of an operand or result of which there is any number."""
        return self.slots[name]

    def lanes(self, name: str) -> np.dtype:
        """Return the NumPy type of the lanes of a vector."""
        return lane_dtype(self.elem(name))

    def count(self, name: str) -> int:
        """Return the lanes of a vector or mask. Raises UnsupportedError for too many."""
        lanes = self.type(name).lanes
        if lanes > MOST_LANES:
            text = f"'{self.op.name}': {lanes:,} lanes; {MOST_LANES:,} are executed at most"
            raise UnsupportedError([finding("PTO8002", text)])
        return lanes

    @property
    def merges(self) -> bool:
        """True if inactive lanes are to keep something."""
        return self.attr("pmode") == MERGE

    # -- operands ---------------------------------------------------------------------------------

    def scalar(self, name: str, lanes: np.dtype) -> Callable[[Any], np.ndarray]:
        """Return the function from the value of a scalar operand to an array of one lane."""
        const = self.const(name)
        if const is not None:
            fixed = _one_lane(const, lanes)
            return lambda value: fixed
        last: Any = None
        made: Any = None

        def typed(value: Any) -> np.ndarray:
            nonlocal last, made
            if value is not last:  # by identity: 0.0 and -0.0 are equal
                made, last = _one_lane(value, lanes), value
            return made

        return typed

    # -- instructions -----------------------------------------------------------------------------

    def computed(
        self, function: Function, *names: str, result: str = "dst", many: bool = False
    ) -> Run:
        """Return the instruction: a result is the function of operands, whatever the mask. `many`,
        here and below: the function takes vectors of many rounds too, as rows."""
        return _several(function, [self[name] for name in names], [self[result]], many=many)

    def zeroing(
        self,
        function: Function,
        *names: str,
        results: Sequence[str] = ("dst",),
        many: bool = False,
    ) -> Run:
        """Return the instruction: results are the function of operands, 0 in inactive lanes.
        Several results come as a tuple."""
        sources, targets = [self[n] for n in names], [self[r] for r in results]
        if not self.has("mask") or self.mask_is_full:
            return _several(function, sources, targets, many=many)
        return _zeroing(function, sources, targets, self["mask"], many=many)

    def dropping(
        self,
        function: Function,
        *names: str,
        results: Sequence[str] = ("dst",),
        many: bool = False,
    ) -> Run:
        """Return the instruction of an operation whose mask the assembler drops: by the switch all
        lanes are computed, or inactive ones are 0."""
        sources, targets = [self[n] for n in names], [self[r] for r in results]
        every = _several(function, sources, targets, many=many)
        if not self.has("mask") or self.mask_is_full:
            return every
        zeroing = _zeroing(function, sources, targets, self["mask"], many=many)
        self.gate = self["mask"]
        if self.switch("vmi.mask") == "assembler":
            self.other = zeroing
            return every
        self.other = every
        return zeroing

    def passing(self, function: Function, *names: str) -> Run:
        """Return the instruction of `merge` where it is defined: inactive lanes are those of the
        first operand."""
        take, mask, target = taker([self[n] for n in names]), self["mask"], self["dst"]

        def run(core: Core) -> None:
            slots = core.slots
            operands = take(slots)
            result = function(*operands)
            off = slots[mask].off
            if off is not None:
                result[off] = operands[0][off]
            slots[target] = result

        return run

    @property
    def mask_is_full(self) -> bool:
        """True if the text shows that every lane of the mask is active."""
        operand = self.op.bound.get("mask")
        return isinstance(operand, Operand) and is_all_true(operand.value)

    def of_first(self, function: Function, *names: str, drops: bool, many: bool = False) -> Run:
        """Return the instruction of an operation on one vector (and a scalar), where `merge` means
        that inactive lanes pass it through."""
        if self.merges and self.has("mask"):
            return self.passing(function, *names)
        return (self.dropping if drops else self.zeroing)(function, *names, many=many)

    def only_full(self, run: Run) -> Run:
        """Return an instruction that has no meaning under `merge` unless every lane is active."""
        if not self.merges or not self.has("mask") or self.mask_is_full:
            return run
        self.other = self.gate = None
        mask, name = self["mask"], self.op.name

        def checked(core: Core) -> None:
            if core.slots[mask].off is not None:
                raise OpFault(
                    "PTO8002",
                    f"'{name}' with pmode merge has inactive lanes: the text names no old "
                    "destination whose lanes they could keep",
                    help="leave pmode out and select the lanes with `pto.vmi.vsel`",
                )
            run(core)

        return checked

    def finished(self, maker: Maker) -> Run:
        """Return the whole instruction, with the second reading where the program needs one."""
        run = maker(self)
        if not self.in_doubt:
            return run
        return mask_readings.followed(self, run)

    def vector_slots(self) -> tuple[list[int], list[int]]:
        """Return the slots of the operands and of the results that are vectors or masks."""
        variant = self.op.variant
        outs = [self.slots.get(o.name) for o in variant.outs] if variant is not None else []
        of_type = dict(zip(_flat(outs), self.op.results, strict=True))
        results = [slot for slot, value in of_type.items() if _is_logical(value.type)]
        found: list[int] = []
        for name, operand in self.op.operands():
            if operand.value is not None and _is_logical(operand.value.type):
                found.extend(_flat([self.slots[name]]))
        return list(dict.fromkeys(found)), results


def _flat(slots: Sequence[Any]) -> list[int]:
    """Slots of operands or results; of any number of one name all of them."""
    found: list[int] = []
    for slot in slots:
        found += slot if isinstance(slot, tuple) else () if slot is None else (slot,)
    return found


def _is_logical(type_: Any) -> bool:
    return isinstance(type_, VirtualVRegType | VirtualMaskType)


def _one_lane(value: Any, lanes: np.dtype) -> np.ndarray:
    return np.full(1, typed_scalar(value, lanes), lanes)


def _several(
    function: Function, sources: list[int], targets: list[int], *, many: bool = False
) -> Run:
    rows = Computed(function, tuple(sources), tuple(targets)) if many else None
    if len(targets) == 1:
        return with_rows(computed(function, sources, targets[0]), rows)
    return with_rows(several(function, sources, targets), rows)


def _zeroing(
    function: Function, sources: list[int], targets: list[int], mask: int, *, many: bool
) -> Run:
    take = taker(sources)
    if len(targets) == 1:
        (only,) = targets

        def run(core: Core) -> None:
            slots = core.slots
            result = function(*take(slots))
            off = slots[mask].off
            if off is not None:
                result[off] = 0
            slots[only] = result

        rows = Computed(function, tuple(sources), (only,), (), mask, "off")
        return with_rows(run, rows if many else None)

    def run_several(core: Core) -> None:
        slots = core.slots
        off = slots[mask].off
        for target, result in zip(targets, function(*take(slots)), strict=True):
            slots[target] = _without(result, off)

    return run_several


def _without(result: Any, off: np.ndarray | None) -> Any:
    """Return a vector or mask without its inactive lanes."""
    if off is None:
        return result
    if isinstance(result, LogicalMask):
        return LogicalMask(result.on & ~off)
    result[off] = 0
    return result


# Vectors of scalars, of one lane for each group, of counting numbers, of the text.


def groups(ctx: LogicalContext) -> int | None:
    """Return the number of groups that an operation names, None if it names none."""
    for name in ("group", "num_groups"):
        value = ctx.attr(name)
        if value is not None:
            return int(value)
    return None


@logical("vbrc")
def broadcast(ctx: LogicalContext) -> Run:
    """A scalar or a single lane in every lane, or one lane in every lane of its group."""
    count, lanes = ctx.count("dst"), ctx.lanes("dst")
    if not isinstance(ctx.type("src"), VirtualVRegType):
        scalar = ctx.scalar("src", lanes)
        fixed = ctx.const("src")
        if fixed is not None:
            register = np.full(count, scalar(fixed)[0], lanes)
            return ctx.computed(lambda: register, many=True)
        return ctx.computed(lambda value: np.repeat(scalar(value), count), "src", many=True)
    times = count // ctx.count("src")
    return ctx.computed(lambda values: np.repeat(values, times, axis=-1), "src", many=True)


@logical("vci")
def count_up(ctx: LogicalContext) -> Run:
    """base + j or base - j in lane j of each group. Integers wrap, floats are computed in f32 and
    rounded."""
    count, lanes = ctx.count("dst"), ctx.lanes("dst")
    size = count // (groups(ctx) or 1)
    step = -1 if ctx.attr("order", "ASC") == "DESC" else 1
    at = np.arange(count) % size * step
    if is_float(lanes):
        steps = at.astype(np.float32)
        return ctx.computed(lambda b: (np.float32(b) + steps).astype(lanes), "base")
    steps = at.astype(np.int64)
    return ctx.computed(lambda b: (steps + int(b)).astype(lanes), "base")


@logical("constant")
def constant_vector(ctx: LogicalContext) -> Run:
    """A vector of the text."""
    return constant(dense(ctx), ctx["dst"])


# -- dense attributes -----------------------------------------------------------------------------


def dense(ctx: LogicalContext) -> np.ndarray:
    """Return the lanes of the attribute `value`, `dense<…>` of one value or of one a lane."""
    count = ctx.count("dst")
    type_ = ctx.type("dst")
    lanes = ctx.lanes("dst") if isinstance(type_, VirtualVRegType) else np.dtype(np.bool_)
    value = attr_value(ctx.op.attrs.get("value") or ctx.attr("value"))
    bits = lanes.itemsize * 8
    found = value.of(value.dims or (count,), bits) if isinstance(value, Dense) else None
    if not found or len(found) not in (1, count):
        raise UsageError(f"the value of '{ctx.op.name}' does not have its elements")
    try:
        numbers = [_number(literal.value, lanes) for literal in found]
    except (ValueError, OverflowError) as problem:
        raise UsageError(f"the value of '{ctx.op.name}' has no numbers: {problem}") from problem
    whole = numbers * count if len(numbers) == 1 else numbers
    return np.array(whole, lanes)


def _number(word: str, lanes: np.dtype) -> Any:
    if word in ("true", "false"):
        return word == "true"
    if word.lower().startswith("0x") and is_float(lanes):
        return np.array(int(word, 16), f"u{lanes.itemsize}").view(lanes)[()]
    if is_float(lanes):
        return np.float64(word) if lanes != BF16 else np.float32(word)
    bits = lanes.itemsize * 8
    return np.array(int(word, 0) & ((1 << bits) - 1), f"u{lanes.itemsize}").view(lanes)[()]


def register_lanes(lanes: np.dtype) -> int:
    """Return the lanes of one register."""
    return REGISTER_BYTES // lanes.itemsize
