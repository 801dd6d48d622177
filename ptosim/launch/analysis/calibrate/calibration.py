"""Profiler files against the cost laws: what they say, how wrong the laws are, and better
figures."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from math import prod
from pathlib import Path
from statistics import mean, median
from typing import Any

from ptosim.ground.errors import IsaDataError, UsageError
from ptosim.ground.ir.types import DType, TileType
from ptosim.ground.isa.costs import Accuracy, CostEntry, CostTable, cost_entries
from ptosim.ground.isa.overlay import Overlay
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import OperandDef, Role, Variant, dtype
from ptosim.ground.records import dataclass, replace
from ptosim.launch.analysis.calibrate.boards import (
    LaunchRow,
    Outlier,
    fitted_launches,
    launch_rows,
    read_launches,
)
from ptosim.launch.analysis.calibrate.fit import (
    Kernel,
    Point,
    Refit,
    joined,
    operation,
    refit,
    split,
)
from ptosim.launch.analysis.calibrate.profiler import (
    OP_SUMMARY,
    TRACE,
    ProfilerFile,
    Reading,
    read_profile,
)
from ptosim.time.laws.estimate import estimate
from ptosim.time.laws.shapes import OpShape, TileShape, ViewShape

# Tile operations of a profiler's row: its type and its shapes as a question to the cost laws.

_TYPES = {
    "FLOAT": "f32", "FLOAT32": "f32", "FP32": "f32", "FLOAT16": "f16", "FP16": "f16", "HALF": "f16",
    "BFLOAT16": "bf16", "BF16": "bf16", "INT8": "i8", "INT16": "i16", "INT32": "i32",
    "INT64": "i64", "UINT8": "ui8", "UINT16": "ui16", "UINT32": "ui32", "UINT64": "ui64",
    "BOOL": "i8", "HIFLOAT8": "hif8", "HIF8": "hif8", "FLOAT8_E4M3FN": "f8E4M3FN",
    "FLOAT8_E5M2": "f8E5M2", "FLOAT8_E8M0": "f8E8M0FNU", "FLOAT4_E2M1": "f4E2M1FN",
    "FLOAT4_E1M2": "f4E1M2FN",
}  # fmt: skip

PIPE_OF = {"V": "aiv", "MTE3": "aiv", "M": "aic", "FIX": "aic", "MTE1": "aic"}
_LOCS = {"lhs": "left", "rhs": "right", "dst": "acc", "bias": "bias", "acc": "acc"}


class NoShape(Exception):
    """A row that cannot be made a question, with the reason."""


def mnemonic_of(reading: Reading) -> str | None:
    """Return the tile operation that a row is of, or None."""
    for word in (reading.kind, reading.name):
        name = word.lower().removeprefix("pto.")
        if name in cost_entries() and isa().get(f"pto.{name}") is not None:
            return name
    return None


def type_of(word: str) -> DType:
    """Return the element type that a profiler's word means. Raises NoShape for an unknown one."""
    plain = word.upper().removeprefix("DT_")
    try:
        return dtype(_TYPES.get(plain, word))
    except (KeyError, IsaDataError) as problem:
        raise NoShape(f"element type {word or '(none)'} is not known") from problem


def question(reading: Reading, mnemonic: str, pipe: str, target: str) -> OpShape:
    """Return the shapes of a row's operation. Raises NoShape with the reason if they are not all
    there."""
    row = isa().get(f"pto.{mnemonic}")
    assert row is not None
    inputs = _operands(reading.inputs, reading.input_types)
    if not inputs:
        raise NoShape("no shapes of its inputs")
    outputs = _operands(reading.outputs, reading.output_types)
    if not outputs:
        outputs = [_output(cost_entries()[mnemonic], *inputs[0])]
    if reading.form == TRACE and cost_entries()[mnemonic].class_.name == "binary":
        inputs = inputs[:1] * 2  # a slice tells the shape of its first tile only
    variant, given = _variant(row.variants, len(inputs))
    side = _side(reading, pipe)
    args: dict[str, Any] = {}
    for operand, (shape, word) in zip(given, inputs, strict=False):
        args[operand.name] = _value(operand, shape, word, pipe, side)
    written = [o for o in variant.outs if _is_memory(o) and o.role is not Role.SCRATCH]
    for operand, (shape, word) in zip(written, outputs, strict=False):
        args[operand.name] = _value(operand, shape, word, pipe, side)
    missing = [o.name for o in written if o.name not in args and not o.optional]
    if missing:
        raise NoShape(f"no shape of `{missing[0]}`")
    ins = tuple(o.name for o in given if o.name in args)
    outs = tuple(o.name for o in written if o.name in args)
    return OpShape(mnemonic, target, args, {}, ins, outs)


