"""Loads and stores of random kernels, and the global tensors they go through."""

from __future__ import annotations

from tests.language.cpp.scalars.terms import Draw
from tests.language.cpp.tiles.terms import BARRIER, KINDS, Found, offset, small


def load_or_store(draw: Draw, found: Found) -> list[str]:
    """Return a tensor and a load or store of some tile, or a load through a tensor that is there; loads
    go on with other places of the tensor, or of a copy of it."""
    if found.tensors and draw.chance(0.4):
        return _load_again(draw, found)
    tile = draw.among(*found.tiles)
    kind = found.tiles[tile]
    tensor = draw.name("g")
    if not KINDS[kind].is_loaded or draw.chance(0.35):
        lines = _tensor(draw, found, tensor, tile, f"out + {offset(draw, found)}")
        return [*lines, f"TSTORE({tensor}, {tile}); {BARRIER}"]
    base = draw.among(*found.pointers)
    lines = _tensor(draw, found, tensor, tile, f"{base} + {offset(draw, found)}")
    if draw.chance(0.2):
        lines.append(f"TASSIGN({tensor}, {base} + {offset(draw, found)});")
    lines.append(f"TLOAD({tile}, {tensor}); {BARRIER}")
    if draw.chance(0.25):
        copy = draw.name("h")
        lines += [
            f"auto {copy} = {tensor};", f"TASSIGN({copy}, {base} + {offset(draw, found)});",
            f"TLOAD({tile}, {draw.among(tensor, copy)}); {BARRIER}",
        ]  # fmt: skip
    if KINDS[kind].valid is None:
        found.tensors[tensor] = kind
    return lines


def _load_again(draw: Draw, found: Found) -> list[str]:
    """Return a load through a tensor that is there, which in half of the cases is placed anew: what it
    was in a block is what it is after it."""
    tensor = draw.among(*found.tensors)
    tile = draw.among(*found.of_kind(found.tensors[tensor]))
    lines = [f"TLOAD({tile}, {tensor}); {BARRIER}"]
    if draw.chance(0.5):
        base = draw.among(*found.pointers)
        lines.insert(0, f"TASSIGN({tensor}, {base} + {offset(draw, found)});")
    return lines


def _tensor(draw: Draw, found: Found, name: str, tile: str, place: str) -> list[str]:
    """Return a tensor in the shape of a tile, from a place on."""
    rows, columns = KINDS[found.tiles[tile]].shape(found.element)
    if rows < 0:
        return _dynamic(draw, found, name, tile, place)
    width, kind = found.element.width, found.element.name
    step = draw.among(columns, columns, columns + width, 2 * columns)
    shape, stride = f"1, {rows}, {columns}", f"1, {step}, 1"
    if rows % 8 == 0 and draw.chance(0.25):
        half = rows // 2
        far = draw.among(half * step, half * step + width)
        shape, stride = f"2, {half}, {columns}", f"{far}, {step}, 1"
    return [f"GlobalTensor<{kind}, Shape<1, 1, {shape}>, Stride<1, 1, {stride}>> {name}({place});"]


def _dynamic(draw: Draw, found: Found, name: str, tile: str, place: str) -> list[str]:
    """Return a tensor of which the run says the shape, and perhaps the stride."""
    width, kind = found.element.width, found.element.name
    given, columns = f"{tile}.GetValidRow()", str(width)
    if found.tiles[tile] == "both":
        given, columns = f"{given}, {tile}.GetValidCol()", "-1"
    shape = f"Shape<1, 1, 1, -1, {columns}>"
    if draw.chance(0.5):
        stride = "Stride<1, 1, 1, -1, 1>"
        step = draw.among(f"{width}", f"{width} + {small(draw, found, 3)} * 8", f"{2 * width}")
        sizes = f"{shape}({given}), {stride}({step})"
        return [f"GlobalTensor<{kind}, {shape}, {stride}> {name}({place}, {sizes});"]
    sizes, stride = draw.name("s"), f"Stride<1, 1, 1, {draw.among(width, 2 * width)}, 1>"
    return [
        f"{shape} {sizes}({given});",
        f"GlobalTensor<{kind}, {shape}, {stride}> {name}({place}, {sizes});",
    ]
