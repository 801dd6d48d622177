"""What operations do to hashes: the rules of the proof, by name.

An operation that is not here is not followed, and no proof is given for a program that has it. A
rule says which elements a result is made of and in which order; what function that is, is told by
the name, the attributes, the scalars and the element types, which are part of every hash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import numpy as np

from ptosim.ground.ir.types import PackedDType
from ptosim.machine.core import Core
from ptosim.machine.effects.account import effects_of
from ptosim.machine.effects.ranges import storage_ranges
from ptosim.machine.tile import TileRef
from ptosim.machine.values import GmView
from ptosim.ops.base.binding import Binding
from ptosim.ops.cube.matmul import GROUP, factor_of, scale_places
from ptosim.ops.cube.outward import layout_for_acc
from ptosim.ops.move.transfer import from_logical, logical_sizes
from ptosim.ops.tile.reduce import is_whole_row
from ptosim.tools.search.prove_memory import (
    Elements,
    HashedMemory,
    Hashes,
    Unprovable,
    along,
    joined,
    salt,
    tile_elements,
    total,
    weights,
    zero,
)

Write = tuple[Elements, Hashes]
"""A result: its elements and what they become."""


class Step:
    """One execution of an operation: its operands as elements, and the hash that names it.

    With `loose`, sums of f32 have no order: they are sums of hashes."""

    def __init__(self, op: Binding, memory: HashedMemory, *, loose: bool) -> None:
        self.op = op
        self.memory = memory
        self.loose = loose
        self.reads: list[Elements] = []

    def elements(self, name: str, rows: int, cols: int) -> Elements:
        """Return the first rows and columns of a tile operand."""
        tile = self.op.tile(name)
        if rows > tile.rows or cols > tile.cols:
            raise Unprovable(f"reaches beyond the tile of its operand {name}")
        tile = factor_of(self.op, name, cols) if name == "lhs" else tile
        return tile_elements(self.memory, self.op.core, tile, rows, cols)

    def read(self, name: str, rows: int, cols: int) -> Hashes:
        """Return the hashes of the first rows and columns of a tile operand."""
        return self.take(self.elements(name, rows, cols))

    def take(self, elements: Elements) -> Hashes:
        """Return the hashes of elements that are read."""
        self.reads.append(elements)
        return elements.read()

    def key(self, *more: object) -> np.uint64:
        """Return the hash of what is computed: operation, attributes, scalars, element types, and
        what else decides the function (`tmp` that is given or not, a division in place)."""
        op = self.op
        scalars = [(k, _exact(v, op.op.bound.get(k))) for k, v in _scalars(op)]
        types = [(k, str(v.type.dtype)) for k, v in _tiles(op) if k != "tmp"]
        forms = op.is_written("tmp"), op.op.name == "pto.tdivs" and _shares(op)
        variant = getattr(op.op.variant, "name", "")
        told = self.given, scalars, types, forms, settings(op.core, self.memory), op.target
        return salt(op.op.name, variant, told, more)

    @property
    def given(self) -> list[str]:
        """The attributes of the operation, as text; a rounding that is left out has a long name."""
        found = sorted(self.op.attributes.items())
        return [f"{k}={v.removeprefix('CAST_') if isinstance(v, str) else v!r}" for k, v in found]

    def added(self, name: str) -> bool:
        """True where results of f32 are summed without an order."""
        return self.loose and self.op.tile(name).type.dtype.family == "f32"


def _tiles(op: Binding) -> Iterator[tuple[str, TileRef]]:
    return ((k, v) for k, v in sorted(op.values.items()) if isinstance(v, TileRef))


def _scalars(op: Binding) -> Iterator[tuple[str, Any]]:
    return ((k, v) for k, v in sorted(op.values.items()) if not isinstance(v, (TileRef, GmView)))


def _shares(op: Binding) -> bool:
    return op.tile("src").addr == op.tile("dst").addr


def exact(value: Any) -> str:
    """Return a number, or several, as text: of a NaN its sign and its payload, too."""
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(exact, value))}]"
    if isinstance(value, (float, np.floating)) and value != value:
        return f"nan {np.asarray(value).tobytes().hex()}"
    return value.hex() if isinstance(value, float) else repr(value)


def _exact(value: Any, operand: Any) -> str:
    """Return a scalar as the operation gets it: of `1.0e-6 : f32` the float."""
    dtype = getattr(getattr(operand, "type", None), "dtype", None)
    if isinstance(value, float) and dtype is not None and dtype.family in ("f16", "f32"):
        value = float(np.dtype(dtype.array).type(value))
    return exact(value)


def _plain(hashes: Hashes) -> Hashes:
    """Summands: the constant 0 adds nothing."""
    return np.where(hashes == zero(4), np.uint64(0), hashes)


# -- element by element ----------------------------------------------------------------------------


def elementwise(*names: str) -> Rule:
    """Return the rule of results whose every element is made of the elements at its place."""

    def rule(step: Step) -> list[Write]:
        dst = step.op.tile("dst")
        tiles = (dst, *map(step.op.tile, names))
        if len({isinstance(tile.type.dtype, PackedDType) for tile in tiles}) > 1:
            return _between_pairs(step)
        rows, cols = dst.v_row, dst.v_col
        parts = [step.read(name, rows, cols) for name in names]
        made = joined(step.key(), *parts)
        if step.op.op.name == "pto.tadd" and step.added("dst"):
            made = _plain(parts[0]) + _plain(parts[1])
        return [(step.elements("dst", rows, cols), made)]

    return rule


def _between_pairs(step: Step) -> list[Write]:
    """A conversion of numbers to pairs of them, or back: a pair is made of the two numbers at its
    place, a number of its pair and the side. What a destination of pairs has beside them is
    cleared first."""
    src, dst = step.op.tile("src"), step.op.tile("dst")
    if "col_major" in (src.type.blayout, dst.type.blayout):
        raise Unprovable("converts pairs of numbers along columns")
    if isinstance(src.type.dtype, PackedDType):
        pairs = step.read("src", dst.v_row, -(-dst.v_col // 2))
        sides = np.arange(dst.v_col, dtype=np.uint64) % np.uint64(2)
        made = joined(step.key(), np.repeat(pairs, 2, axis=1)[:, : dst.v_col], sides)
        return [(step.elements("dst", dst.v_row, dst.v_col), made)]
    numbers = step.read("src", dst.v_row, src.v_col // 2 * 2)
    made = joined(step.key(), numbers[:, 0::2], numbers[:, 1::2])
    cleared = step.elements("dst", dst.rows, dst.cols)
    nothing = np.full((dst.rows, dst.cols), zero(1), np.uint64)
    return [(cleared, nothing), (step.elements("dst", *made.shape), made)]


def column_form(step: Step) -> list[Write]:
    """dst[r, c] of src0[r, c] and src1[0, c]."""
    dst = step.op.tile("dst")
    rows, cols = dst.v_row, dst.v_col
    made = joined(step.key(), step.read("src0", rows, cols), step.read("src1", 1, cols))
    return [(step.elements("dst", rows, cols), made)]


def row_form(step: Step) -> list[Write]:
    """dst[r, c] of src0[r, c] and src1[r, 0], for a column of values."""
    dst = step.op.tile("dst")
    rows, cols = dst.v_row, dst.v_col
    full, column = step.op.tile("src0"), step.op.tile("src1")
    is_full = full.layout.name == "nd" and (full.v_row, full.v_col) == (rows, cols)
    if not is_full or column.layout.name != "dn" or column.v_row < rows:
        raise Unprovable("takes its values for each row from something else than a column")
    made = joined(step.key(), step.read("src0", rows, cols), step.read("src1", rows, 1))
    return [(step.elements("dst", rows, cols), made)]


def expand_rows(step: Step) -> list[Write]:
    """dst[r, c] = src[r, 0]."""
    dst = step.op.tile("dst")
    return [(step.elements("dst", dst.v_row, dst.v_col), step.read("src", dst.v_row, 1))]


def expand_columns(step: Step) -> list[Write]:
    """dst[r, c] = src[0, c]."""
    dst = step.op.tile("dst")
    return [(step.elements("dst", dst.v_row, dst.v_col), step.read("src", 1, dst.v_col))]


def quantise(step: Step) -> list[Write]:
    """dst[r, c] of src[r, c] and of scale and offset [r, 0], in columns."""
    src = step.op.tile("src")
    parts = [step.read("src", src.v_row, src.v_col)]
    for name in ("fp", "scale", "offset"):
        if not step.op.has(name):
            continue
        tile = step.op.tile(name)
        if tile.layout.name != "dn" or tile.v_col != 1 or tile.v_row < src.v_row:
            raise Unprovable("takes its parameters from something else than columns")
        parts.append(step.read(name, src.v_row, 1))
    return [(step.elements("dst", src.v_row, src.v_col), joined(step.key(), *parts))]


# -- reductions ------------------------------------------------------------------------------------


def reduce_rows(step: Step) -> list[Write]:
    """dst[r, 0] of all src[r, c], in the order of the machine, which the shape decides."""
    src = step.op.tile("src")
    values = step.read("src", src.v_row, src.v_col)
    if step.op.op.name == "pto.trowsum" and step.added("src"):
        made = total(_plain(values), 1)
    else:
        order = src.v_col, is_whole_row(src.v_row, src.v_col, src.dtype)
        made = along(step.key(*order), values, 1)
    return [(step.elements("dst", src.v_row, 1), made[:, None])]


def reduce_columns(step: Step) -> list[Write]:
    """dst[0, c] of all src[r, c]."""
    src = step.op.tile("src")
    values = step.read("src", src.v_row, src.v_col)
    if step.op.op.name == "pto.tcolsum" and step.added("src"):
        made = total(_plain(values), 0)
    else:
        made = along(step.key(src.v_row), values, 0)
    return [(step.elements("dst", 1, src.v_col), made[None, :])]


# -- matrices --------------------------------------------------------------------------------------


def multiply(step: Step) -> list[Write]:
    """dst[i, j] of the products lhs[i, k] rhs[k, j] in the order of k, and of what they are added
    to. Neither m and n nor the layouts decide a bit of it."""
    op = step.op
    m, k, n = op.tile("lhs").v_row, op.tile("lhs").v_col, op.tile("rhs").v_col
    if 0 in (m, k, n):
        raise Unprovable("multiplies matrices of no elements")
    order = op.switch("matmul.order")
    if order not in ("exact", "sequential"):
        why = f"is summed in the order of the BLAS of the machine (matmul.order={order})"
        raise Unprovable(why)
    step.memory.multiply(m * k * n)
    left, right = _factor(step, "lhs", m, k), _factor(step, "rhs", k, n)
    start = None
    if op.has("bias"):
        start = step.read("bias", 1, n)
    elif op.has("acc"):
        if op.tile("acc").addr != op.tile("dst").addr:
            raise Unprovable("adds to an accumulator in another place than its result")
        start = step.read("acc", m, n)
    types = [str(tile.type.dtype) for name, tile in _tiles(op) if name not in ("acc", "bias")]
    kind = (types, order, step.given, settings(op.core, step.memory), op.target)
    dst = step.elements("dst", m, n)
    if step.added("dst"):
        scale = salt("product", kind)
        products = _product(joined(scale, left), joined(scale, right))
        return [(dst, products if start is None else products + _plain(start))]
    products = _product(left * weights(k), right)
    key = salt("matmul", kind, k)
    begun = salt("nothing") if start is None else np.asarray(start)
    return [(dst, joined(key, np.asarray(begun), products))]


def _factor(step: Step, role: str, rows: int, cols: int) -> Hashes:
    """The elements of a factor, each with the scale of its group."""
    op, memory = step.op, step.memory
    found = step.read(role, rows, cols)
    if not op.has("lhs_scale"):
        return found
    along, lines = (cols, rows) if role == "lhs" else (rows, cols)
    name, places = scale_places(op, role, lines, along)
    space = memory.space(op.core, name)
    every = step.take(Elements(memory, space, places[..., None]))
    scales = np.repeat(every, GROUP, axis=1)[:, :along]
    return joined(salt("scaled"), found, scales if role == "lhs" else scales.T)


def _product(left: Hashes, right: Hashes) -> Hashes:
    odd = np.uint64(1)
    return (left | odd) @ (right | odd)


def store_accumulator(step: Step) -> list[Write]:
    """An accumulator to global memory, converted element by element."""
    op = step.op
    view, tile = op.view("dst"), op.tile("src")
    layout = layout_for_acc(view, tile)
    sizes, rows, cols = logical_sizes(op, view, tile, layout)
    made = joined(step.key(str(view.dtype)), step.read("src", rows, cols))
    return [(window_of(step, op.values["dst"], sizes), from_logical(made, sizes, layout))]


def window_of(step: Step, view: GmView, sizes: tuple[int, ...]) -> Elements:
    """The elements of a view. Raises Unprovable where two are at one place, as without a stride:
    what is there after a store is not one expression of one element."""
    spec = view.spec
    if spec.dtype.bits % 8:
        raise Unprovable("stores elements that are not whole bytes")
    width = spec.dtype.bits // 8
    places = np.full(sizes, view.offset, np.int64)
    axes = np.ogrid[tuple(slice(n) for n in sizes)]
    for axis, stride in zip(axes, spec.strides, strict=True):
        places = places + axis * stride
    number = view.memory
    assert isinstance(number, int)
    made = Elements(step.memory, ("gm", number), places[..., None] * width + np.arange(width))
    if np.unique(places).size != places.size:
        raise Unprovable("writes several elements to one place")
    return made


Rule = Callable[[Step], list[Write]]

_TWO_TILES = (
    *("add", "sub", "mul", "div", "max", "min", "and", "or", "xor"),
    *("shl", "shr", "fmod", "prelu", "addrelu", "pow"),
)
_WITH_SCALAR = (
    *("adds", "subs", "muls", "maxs", "mins", "ands", "ors", "xors"),
    *("shls", "shrs", "fmods", "lrelu", "divs", "pows"),
)
_ONE_TILE = ("abs", "neg", "exp", "log", "sqrt", "rsqrt", "recip", "relu", "not")
_WORDS = ("add", "sub", "mul", "div", "max", "min", "expdif")

RULES: dict[str, Rule] = {
    **{f"pto.t{name}": elementwise("src0", "src1") for name in _TWO_TILES},
    **{f"pto.t{name}": elementwise("src") for name in (*_WITH_SCALAR, *_ONE_TILE, "cvt")},
    **{f"pto.trowexpand{name}": row_form for name in _WORDS},
    **{f"pto.tcolexpand{name}": column_form for name in _WORDS},
    **{f"pto.trow{name}": reduce_rows for name in ("sum", "prod", "max", "min")},
    **{f"pto.tcol{name}": reduce_columns for name in ("sum", "prod", "max", "min")},
    **{
        f"pto.t{word}{scales}{kind}": multiply
        for word in ("matmul", "gemv")
        for scales in ("", ".mx")
        for kind in ("", ".acc", ".bias")
    },
    "pto.tquant": quantise,
    "pto.tdequant": quantise,
    "pto.trowexpand": expand_rows,
    "pto.tcolexpand": expand_columns,
}
"""Rules by operation. `tstore` of an accumulator is `store_accumulator`; moves are probed."""

MOVES = frozenset(
    f"pto.{name}"
    for name in ("tload", "tstore", "tmov", "textract", "tinsert", "ttrans", "texpands", "tci",
                 "tfillpad", "tfillpad_expand", "tfillpad_inplace")
)  # fmt: skip

SILENT = frozenset(
    f"pto.{name}"
    for name in ("set_flag", "wait_flag", "set_flag_dyn", "wait_flag_dyn", "record_event",
                 "wait_event", "barrier", "barrier_sync", "get_buf", "rls_buf", "get_buf_dyn",
                 "rls_buf_dyn", "syncall", "sync.set", "sync.wait", "set_intra_block",
                 "wait_intra_block", "set_cross_block", "wait_cross_block", "set_ffts", "tsync",
                 "tprefetch", "dsb", "fence.barrier_all", "dcci", "cmo.cacheinvalid")
)  # fmt: skip
"""Operations that change no memory."""

HANDLES = frozenset(
    f"pto.{name}"
    for name in ("alloc_tile", "declare_tile", "alloc_multi_tile", "multi_tile_get", "tassign",
                 "make_tensor_view", "partition_view", "treshape", "bitcast", "talias", "subview",
                 "tsubview", "subset", "addptr", "castptr", "get_validshape", "set_validshape",
                 "get_tensor_view_dim", "get_tensor_view_stride", "get_block_idx", "get_block_num",
                 "get_subblock_idx", "get_subblock_num", "eventid_array_get", "eventid_array_set",
                 "declare_eventid_array", "tget_scale_addr", "section.cube", "section.vector",
                 "tile_buf_addr", "tile_valid_rows", "tile_valid_cols", "tensor_view_addr",
                 "vecscope", "strict_vecscope")
)  # fmt: skip
"""Operations of the scalar unit that compute handles and look at no memory."""


_NUMBERS = frozenset(("arith", "scf", "cf", "func", "math", "index"))
"""Dialects whose operations compute numbers, or decide where the program goes on."""


def is_handle(name: str) -> bool:
    """True for operations of the scalar unit that look at no memory."""
    return name in HANDLES or name.partition(".")[0] in _NUMBERS


def is_move(op: Binding) -> bool:
    """True for operations that copy bytes, or write bytes that depend on nothing."""
    name = op.op.name
    if name not in MOVES or op.attr("atomicType") == "atomic_add":
        return False
    source = op.values.get("src")
    if isinstance(source, TileRef) and source.type.loc == "acc":
        return False
    tiles = [v for v in op.values.values() if isinstance(v, TileRef)]
    return name != "pto.tmov" or len({t.type.dtype.bits for t in tiles}) == 1


def rule_of(op: Binding) -> Rule | None:
    """Return the rule of an operation; None if there is none."""
    name = op.op.name
    source = op.values.get("src")
    if name == "pto.tstore" and isinstance(source, TileRef) and source.type.loc == "acc":
        given = sorted(name for name, value in op.values.items() if value is not None)
        is_plain = given == ["dst", "src"] and op.attr("atomicType") != "atomic_add"
        return store_accumulator if is_plain else None
    if any(each.type.dtype.bits % 8 for role, each in _tiles(op) if role in ("lhs", "rhs")):
        return None
    if name == "pto.tquant" and getattr(op.op.variant, "name", "") != "int8":
        return None
    return RULES.get(name)


_APART = frozenset((
    "sync", "handshake", "cross_core", "signals", "waits", "publishes", "launches", "simt_region",
    "atomic_update", "sets_quant", "pipes", "comm", "micro_simt", "debug",
))  # fmt: skip
"""Traits and families of operations that do more than to compute bytes of bytes."""


def not_whole(op: Binding) -> str:
    """Return why an operation without a rule is not followed, "" if it is: it may do nothing but
    compute bytes of memory from bytes of memory, numbers and registers that only numbers fill."""
    effects, has, definition = effects_of(op), op.op.has, op.op.definition
    family = definition.family if definition is not None else ""
    if op.sync is not None or any(map(has, _APART)) or family in _APART:
        return "there is no rule for this operation"
    if effects.is_atomic:
        return "adds to what is there, in any order"
    if any(str(r.where).startswith("register") for r in effects.reads):
        return "there is no rule for this operation, and it reads a register that data fill"
    memory = [r for r in effects.writes if not str(r.where).startswith("register")]
    if not memory or op.op.results:
        return "there is no rule for this operation, and it writes something else than memory"
    return ""


def settings(core: Core, memory: HashedMemory) -> list[tuple[str, str]]:
    """Return the registers that numbers of the program fill. Who reads one that data fill is not
    followed, or (the factors of a pipe's pushes) follows that itself."""
    return sorted(
        (name, repr(value)) for name, value in core.registers.items()
        if name not in memory.filled and not name.startswith("pipe ")
    )  # fmt: skip


def whole_key(step: Step) -> np.uint64:
    """Return the hash that names what an operation without a rule computes: also the shapes and
    layouts of its operands, and how they overlap; loop registers, masks and modes of stores are
    operands."""
    op = step.op
    tiles = dict(_tiles(op))
    shapes = [(k, str(v.type), v.v_row, v.v_col) for k, v in tiles.items()]
    views = [(k, v.spec) for k, v in sorted(op.values.items()) if isinstance(v, GmView)]
    meet = [
        (a, b, tiles[b].addr - tiles[a].addr)
        for a, b in combinations(tiles, 2)
        if tiles[a].type.loc == tiles[b].type.loc and _meet(tiles[a], tiles[b])
    ]
    switches = sorted(op.profile.switches.items())
    return step.key(shapes, views, meet, switches)


def _meet(one: TileRef, other: TileRef) -> bool:
    (_, a, b), (_, c, d) = storage_ranges(one)[0], storage_ranges(other)[0]
    return a < d and c < b


def covers_nothing(op: Binding) -> bool:
    """True if an operand has no elements: the operation then does less than its rule says."""
    return any(0 in (ref.v_row, ref.v_col) for name, ref in _tiles(op) if name != "tmp")
