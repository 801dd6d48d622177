"""Faults that the quantised types of a text show, MLIR or `.pto`: no run is needed."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from ptosim.ground.source import Source
from ptosim.machine.quant.mlir.passes import Found, find
from ptosim.machine.quant.mlir.types import QuantType, UniformType
from ptosim.models.audit.repair import Fault

_CAST = re.compile(r"(%[\w$.-]+)\s*=\s*\"?quant\.(qcast|dcast|scast)\"?\s*\(?\s*(%[\w$.-]+)")
_NO_COST = "a text has no values"
_OUT_OF_LINE = 8.0
_TINY = float(np.finfo(np.float32).tiny)


def find_in_text(source: Source) -> list[Fault]:
    """Return the faults of types, then those of casts that follow one another, and of products."""
    source = Source(source.name, _written_out(source.text))
    types = list(find(source.text))
    made: dict[tuple[str, str], Fault] = {}
    found = [*_types(source, types), *_casts(source, types), *_products(source, types)]
    for fault in found:
        fault.why_not = fault.why_not or _NO_COST
        made.setdefault((fault.kind, fault.where), fault)
    return list(made.values())


_ALIAS = re.compile(
    r"^[ \t]*(![\w$.-]+)[ \t]*=[ \t]*(?:type[ \t]+)?(!.*!?quant\..*?)[ \t]*(?://.*)?$", re.M
)


def _written_out(text: str) -> str:
    """A text with its types in the place of their names, line by line."""
    names = dict(_ALIAS.findall(text))
    if not names:
        return text
    use = re.compile("|".join(rf"{re.escape(n)}(?![\w$.-])(?![ \t]*=)" for n in names))
    for _ in range(_DEEPEST):
        more = sum(len(names[m.group()]) for m in use.finditer(text))
        if not more or more > _LONGEST:
            break
        text = use.sub(lambda m: names[m.group()], text)
    return text


_DEEPEST, _LONGEST = 4, 1 << 22
"""Names within names that are followed, and characters that they may become."""


def _line(source: Source, at: int) -> str:
    return f"line {source.line_column(at)[0]}"


def _types(source: Source, types: list[Found]) -> Iterator[Fault]:
    seen: set[str] = set()
    for found in types:
        place = _line(source, found.start)
        if found.type is None:
            yield Fault(
                "type", place, found.messages[-1] if found.messages else "not a type",
                "write a type that the verifier takes",
            )  # fmt: skip
        elif isinstance(found.type, UniformType) and str(found.type) not in seen:
            seen.add(str(found.type))
            yield from _uniform(place, found.type)


def _uniform(place: str, type_: UniformType) -> Iterator[Fault]:
    low, high = type_.storage.low, type_.storage.high
    outside = [(i, z) for i, z in enumerate(type_.zeros) if not low <= z <= high]
    if outside:
        channel, zero = outside[0]
        yield Fault(
            "zero point outside the codes", _channel(place, type_, channel),
            f"{zero} is no value of {low} .. {high}: zero has no code",
            f"a zero point of {low} to {high}",
        )  # fmt: skip
    symmetric = type_.storage.is_narrowed and low == -high
    bad = [(i, z) for i, z in enumerate(type_.zeros) if z and symmetric]
    if bad and not outside:
        yield Fault(
            "zero point of symmetric weights", _channel(place, type_, bad[0][0]),
            f"{bad[0][1]}; the codes {low} .. {high} are symmetric", "make it 0",
        )  # fmt: skip
    small = [i for i, s in enumerate(type_.scales) if 0 < s < _TINY]
    if small:
        yield Fault(
            "scale subnormal", _channel(place, type_, small[0]), f"{type_.scales[small[0]]:g}",
            "a scale is a normal number above zero",
        )  # fmt: skip
    yield from _out_of_line(place, type_)


def _out_of_line(place: str, type_: UniformType) -> Iterator[Fault]:
    scale = np.array(type_.scales, np.float64).reshape(-1)
    if type_.axis is None or scale.size < 3:
        return
    order = np.argsort(scale)
    last, middle = int(order[-1]), float(np.median(scale))
    first = int(order[0])
    if scale[last] > _OUT_OF_LINE * scale[order[-2]]:
        channel = last
    elif scale[first] * _OUT_OF_LINE * 8 < scale[order[1]]:
        channel = first
    else:
        return
    yield Fault(
        "channel out of line", _channel(place, type_, channel),
        f"its scale is {scale[channel]:.4g}, that of the others about {middle:.4g}",
        "calibrate the channel again",
    )  # fmt: skip


def _channel(place: str, type_: UniformType, channel: int) -> str:
    return f"{place}, channel {channel}" if len(type_.scales) > 1 else place


def _casts(source: Source, types: list[Found]) -> Iterator[Fault]:
    """Values whose codes are read by other parameters, and numbers that are quantised again."""
    made_as: dict[str, tuple[str, QuantType | None]] = {}
    for match in _CAST.finditer(source.text):
        result, word, given = match.groups()
        end = source.text.find("\n", match.end())
        line = source.text[match.start() : end if end >= 0 else None]
        stop = match.start() + len(line)
        here = [f.type for f in types if match.end() <= f.start < stop]
        place = _line(source, match.start())
        before = made_as.get(given)
        if word == "qcast":
            if before is not None and before[0] == "dcast":
                yield Fault(
                    "quantised twice", f"{place}: {result}", f"{given} was quantised before",
                    "leave one of the two pairs out",
                )  # fmt: skip
            made_as[result] = word, here[-1] if here else None
            continue
        read, written = here[0] if here else None, before[1] if before else None
        if word == "dcast" and read and written and str(read) != str(written):
            yield Fault(
                "Q and DQ disagree", f"{place}: {result}",
                f"{given} was made as {written} and is read as {read}", "one type for both",
            )  # fmt: skip
        if word == "scast" and before is not None:
            made_as[result] = word, here[-1] if here else written
        else:
            made_as[result] = word, read


_PRODUCT = re.compile(r"[\w.]*\b\w*(?:conv|matmul|dot|fully_connected|gemm)\w*", re.IGNORECASE)
_RANK = re.compile(r"tensor<((?:[\d?]+x)*)$")


def _products(source: Source, types: list[Found]) -> Iterator[Fault]:
    """Operations that sum products of two operands: the scale of a bias, or of sums, of 32 bits is
    that of the first times that of the second; of matrices scales go along what is not summed over,
    and blocks along what is."""
    for number in range(1, source.line_count() + 1):
        line = source.line_text(number)
        match = _PRODUCT.search(line)
        first = source.line_start(number)
        here = [f for f in types if first <= f.start < first + len(line)]
        known = [(f, f.type) for f in here if isinstance(f.type, UniformType)]
        if match is None or len(known) < 2 or "quant." in match.group():
            continue
        (x, of_x), (w, of_w), *rest = known
        if max(of_x.storage.bits, of_w.storage.bits) > 16:
            continue
        yield from _of_sums(f"line {number}", of_x, of_w, [t for _, t in rest])
        if re.search("matmul|dot", match.group(), re.IGNORECASE):
            for side, (found, type_) in enumerate(((x, of_x), (w, of_w))):
                yield from _along(f"line {number}", source.text[first : found.start], type_, side)


def _of_sums(
    place: str, x: UniformType, w: UniformType, others: list[UniformType]
) -> Iterator[Fault]:
    wide = [t for t in others if t.storage.bits == 32 and t.blocks is None]
    if not wide or x.axis is not None or x.blocks or w.blocks:
        return
    product = np.array(x.scales[:1]) * np.array(w.scales)
    given = np.array(wide[0].scales)
    if 1 < given.size != product.size > 1 or np.allclose(given, product, rtol=1e-3, atol=0):
        return
    given, product = np.broadcast_arrays(given, product)
    at = int(np.argmax(np.abs(np.log(given / product))))
    where = f"{place}, channel {at}" if given.size > 1 else place
    yield Fault(
        "bias scale", where,
        f"{given[at]:g}, and the scales of the operands give {product[at]:g}",
        "the scale of the first operand times that of the second",
    )  # fmt: skip


def _along(place: str, before: str, type_: UniformType, side: int) -> Iterator[Fault]:
    match = _RANK.search(before)
    rank = match.group(1).count("x") if match else 0
    if rank < 2:
        return
    summed = rank - 1 - side  # of the second operand the rows
    word = ("first", "second")[side]
    if type_.axis is not None and type_.axis == summed:
        yield Fault(
            "wrong axis", place, f"scales of the {word} operand go along axis {summed}, which is "
            "summed over", f"axis {rank - 2 + side}",
        )  # fmt: skip
    axes = [axis for axis, size in type_.blocks or () if size > 1]
    if axes and summed not in axes:
        yield Fault(
            "wrong axis", place, f"blocks of the {word} operand go along axis {axes[0]}, and the "
            f"sums of the product along axis {summed}", f"axis {summed}",
        )  # fmt: skip
