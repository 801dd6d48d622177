"""`python -m tests.accuracy.regions`: the law of each operation of A5 that `expand` writes as vector
instructions beside the model of the region that it becomes: every operation and element type, conversion,
mode of TQUANT, on runs, rows of one repeat and of several, and tails.

Within 5 % they are one claim. What is not has a reason in `REASONS`; `tests/time/test_agreement.py` fails
for one that is not there, and for one that is no longer needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from statistics import mean
from typing import NamedTuple

import ptosim
from ptosim.ground.errors import PtosimError
from ptosim.ground.isa.conversions import conversion
from ptosim.ground.isa.schema import dtype
from ptosim.ground.source import Source
from ptosim.ops.lower import elementwise
from ptosim.ops.lower.program import expand
from tests.support.text import Kernel, date_of

LIMIT = 0.05

KINDS = {
    "pairs": elementwise.PAIRS, "scalars": elementwise.SCALARS, "singles": elementwise.SINGLES,
    "fills": elementwise.FILLS,
}  # fmt: skip
SHAPES = [  # rows, columns of the tile, valid columns: one run, rows of one repeat, of several, tails
    (1, 64, 64), (1, 1280, 1280), (16, 512, 512), (16, 544, 512), (3, 128, 64), (10, 192, 128),
    (64, 96, 70),
]  # fmt: skip
CAST_SHAPES = [(1, 64, 64), (1, 640, 640), (10, 1280, 1280), (10, 704, 640), (3, 128, 64)]
FORMATS = (
    "f32", "f16", "bf16", "i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "f8E4M3FN", "f8E5M2",
    "hif8", "f4E2M1FN", "f4E1M2FN",
)  # fmt: skip
QUANT_SHAPES = [(16, 64), (64, 128), (16, 512)]
MX_ROWS = [(kind, elem) for kind in ("MxFp8E4M3", "MxFp4E2M1") for elem in ("f32", "bf16", "f16")]


class Compared(NamedTuple):
    """An operation on a shape: cycles of its law, and of the region."""

    group: str
    shape: tuple[int, ...]
    law: float
    region: float

    @property
    def difference(self) -> float:
        """Relative, of the region to the law."""
        return self.region / self.law - 1


def both(k: Kernel, op: str) -> tuple[float, float] | None:
    """Return the cycles of the operation, and of the region that it becomes; None if it becomes
    none."""
    text, date = k.text(), date_of(k.text())
    try:
        made = expand(Source("tile.pto", text), compat=date)
        uses = {u.name: u for u in ptosim.load(text, target="a5", compat=date).cost().ops}
        after = ptosim.load(made.text, target="a5", compat=date).cost() if made.stages else None
    except PtosimError:
        return None
    if after is None:
        return None
    return uses[op].cycles, sum(u.cycles for u in after.ops if u.class_name == "region")


def element_by_element() -> Iterator[tuple[str, str, str]]:
    """Yield kind, name and element type of each operation that goes element by element."""
    for kind, table in KINDS.items():
        for op, (_, elements) in table.items():
            for elem in elements.split():
                yield kind, op, elem


def one_by_one(kind: str, op: str, elem: str, *, precise: bool = False) -> Iterator[Compared]:
    """Compare an element-wise operation on all shapes."""
    for rows, pitch, cols in SHAPES:
        k = Kernel("a5")
        tiles = [k.tile(n, elem, rows, pitch, (rows, cols)) for n in ("a", "b", "d", "tmp")]
        ins: list = list(tiles[: {"pairs": 2, "fills": 0}.get(kind, 1)])
        if kind in ("scalars", "fills"):
            ins.append((k.arg("s", elem), elem))
        if op.startswith("pto.txor"):
            ins.append(tiles[3])
        mode = "precisionType = #pto.recip_precision<high_precision>" if precise else ""
        k.op(op, ins, [tiles[2]], mode)
        name = f"{op[4:]}{' precise' if precise else ''} {elem}"
        yield from _compared(k, op[4:], name, (rows, pitch, cols))


def conversions() -> list[tuple[str, str]]:
    """Return the pairs of formats that A5 converts between."""
    return [
        (src, dst)
        for src in FORMATS
        for dst in FORMATS
        if src != dst and conversion(dtype(src), dtype(dst), "a5") is not None
    ]


def converted(src: str, dst: str) -> Iterator[Compared]:
    """Compare a conversion on all shapes."""
    for rows, pitch, cols in CAST_SHAPES:
        k = Kernel("a5")
        a, b = (k.tile(n, e, rows, pitch, (rows, cols)) for n, e in (("a", src), ("b", dst)))
        k.op("pto.tcvt", [a], [b], "rmode = #pto<round_mode RINT>")
        yield from _compared(k, "tcvt", f"tcvt {src} to {dst}", (rows, pitch, cols))


def to_int8(*, offset: bool) -> Iterator[Compared]:
    """Compare TQUANT to INT8 with a scale, and an offset, for each row."""
    word = "INT8_ASYM" if offset else "INT8_SYM"
    for rows, cols in (*QUANT_SHAPES, (100, 80)):
        k = Kernel("a5")
        x, q = k.tile("x", "f32", rows, cols), k.tile("q", "ui8" if offset else "i8", rows, cols)
        columns = [k.tile(n, "f32", rows, 1, layout="dn") for n in ("s", "z")[: 1 + offset]]
        k.op("pto.tquant", [x, *columns], [q], f"quant_type = #pto<quant_type {word}>")
        yield from _compared(k, "tquant", f"tquant {word}", (rows, cols))


def to_mx(kind: str, elem: str, rule: str) -> Iterator[Compared]:
    """Compare a microscaling TQUANT with dense exponents."""
    for rows, cols in QUANT_SHAPES:
        k = Kernel("a5")
        groups = rows * cols // 32
        x = k.tile("x", elem, rows, cols)
        q = k.tile("q", "f8E4M3FN" if kind == "MxFp8E4M3" else "f4E2M1FN", rows, cols)
        exp = k.tile("e", "ui8", 1, groups)
        scratch = [k.tile(n, elem, 1, 2 * groups) for n in ("m", "c")]
        k.op("pto.tquant", [x], [q, exp, *scratch],
             f"mx_alg = #pto<mx_quant_alg {rule}{kind}>, grp_axis = 1, interleave = false")  # fmt: skip
        yield from _compared(k, "tquant", f"tquant {rule}{kind} {elem}", (rows, cols))


def _compared(k: Kernel, op: str, name: str, shape: tuple[int, ...]) -> Iterator[Compared]:
    pair = both(k, op)
    if pair is not None:
        yield Compared(name, shape, *pair)


def cases() -> dict[str, Callable[[], Iterator[Compared]]]:
    """Return what compares each operation on its shapes, by its name."""
    found: dict[str, Callable[[], Iterator[Compared]]] = {
        f"{op[4:]} {elem}": partial(one_by_one, kind, op, elem)
        for kind, op, elem in element_by_element()
    }
    for elem in ("f16", "f32"):
        found[f"trecip precise {elem}"] = partial(
            one_by_one, "singles", "pto.trecip", elem, precise=True
        )
    for src, dst in conversions():
        found[f"tcvt {src} to {dst}"] = partial(converted, src, dst)
    found["tquant INT8_SYM"] = partial(to_int8, offset=False)
    found["tquant INT8_ASYM"] = partial(to_int8, offset=True)
    for kind, elem in MX_ROWS:
        for rule in ("Ocp", "Nv"):
            found[f"tquant {rule}{kind} {elem}"] = partial(to_mx, kind, elem, rule)
    return found


REASONS = {
    "tdiv i": "the law has a division alone; `expand` looks for divisors of 0, of which 0 is left in a tile",
    "trecip precise": "the library has a routine of some hundred instructions; `expand` writes the one "
    "instruction that gives the same bytes",
    "tcvt f32 to": "the library converts two registers and merges them, 128 elements an iteration; "
    "`expand` goes 64 at a time and keeps NaN by selecting",
    "tcvt f16 to": "the library converts 128 elements in place; `expand` widens 64 at a time, so that "
    "every width is a load that spreads and a store that packs",
    "tcvt bf16 to": "as tcvt f16 to",
    "tcvt f4": "the library converts packed pairs in place; `expand` works them out by arithmetic",
    "tcvt i8 to": "as tcvt f16 to",
    "tcvt ui8 to": "as tcvt f16 to",
    "tcvt i16 to": "as tcvt f16 to",
    "tcvt i32 to": "rows of one register: the library merges it with nothing (5 cycles)",
    "tcvt ui32 to": "as tcvt i32 to",
    "tquant OcpMx": "the library's loops are unrolled and keep the source's 16 bits; `expand` widens to "
    "f32 and rounds 4 bits by arithmetic; of 4 bits from f32 the library has no loop at all",
    "tquant NvMx": "as tquant OcpMx",
    **{
        f"{name} {elem}": "the library has one instruction, in which a NaN wins; `expand` compares and "
        "selects, as a NaN does not win in a tile"
        for name in ("tmax", "tmin", "tmaxs", "tmins")
        for elem in ("f16", "f32")
    },
}
"""Why an operation's expansion is another program than the library's, by how its name begins."""

WITHIN = {
    "tcvt f32 to": ("f8E4M3FN", "f8E5M2", "hif8", "i32", "i64"),
    "tcvt f16 to": ("f32", "i32"),
    "tcvt bf16 to": ("f32", "i32"),
    "tcvt i8 to": ("i32",),
    "tcvt ui8 to": ("i32", "ui32"),
    "tcvt i16 to": ("f32", "i32", "ui32"),
    "tcvt i32 to": ("f32", "i64"),
}
"""The last words of those that agree all the same."""


def reason(name: str) -> str:
    """Return why the law and the region of an operation differ; nothing if they don't."""
    for start, why in REASONS.items():
        if name.startswith(start) and name.split()[-1] not in WITHIN.get(start, ()):
            return REASONS.get(why.removeprefix("as "), why)
    return ""


def main() -> None:
    """Print the differences of every operation; `*` and the reason where they are larger."""
    print(f"{'region to law':32}shapes     mean    worst   where")
    told: dict[str, None] = {}
    for name, case in cases().items():
        chosen = list(case())
        worst = max(chosen, key=lambda c: abs(c.difference))
        average = mean(abs(c.difference) for c in chosen)
        mark = ""
        if abs(worst.difference) > LIMIT:
            told.setdefault(reason(name))
            mark = f" *{list(told).index(reason(name)) + 1}"
        print(f"{name:32}{len(chosen):6}{average:9.1%}{worst.difference:+9.1%}   "
              f"{worst.shape} law {worst.law:,} region {worst.region:,}{mark}")  # fmt: skip
    for number, why in enumerate(told, 1):
        print(f"*{number} {why}")


if __name__ == "__main__":
    main()