def label_of(shape: OpShape) -> tuple[str, str]:
    """Return the family of an operation (its name and element types) and its label."""
    parts = [a for a in shape.args.values() if isinstance(a, TileShape)]
    first, last = parts[0], parts[-1]
    words = str(first.dtype)
    if str(last.dtype) != words:
        words += f" to {last.dtype}"
    family = f"{shape.mnemonic} {words}"
    whole = max(parts, key=lambda t: t.rows * t.cols)
    return family, f"{family} {whole.rows}x{whole.cols}"


def _operands(
    shapes: tuple[tuple[int, ...], ...], words: tuple[str, ...]
) -> list[tuple[tuple[int, int], str]]:
    """Shapes as rows and columns with their element types; scalars are left out."""
    found = []
    for number, shape in enumerate(shapes):
        if not shape:
            continue
        word = words[number] if number < len(words) else words[-1] if words else ""
        found.append(((prod(shape[:-1]), shape[-1]), word))
    return found


def _output(entry: CostEntry, shape: tuple[int, int], word: str) -> tuple[tuple[int, int], str]:
    """What an operation writes where the table does not say it."""
    kind = entry.class_.name
    if kind == "row_reduce":
        return (shape[0], 1), word
    if kind == "col_reduce":
        return (1, shape[1]), word
    if kind in ("binary", "unary", "load", "store", "scalar", "tile_scalar"):
        return shape, word
    raise NoShape("no shapes of its outputs")


def _is_memory(operand: OperandDef) -> bool:
    return bool({"tile", "view"} & set(operand.kinds))


def _variant(variants: tuple[Variant, ...], count: int) -> tuple[Variant, list[OperandDef]]:
    """The operand list that takes so many tiles, and those of its operands that they are."""
    for variant in variants:
        read = [o for o in variant.ins if _is_memory(o) and not o.variadic]
        needed = [o for o in read if not o.optional and o.role is not Role.SCRATCH]
        if len(needed) <= count <= len(read):
            spare = count - len(needed)
            chosen = []
            for operand in read:
                is_needed = operand in needed
                if is_needed or spare > 0:
                    spare -= not is_needed
                    chosen.append(operand)
            return variant, chosen
    raise NoShape(f"no form of it has {count} tiles as inputs")


def _side(reading: Reading, pipe: str) -> str:
    """The kind of core that executed a row."""
    if pipe in PIPE_OF:
        return PIPE_OF[pipe]
    kinds = {kind for (kind, name), cycles in reading.cycles.items() if name == pipe and cycles}
    return "aic" if kinds == {"aic"} else "aiv"


def _value(operand: OperandDef, shape: tuple[int, int], word: str, pipe: str, side: str) -> Any:
    element = type_of(word)
    rows, cols = shape
    if "view" in operand.kinds and "tile" not in operand.kinds:
        return ViewShape((rows, cols), (cols, 1), element)
    if pipe == "M":
        loc = _LOCS.get(operand.name, "left")
    elif pipe == "FIX":
        loc = "acc"
    else:
        loc = "vec" if side == "aiv" else "mat"
    return TileShape(TileType(loc, element, rows, cols, rows, cols), rows, cols)


# Rows of profiler files as points: single tile operations by their shapes, kernels by a program.


