"""The cube: blocks of 16 x 16 results and 32 bytes of K, and the registers around it."""

from __future__ import annotations

from ptosim.ground.ir.types import BLOCK_BYTES
from ptosim.ground.isa.dtypes import DType
from ptosim.time.laws.cost import Cost, Stage
from ptosim.time.laws.request import Request

BLOCK = 16


def product(request: Request) -> Cost:
    """M x K by K x N of tiles."""
    lhs, rhs = request.shape.tile("lhs"), request.shape.tile("rhs")
    assert lhs is not None
    assert rhs is not None
    return blocks(request, lhs.dtype, lhs.rows, lhs.cols, rhs.cols)


def blocks(request: Request, dtype: DType, rows: int, deep: int, cols: int) -> Cost:
    """Return the cost of a product whose left operand has rows x deep elements; dimensions are
    rounded up to blocks."""
    row = request.table.find(f"cube.product.{_kind(dtype)}", "cube.product")
    k_block = BLOCK_BYTES * 8 // max(dtype.bits, 8)
    m, k, n = _up(rows, BLOCK), _up(deep, k_block), _up(cols, BLOCK)
    count = (m // BLOCK) * (k // k_block) * (n // BLOCK)
    stages = [
        Stage("start", row["start"], 1, row.confidence),
        Stage("blocks", m * k * n / row["macs"], count, row.confidence),
    ]
    return request.cost(stages, latency=row["start"], work=2 * rows * deep * cols)


def _kind(dtype: DType) -> str:
    if dtype.bits == 32:
        return "f32"
    return {8: "8bit", 4: "4bit"}.get(dtype.bits, "16bit")


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def register(request: Request) -> Cost:
    """A register of a unit is set."""
    row = request.table["cube.register"]
    return request.cost([Stage("register", row["cycles"], 1, row.confidence)], work=0)


def sync(request: Request) -> Cost:
    """Synchronisation itself: what it waits for is the pipes' time."""
    return request.cost([], work=0)
