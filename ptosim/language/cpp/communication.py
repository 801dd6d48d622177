"""Communication between devices: transfers through tiles, signals and collectives of a group, in
the orders that `isa/cpp.toml` says."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

from ptosim.ground.ir.core import Node
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import OpDef
from ptosim.language.build import Typed
from ptosim.language.cpp.forms import attribute, table
from ptosim.language.cpp.kinds import (
    BOOL,
    INT,
    LONG,
    Array,
    Global,
    GlobalType,
    Member,
    Named,
    Num,
    Scalar,
    Struct,
    Tile,
    TileType,
    bits_of,
    number,
)
from ptosim.language.cpp.library import MAPS, whole
from ptosim.language.cpp.state import CppError, refused

GROUP = "ParallelGroup"
_MOST_TILES = 2


def is_group(value: Any) -> TypeGuard[Struct]:
    """Is it a group of devices?"""
    return isinstance(value, Struct) and getattr(value.type, "name", "") == GROUP


def is_communication(word: str, values: list[Any]) -> bool:
    """Is a call one between devices? Two names are of tiles too, where no group comes first."""
    plain = word.removeprefix("comm.")
    if plain not in table()["communication"]:
        return False
    return plain != word or isa().get(f"pto.{plain.lower()}") is None or any(map(is_group, values))


def new_group(values: list[Any]) -> Struct:
    """Return `ParallelGroup<G>::Create(array, count, root)`."""
    return Struct(Named(GROUP), {"args": values})


def group_member(follower: Any, group: Struct, word: str, values: list[Any], node: Any) -> Any:
    """Call a member function of a group: its size, and who its root is."""
    array, *rest = [*group.fields["args"], *values][:3]
    if word == "GetSize":
        return follower.num(rest[0], node) if rest else number(len(array.cells))
    if word in ("GetRootIdx", "GetRoot"):
        return follower.num(rest[1], node) if len(rest) > 1 else number(0)
    raise CppError(node, f"a ParallelGroup has no member function `{word}`")


def communicate(follower: Any, word: str, values: list[Any], targs: list[Any], node: Any) -> Any:
    """Append an operation between devices and return its result, if it has one. Raises CppError
    for arguments that it does not take."""
    plain = word.removeprefix("comm.")
    row = isa().get(f"pto.comm.{plain.lower()}")
    if row is None:
        raise CppError(node, f"`{plain}` has no row")
    words = [v for v in (*values, *targs) if isinstance(v, Member)]
    values = [v for v in values if not isinstance(v, Member)]
    first, last = _listed(follower, table()["communication"][plain], values, plain, node)
    operands = [*first, *(o for _, some in last for o in some)]
    clauses = [follower.make.clause(key, some) for key, some in last if some]
    parts = [*map(follower.make.item, first), *clauses, follower.make.tok(":", "COLON"),
             *follower.make.types(o.type for o in operands)]  # fmt: skip
    attrs = _attributes(follower, row, words, values, node)
    items: list[Any] = [Node("paren", parts, follower.make.at)]
    items += [attrs] if attrs else []
    if not any(v.outs for v in row.variants):
        follower.make.op(row.name, items, [])
        return None
    name = follower.fresh("holds")
    follower.make.op(row.name, items, [], results=[name], arrow=["i1"])
    return Num(BOOL, None, name)


def _listed(
    follower: Any, order: str, values: list[Any], word: str, node: Any
) -> tuple[list[Typed], list[tuple[str, list[Typed]]]]:
    """Return plain operands, and those of clauses in the order of the IR: tiles, then members."""
    rest = list(values)
    first: list[Typed] = []
    tiles: list[tuple[str, list[Typed]]] = []
    members: list[tuple[str, list[Typed]]] = []
    for part in order.split():
        if part.endswith("*"):
            tiles.append((part[:-1], [_operand(follower, t, word, node) for t in rest]))
            if not 1 <= len(rest) <= _MOST_TILES or not all(isinstance(t, Tile) for t in rest):
                what = order.removesuffix("*").replace(" ", ", ")
                raise CppError(node, f"`{word}` takes {what}: the last is one tile or two")
        elif not rest:
            raise CppError(node, f"`{word}` takes more arguments: {order}")
        elif part == "group":
            members.append(("group", _members(follower, rest.pop(0), word, node)))
        else:
            first.append(_operand(follower, rest.pop(0), word, node))
    return first, [*tiles, *members]


def _operand(follower: Any, value: Any, word: str, node: Any) -> Typed:
    if isinstance(value, Global):
        return follower.view(value, node)
    if isinstance(value, Tile):
        return follower.tile(value, node)
    if isinstance(value, Num):
        return follower.typed(follower.cast(value, INT, node), "i32")
    raise CppError(node, f"`{word}` takes global tensors, tiles and numbers")


def _members(follower: Any, group: Any, word: str, node: Any) -> list[Typed]:
    if not is_group(group):
        raise CppError(node, f"`{word}` takes a ParallelGroup first")
    array, *rest = group.fields["args"]
    if not isinstance(array, Array):
        raise CppError(node, "a ParallelGroup is made of an array of global tensors")
    count = follower.known(rest[0], node, "the size of the group") if rest else len(array.cells)
    if not 0 < count <= len(array.cells):
        raise CppError(node, f"a group of {count} of an array of {len(array.cells)}")
    return [_operand(follower, follower.taken(c, node), word, node) for c in array.cells[:count]]


def _attributes(
    follower: Any, row: OpDef, words: list[Member], values: list[Any], node: Any
) -> dict[str, Any]:
    attrs: dict[str, Any] = {}
    for member in words:
        found = attribute(row, member)
        if found is not None:
            attrs[found[0]] = found[1]
    group = next(filter(is_group, values), None)
    if group is not None:
        args = group.fields["args"]
        root = follower.known(args[2], node, "the root of the group") if len(args) > 2 else 0
        attrs["root"] = (str(root), "i32")
    return attrs


# Tiles of convolutions: `ConvTile` holds a feature map or a filter in L1, in blocks of 32 bytes as
# global memory has them, with the numbers that TIMG2COL goes by.

_BLOCK_BYTES = 32
_SIDES = ("Left", "Right", "Top", "Bottom")
"""The order of the list of paddings."""
_NUMBERS = {
    "FmapH": 0, "FmapW": 0, "ChannelSize": 0, "FilterH": 1, "FilterW": 1, "StrideH": 1,
    "StrideW": 1, "DilationH": 1, "DilationW": 1, "PadValue": 0, "Transpose": 0, "RepeatStride": 0,
    "RepeatTime": 1, "RepeatTimes": 1, "RepeatMode": 0, "DstStride": 0, "DstMposition": 0,
    **{f"Pad{side}": 0 for side in _SIDES},
}  # fmt: skip
"""What has a setter and a getter, with what it is before."""
_PLAIN = ("Transpose", "RepeatStride", "RepeatTime", "RepeatTimes", "RepeatMode")


def is_conv(value: Any) -> TypeGuard[Struct]:
    """Is it a ConvTile?"""
    return isinstance(value, Struct) and getattr(value.type, "name", "") == "ConvTile"


def conv_type(args: list[Any], node: Any) -> Named:
    """Return the type of `ConvTile<Loc, T, bytes, Layout, ConvTileShape<…>>`. Raises CppError for
    other arguments, layouts that have no form here, and what the header asserts."""
    if len(args) != 5 or not isinstance(args[1], Scalar) or not isinstance(args[4], Named):
        raise CppError(node, "ConvTile takes a place, an element type, bytes, a Layout and a "
                       "ConvTileShape")  # fmt: skip
    layout = args[3].name if isinstance(args[3], Member) else ""
    if layout not in MAPS:
        raise refused(node, f"Layout::{layout}", "a ConvTile is read in blocks of 32 bytes",
                      f"use {' or '.join(MAPS)}")  # fmt: skip
    if not isinstance(args[0], Member) or args[0].name != "Mat":
        raise CppError(node, "a ConvTile is in L1: TileType::Mat")
    return Named("ConvTile", tuple(args))


def new_conv(follower: Any, type_: Named, args: list[Any], node: Any, label: str) -> Struct:
    """Return a ConvTile: a tile of rows of 32 bytes; a filter is seen as a matrix too."""
    _, dtype, size, layout, shape = type_.args
    sizes = [whole(a, node, "a size of ConvTileShape") for a in shape.args]
    given = [follower.known(follower.num(a, node), node, "a size of a ConvTile") for a in args]
    if len(given) not in (0, sum(s < 0 for s in sizes)):
        raise CppError(node, f"{sum(s < 0 for s in sizes)} sizes of the ConvTile are DYNAMIC, and "
                       f"{len(given)} are given")  # fmt: skip
    sizes = [(given.pop(0) if given else 1) if s < 0 else s for s in sizes]
    lanes = _BLOCK_BYTES // dtype.size
    if sizes[-1] != lanes:
        raise refused(node, "ConvTileShape", f"its last size is {sizes[-1]}: blocks of 32 bytes "
                      f"have {lanes} elements", f"write {lanes}")  # fmt: skip
    rows = math.prod(sizes[:-1])
    room = whole(size, node, "the bytes of a ConvTile") // _BLOCK_BYTES
    if rows > room or rows <= 0:
        raise CppError(node, f"static assertion of ConvTile: {rows} blocks of 32 bytes in {room}")
    flat = TileType("mat", dtype, room, lanes, "row_major", rows, lanes)
    fields: dict[str, Any] = {
        "flat": follower.constructed(flat, [], node, label),
        "sizes": sizes,
        **{k: follower.cell(number(v), INT) for k, v in _NUMBERS.items()},
    }
    if layout.name.startswith("FRACTAL"):
        deep, wide = math.prod(sizes[:-3]) * lanes, sizes[-3] * sizes[-2]
        boxed = TileType("mat", dtype, deep, wide, "row_major", deep, wide, "col_major")
        fields["boxed"] = follower.constructed(boxed, [], node, f"{label}_matrix")
    else:
        fields["FmapH"].value, fields["FmapW"].value = map(number, sizes[-3:-1])
        fields["ChannelSize"].value = number(sizes[-4] * lanes)
    return Struct(type_, fields)


def tiles_of(conv: Struct) -> list[Tile]:
    """Return the tiles that are at the address of a ConvTile."""
    return [conv.fields[k] for k in ("flat", "boxed") if k in conv.fields]


def conv_member(
    follower: Any, conv: Struct, word: str, values: list[Any], targs: list[Any], node: Any
) -> Any:
    """Call a member function of a ConvTile."""
    if word == "data":
        return follower.tile_member(conv.fields["flat"], "data", values, node)
    if word == "GetShape":
        at = follower.known(follower.num((targs or values)[0], node), node, "the dimension")
        return number(conv.fields["sizes"][at])
    if word in ("SetPadListArray", "SetPadList"):
        _set_pads(follower, conv, values, node)
        return None
    cell = conv.fields.get(word[3:]) if word[3:] in _NUMBERS else None
    if cell is None or word[:3] not in ("Set", "Get"):
        raise CppError(node, f"a ConvTile has no member function `{word}`")
    if word[:3] == "Get":
        return cell.value
    cell.set(follower.num(values[0], node))
    return None


def _set_pads(follower: Any, conv: Struct, values: list[Any], node: Any) -> None:
    if len(values) == 2:
        side = follower.known(follower.num(values[0], node), node, "the side")
        conv.fields[f"Pad{_SIDES[side]}"].set(follower.num(values[1], node))
        return
    given = values[0]
    listed = [c.value for c in given.cells] if isinstance(given, Array) else given
    if not isinstance(listed, list) or len(listed) != len(_SIDES):
        raise CppError(node, "the paddings are four: left, right, top, bottom")
    for side, value in zip(_SIDES, listed, strict=True):
        conv.fields[f"Pad{side}"].set(follower.num(value, node))


def operands_of(word: str, values: list[Any], node: Any) -> list[Any]:
    """Return arguments with the tiles that ConvTiles are for an instruction. Raises CppError for
    one that does not take them."""
    found = [v for v in values if is_conv(v)]
    maps = [v for v in values if isinstance(v, Global) and v.type.layout.upper() in MAPS]
    if not found and not maps:
        return values
    if word == "TLOAD" and found and maps:
        return [values[0].fields["flat"], _as_rows(values[1], found[0], node)]
    if word in ("TEXTRACT", "TMOV") and "boxed" in found[0].fields:
        return [v.fields["boxed"] if is_conv(v) else v for v in values]
    layouts = f"Layout::{maps[0].type.layout.upper()}" if maps else "ConvTile"
    raise refused(node, f"{word} with {layouts}", "tiles of convolutions are loaded from global "
                  "tensors like them; maps go through TIMG2COL, filters through TEXTRACT or TMOV",
                  "use these, or a Tile and ND, DN or NZ")  # fmt: skip


def _as_rows(g: Global, conv: Struct, node: Any) -> Global:
    """Return a global tensor of a layout of maps as rows of 32 bytes. Raises CppError where it does
    not have the sizes of the tile."""
    sizes, strides = [c.value for c in g.sizes], [c.value for c in g.strides]
    while len(sizes) > 1 and sizes[-1] == number(1) and conv.fields["sizes"][-1] != 1:
        sizes, strides = sizes[:-1], strides[:-1]
    known = [s.const for s in sizes if s.is_known]
    wanted = [s for s in conv.fields["sizes"] if s != 1]
    if len(known) == len(sizes) and [s for s in known if s != 1] != wanted:
        raise refused(node, "TLOAD", f"the global tensor is {known}, the ConvTile "
                      f"{conv.fields['sizes']}", "load the whole tile")  # fmt: skip
    head = [number(1)] * (len(g.sizes) - len(sizes))
    cells = [[type(c)(c.journal, v) for c, v in zip(old, (*head, *new), strict=True)]
             for old, new in ((g.sizes, sizes), (g.strides, strides))]  # fmt: skip
    view = type(g.view)(g.view.journal, None, None, True)
    type_ = GlobalType(g.type.dtype, (-1,) * 5, (-1,) * 5, "nd")
    return Global(type_, g.pointer, cells[0], cells[1], view, g.label)


def img2col(follower: Any, row: OpDef, values: list[Any], node: Any) -> None:
    """`TIMG2COL(dst, map, posM = 0, posK = 0)`."""
    if len(values) < 2 or not isinstance(values[0], Tile) or not is_conv(values[1]):
        raise CppError(node, "TIMG2COL takes a tile, a ConvTile and two positions")
    dst, conv, *at = values
    if "boxed" in conv.fields:
        raise CppError(node, "TIMG2COL takes the ConvTile of a map, not of a filter")
    fields = {k: follower.known(conv.fields[k].value, node, f"{k} of the ConvTile")
              for k in _NUMBERS}  # fmt: skip
    for word in _PLAIN:
        if fields[word] != _NUMBERS[word]:
            raise refused(node, f"Set{word}({fields[word]})", "how the blocks of a matrix are "
                          "repeated or turned has no form in the IR", "leave it out")  # fmt: skip
    names = ("FmapH", "FmapW", "FilterH", "FilterW", "StrideH", "StrideW", "DilationH", "DilationW",
             *(f"Pad{side}" for side in _SIDES))  # fmt: skip
    attrs = {f"{n[0].lower()}{n[1:]}": str(fields[n]) for n in names}
    pad = conv.fields["PadValue"].value
    of_bits = isinstance(pad.type, Scalar) and pad.type.kind == "int"
    bits = int(pad.const) if of_bits else bits_of(pad.const, dst.type.dtype)
    attrs |= {"channels": str(fields["ChannelSize"]), "padBits": str(bits),
              "images": str(math.prod(conv.fields["sizes"][:-4]))}  # fmt: skip
    places = [follower.cast(follower.num(a, node), LONG, node) for a in [*at, number(0), number(0)]]
    ins = [follower.tile(conv.fields["flat"], node), *map(follower.index, places[:2])]
    follower.make.tile_op(row.name, ins, [follower.tile(dst, node)], attrs)
