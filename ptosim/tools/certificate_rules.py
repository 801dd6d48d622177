"""The rules of the checker of certificates: what each operation makes of expressions.

Every byte has the number of an expression and its place in it. Written from the definitions of the
operations; nothing of it is the prover's. An operation without a rule here has no certificate."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ptosim.ground.ir.types import PackedDType
from ptosim.ground.records import dataclass
from ptosim.machine.core import Core
from ptosim.machine.effects.account import effects_of
from ptosim.machine.tile import TileRef
from ptosim.machine.values import GmView
from ptosim.ops.tile.reduce import is_whole_row

Numbers = np.ndarray
"""Numbers of expressions, uint64; sums and products wrap."""
Place = tuple[Any, Any]


class Unfollowed(Exception):
    """The checker does not follow an operation."""


def text_hash(*words: object) -> np.uint64:
    """Return the number of a text."""
    digest = hashlib.sha256("\x00".join(map(repr, words)).encode()).digest()
    return np.uint64(int.from_bytes(digest[:8], "big"))


_A, _B = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_ROTATE = np.uint64(0x9FB21C651E98DF25)


def mixed(values: Any) -> Numbers:
    """Return a one-to-one scramble of each number (the finaliser of MurmurHash3, Appleby)."""
    with np.errstate(over="ignore"):
        found = np.asarray(values, np.uint64) * np.uint64(1)
        found = (found ^ (found >> np.uint64(33))) * _A
        found = (found ^ (found >> np.uint64(29))) * _B
        return found ^ (found >> np.uint64(32))


def combined(first: Any, *others: Numbers) -> Numbers:
    """Return the number of an expression of others, in their order; shapes broadcast."""
    with np.errstate(over="ignore"):
        found = mixed(np.asarray(first, np.uint64) + _ROTATE)
        for at, other in enumerate(others, 1):
            found = mixed(found * _ROTATE + mixed(other + np.uint64(at)))
        return found


def in_order(key: Any, values: Numbers, axis: int) -> Numbers:
    """Return one expression of all along an axis: a sum of each with a number of its place."""
    places = mixed(np.arange(values.shape[axis], dtype=np.uint64) + text_hash("in order"))
    shape = [1] * values.ndim
    shape[axis] = -1
    with np.errstate(over="ignore"):
        total = (
            mixed(values + places.reshape(shape)) * (places | np.uint64(1)).reshape(shape)
        ).sum(axis=axis, dtype=np.uint64)
    return combined(key, total)


# -- memory ----------------------------------------------------------------------------------------


class Bytes:
    """A memory: of each byte the expression, and which byte of it."""

    __slots__ = ("expressions", "places")

    def __init__(self, expressions: Numbers) -> None:
        self.expressions = expressions
        self.places = np.zeros(len(expressions), np.uint8)

    def read(self, at: np.ndarray) -> Numbers:
        """Return the expressions of elements; `at` has the places of their bytes along its last
        axis."""
        expressions, places = self.expressions[at], self.places[at]
        width = at.shape[-1]
        whole = (expressions == expressions[..., :1]).all(-1) & (places == np.arange(width)).all(-1)
        parts = [
            combined(expressions[..., i], places[..., i].astype(np.uint64)) for i in range(width)
        ]
        return np.where(whole, expressions[..., 0], combined(text_hash("bytes", width), *parts))

    def is_equal(self, other: Bytes) -> bool:
        """True if all bytes are the same ones."""
        return np.array_equal(self.expressions, other.expressions) and np.array_equal(
            self.places, other.places
        )

    def write(self, at: np.ndarray, expressions: Numbers) -> None:
        """Write elements."""
        self.expressions[at] = np.broadcast_to(expressions[..., None], at.shape)
        self.places[at] = np.broadcast_to(np.arange(at.shape[-1], dtype=np.uint8), at.shape)


def elements_of(ref: TileRef, rows: int, cols: int) -> np.ndarray:
    """Return the places of the bytes of the first elements of a tile, (rows, cols, bytes). Raises
    Unfollowed for elements that are not whole bytes, or that the tile does not have."""
    bits = ref.type.dtype.bits
    if bits % 8 or rows > ref.type.rows or cols > ref.type.cols:
        raise Unfollowed(f"elements of {ref.type.dtype} in bits, or outside of the tile")
    grid = np.ogrid[:rows, :cols]
    offsets = ref.layout.offset(grid[0].astype(np.int64), grid[1].astype(np.int64))
    return ref.addr + np.asarray(offsets)[..., None] * (bits // 8) + np.arange(bits // 8)


# -- rules -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Elements of an operand: where they are, the places of their bytes (rows, cols, bytes)."""

    place: Place
    at: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """What is read and written, and the function from the expressions of the one to the other.
    `kind` says which elements of the result one element of a source may change: that at its place
    (`each`), those of its row or column, of both for a product. `key` is the number of what is
    computed."""

    kind: str
    key: np.uint64
    reads: Sequence[Part]
    write: Part
    make: Callable[[Sequence[Numbers]], Numbers]


