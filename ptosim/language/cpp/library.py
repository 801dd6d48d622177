"""Types of the library: tiles, global tensors, events, FIFOs and the traits of the standard
library, from their template arguments."""

from __future__ import annotations

import math
from typing import Any

from ptosim.language.cpp.kinds import (
    BOOL,
    FLOAT,
    INT,
    SCALARS,
    Dims,
    Enum,
    EventType,
    GlobalType,
    Member,
    Named,
    Num,
    PipeType,
    Pointer,
    Scalar,
    TileType,
    bits_of,
    number,
)
from ptosim.language.cpp.state import CppError, NeedsConstant

ENUMS = frozenset(
    ("TileType", "BLayout", "SLayout", "PadValue", "CompactMode", "Layout", "RoundMode",
     "SaturationMode", "CmpMode", "AtomicType", "ReluPreMode", "AccToVecMode", "STPhase",
     "AccPhase", "QuantType", "QuantScaleAlg", "MxQuantAlg", "VecStoreMode", "MaskPattern",
     "GatherAxis", "ScatterAxis", "Coalesce", "GatherOOB", "ScatterAtomicOp", "ScatterOOB",
     "ScatterConflict", "HistByte", "TInsertMode", "TFillPadMode", "Op", "Direction",
     "TileSplitAxis", "SyncCoreType", "SyncAllMode", "NotifyOp", "WaitCmp", "ReduceOp",
     "TileConfig", "FIFOType", "GlobalTensorDim", "GridDirection", "PrintFormat")
)  # fmt: skip
NUMBERS = {
    ("TileConfig", "fractalABSize"): 512, ("TileConfig", "fractalCSize"): 1024,
    ("TileConfig", "fractalMxSize"): 32, ("TileConfig", "alignedSize"): 32,
    ("TileConfig", "fixedRowSize"): 16, ("TileConfig", "fixedColSize"): 16,
    ("TileConfig", "fixedMxRowSize"): 16, ("TileConfig", "fixedMxColSize"): 2,
    ("Direction", "DIR_C2V"): 1, ("Direction", "DIR_V2C"): 2, ("Direction", "DIR_BOTH"): 3,
    ("Direction", "DIR_V2C_CTRL"): 4, ("Direction", "DIR_C2V_GM"): 5,
    ("Direction", "DIR_V2C_GM"): 6, ("Direction", "DIR_BOTH_GM"): 7,
    **{("GlobalTensorDim", f"DIM_{i}"): i for i in range(5)},
    ("TileSplitAxis", "TILE_NO_SPLIT"): 0, ("TileSplitAxis", "TILE_UP_DOWN"): 1,
    ("TileSplitAxis", "TILE_LEFT_RIGHT"): 2, ("TileSplitAxis", "TILE_UP_DOWN_ODD"): 3,
    ("TileSplitAxis", "TILE_LEFT_RIGHT_ODD"): 4,
}  # fmt: skip
TYPES = frozenset(
    ("Tile", "TileLeft", "TileRight", "TileAcc", "TileLeftScale", "TileRightScale",
     "TileLeftCompact", "TileRightCompact", "TileAccCompact", "TileLeftScaleCompact",
     "TileRightScaleCompact", "GlobalTensor", "Shape", "Stride", "TileShape2D", "BaseShape2D",
     "Event", "TPipe", "ConvTile", "ConvTileShape", "ParallelGroup", "MrgSortExecutedNumList",
     "PadValueCustom", "PadCustom", "RecordEvent", "numeric_limits", "integral_constant",
     "bool_constant", "true_type", "false_type", "array", "tuple", "pair", "index_sequence",
     "integer_sequence", "make_index_sequence", "make_integer_sequence", "index_sequence_for",
     "void_t",
     *(f"{word}{end}" for end in ("", "_t") for word in (
         "conditional", "remove_reference", "remove_cv", "remove_cvref", "decay", "remove_const",
         "enable_if", "make_unsigned", "make_signed", "remove_pointer", "add_pointer",
         "underlying_type", "type_identity")),
     *(f"{word}{end}" for end in ("", "_v") for word in (
         "is_same", "is_integral", "is_floating_point", "is_signed", "is_unsigned", "is_pointer",
         "is_void", "is_arithmetic", "is_enum", "is_class", "is_base_of", "conjunction",
         "disjunction", "negation")))
)  # fmt: skip
CONSTANTS = {
    "DYNAMIC": number(-1), "INFINITY": Num(FLOAT, math.inf), "NAN": Num(FLOAT, math.nan),
    "FLT_MAX": Num(FLOAT, 3.4028234663852886e38), "FLT_MIN": Num(FLOAT, 1.1754943508222875e-38),
    "FLT_EPSILON": Num(FLOAT, 1.1920928955078125e-07),
    "M_PI": Num(SCALARS["double"], math.pi),
    "INT_MAX": number(2**31 - 1), "INT_MIN": number(-(2**31)),
    "UINT_MAX": number(-1, SCALARS["uint32_t"]), "SIZE_MAX": number(-1, SCALARS["uint64_t"]),
    **{f"INT{b}_MAX": number(2 ** (b - 1) - 1, SCALARS[f"int{b}_t"]) for b in (8, 16, 32, 64)},
    **{f"INT{b}_MIN": number(-(2 ** (b - 1)), SCALARS[f"int{b}_t"]) for b in (8, 16, 32, 64)},
    **{f"UINT{b}_MAX": number(-1, SCALARS[f"uint{b}_t"]) for b in (8, 16, 32, 64)},
}  # fmt: skip
"""Macros of the standard headers, and the word for what is given at run time."""
_SNAKE = {"RowMajor": "row_major", "ColMajor": "col_major", "NoneBox": "none_box"}
_PADS = {"Null": 0, "Zero": 1, "Max": 2, "Min": 3}
_COMPACTS = {"Null": "null", "Normal": "normal", "RowPlusOne": "row_plus_one",
             "RowAlignedPadding": "row_aligned_padding"}  # fmt: skip
