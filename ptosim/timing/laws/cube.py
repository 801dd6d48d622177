"""The cube: blocks of 16 x 16 results and 32 bytes of K, and the registers around it."""

from __future__ import annotations

from ptosim.isa.costs import CostRow
from ptosim.timing.cost import Cost, Stage
from ptosim.timing.laws.request import Request

BLOCK = 16
BLOCK_BYTES = 32


def product(request: Request) -> Cost:
    """M x K by K x N; dimensions are rounded up to blocks."""
    shape = request.shape
    lhs, rhs = shape.tile("lhs"), shape.tile("rhs")
    assert lhs is not None
    assert rhs is not None
    row, stages = product_stages(request, (lhs.rows, lhs.cols, rhs.cols), lhs.bits)
    return request.cost(stages, latency=row["start"], work=2 * lhs.rows * lhs.cols * rhs.cols)


def product_stages(
    request: Request, extents: tuple[int, int, int], bits: int
) -> tuple[CostRow, list[Stage]]:
    """Return the figures and the stages of a product of m x k by k x n elements."""
    kind = {32: "f32", 8: "8bit", 4: "4bit"}.get(bits, "16bit")
    row = request.table.find(f"cube.product.{kind}", "cube.product")
    k_block = BLOCK_BYTES * 8 // max(bits, 8)
    m, k, n = (_up(e, b) for e, b in zip(extents, (BLOCK, k_block, BLOCK), strict=True))
    blocks = (m // BLOCK) * (k // k_block) * (n // BLOCK)
    return row, [
        Stage("start", row["start"], 1, row.confidence),
        Stage("blocks", m * k * n / row["macs"], blocks, row.confidence),
    ]


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def register(request: Request) -> Cost:
    """A register of a unit is set."""
    row = request.table["cube.register"]
    return request.cost([Stage("register", row["cycles"], 1, row.confidence)], work=0)


def sync(request: Request) -> Cost:
    """Synchronisation itself: what it waits for is the pipes' time."""
    return request.cost([], work=0)