_TWO = ("add", "sub", "mul", "div", "max", "min")
_EACH = frozenset(
    f"pto.t{word}"
    for word in (
        *_TWO, *(f"{word}s" for word in _TWO), "and", "or", "xor", "shl", "shr", "fmod", "prelu",
        "addrelu", "pow", "ands", "ors", "xors", "shls", "shrs", "fmods", "lrelu", "pows", "abs",
        "neg", "exp", "log", "sqrt", "rsqrt", "recip", "relu", "not", "cvt", "quant", "dequant",
    )
)  # fmt: skip
_ROWS = frozenset(f"pto.trowexpand{word}" for word in ("", *_TWO, "expdif"))
_COLUMNS = frozenset(f"pto.tcolexpand{word}" for word in ("", *_TWO, "expdif"))
_REDUCED = frozenset(f"pto.t{way}{word}" for way in ("row", "col") for word in
                     ("sum", "prod", "max", "min"))  # fmt: skip
_PRODUCTS = frozenset(("pto.tmatmul", "pto.tmatmul.acc", "pto.tmatmul.bias"))
MOVES = frozenset(
    f"pto.t{word}"
    for word in ("load", "store", "mov", "extract", "insert", "trans", "expands", "ci", "fillpad",
                 "fillpad_expand", "fillpad_inplace")
)  # fmt: skip
_ONE_A_ROW = frozenset(("fp", "scale", "offset"))


def rule_of(op: Any, core: Core, place: Callable[[Any], Place]) -> Rule | None:
    """Return the rule of one execution; None where its bytes are moved, or it has none."""
    name = op.op.name
    tiles = (v for v in op.values.values() if isinstance(v, TileRef))
    if name in _EACH and any(isinstance(t.type.dtype, PackedDType) for t in tiles):
        return None  # pairs of numbers: as a whole
    if name in _REDUCED:
        return _reduced(op, core, place)
    if name in _PRODUCTS:
        return _product(op, core, place)
    source, target = op.values.get("src"), op.values.get("dst")
    if isinstance(source, TileRef) and source.type.loc == "acc" and isinstance(target, GmView):
        return _stored(op, core, place)
    if name in _EACH or name in _ROWS or name in _COLUMNS:
        return _each(op, core, place)
    return None


def exact(value: Any) -> str:
    """A number to its last bit: of a NaN there are many."""
    if isinstance(value, (float, np.floating)):
        return f"{type(value).__name__} {np.asarray(value).tobytes().hex()}"
    return f"[{' '.join(map(exact, value))}]" if isinstance(value, (list, tuple)) else repr(value)


def _key(op: Any, core: Core, *more: object) -> np.uint64:
    values = [
        (name, exact(value))
        for name, value in sorted(op.values.items())
        if value is not None and not isinstance(value, (TileRef, GmView))
    ]
    types = [
        (name, str(value.type.dtype))
        for name, value in sorted(op.values.items())
        if isinstance(value, TileRef) and name != "tmp"
    ]
    tiles = {n: v.addr for n, v in op.values.items() if isinstance(v, TileRef) and n != "tmp"}
    shared = tiles.get("dst") == tiles.get("src") if op.op.name.endswith("s") else None
    attributes = sorted((k, repr(v)) for k, v in op.attributes.items())
    forms = getattr(op.op.variant, "name", ""), op.op.bound.get("tmp") is not None, shared
    switches = sorted(op.profile.switches.items())
    registers = sorted((name, repr(value)) for name, value in core.registers.items())
    return text_hash(
        op.op.name, attributes, values, types, forms, registers, op.target, switches, more
    )


