"""Operands for a case of any vector operation, by its name: what the table of operations is made of.

`build` takes the shape of a situation (valid rows and columns, dynamic or not, in place or not) and
returns the operands, the variant and the attributes of a `Case`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import EXECUTED
from tests.ops.semantics.harness import Case, Operand, Scalar, Spec, mixture
from tests.ops.semantics.rows import types
from tests.oracle.tile import FLOATS, width_of

ROWS = 32  # a column-major vector of bytes has 32


@dataclass(frozen=True)
class Situation:
    """What a case is made for."""

    op: str
    target: str
    dtype: str
    rows: int = 3
    tail: int = 3  # columns that are not valid
    cols: int | None = None  # valid columns, where not counted by the tail
    dynamic: bool = False
    same: str | None = None  # the operand in whose place the destination is
    switches: dict[str, str] = field(default_factory=dict)
    seed: int = 1

    def width(self, dtype: str | None = None) -> int:
        """Columns of a tile: two blocks of the narrowest type that takes part."""
        return 2 * 256 // width_of(dtype or self.dtype)

    def tile(self, seed: int, dtype: str | None = None, width: int | None = None, **keys) -> Spec:
        """A tile of edges and ordinary values with the valid shape of the situation."""
        kind = dtype or self.dtype
        cols = width or self.width()
        valid = (self.rows, cols - self.tail if self.cols is None else self.cols)
        values = keys.pop("values", None)
        if values is None:
            values = mixture(kind, ROWS * cols, 10 * self.seed + seed)
        keys = {"valid": valid, "dynamic": self.dynamic} | keys
        return Spec(kind, ROWS, cols, values=values, **keys)

    def scalar(self, dtype: str | None = None) -> Scalar:
        return Scalar(dtype or self.dtype, 3)

    @property
    def mode(self) -> str:
        """A comparison that shows what a switch changes."""
        return "eq" if "tcmps.equal" in self.switches else "lt"


Made = dict[str, Operand]
Builder = Callable[[Situation], Made]
BUILDERS: dict[str, Builder] = {}
USUAL: dict[tuple[str, ...], Builder] = {}
FAMILIES = ("elementwise", "tile_scalar", "convert")
ATTRS: dict[str, dict[str, Any]] = {"trandom": {"rounds": 10}}


def builder(*names: str) -> Callable[[Builder], Builder]:
    """Register the builder of operations."""

    def register(function: Builder) -> Builder:
        BUILDERS.update(dict.fromkeys(names, function))
        return function

    return register


def usual(*operands: str) -> Callable[[Builder], Builder]:
    """Register the builder of rows with these operands, where a row has none of its own."""

    def register(function: Builder) -> Builder:
        USUAL[operands] = function
        return function

    return register


def fill_up() -> None:
    """Give rows without a builder that of their operands: a new row has cases by itself."""
    for name in isa().names():
        row = isa().get(name)
        assert row is not None
        operands = tuple(o.name for o in row.variants[0].operands) if row.variants else ()
        runs = EXECUTED & set(row.status.values())
        if row.family in FAMILIES and runs and operands in USUAL:
            BUILDERS.setdefault(row.mnemonic, USUAL[operands])


def made_by(*builders: Builder) -> list[str]:
    """Return the operations whose operands one of the builders makes."""
    return [name for name, builder in BUILDERS.items() if builder in builders]


def result(at: Situation, dtype: str | None = None, width: int | None = None) -> Spec:
    """The destination: of its own, or in the place of a source."""
    return at.tile(8, dtype, width, same=at.same)


@builder("tpow")
@usual("src0", "src1", "dst")
def two_tiles(at: Situation) -> Made:
    return {"src0": at.tile(1), "src1": at.tile(2), "dst": result(at)}


@usual("src0", "src1", "tmp", "dst")
def two_tiles_and_scratch(at: Situation) -> Made:
    kind = "ui8" if at.op == "tprelu" and at.target == "a2a3" else at.dtype
    return {**two_tiles(at), "tmp": at.tile(7, kind)}


@builder("tshl", "tshr")
def shifts(at: Situation) -> Made:
    amounts = np.arange(ROWS * at.width()) % width_of(at.dtype)
    return {**two_tiles(at), "src1": at.tile(2, values=amounts)}


@builder("taddc", "tsubc")
def three_tiles(at: Situation) -> Made:
    return {**two_tiles(at), "src2": at.tile(3)}


@builder("taddreluconv", "tsubreluconv")
def narrowed(at: Situation) -> Made:
    kind = "f16" if at.dtype == "f32" else "ui8" if at.dtype.startswith("u") else "i8"
    width = at.width(kind)
    sources = {n: at.tile(i, width=width) for i, n in enumerate(("src0", "src1"))}
    return {**sources, "dst": result(at, kind, width)}


@builder("tadddeqrelu")
def dequantised(at: Situation) -> Made:
    width = at.width("f16")
    sources = {n: at.tile(i, "i32", width) for i, n in enumerate(("src0", "src1"))}
    extra = {"scalar": Scalar("f16", 0.5), "tmp": at.tile(7, "i32", width)}
    return {**sources, **extra, "dst": result(at, "f16", width)}


@builder("trsqrt")
@usual("src", "dst")
def one_tile(at: Situation) -> Made:
    return {"src": at.tile(1), "dst": result(at)}


@builder("tpows")
@usual("src", "scalar", "dst")
def tile_and_scalar(at: Situation) -> Made:
    return {"src": at.tile(1), "scalar": at.scalar(), "dst": result(at)}


@builder("tlrelu")
def slope(at: Situation) -> Made:
    return {**tile_and_scalar(at), "scalar": Scalar("f32", -1.5)}


@usual("src", "scalar", "tmp", "dst")
def tile_scalar_scratch(at: Situation) -> Made:
    return {**tile_and_scalar(at), "tmp": at.tile(7)}


@builder("taddsc", "tsubsc")
def tile_scalar_tile(at: Situation) -> Made:
    return {**two_tiles(at), "scalar": at.scalar()}


@builder("tcmp")
def masks_of_two(at: Situation) -> Made:
    return {"src0": at.tile(1), "src1": at.tile(1), "dst": at.tile(8, "i8")}


@builder("tcmps")
def masks_of_one(at: Situation) -> Made:
    return {"src": at.tile(1), "scalar": at.scalar(), "dst": at.tile(8, "i8")}


@builder("tsel", "tsels")
def selections(at: Situation) -> Made:
    width = at.width("i8")
    made: Made = {"mask": at.tile(1, "i8", width), "tmp": at.tile(7, "i32", 16)}
    if at.op == "tsels":
        return {
            **made,
            "tmp": at.tile(7),
            "src": at.tile(2),
            "scalar": at.scalar(),
            "dst": result(at),
        }
    return {**made, "src0": at.tile(2), "src1": at.tile(3), "dst": result(at)}


@builder("tpartadd", "tpartmul", "tpartmax", "tpartmin")
def partial(at: Situation) -> Made:
    first, second = at.tile(1), at.tile(2)
    rows, cols = first.valid
    smaller = (max(rows - 1, 0), max(cols - 4, 0))
    made = {"src0": first, "src1": replace(second, valid=smaller), "dst": result(at)}
    if "tpart.uncovered" in at.switches and at.target == "a5":
        made["src0"] = replace(first, valid=(rows, max(cols - 2, 0)))
    return made


@builder("tpartargmax", "tpartargmin")
def partial_arguments(at: Situation) -> Made:
    width = at.width("i32") if width_of(at.dtype) == 32 else at.width()
    made = {n: at.tile(i, width=width) for i, n in enumerate(("src0", "src1"))}
    index = {n: at.tile(i + 3, "i32", width) for i, n in enumerate(("idx0", "idx1"))}
    return {
        **made, **index, "dst": result(at, width=width), "dst_idx": at.tile(9, "i32", width),
    }  # fmt: skip


def _column(at: Situation, seed: int) -> Spec:
    values = mixture(at.dtype, ROWS, seed)
    valid = (at.rows, 0 if at.cols == 0 else 1)
    return Spec(at.dtype, ROWS, 1, valid, "dn", values=values, dynamic=at.dynamic)


@builder("trowexpand")
def row_copies(at: Situation) -> Made:
    return {"src": _column(at, 2), "dst": result(at)}


WORDS = ("add", "sub", "mul", "div", "max", "min", "expdif")


@builder(*(f"trowexpand{w}" for w in WORDS))
def row_forms(at: Situation) -> Made:
    vector = _column(at, 2)
    if "rowexpand.block" in at.switches:
        lanes = 256 // width_of(at.dtype)
        vector = at.tile(2, width=lanes, valid=(at.rows, lanes))
    return {"src0": at.tile(1), "src1": vector, "dst": result(at)}


@builder("tcolexpand")
def column_copies(at: Situation) -> Made:
    source = at.tile(1)
    return {"src": replace(source, valid=(min(at.rows, 1), source.valid[1])), "dst": result(at)}


@builder(*(f"tcolexpand{w}" for w in WORDS))
def column_forms(at: Situation) -> Made:
    made = column_copies(at)
    return {"src0": at.tile(2), "src1": made["src"], "dst": made["dst"]}


@builder("trowsum", "trowprod", "trowmax", "trowmin", "trowargmax", "trowargmin")
def row_results(at: Situation) -> Made:
    kind = "i32" if "arg" in at.op else at.dtype
    out = at.tile(8, kind, at.width(kind))
    return {
        "src": at.tile(1),
        "tmp": at.tile(7),
        "dst": replace(out, valid=(at.rows, min(out.valid[1], 1))),
    }


@builder("tcolsum", "tcolprod", "tcolmax", "tcolmin", "tcolargmax", "tcolargmin")
def column_results(at: Situation) -> Made:
    kind = "i32" if "arg" in at.op else at.dtype
    out = at.tile(8, kind, at.width())
    made = {"src": at.tile(1), "dst": replace(out, valid=(min(at.rows, 1), out.valid[1]))}
    return {**made, "tmp": at.tile(7)} if "arg" in at.op else made


@builder("tpairreducesum")
def pairs(at: Situation) -> Made:
    source, out = at.tile(1, width=2 * at.width()), result(at)
    return {"src": replace(source, valid=(out.valid[0], 2 * out.valid[1])), "dst": out}


@builder("tinterleave", "tdeinterleave")
def merged(at: Situation) -> Made:
    return {n: at.tile(i) for i, n in enumerate(("src0", "src1", "dst0", "dst1"))}


@builder("texpands")
def constant(at: Situation) -> Made:
    return {"scalar": at.scalar(), "dst": at.tile(8)}


@builder("tci")
def ramp(at: Situation) -> Made:
    out = at.tile(8)
    return {"scalar": at.scalar(), "dst": replace(out, rows=1, values=out.values[: out.cols],
                                                  valid=(min(at.rows, 1), out.valid[1]))}  # fmt: skip


@builder("ttri")
def triangle(at: Situation) -> Made:
    return {"diagonal": Scalar("i32", -1), "dst": at.tile(8)}


@builder("trandom")
def random_bits(at: Situation) -> Made:
    names = ("key0", "key1", "counter0", "counter1", "counter2", "counter3")
    return {**{n: Scalar("i32", i - 2) for i, n in enumerate(names)}, "dst": at.tile(8)}


@builder("tfillpad", "tfillpad_inplace", "tfillpad_expand")
def padded(at: Situation) -> Made:
    source = at.tile(1)
    rows, cols = source.valid
    smaller = replace(source, valid=(max(rows - 1, 0), max(cols - 5, 0)))
    return {"src": smaller, "dst": replace(result(at), pad=3)}


@builder("ttrans")
def transposed(at: Situation) -> Made:
    source = at.tile(1, width=32)
    turned = (source.valid[1], source.valid[0])
    return {"src": source, "tmp": at.tile(7, width=32), "dst": at.tile(8, width=32, valid=turned,
                                                                     same=at.same)}  # fmt: skip


@builder("tpack")
def packed(at: Situation) -> Made:
    kind = {32: "i16", 16: "i8"}[width_of(at.dtype)]
    width = at.width(kind)
    return {"src": at.tile(1, width=width), "dst": result(at, kind, width)}


@builder("tconcatidx")
def joined_by_bytes(at: Situation) -> Made:
    first, second = at.tile(1), at.tile(2)
    size = width_of(at.dtype) // 8
    rows, cols = at.rows, first.valid[1]
    counts = {
        f"src{n}Idx": Spec("i32", ROWS, 8, (rows, 1), values=np.repeat(np.arange(ROWS) % (cols + 1) * size, 8))
        for n in (0, 1)
    }  # fmt: skip
    out = at.tile(8, width=2 * at.width())
    return {"src0": first, "src1": second, **counts, "dst": replace(out, valid=(rows, cols))}


@builder("tconcat")
def joined(at: Situation) -> Made:
    first, second, out = at.tile(1), at.tile(2), at.tile(8, width=2 * at.width())
    return {"src0": first, "src1": second, "dst": replace(out, valid=(at.rows, first.valid[1]))}


@builder("tsetval")
def one_element(at: Situation) -> Made:
    return {"offset": Scalar("index", 5), "val": at.scalar(), "dst": at.tile(8)}


fill_up()


def switched(op: str, target: str, switch: str) -> str:
    """The element type on which a switch shows."""
    wanted = {
        "int.overflow": "i32", "tcmp.i32": "i32", "tcmps.i16": "i16", "division.integers": "i32",
    }.get(switch)  # fmt: skip
    return wanted if wanted in kinds(op, target) else preferred(op, target)[0]


KINDS = ("f32", "f16", "bf16", *(f"{sign}{bits}" for sign in ("i", "ui") for bits in (8, 16, 32)))


def kinds(op: str, target: str) -> list[str]:
    """Element types of an operation: those of its first operand with a list."""
    fixed = {"tadddeqrelu": ["i32"], "trandom": ["ui32"], "tpack": ["i32", "f32", "i16"]}
    return fixed.get(op) or [k for k in types(op, target) if k in KINDS]


def case(at: Situation) -> Case:
    """The case of a situation."""
    operands = BUILDERS[at.op](at)
    variants = isa().get(f"pto.{at.op}").variants
    compared = [n for n, o in operands.items() if n != "tmp" and isinstance(o, Spec) and not o.same]
    attrs = {"cmpMode": at.mode} if at.op in ("tcmp", "tcmps") else ATTRS.get(at.op)
    if "tcolsum.odd_row" in at.switches:
        attrs, operands = {"isBinary": True}, {**operands, "tmp": at.tile(7)}
    return Case(
        at.op,
        at.target,
        operands,
        attrs=attrs,
        switches=at.switches,
        variant=variants[0].name,
        results=compared,
    )


def preferred(op: str, target: str) -> tuple[str, str]:
    """A float type if there is one, and another type if there is one."""
    found = kinds(op, target)
    floats = [k for k in ("f32", "f16", "bf16") if k in found and k in FLOATS]
    first = floats[0] if floats else found[0]
    others = [k for k in found if k != first and not k.startswith("u")]
    return first, (others or [first])[-1]
