"""The profiled single operations that are published, as questions to the cost laws."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from ptosim.ground.ir.types import TileType
from ptosim.ground.isa.costs import CostTable, cost_table
from ptosim.ground.isa.schema import dtype
from ptosim.time.laws.cost import Cost
from ptosim.time.laws.estimate import estimate
from ptosim.time.laws.shapes import OpShape, TileShape
from tests.ops.conformance.data import document

_WORDS = {
    "fp32": "f32", "fp16": "f16", "f32": "f32", "f16": "f16", "bf16": "bf16", "i16": "i16",
    "i32": "i32", "int16": "i16", "int32": "i32", "int8": "i8", "i8": "i8", "hif8": "hif8",
    "fp8_e4m3": "f8E4M3FN", "fp8_e5m2": "f8E5M2", "fp4_e2m1": "f4E2M1FN", "fp4_e1m2": "f4E1M2FN",
    "hifloat8": "hif8", "float8_e4m3": "f8E4M3FN", "float8_e5m2": "f8E5M2",
    "fp4_e2m1x2": "f4E2M1FN", "fp4_e1m2x2": "f4E1M2FN", "float4_e2m1x2": "f4E2M1FN",
    "float4_e1m2x2": "f4E1M2FN", "fp8e4m3": "f8E4M3FN", "fp8e5m2": "f8E5M2", "u8": "ui8",
}  # fmt: skip


@dataclass(frozen=True)
class Point:
    """One published figure: the operation with its shapes, and the cycles; how much a fit heeds it,
    and whether it is on a line that somebody fitted."""

    target: str
    shape: OpShape
    published: float
    family: str
    label: str
    weight: float = 1.0
    on_line: bool = False

    def predicted(self, table: CostTable | None = None) -> Cost:
        return estimate(self.shape, table or cost_table(self.target))

    def error(self, table: CostTable | None = None) -> float:
        """Return the relative error, signed."""
        return self.predicted(table).cycles / self.published - 1


@cache
def points() -> list[Point]:
    """Return every profiled point."""
    chosen = [r for r in document("cost/hw_expected.json") if r["class"] == "profiled"]
    return [_a5(r) if r["arch"] == "a5" else _a2a3(r) for r in chosen]


def tile(word: str, rows: int, cols: int, v_row: int, v_col: int, **keys: Any) -> TileShape:
    """Return a row-major tile in UB."""
    type_ = TileType("vec", dtype(_WORDS.get(word, word)), rows, cols, v_row, v_col, **keys)
    return TileShape(type_, v_row, v_col)


def make(target: str, op: str, ins: dict[str, Any], outs: dict[str, Any], **attrs: Any) -> OpShape:
    """Return an operation with these operands."""
    return OpShape(op.lower(), target, {**ins, **outs}, attrs, tuple(ins), tuple(outs))


_TWO = frozenset(("TADD", "TSUB", "TMUL", "TDIV", "TMAX", "TMIN"))
_ROWS = frozenset(("TROWSUM", "TROWMAX"))
_COLUMNS = frozenset(("TCOLSUM", "TCOLMAX"))


def operands(
    op: str, src: TileShape, dst: TileShape, mask: TileShape | None = None
) -> dict[str, Any]:
    """Return what an operation reads, by the names of its row."""
    if op in _TWO:
        return {"src0": src, "src1": src}
    if op == "TSEL":
        return {"mask": mask, "src0": src, "src1": src}
    return {"src": src}


def _a5(row: dict[str, Any]) -> Point:
    op, word = row["op"], row["src_dtype"]
    shape = (row["rows"], row["cols"], row["valid_rows"], row["valid_cols"])
    src = tile(word, *shape)
    dst = tile(row["dst_dtype"], *shape)
    mask = tile("ui8", row["rows"], max(-(-row["cols"] // 8), 32), row["valid_rows"],
                -(-row["valid_cols"] // 8))  # fmt: skip
    precise = "high_precision" in row["op_params"]
    attrs = {"precision_mode": "HIGH_PRECISION"} if precise else {}
    made = make("a5", op, operands(op, src, dst, mask), {"dst": dst}, **attrs)
    family = f"{op} {word}" + (f" to {row['dst_dtype']}" if op == "TCVT" else "")
    family += " precise" if precise else ""
    form = f"{row['valid_rows']}x{row['valid_cols']} of {row['rows']}x{row['cols']}"
    return Point("a5", made, _published(row), family, f"{family} {form}")


def _a2a3(row: dict[str, Any]) -> Point:
    op, given = row["op"], row["params"]
    low = {k.lower(): v for k, v in given.items()}
    rows = int(low.get("rows") or low.get("row") or low.get("trows") or low["dstrow"])
    cols = int(low.get("cols") or low.get("col") or low.get("tcols") or low["dstcol"])
    v_row = int(low.get("validrow") or low.get("vrows") or rows)
    v_col = int(low.get("validcol") or low.get("vcols") or cols)
    word = low.get("srct") or low["t"]
    src = tile(word, rows, cols, v_row, v_col)
    dst = tile(low.get("dstt") or word, rows, cols, v_row, v_col)
    if op in _ROWS:
        dst = tile(word, rows, 1, v_row, 1)
    elif op in _COLUMNS:
        dst = tile(word, 1, cols, 1, v_col)
    elif op == "TROWEXPAND":
        src = tile(word, rows, 1, v_row, 1)
    ins = operands(op, src, dst)
    if op == "TRSQRT" and "tmp" in str(row).lower():
        ins["tmp"] = src
    made = make("a2a3", op, ins, {"dst": dst})
    family = f"{op} {word}"
    return Point("a2a3", made, _published(row), family, f"{family} {v_row}x{v_col}")


def _published(row: dict[str, Any]) -> float:
    return row.get("best_expected") or row["expected_cycles"]