@dataclass(frozen=True, slots=True)
class Unmatched:
    """Rows that nothing could be made of, by reason."""

    what: str
    reason: str
    count: int


def match(
    readings: Iterable[Reading], kernels: Sequence[Kernel], table: CostTable
) -> tuple[list[Point], list[Unmatched]]:
    """Return the points of readings, and what was left over."""
    points: list[Point] = []
    left: Counter[tuple[str, str]] = Counter()
    of_kernels: dict[int, list[Reading]] = defaultdict(list)
    for reading in readings:
        mnemonic = mnemonic_of(reading)
        number = _kernel_of(reading, kernels)
        if mnemonic is not None and (number is None or reading.inputs):
            try:
                points.append(_point(reading, mnemonic, table))
            except NoShape as problem:
                left[mnemonic, str(problem)] += 1
        elif number is not None:
            of_kernels[number].append(reading)
        else:
            left[reading.kind or reading.name or reading.form, _why_not(reading, kernels)] += 1
    for number, group in of_kernels.items():
        points += kernels[number].points(group)
    unmatched = [Unmatched(what, why, count) for (what, why), count in sorted(left.items())]
    return joined(points), unmatched


def _kernel_of(reading: Reading, kernels: Sequence[Kernel]) -> int | None:
    """The program that a row is of: by the name of its entry, or the only one there is where the
    row has no name of a kernel."""
    words = f"{reading.name} {reading.kind}".lower()
    if reading.form == OP_SUMMARY:
        return next((i for i, k in enumerate(kernels) if k.entry.lower() in words), None)
    return 0 if len(kernels) == 1 else None


def _why_not(reading: Reading, kernels: Sequence[Kernel]) -> str:
    if reading.form == TRACE:
        return "no tile operation with a shape, and no program tells it (--program)"
    if not kernels:
        return "no tile operation; name its program with --program"
    if reading.form == OP_SUMMARY:
        return f"no program with that entry among {', '.join(k.entry for k in kernels)}"
    return "its table names no kernel: give exactly one --program"


def _point(reading: Reading, mnemonic: str, table: CostTable) -> Point:
    """A single operation: the busy cycles of its pipe against its law."""
    pipe, cycles = _busy(reading, mnemonic)
    shape = question(reading, mnemonic, pipe, table.target)
    cost = estimate(shape, table)
    if not cost.known or not cost.cycles:
        raise NoShape("no cost law for these shapes")
    family, label = label_of(shape)
    return Point(family, label, cost.class_name, cycles, operation(shape))


def _busy(reading: Reading, mnemonic: str) -> tuple[str, float]:
    """The pipe of an operation and how long it was busy."""
    row = isa().get(f"pto.{mnemonic}")
    assert row is not None
    for choice in row.pipes:
        found = [c for (_, pipe), c in reading.cycles.items() if pipe == choice.pipe and c > 0]
        if found:
            return choice.pipe, sum(found)
    pipes = "/".join(dict.fromkeys(choice.pipe for choice in row.pipes))
    raise NoShape(f"no time of its pipe ({pipes})")