_LOCS = {"Vec": "vec", "Mat": "mat", "Left": "left", "Right": "right", "Acc": "acc",
         "Bias": "bias", "Scaling": "scaling", "ScaleLeft": "scaling", "ScaleRight": "scaling",
         "Ctrl": "vec"}  # fmt: skip
MOVES_ALIKE = {"MX_A_ND": "nd", "MX_A_DN": "dn", "MX_B_ND": "nd", "MX_B_DN": "dn", "SCALE": "nd"}
SCALES = {"MX_A_ND": ("mx_a_zz", 2), "MX_A_DN": ("mx_a_zz", 3), "MX_B_ND": ("mx_b_nn", 3),
          "MX_B_DN": ("mx_b_nn", 2)}  # fmt: skip
"""Layouts of scales in pairs of groups: the one of boxes of 16 lines that has the same elements,
and which dimension the lines are."""
MAPS = ("NC1HWC0", "NDC1HWC0", "FRACTAL_Z")
"""Layouts of convolutions: blocks of 32 bytes one after the other."""
_RIGHT = ("row_major", "col_major", 512)


def whole(value: Any, node: Any, what: str) -> int:
    """Return a template argument that must be a known number."""
    if isinstance(value, Num):
        if not value.is_known:
            raise NeedsConstant(
                node,
                f"{what} depends on values of the run",
                "tile types are made before the run: use a template parameter",
            )
        return int(value.const)
    if isinstance(value, Member):
        return value.const
    if isinstance(value, int):
        return value
    raise CppError(node, f"{what} is a number, and this is a type")


def tile_type(name: str, args: list[Any], node: Any, arch: str) -> TileType:
    """Return the type of `Tile<…>` or of an alias such as `TileLeft<…>`."""
    if name == "Tile":
        return _asserted(_plain_tile(args, node), node)
    if len(args) < 3:
        raise CppError(node, f"{name} takes an element type, rows and columns")
    dtype = args[0]
    rows, cols = (whole(a, node, "the size of a tile") for a in args[1:3])
    v_row = whole(args[3], node, "the valid rows") if len(args) > 3 else rows
    v_col = whole(args[4], node, "the valid columns") if len(args) > 4 else cols
    left = "row_major" if arch == "a2a3" else "col_major"
    loc, blayout, slayout, fractal = {
        "TileLeft": ("left", left, "row_major", 512),
        "TileRight": ("right", *_RIGHT),
        "TileAcc": ("acc", "col_major", "row_major", 1024),
        "TileLeftScale": ("scaling", "row_major", "row_major", 32),
        "TileRightScale": ("scaling", "col_major", "col_major", 32),
    }[name.removesuffix("Compact")]
    compact = "normal" if name.endswith("Compact") else "null"
    made = TileType(loc, dtype, rows, cols, blayout, v_row, v_col, slayout, fractal, 0, compact)
    return _asserted(made, node)


