"""Rows of profiler files as points: single tile operations by their shapes, kernels by a
program."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from ptosim.ground.isa.costs import CostTable
from ptosim.ground.isa.rows import isa
from ptosim.ground.records import dataclass
from ptosim.launch.analysis.calibrate.kernels import Kernel
from ptosim.launch.analysis.calibrate.points import Point, joined, operation
from ptosim.launch.analysis.calibrate.profiler import OP_SUMMARY, TRACE, Reading
from ptosim.launch.analysis.calibrate.shapes import NoShape, label_of, mnemonic_of, question
from ptosim.time.laws.estimate import estimate


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