def _part(op: Any, place: Callable[[Any], Place], name: str, rows: int, cols: int) -> Part:
    tile = op.values[name]
    return Part(place(tile), elements_of(tile, rows, cols))


def _each(op: Any, core: Core, place: Callable[[Any], Place]) -> Rule:
    """Each element of the result of those at its place; in a row or a column of values of the one
    for its row or its column."""
    dst, reads = op.values["dst"], []
    rows, cols = dst.v_row, dst.v_col
    name = op.op.name
    order = [o.name for o in op.op.variant.operands if isinstance(op.values.get(o.name), TileRef)]
    for operand in order:
        if operand in ("dst", "tmp"):
            continue
        tile = op.values[operand]
        alone = name in _ROWS | _COLUMNS and operand in ("src1", "src")
        if (name in _ROWS and alone) or operand in _ONE_A_ROW:
            if tile.layout.name != "dn" and name != "pto.trowexpand":
                raise Unfollowed("values for each row that are no column")
            reads.append(_part(op, place, operand, rows, 1))
        elif name in _COLUMNS and alone:
            reads.append(_part(op, place, operand, 1, cols))
        else:
            reads.append(_part(op, place, operand, rows, cols))
    key = _key(op, core)
    copies = name in ("pto.trowexpand", "pto.tcolexpand")
    make = (lambda given: given[0]) if copies else (lambda given: combined(key, *given))
    return Rule("each", key, reads, _part(op, place, "dst", rows, cols), make)


def _reduced(op: Any, core: Core, place: Callable[[Any], Place]) -> Rule:
    src = op.values["src"]
    along = op.op.name.startswith("pto.trow")
    size = src.v_col if along else src.v_row
    whole = along and is_whole_row(src.v_row, src.v_col, op.tile("src").dtype)
    key = _key(op, core, size, whole)
    axis = 1 if along else 0
    shape = (src.v_row, 1) if along else (1, src.v_col)
    return Rule(
        "row" if along else "column", key, [_part(op, place, "src", src.v_row, src.v_col)],
        _part(op, place, "dst", *shape),
        lambda given: np.expand_dims(in_order(key, given[0], axis), axis),
    )  # fmt: skip


def _product(op: Any, core: Core, place: Callable[[Any], Place]) -> Rule:
    """A product by rows of the left and columns of the right side, and what it is added to."""
    left, right = op.values["lhs"], op.values["rhs"]
    m, k, n = left.v_row, left.v_col, right.v_col
    if op.switch("matmul.order") not in ("exact", "sequential"):
        raise Unfollowed("products in the order of a library")
    reads = [_part(op, place, "lhs", m, k), _part(op, place, "rhs", k, n)]
    if op.has("bias"):
        reads.append(_part(op, place, "bias", 1, n))
    elif op.has("acc"):
        if op.values["acc"].addr != op.values["dst"].addr:
            raise Unfollowed("an accumulator in another place than the result")
        reads.append(_part(op, place, "acc", m, n))
    key, places = _key(op, core, k), mixed(np.arange(k, dtype=np.uint64) + text_hash("k"))

    def make(given: Sequence[Numbers]) -> Numbers:
        with np.errstate(over="ignore"):
            one = mixed(given[0] + places) | np.uint64(1)
            other = mixed(given[1] ^ places[:, None]) | np.uint64(1)
            return combined(key, one @ other, *given[2:])

    return Rule("product", key, reads, _part(op, place, "dst", m, n), make)


def _stored(op: Any, core: Core, place: Callable[[Any], Place]) -> Rule | None:
    """An accumulator in global memory, row by row; None for a store that scales or converts
    otherwise, which is followed as a whole."""
    view, tile = op.values["dst"], op.values["src"]
    given = {name for name, value in op.values.items() if value is not None}
    sizes = [size for size in view.spec.sizes if size != 1]
    rows, cols = tile.v_row, tile.v_col
    is_plain = given == {"dst", "src"} and op.op.attributes.get("atomicType") != "atomic_add"
    in_rows = len(sizes) <= 2 and view.spec.sizes[-1] == cols
    is_whole = int(np.prod(view.spec.sizes)) == rows * cols and not view.spec.dtype.bits % 8
    if not (is_plain and in_rows and is_whole):
        return None
    width = view.spec.dtype.bits // 8
    at = np.full(view.spec.sizes, view.offset, np.int64)
    for axis, stride in zip(np.ogrid[tuple(slice(s) for s in view.spec.sizes)], view.spec.strides,
                            strict=True):  # fmt: skip
        at = at + axis * stride
    if np.unique(at).size != at.size:
        raise Unfollowed("several elements go to one place")
    at = at.reshape(rows, cols)[..., None] * width + np.arange(width)
    key = _key(op, core, str(view.spec.dtype))
    source = _part(op, place, "src", rows, cols)
    return Rule("each", key, [source], Part(("gm", view.memory), at), lambda g: combined(key, g[0]))