def _plain_tile(args: list[Any], node: Any) -> TileType:
    if len(args) < 4:
        raise CppError(node, "Tile takes a place, an element type, rows and columns")
    loc, dtype = args[:2]
    if not isinstance(loc, Member) or loc.name not in _LOCS or not isinstance(dtype, Scalar):
        raise CppError(node, "Tile takes a TileType and an element type first")
    rows, cols = (whole(a, node, "the size of a tile") for a in args[2:4])
    rest = args[4:]
    layout = _word(rest, 0, "RowMajor")
    v_row = whole(rest[1], node, "the valid rows") if len(rest) > 1 else rows
    v_col = whole(rest[2], node, "the valid columns") if len(rest) > 2 else cols
    inner = _word(rest, 3, "NoneBox")
    fractal = whole(rest[4], node, "the fractal size") if len(rest) > 4 else 512
    pad = rest[5] if len(rest) > 5 else Member("PadValue", "Null")
    compact = _word(rest, 6, "Null")
    return TileType(
        _LOCS[loc.name], dtype, rows, cols, _SNAKE[layout], v_row, v_col, _SNAKE[inner], fractal,
        _pad(pad, dtype, node), _COMPACTS[compact],
    )  # fmt: skip


def _word(args: list[Any], at: int, default: str) -> str:
    return args[at].name if len(args) > at and isinstance(args[at], Member) else default


def _pad(pad: Any, dtype: Scalar, node: Any) -> Any:
    if isinstance(pad, Member) and pad.name in _PADS:
        return _PADS[pad.name]
    if isinstance(pad, Num):
        is_word = pad.type.name == "uint64_t" and pad.const >= _CUSTOM  # of another tile
        return pad.const if is_word else pad_bits(pad, dtype)
    return 0


_CUSTOM = 1 << 32


def pad_bits(pad: Num, dtype: Scalar) -> Any:
    """Return the word of a padding value of its own: bit 32, and its bits as an element."""
    bits = bits_of(pad.const, dtype)
    return _CUSTOM | bits


def _asserted(tile: TileType, node: Any) -> TileType:
    """The static assertions of the header."""
    say = None
    rows, cols = tile.box
    width = tile.dtype.bits if "x2" not in tile.dtype.name else 4
    boxless = tile.slayout == "none_box"
    if tile.rows <= 0 or tile.cols <= 0:
        say = f"rows and columns of a tile are positive, not {tile.rows} x {tile.cols}"
    elif tile.v_row > tile.rows or tile.v_col > tile.cols:
        say = f"the valid part {tile.v_row} x {tile.v_col} is larger than the tile"
    elif tile.cols % cols:
        say = f"{tile.cols} columns are no multiple of the {cols} of the inner box"
    elif tile.rows % rows and tile.loc != "vec" and tile.fractal != 32 and tile.rows != 1:
        say = f"{tile.rows} rows are no multiple of the {rows} of the inner box"
    elif boxless and tile.blayout == "row_major" and tile.cols * width // 8 % 32:
        say = f"a row has {tile.cols * width // 8} bytes: it must be a multiple of 32"
    elif boxless and tile.blayout == "col_major" and tile.rows * width // 8 % 32:
        say = f"a column has {tile.rows * width // 8} bytes: it must be a multiple of 32"
    if say is not None:
        raise CppError(node, f"static assertion of Tile: {say}", "change the size of the tile")
    return tile


def global_type(args: list[Any], node: Any) -> GlobalType:
    """Return the type of `GlobalTensor<…>`."""
    if not args or not isinstance(args[0], Scalar):
        raise CppError(node, "GlobalTensor takes an element type first")
    dims = [a for a in args[1:] if isinstance(a, Dims)]
    shape = next((d.sizes for d in dims if d.kind == "Shape"), (-1,) * 5)
    stride = next((d.sizes for d in dims if d.kind == "Stride"), (-1,) * 5)
    layout = next((a.name for a in args[1:] if isinstance(a, Member)), "ND")
    is_paired = layout in SCALES and shape[-1] == 2 and shape[SCALES[layout][1]] != 1
    word = layout.lower() if is_paired else MOVES_ALIKE.get(layout, layout.lower())
    if (
        word not in ("nd", "dn", "nz", "mx_a_zz", "mx_b_nn")
        and not is_paired
        and layout not in MAPS
    ):
        raise CppError(
            node,
            f"`Layout::{layout}` is not read: the IR has no such layout",
            "use ND, DN or NZ",
            "PTO8010",
        )
    return GlobalType(args[0], shape, stride, word)


