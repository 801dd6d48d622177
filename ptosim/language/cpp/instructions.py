"""Instructions of the library: by their rows, destination first; a few have more to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptosim.ground.isa.schema import OpDef, OperandDef
from ptosim.language.build import Typed
from ptosim.language.cpp.communication import (
    communicate,
    img2col,
    is_communication,
    is_conv,
    operands_of,
    tiles_of,
)
from ptosim.language.cpp.declared import text
from ptosim.language.cpp.forms import (
    Matched,
    attribute,
    cure_of_arguments,
    match,
    raw,
    refusal,
    row_of,
    said_of_scales,
    silent,
    table,
)
from ptosim.language.cpp.kinds import (
    BOOL,
    INT,
    LONG,
    SCALARS,
    UNKNOWN,
    Address,
    Array,
    Cell,
    Event,
    Global,
    Member,
    Num,
    Pointer,
    Recorded,
    Scalar,
    Struct,
    Tile,
    number,
)
from ptosim.language.cpp.state import CppError, enough, refused
from ptosim.language.cpp.sync import Sync

_GRID = {"get_block_idx": "get_block_idx", "get_block_num": "get_block_num",
         "get_subblockid": "get_subblock_idx", "get_subblockdim": "get_subblock_num",
         "GetBlockIdx": "get_block_idx", "GetBlockNum": "get_block_num"}  # fmt: skip
_PLAINEST = frozenset(
    ("NoRelu", "AtomicNone", "None", "Null", "DEFAULT", "Unspecified", "Undefined")
)
"""Members of enumerations that say that nothing is asked for."""
_CUBE_OPS = ("tmatmul", "tgemv")


class Instructions(Sync):
    """Lowering of calls of the library."""

    host = False
    """Is a launch wrapper being followed?"""

    def instruction(self, word: str, targs: list[Any], args: list[Any], node: Any) -> Any:
        """Lower a call of the library."""
        word = word.removesuffix("_IMPL")
        if word in _GRID:
            return self.grid(_GRID[word], node)
        if word == "getFFTSMsg":
            enough(word, args, 2, node)
            return self.message([self.num(self.ev(a), a) for a in args], node)
        if word in raw():
            raise refused(
                node,
                word,
                "it is an intrinsic on the memory of the core, without tiles",
                "use the instructions on tiles",
            )
        return number(0, LONG) if word in silent() else self._lowered(word, targs, args, node)

    def _lowered(self, word: str, targs: list[Any], args: list[Any], node: Any) -> Any:
        handler = getattr(self, f"i_{word.lower()}", None)
        row = row_of(word) if handler is None else None
        is_between = word.removeprefix("comm.") in table()["communication"]
        if handler is None and row is None and not is_between:
            return self._unknown(word, node)
        values = [self._operand(a, node) for a in args]
        self.here(node)
        if word != "TSYNC":
            values = self._after_waits(values, node)
        if is_communication(word, values):
            return communicate(self, word, values, targs, node) or Recorded(word)
        if handler is not None:
            self._refuse_unfit(word, values, targs, node)
            handler(values, targs, node, word)
            return Recorded(word)
        values = operands_of(word, values, node)
        if row is not None:
            self._by_row(word, row, values, targs, node)
        return Recorded(word)

    def _after_waits(self, args: list[Any], node: Any) -> list[Any]:
        for value in args:
            if isinstance(value, Event):
                self.wait_event(value, node)
        return [a for a in args if not isinstance(a, Event)]

    def _refuse_unfit(self, word: str, values: list[Any], targs: list[Any], node: Any) -> None:
        cure = cure_of_arguments(word, values, targs)
        if cure is not None:
            why = f"`{word}` does not take these arguments: {_values_text(values)}"
            raise CppError(node, why, cure)

    def _unknown(self, word: str, node: Any) -> Any:
        if self.host:
            return number(0, LONG)
        why = "nothing of that name is known here"
        cure = "headers are not read but those beside the file: put its definition there"
        raise refused(node, word, *(refusal(word) or (why, cure)))

    def _operand(self, arg: Any, node: Any) -> Any:
        value = self.as_number(self.ev(arg), node)
        return self.taken(value.cell, node) if isinstance(value, Address) else value

    # -- by the rows -------------------------------------------------------------------------------

    def _by_row(
        self, word: str, row: OpDef, values: list[Any], targs: list[Any], node: Any
    ) -> None:
        given = _flat(values)
        plain = [value for value in given if not isinstance(value, Member)]
        words = [value for value in (*given, *targs) if isinstance(value, Member)]
        if word.endswith("_FP") and words:
            word = word.removesuffix("_FP")
            row = row_of(word) or row  # the plain row takes fp too, and these words
        if self._in_two(word, row, plain, words, node):
            return
        word, row = self._spelled(word, row, plain, words)
        self._spell_out(word, plain, node)
        found = match(word, row, plain)
        if found is None:
            raise CppError(
                node,
                f"`{word}` does not take these arguments: {_values_text(plain)}",
                f"see `ptosim ops {row.name}`",
            )
        attrs = self._attributes(word, row, words, targs, node)
        attrs.update({k: _number_word(v) for k, v in found[2].items()})
        self.emit(row, found, attrs, node)

    def _in_two(self, word: str, row: OpDef, plain: list[Any], words: list[Any], node: Any) -> bool:
        """Two results at once, (dst0, dst1, src, row0, col0, row1, col1), are two operations."""
        kinds = [isinstance(v, Tile) for v in plain]
        masks = table()["masks"].get(word)
        if masks is not None and kinds == [True] * 3:
            gather = row_named(f"pto.{masks[0].lower()}", row)
            for dst, mask in zip(plain[:2], masks[1:], strict=True):
                self._by_row(masks[0], gather, [dst, plain[2]], [Member("MaskPattern", mask)], node)
            return True
        if word not in table()["pairs"] or kinds != [True] * 3 + [False] * 4:
            return False
        for dst, at in zip(plain[:2], (plain[3:5], plain[5:7]), strict=True):
            self._by_row(word, row, [dst, plain[2], *at], words, node)
        return True

    def _spell_out(self, word: str, plain: list[Any], node: Any) -> None:
        """Indices that are left out are 0; one element of a tile may be a scalar; a scratch tile
        that the IR does not name says nothing about values."""
        if word in table()["pairs"] and len(plain) == 2:
            plain += [number(0), number(0)]
        at = table()["elements"].get(f"{word} {len(plain)}")
        if at is not None and isinstance(plain[at], Tile):
            plain[at] = self.tile_member(plain[at], "GetValue", [number(0)], node)
        most = table()["most"].get(word)
        if most is not None:
            del plain[most:]

    def _spelled(
        self, word: str, row: OpDef, plain: list[Any], words: list[Member]
    ) -> tuple[str, OpDef]:
        """Forms of an instruction that are rows of their own."""
        other = None
        if word in ("TMATMUL_MX", "TGEMV_MX") and len(plain) == 6:
            is_bias = isinstance(plain[5], Tile) and plain[5].type.loc == "bias"
            name = f"pto.{word.lower().replace('_', '.')}.{'bias' if is_bias else 'acc'}"
            return name, row_named(name, row)
        if word == "TCONCAT" and len(plain) == 5:
            other = "TCONCATIDX"
        return (other, row_of(other) or row) if other is not None else (word, row)

    def _attributes(
        self, word: str, row: OpDef, words: list[Member], targs: list[Any], node: Any
    ) -> dict[str, str]:
        attrs: dict[str, str] = {}
        default = table()["words"].get(word)
        if default is not None and default.split(".")[0] not in {m.enum for m in words}:
            words = [*words, Member(*default.split("."))]
        attrs.update(a for m in words if (a := self._mode(row, m, node)) is not None)
        if "maskPattern" in attrs:
            attrs.setdefault("axis", '"row"')
        key = table()["numbers"].get(word)
        for value in targs:
            if isinstance(value, Num) and key is not None and key not in attrs:
                attr = row.attrs.get(key)
                if attr is not None:
                    attrs[key] = _mode_word(value, attr.type)
        return attrs

    def _mode(self, row: OpDef, member: Member, node: Any) -> tuple[str, str] | None:
        """Return the attribute that a member of an enumeration is; None where it asks nothing."""
        if member.enum in ("GatherAxis", "ScatterAxis"):
            return "axis", '"col"' if "col" in member.name.lower() else '"row"'
        if member.enum == "HistByte":
            return "byte", member.name[-1]
        found = attribute(row, member)
        if self.arch != "a5" and member.name in table()["of_a5"].get(member.enum, "").split():
            name, cure = f"{member.enum}::{member.name}", "run it for A5"
            raise refused(node, name, "the headers of A2/A3 have no such mode", cure)
        is_left_out = table()["enums"].get(member.enum) == "" or member.name in _PLAINEST
        if found is None and not is_left_out:
            name, cure = f"{member.enum}::{member.name}", f"see `ptosim ops {row.name}`"
            raise refused(node, name, f"`{row.name}` has no such mode", cure)
        return found

    def emit(self, row: OpDef, found: Matched, attrs: dict[str, str], node: Any) -> None:
        """Append an operation with its operands by name."""
        variant, operands, _ = found
        like = self._element(row, operands)
        items: dict[str, Any] = {}
        for operand in variant.operands:
            value = operands.get(operand.name)
            if value is None:
                continue
            if isinstance(value, list):
                items[operand.name] = [self.operand(v, operand, like, node) for v in value]
            else:
                items[operand.name] = self.operand(value, operand, like, node)
        ins = _listed(items, variant.ins)
        outs = _listed(items, variant.outs)
        words = {k: v for k, v in items.items()
                 if k not in {d.name for d in (*variant.ins, *variant.outs)}}  # fmt: skip
        if any(row.name.startswith(f"pto.{w}") for w in _CUBE_OPS):
            self.uses_cube = True
        if row.form == "items":
            self.make.op(row.name, [*ins, *outs, attrs] if attrs else [*ins, *outs])
            return
        self.make.tile_op(row.name, ins, outs, attrs, words)

    def _element(self, row: OpDef, operands: dict[str, Any]) -> Scalar | None:
        """Scalars have the element type of the source, else of the destination."""
        own = table()["scalars"].get(row.mnemonic)
        if own is not None:
            return SCALARS[own]
        tiles = [operands.get(n) for n in ("src", "src0", "dst")]
        return next((t.type.dtype for t in tiles if isinstance(t, Tile)), None)

    def operand(self, value: Any, definition: OperandDef, like: Scalar | None, node: Any) -> Typed:
        """Return a value as an operand."""
        if isinstance(value, Tile):
            return self.tile(value, node)
        if isinstance(value, Global):
            return self.view(value, node)
        if not isinstance(value, Num):
            raise CppError(node, "this cannot be an operand")
        if isinstance(value.type, Pointer):
            return self.typed(value)
        if "index" in definition.kinds and "scalar" not in definition.kinds:
            return self.index(value)
        if "scalar" in definition.kinds and like is not None and like.kind in ("int", "float"):
            return self._scalar(value, like, node)
        return self.typed(value, value.type.stored)

    def _scalar(self, value: Num, like: Scalar, node: Any) -> Typed:
        value = self.cast(value, like, node)
        if value.is_known:
            return self.constant(value.const, like.stored)
        return self.typed(value, like.stored)

    # -- instructions with more to them ------------------------------------------------------------

    def i_tassign(self, args: list[Any], targs: list[Any], node: Any, word: str) -> None:
        """`TASSIGN(tile, address)`, `TASSIGN<address>(tile)`, `TASSIGN(global, pointer)`."""
        target = args[0] if args else None
        value = (
            targs[0] if targs and isinstance(targs[0], Num) else args[1] if len(args) > 1 else None
        )
        if isinstance(target, Global):
            self.repoint(target, self.num(value, node), node)
            return
        if is_conv(target):
            for tile in tiles_of(target):
                self.place_tile(tile, self.cast(self.num(value, node), LONG, node), node)
            return
        if not isinstance(target, Tile):
            if target is not None and not isinstance(target, (Num, Member)):
                return  # an object that has no place in memory here
            raise CppError(node, "TASSIGN takes a tile and an address")
        address = self.cast(self.num(value, node), LONG, node)
        self.place_tile(target, address, node)

    def i_tsubview(self, args: list[Any], targs: list[Any], node: Any, word: str) -> None:
        """dst is where element (row, col) of src is; it keeps its own strides."""
        self._needs_addresses(word, node)
        dst, src = args[:2]
        row, col = (self.cast(self.num(a, node), LONG, node) for a in args[2:4])
        type_ = src.type
        strides = (type_.cols, 1) if type_.blayout == "row_major" else (1, type_.rows)
        moved = self.binary("*", row, number(strides[0] * type_.dtype.size, LONG), node)
        across = self.binary("*", col, number(strides[1] * type_.dtype.size, LONG), node)
        address = self.binary("+", self.address_of(src, node), moved, node)
        self.place_tile(dst, self.binary("+", address, across, node), node)

    def _needs_addresses(self, word: str, node: Any) -> None:
        if self.is_auto:
            raise refused(
                node, word, "with __PTO_AUTO__ tiles have no addresses", "leave the define out"
            )

    def i_treshape(self, args: list[Any], targs: list[Any], node: Any, word: str) -> None:
        """dst is where src is; both have the same bytes."""
        self._needs_addresses(word, node)
        dst, src = args[:2]
        if dst.type.bytes != src.type.bytes or dst.type.loc != src.type.loc:
            raise CppError(
                node, "static assertion of TRESHAPE: the tiles differ in memory or bytes"
            )
        if (dst.type.slayout == "none_box") != (src.type.slayout == "none_box"):
            raise CppError(
                node, "static assertion of TRESHAPE: one of the tiles is in boxes, the other is not"
            )
        self.place_tile(dst, self.address_of(src, node), node)

    i_talias = i_treshape

    def i_set_vector_mask(self, args: list[Any], targs: list[Any], node: Any, word: str) -> Num:
        """All bits of a mask are what instructions on tiles need; others are for intrinsics."""
        bits = [self.num(a, node) for a in args]
        if not all(b.is_known and ~b.const % 2**64 == 0 for b in bits):
            why = "a mask leaves out elements of intrinsics; a tile has its valid rows and columns"
            raise refused(
                node, word, why, "leave it out, or give all bits: set_vector_mask(-1, -1)"
            )
        return number(0, LONG)

    def i_tquant(self, args: list[Any], targs: list[Any], node: Any, word: str) -> None:
        """Symmetric and asymmetric int8, and block scales with their tiles of exponents."""
        words = [w for t in targs if isinstance(t, Member) for w in said_of_scales(t)]
        kind = next((t.name for t in words if t.enum == "QuantType"), "")
        is_mx = kind.startswith("MX")
        row = row_of("TQUANT.MX".lower()) if is_mx else row_of("TQUANT")
        row = row_named("pto.tquant.mx", row) if is_mx else row
        if row is None:
            raise CppError(node, "TQUANT has no row")
        names = ["dst", "src", "exp", "max", "scaling", "exp_zz"] if is_mx else ["dst", "src", "fp"]
        rest = args[len(names) :] if not is_mx else []
        operands = dict(zip(names, args, strict=False))
        if rest and kind == "INT8_ASYM":
            operands["offset"] = rest.pop()
        if rest:
            operands["tmp"] = rest[0]
        attrs = self._attributes("", row, words, [], node)
        numbers = [t for t in targs if isinstance(t, Num)]
        if is_mx:
            keys = ("grpAxis", "interleave")
            attrs |= {
                k: _mode_word(n, row.attrs[k].type) for k, n in zip(keys, numbers, strict=False)
            }
        wanted = set(operands)
        variant = next((v for v in row.variants if wanted <= {d.name for d in v.operands}
                        and v.name not in ("refused", "mx_page")), None)  # fmt: skip
        if variant is None:
            raise CppError(node, f"`TQUANT` does not take these arguments: {_values_text(args)}")
        self.emit(row, (variant, operands, {}), attrs, node)

    def i_tmrgsort(self, args: list[Any], targs: list[Any], node: Any, word: str) -> None:
        """Runs of one tile, or several lists with what was taken of each."""
        row = row_of("TMRGSORT")
        if row is None:
            return
        if not any(isinstance(a, Struct) for a in args):
            self._by_row("TMRGSORT", row, args, targs, node)
            return
        dst, taken, tmp, *lists = args
        ins = [self.tile(t, node) for t in (*lists, tmp)]
        truth = next((t for t in targs if isinstance(t, Num)), number(0, BOOL))
        attrs = {"exhausted": _truth(truth)}
        self.make.tile_op("pto.tmrgsort", ins, [self.tile(dst, node)], attrs)
        counts = self._taken(bool(truth.const), lists, node)
        for cell, count in zip(taken.fields.values(), counts, strict=True):
            cell.set(count if count is UNKNOWN else self.cast(count, cell.type, node))

    def _taken(self, exhausted: bool, lists: list[Tile], node: Any) -> list[Any]:
        """How many records of each list were taken: all, or, where one ends first, what a register
        says then, for which the library waits; A2/A3 have no operation that reads it."""
        if not exhausted:
            whole = [self._records(t, node) for t in lists]
            return whole + [number(0, INT)] * (4 - len(lists))
        if self.arch != "a5":
            return [UNKNOWN] * 4
        for word in ("set_flag", "wait_flag"):
            self.flag(word, "V", "S", number(0))
        names = [self.fresh() for _ in range(4)]
        self.make.op("pto.get_vms4_sr", [], ["i16"] * 4, results=names)
        return [Num(SCALARS["uint16_t"], None, n) for n in names]

    def _records(self, tile: Tile, node: Any) -> Num:
        """A record is a value and its index: 8 bytes."""
        width = number(8 // tile.type.dtype.size)
        return self.binary("/", self.extent(tile, 1, node), width, node)

    def i_timg2col(self, args: list[Any], targs: list[Any], node: Any, word: str) -> None:
        """`TIMG2COL(dst, map, posM = 0, posK = 0)`."""
        img2col(self, row_named(f"pto.{word.lower()}", None), args, node)

    def i_setfmatrix(self, args: list[Any], targs: list[Any], node: Any, word: str) -> None:
        """The registers that TIMG2COL goes by take what the ConvTile has; it brings them itself."""
        if not any(map(is_conv, args)):
            raise CppError(node, f"{word} takes a ConvTile")

    i_set_img2col_rpt = i_set_img2col_padding = i_setfmatrix

    def i_tget_scale_addr(self, args: list[Any], targs: list[Any], node: Any, word: str) -> None:
        """dst is in the memory of scales, at a sixteenth of the address of src."""
        dst, src = args[:2]
        address = self.binary(">>", self.address_of(src, node), number(4), node)
        self.place_tile(dst, address, node)
        self._by_row(word, row_named("pto.tget_scale_addr", None), [dst, src], targs, node)

    def i_tsetval(self, args: list[Any], targs: list[Any], node: Any, word: str) -> None:
        """`TSETVAL(tile, offset, value)`."""
        self.tile_member(args[0], "SetValue", args[1:], node)

    def i_set_quant_scalar(self, args: list[Any], targs: list[Any], node: Any, word: str) -> None:
        """`SET_QUANT_SCALAR(float)`, `SET_QUANT_VECTOR(tile)`: the factor of what FIFOs push;
        without one nothing takes it."""
        value = self.num(args[0], node) if isinstance(args[0], Num) else args[0]
        for number_ in self.pipe_ids.values():
            given = self.tile(value, node) if isinstance(value, Tile) else self.typed(value)
            attrs = [{"id": str(number_)}] if number_ else []
            self.make.op(f"pto.{word.lower()}", [given, *attrs])

    i_set_quant_vector = i_set_quant_scalar

    def i_tprint(self, args: list[Any], targs: list[Any], node: Any, word: str) -> None:
        """Printing says nothing about values."""

    def i___launch__(self, args: list[Any], targs: list[Any], node: Any, word: str) -> None:
        """The words of `<<<…>>>`: the number of blocks, and two words to ignore."""
        found = self.num(args[0], node)
        if self.scalars is not None:
            raise Launched(found.const or None)
        if found.is_known and not found.const:  # a function of the host says it
            found = Num(LONG, None, "")
        if self.has_launched.value.const is True:
            why, cure = "the wrapper launches several kernels in a row", "name one of them"
            raise refused(node, "<<<…>>>", why, f"{cure}; a list of launches is a chain")
        if self.launched is not None and self.launched != found:
            why = "the wrapper launches its kernels with several numbers of blocks"
            raise refused(node, "<<<…>>>", why, "name the kernel in the place of the wrapper")
        self.launched = found
        self.has_launched.set(number(True, BOOL))

    launched: Num | None = None
    scalars: Mapping[str, Any] | None = None
    """Arguments of the entry that are known, where only the number of blocks is asked."""
    has_launched: Cell


class Launched(Exception):
    """How many blocks are launched: None where it is not known."""

    def __init__(self, blocks: int | None) -> None:
        super().__init__()
        self.blocks = blocks


def row_named(name: str, default: Any) -> OpDef:
    """Return a row by its name."""
    from ptosim.ground.isa.rows import isa

    return isa().get(name) or default


def _flat(values: list[Any]) -> list[Any]:
    found = []
    for value in values:
        if isinstance(value, Array):
            found += [c.value for c in value.cells]
        else:
            found.append(value)
    return found


def _listed(items: dict[str, Any], definitions: Any) -> list[Typed]:
    found: list[Typed] = []
    for definition in definitions:
        item = items.get(definition.name)
        if item is not None:
            found += item if isinstance(item, list) else [item]
    return found


def _number_word(value: Any) -> str:
    if isinstance(value.const, bool):
        return "true" if value.const else "false"
    return str(value.const)


def _mode_word(value: Num, type_: str) -> str:
    """Return a number among the template arguments as an attribute of a type."""
    if type_ == "mx_group_axis":
        return f"#pto<mx_group_axis axis{value.const}>"
    return _truth(value) if type_ == "bool" else _number_word(value)


def _truth(value: Num) -> str:
    return "true" if value.const else "false"


def _values_text(values: list[Any]) -> str:
    words = {Tile: "tile", Global: "global tensor", Num: "number", Member: "word", Struct: "object"}
    return ", ".join(words.get(type(v), "object") for v in values) or "none"


__all__ = ["BOOL", "INT", "Cell", "Instructions", "text"]