@dataclass(frozen=True, slots=True)
class FamilyError:
    """Relative errors of a family of points: before, and (None without a fit) after it, of those
    that the fit saw and of those that it did not."""

    family: str
    points: int
    before: float
    worst: float
    after: float | None = None
    aside: int = 0
    aside_before: float | None = None
    aside_after: float | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the files told. `refits` is empty if they were only compared."""

    files: tuple[ProfilerFile, ...]
    table: CostTable
    fitted: CostTable
    points: tuple[Point, ...]
    aside: tuple[Point, ...]
    unmatched: tuple[Unmatched, ...]
    refits: tuple[Refit, ...]
    is_check: bool
    launches: tuple[LaunchRow, ...] = ()
    outliers: tuple[Outlier, ...] = ()
    tables: tuple[str, ...] = ()

    @property
    def changed(self) -> list[Refit]:
        """The figures that have a new value."""
        return [r for r in self.refits if not r.reason]

    @property
    def source(self) -> str:
        """Where the figures come from, for the overlay and the reports that use it."""
        read = [f"{f.name} ({len(f.readings)} rows)" for f in self.files]
        listed = ", ".join((*read, *self.tables))
        count = len(self.points) + len(self.aside) + len(self.launches)
        return f"{listed}: {count} points"

    def families(self) -> list[FamilyError]:
        """Return the errors by family."""
        every = (*self.points, *self.aside, *map(_point_of, self.launches))
        names = sorted({p.family for p in every})
        return [self._family(name, every) for name in names] + [self._family("all", every)]

    def _family(self, name: str, every: Sequence[Point]) -> FamilyError:
        chosen = [p for p in every if name in ("all", p.family)]
        aside = [p for p in self.aside if name in ("all", p.family)]
        before = [abs(p.error(self.table)) for p in chosen]
        found = FamilyError(name, len(chosen), mean(before), max(before))
        if self.is_check:
            return found
        found = replace(found, after=_mean(chosen, self.fitted), aside=len(aside))
        if not aside:
            return found
        return replace(
            found,
            aside_before=_mean(aside, self.table),
            aside_after=_mean(aside, self.fitted),
        )

    def overlay(self, name: str) -> Overlay:
        """Return the figures that changed as an overlay."""
        figures = {r.key: r.now for r in self.changed}
        sources = {r.key.rpartition(".")[0]: self.source for r in self.changed}
        errors = []
        for class_name in sorted({p.class_name for p in self.aside}):
            left = sorted(
                abs(p.error(self.fitted)) for p in self.aside if p.class_name == class_name
            )
            errors.append(
                Accuracy(self.table.chip, class_name, len(left), mean(left), median(left), left[-1])
            )
        return Overlay(name, self.table.chip, self.source, figures, sources, tuple(errors))


def _mean(points: Sequence[Point], table: CostTable) -> float:
    return mean(abs(p.error(table)) for p in points)


def calibrate(
    paths: Sequence[str | Path],
    table: CostTable,
    kernels: Sequence[Kernel] = (),
    *,
    check: bool = False,
) -> Calibration:
    """Return what profiler files say of the figures of a table. With `check` nothing is refitted.
    Raises UsageError for files that cannot be read (PTO7522), or of which nothing can be compared
    (PTO7523)."""
    tables = {path: found for path in paths if (found := read_launches(path)) is not None}
    files = [read_profile(path, table.mhz) for path in paths if path not in tables]
    launches = [row for found in tables.values() for row in launch_rows(found, table)]
    readings = [r for file in files for r in file.readings]
    points, unmatched = match(readings, kernels, table)
    if not points and not launches:
        names = ", ".join([*(f.name for f in files), *(f.path.name for f in tables.values())])
        reasons = "; ".join(f"{u.what}: {u.reason}" for u in unmatched[:3])
        reasons = reasons or ("no row has a time (us)" if tables else "it has no rows")
        raise UsageError(
            f"PTO7523: nothing in {names} can be compared: {reasons}",
            help="rows of tile operations need an OP Type such as TADD with shapes and types; rows "
            "of kernels need --program FILE.pto; those of a kit their time in microseconds",
        )
    learned, aside = (points, []) if check else split(points)
    fitted, refits = (table, []) if check else refit(table, learned, aside)
    outliers: list[Outlier] = []
    if launches and not check:
        fitted, more, outliers = fitted_launches(fitted, launches)
        refits = sorted([*refits, *more], key=lambda r: (bool(r.reason), r.key))
    return Calibration(
        tuple(files), table, fitted, tuple(learned), tuple(aside), tuple(unmatched),
        tuple(refits), check, tuple(launches), tuple(outliers),
        tuple(f"{f.path.name} ({len(f.rows)} launches)" for f in tables.values()),
    )  # fmt: skip


def _point_of(row: LaunchRow) -> Point:
    """A launch as a point that is compared: its time with the figures of a table."""
    family = f"launch {Path(row.program).stem}"
    return Point(family, row.label, "launch", row.measured, row.predicted, 1, teaches=False)