def shape_2d(name: str, args: list[Any], node: Any) -> Dims:
    """Return `TileShape2D<T, R, C, Layout>` or `BaseShape2D<…>`."""
    dtype = args[0]
    rows = whole(args[1], node, "rows") if len(args) > 1 else -1
    cols = whole(args[2], node, "columns") if len(args) > 2 else -1
    layout = args[3].name if len(args) > 3 else "ND"
    c0 = 32 // dtype.size
    area = _by(rows, cols)
    if layout == "NZ":
        shape = (1, _over(cols, c0), _over(rows, 16), 16, c0)
        stride = (area, _by(rows, c0), 16 * c0, c0, 1)
    elif layout.startswith("MX_"):
        shape, stride = _scales(layout, rows, cols)
    else:
        shape = (1, 1, 1, rows, cols)
        stride = (area, area, area, *((1, rows) if layout == "DN" else (cols, 1)))
    is_shape, matrix = name == "TileShape2D", (layout, rows, cols)
    return Dims("Shape" if is_shape else "Stride", shape if is_shape else stride, matrix)


def of_matrix(type_: Dims, given: list[Num], binary: Any, node: Any) -> list[Num]:
    """Return the sizes or strides of a matrix of which rows or columns are `given`."""
    assert type_.matrix is not None
    layout, *extents = type_.matrix
    rows, cols = (given.pop(0) if n < 0 else number(n) for n in extents)
    is_shape = type_.kind == "Shape"
    if layout in ("ND", "DN"):
        ends = [rows, cols] if is_shape else [cols, number(1)]
        if layout == "DN" and not is_shape:
            ends = [number(1), rows]
        return [*[number(1) if is_shape else binary("*", rows, cols, node)] * 3, *ends]
    if layout != "NZ":
        raise CppError(node, f"sizes of {layout} are template arguments", "give them", "PTO8010")
    fixed = [number(s) for s in type_.sizes]
    if is_shape:
        wide, high = binary("/", cols, fixed[4], node), binary("/", rows, fixed[3], node)
        return [fixed[0], wide, high, *fixed[3:]]
    return [binary("*", rows, cols, node), binary("*", rows, fixed[3], node), *fixed[2:]]


