"""The cube: blocks of 16 x 16 results and 32 bytes of K, and the registers around it."""

from __future__ import annotations

from ptosim.timing.cost import Cost, Stage
from ptosim.timing.laws.request import Request
from ptosim.timing.shapes import TileShape

BLOCK = 16
BLOCK_BYTES = 32


def product(request: Request) -> Cost:
    """M x K by K x N; dimensions are rounded up to blocks."""
    shape = request.shape
    lhs, rhs = shape.tile("lhs"), shape.tile("rhs")
    assert lhs is not None
    assert rhs is not None
    row = request.table.find(f"cube.product.{_kind(lhs)}", "cube.product")
    k_block = BLOCK_BYTES * 8 // max(lhs.bits, 8)
    m, k, n = _up(lhs.rows, BLOCK), _up(lhs.cols, k_block), _up(rhs.cols, BLOCK)
    blocks = (m // BLOCK) * (k // k_block) * (n // BLOCK)
    stages = [
        Stage("start", row["start"], 1, row.confidence),
        Stage("blocks", m * k * n / row["macs"], blocks, row.confidence),
    ]
    return request.cost(stages, latency=row["start"], work=2 * lhs.rows * lhs.cols * rhs.cols)


def _kind(lhs: TileShape) -> str:
    if lhs.bits == 32:
        return "f32"
    return {8: "8bit", 4: "4bit"}.get(lhs.bits, "16bit")


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def register(request: Request) -> Cost:
    """A register of a unit is set."""
    row = request.table["cube.register"]
    return request.cost([Stage("register", row["cycles"], 1, row.confidence)], work=0)


def sync(request: Request) -> Cost:
    """Synchronisation itself: what it waits for is the pipes' time."""
    return request.cost([], work=0)
