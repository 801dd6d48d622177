"""Where the lanes of a logical vector are: dealt out one after the other, by counting, without the
formulas of `ptosim.ground.ir.lane_layout`."""

from __future__ import annotations


def deal(kind: str, number: int, stride: int, slots: int, lanes: int, bits: int):
    """Return for each lane the part, the register of the part and the lane of it."""
    size = 2048 // bits
    if kind == "num_groups":
        return _slots(slots, lanes)
    parts = number if "deinterleaved" in kind else 1
    run = size // 8 if kind == "block_deinterleaved" else 1  # lanes that go to one part together
    ends = [[0, 0] for _ in range(parts)]  # the next register and lane of each part
    part, left, places = 0, run, []
    for _ in range(lanes):
        register, lane = ends[part]
        places.append((part, register, lane))
        lane += stride
        while lane >= size:
            register, lane = register + 1, lane - size
        ends[part] = [register, lane]
        left -= 1
        if not left:
            part, left = (part + 1) % parts, run
    return places


def _slots(slots: int, lanes: int):
    places, register, lane = [], 0, 0
    for _ in range(lanes):
        places.append((0, register, lane))
        lane += 1
        if lane == slots:
            register, lane = register + 1, 0
    return places