def _scales(layout: str, rows: int, cols: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape and the strides of scales: pairs of groups are next to each other."""
    lines, groups = (rows, cols) if layout[3] == "A" else (cols, rows)
    pairs, area = _over(groups, 2), _by(rows, cols)
    if layout[-2:] in ("ZZ", "NN"):
        return (1, _over(lines, 16), pairs, 16, 2), (area, _by(groups, 16), 32, 2, 1)
    if (layout[3] == "A") == (layout[-2:] == "ND"):
        return (1, 1, lines, pairs, 2), (area, area, groups, 2, 1)
    return (1, 1, pairs, lines, 2), (area, area, _by(lines, 2), 2, 1)


def _over(a: int, b: int) -> int:
    return -1 if a < 0 else a // b


def _by(a: int, b: int) -> int:
    return -1 if a < 0 or b < 0 else a * b


def dims_type(name: str, args: list[Any], node: Any) -> Dims:
    """Return `Shape<…>` or `Stride<…>`: what is left out is dynamic."""
    sizes = [whole(a, node, f"a size of {name}") for a in args]
    if len(sizes) > 5:
        raise CppError(node, f"{name} has five sizes at most")
    return Dims(name, tuple(sizes + [-1] * (5 - len(sizes))))


def event_type(args: list[Any], node: Any) -> EventType:
    """Return the type of `Event<…>`."""
    if len(args) < 2 or not all(isinstance(a, Member) for a in args[:2]):
        raise CppError(node, "Event takes two operations, `Op::…`")
    auto = bool(whole(args[2], node, "AutoToken")) if len(args) > 2 else True
    return EventType(
        args[0].name, args[1].name, auto, whole(args[3], node, "EventID") if len(args) > 3 else 0
    )


def pipe_type(args: list[Any], node: Any) -> PipeType:
    """Return the type of `TPipe<…>`."""
    numbers = [whole(a, node, "an argument of TPipe") for a in args]
    if len(numbers) < 4:
        raise CppError(node, "TPipe takes a flag, a direction, the bytes and the number of slots")
    flag, direction, size, slots, *rest = numbers
    local = rest[0] if rest else 2
    return PipeType(flag, direction, size, slots, local, bool(rest[1]) if len(rest) > 1 else False)


# -- traits of the standard library ----------------------------------------------------------------

MOST_IN_SEQUENCE = 10_000
"""Numbers of a `make_integer_sequence`: a text writes any length in a word."""

_LIMITS = {
    "f32": (3.4028234663852886e38, 1.1754943508222875e-38, 1.1920928955078125e-07),
    "f16": (65504.0, 6.103515625e-05, 0.0009765625),
    "bf16": (3.3895313892515355e38, 1.1754943508222875e-38, 0.0078125),
    "f64": (1.7976931348623157e308, 2.2250738585072014e-308, 2.220446049250313e-16),
}


def trait(name: str, args: list[Any], node: Any) -> Any:
    """Return a trait with its arguments: a type, a number, or a thing with members; None if it is
    no trait."""
    if name in ("make_index_sequence", "make_integer_sequence", "index_sequence_for"):
        type_ = args[0] if name == "make_integer_sequence" else SCALARS["uint64_t"]
        is_for = name == "index_sequence_for"
        count = len(args) if is_for else whole(args[-1], node, "the length of a sequence")
        if not 0 <= count <= MOST_IN_SEQUENCE:
            why = f"a sequence of {count:,} numbers: it has 0 to {MOST_IN_SEQUENCE:,} here"
            raise CppError(node, why)
        return Named("integer_sequence", (type_, *(number(i, type_) for i in range(count))))
    if name == "index_sequence":
        return Named("integer_sequence", (SCALARS["uint64_t"], *args))
    word = name.removesuffix("_v").removesuffix("_t")
    if word == "conditional":
        chosen = args[1] if whole(args[0], node, "a condition") else args[2]
        return chosen if name.endswith("_t") else Named("conditional", (chosen,))
    if word in _CHANGED:
        changed = _CHANGED[word](args[0])
        return changed if name.endswith("_t") else Named(word, (changed,))
    if word in _JOINED:
        return _told(name, _JOINED[word](_holds(a, node) for a in args))
    if word in _ASKED:
        return _told(name, _ASKED[word](*args))
    if word in ("enable_if", "void"):
        made = args[1] if len(args) > 1 else SCALARS["void"]
        if word == "enable_if" and not whole(args[0], node, "a condition"):
            raise CppError(node, "enable_if does not hold here")
        return made if name.endswith("_t") else Named(word, (made,))
    return None


def _holds(trait: Any, node: Any) -> bool:
    """Does a trait hold that is an argument of another one?"""
    if isinstance(trait, Named):
        trait = member_of_trait(trait, "value")
    return bool(whole(trait, node, "a trait"))


def _derives(type_: Any, base: Any) -> bool:
    return type_ == base or any(_derives(b, base) for b in getattr(type_, "bases", ()))


_JOINED = {"conjunction": all, "disjunction": any, "negation": lambda found: not next(found)}


def _told(name: str, holds: bool) -> Any:
    return Num(BOOL, holds) if name.endswith("_v") else Named("bool_constant", (Num(BOOL, holds),))


def _signless(signed: bool) -> Any:
    return lambda t: SCALARS[f"{'' if signed else 'u'}int{t.bits}_t"]


_CHANGED = {
    "remove_reference": lambda t: t, "remove_cv": lambda t: t, "remove_cvref": lambda t: t,
    "decay": lambda t: t, "remove_const": lambda t: t, "make_unsigned": _signless(False),
    "make_signed": _signless(True), "underlying_type": lambda t: INT,
    "remove_pointer": lambda t: t.to if isinstance(t, Pointer) else t,
    "add_pointer": Pointer, "type_identity": lambda t: t,
}  # fmt: skip
_ASKED: dict[str, Any] = {
    "is_same": lambda t, other: t == other,
    "is_integral": lambda t: isinstance(t, Scalar) and t.kind in ("int", "bool"),
    "is_floating_point": lambda t: t in (FLOAT, SCALARS["double"]),
    "is_arithmetic": lambda t: isinstance(t, Scalar) and t.kind in ("int", "bool", "float"),
    "is_signed": lambda t: isinstance(t, Scalar) and t.kind in ("int", "float") and t.signed,
    "is_unsigned": lambda t: isinstance(t, Scalar) and t.kind in ("int", "bool") and not t.signed,
    "is_pointer": lambda t: isinstance(t, Pointer),
    "is_base_of": lambda t, other: _derives(other, t),
    "is_void": lambda t: t == SCALARS["void"],
    "is_enum": lambda t: isinstance(t, Enum) or (isinstance(t, Named) and t.name in ENUMS),
    "is_class": lambda t: (
        not isinstance(t, (Scalar, Pointer, Enum))
        and not (isinstance(t, Named) and t.name in ENUMS)
    ),
}


def is_numeric(value: Any) -> bool:
    """Is it a number, a word for one, or an object of `std::integral_constant`?"""
    held = getattr(value, "type", None)
    is_constant = isinstance(held, Named) and held.name in ("integral_constant", "bool_constant")
    return isinstance(value, (Num, Member)) or is_constant


_OF_CONV = ("Loc", "DType", "bufferSize", "layout", "ConvTileShape")


def member_of_trait(thing: Named, word: str) -> Any:
    """Return `::value`, `::type` or a limit of a trait; None if there is none."""
    if thing.name == "numeric_limits":
        return _limit(thing.args[0], word)
    if word in ("value", "type") and thing.args:
        return thing.args[-1]
    if word == "value" and thing.name in ("true_type", "false_type"):
        return number(thing.name == "true_type", BOOL)
    if thing.name == "ConvTile" and word in _OF_CONV:
        return thing.args[_OF_CONV.index(word)]
    return None


def _limit(type_: Scalar, word: str) -> Any:
    if type_.kind in ("int", "bool"):
        top = (1 << (type_.bits - (1 if type_.signed else 0))) - 1
        values = {"max": top, "min": -top - 1 if type_.signed else 0, "digits": top.bit_length()}
        values["lowest"] = values["min"]
        return number(values[word], type_) if word in values else None
    top, least, epsilon = _LIMITS[type_.ir]
    values = {"max": top, "lowest": -top, "min": least, "epsilon": epsilon,
              "infinity": math.inf, "quiet_NaN": math.nan}  # fmt: skip
    return Num(type_, values[word]) if word in values else None


_BACK = {v: k for k, v in _SNAKE.items()}
COMPACTS = {v: k for k, v in _COMPACTS.items()}
"""Words of tiles in the IR -> members of CompactMode."""


def arguments_of(type_: Any) -> tuple[str, tuple[Any, ...]]:
    """Return a library type as a name and template arguments, for deduction."""
    if isinstance(type_, TileType):
        return "Tile", (
            Member("TileType", _place_of(type_)), type_.dtype,
            number(type_.rows), number(type_.cols),
            Member("BLayout", _BACK[type_.blayout]), number(type_.v_row), number(type_.v_col),
            Member("SLayout", _BACK[type_.slayout]), number(type_.fractal), _pad_of(type_),
            Member("CompactMode", COMPACTS[type_.compact]),
        )  # fmt: skip
    if isinstance(type_, GlobalType):
        return "GlobalTensor", (
            type_.dtype, Dims("Shape", type_.shape), Dims("Stride", type_.stride),
            Member("Layout", type_.layout.upper()),
        )  # fmt: skip
    if isinstance(type_, Dims):
        return type_.kind, tuple(number(s) for s in type_.sizes)
    if isinstance(type_, EventType):
        return "Event", (Member("Op", type_.source), Member("Op", type_.target))
    if isinstance(type_, PipeType):
        return "TPipe", tuple(map(number, (type_.flag, type_.direction, type_.slot_size,
                                           type_.slot_num)))  # fmt: skip
    if isinstance(type_, (Named,)):
        return type_.name, type_.args
    return "", getattr(type_, "args", ())


def _place_of(tile: TileType) -> str:
    """Return the member of TileType; scales of the cube have boxes of 32 bytes."""
    if tile.loc == "scaling" and tile.fractal == 32:
        return "ScaleLeft" if tile.slayout == "row_major" else "ScaleRight"
    return next(k for k, v in _LOCS.items() if v == tile.loc)


def _pad_of(tile: TileType) -> Any:
    known = next((k for k, v in _PADS.items() if v == tile.pad), None)
    return Member("PadValue", known) if known else number(tile.pad, SCALARS["uint64_t"])