_ALONE = frozenset(("sync", "pipes", "comm", "debug", "micro_simt"))
"""Families whose operations do more than to compute bytes of bytes."""
_MORE = ("sync", "handshake", "cross_core", "signals", "waits", "publishes", "launches",
         "simt_region", "atomic_update", "sets_quant")  # fmt: skip

Reach = list[tuple[str, Place, np.ndarray]]
"""Operand, memory and numbers of bytes."""


def whole_of(op: Any, *, adds: bool = False) -> tuple[Reach, Reach]:
    """Return the bytes that an operation without a rule reads and writes, by its effects. Raises
    Unfollowed for one that does something else than to write memory, on its own core, or to add to
    it where that is asked for."""
    effects, definition = effects_of(op), op.op.definition
    if definition.family in _ALONE or any(map(op.op.has, _MORE)) or op.sync is not None:
        raise Unfollowed("there is no rule for it")
    if (effects.is_atomic and not adds) or op.op.results or op.made or op.signals or op.awaits:
        raise Unfollowed("it does more than to write memory of its core")
    every = (*effects.reads, *effects.found, *effects.writes)
    if any(str(each.where).startswith("register") for each in every) or not effects.writes:
        raise Unfollowed("it does more than to write memory of its core")

    def bytes_of(part: Any) -> Reach:
        found = []
        for each in part:
            is_global = isinstance(each.where, int)
            place = ("gm", each.where) if is_global else (each.where, each.core.number)
            shapes = getattr(each, "parts", None)
            at = [np.arange(a, b) for a, b in runs(each, shapes)]
            found.append((each.operand, place, np.concatenate(at) if at else np.arange(0)))
        return found

    return bytes_of((*effects.reads, *effects.found)), bytes_of(effects.writes)


def whole_key(op: Any, core: Core) -> np.uint64:
    """Return the number of what an operation without a rule computes: with the types, shapes and
    layouts of its operands, and how far they are apart."""
    tiles = [(n, v) for n, v in sorted(op.values.items()) if isinstance(v, TileRef)]
    views = [(n, v.spec) for n, v in sorted(op.values.items()) if isinstance(v, GmView)]
    shapes = [(n, str(t.type), t.v_row, t.v_col) for n, t in tiles]
    apart = [
        (one, other, b.addr - a.addr)
        for one, a in tiles
        for other, b in tiles
        if a.type.loc == b.type.loc and abs(b.addr - a.addr) < max(a.type.bytes, b.type.bytes)
    ]
    return _key(op, core, "whole", shapes, [(n, repr(v)) for n, v in views], apart)


def runs(reached: Any, parts: Any) -> Iterator[tuple[int, int]]:
    """Yield the runs of bytes of an account."""
    shapes = [(reached.start, reached.run, reached.levels)] if parts is None else [
        (p.start, p.run, p.dims) for p in parts
    ]  # fmt: skip
    for start, run, dims in shapes:
        starts = np.array([start], np.int64)
        for times, distance in dims:
            starts = (starts[:, None] + np.arange(times) * distance).reshape(-1)
        for each in starts:
            yield int(each), int(each) + run


def refuse_shifted(read: Part, write: Part) -> None:
    """Raise Unfollowed for a result that is in its source, but not element by element."""
    if read.place != write.place:
        return
    if read.at.shape == write.at.shape and np.array_equal(read.at, write.at):
        return
    if read.at.max() < write.at.min() or write.at.max() < read.at.min():
        return
    if np.intersect1d(read.at.reshape(-1), write.at.reshape(-1)).size:
        raise Unfollowed("it writes where it still reads")
