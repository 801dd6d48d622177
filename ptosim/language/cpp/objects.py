"""Objects of the library: tiles and their addresses, global tensors and their windows."""

from __future__ import annotations

from typing import Any

from ptosim.language.build import Typed
from ptosim.language.cpp import library
from ptosim.language.cpp.communication import new_conv
from ptosim.language.cpp.declared import Declared, field_of, has_word, named, text
from ptosim.language.cpp.evaluate import Expressions
from ptosim.language.cpp.kinds import (
    BOOL,
    INT,
    LONG,
    SCALARS,
    UNKNOWN,
    Array,
    ArrayType,
    Cell,
    Dims,
    DimsValue,
    Enum,
    Event,
    EventType,
    Global,
    GlobalType,
    Member,
    Named,
    Num,
    PipeType,
    Pointer,
    Scalar,
    StandardArray,
    Struct,
    StructType,
    Tile,
    TileType,
    number,
)
from ptosim.language.cpp.state import CppError, Extent, NeedsConstant, enough, refused

_NEEDED = {"SetValue": 2, "GetValue": 1, "SetValidShape": 2, "SetValidRow": 1, "SetValidCol": 1}
"""How many arguments member functions of tiles take."""
_COPIED = (Tile, Global, DimsValue, Event, Struct)


class Objects(Expressions):
    """Making objects, and what their members do."""

    def constructed(self, type_: Any, args: list[Any], node: Any, label: str = "") -> Any:
        """Return an object of a type made with arguments."""
        self.here(node)
        if isinstance(type_, Declared):
            type_ = self.template_of(type_, args, node)
        if isinstance(type_, (Scalar, Pointer, Enum)):
            return self._plain_value(type_, args, node)
        if len(args) == 1 and isinstance(args[0], _COPIED) and args[0].type == type_:
            return self.copied(args[0])
        if isinstance(type_, (TileType, GlobalType, Dims)):
            return self._of_memory(type_, args, node, label)
        if isinstance(type_, EventType):
            return self.new_event(type_, args, node)
        if isinstance(type_, PipeType):
            return self.new_pipe(type_, args, node)
        if isinstance(type_, ArrayType):
            return self._array(type_, args, node, label)
        if isinstance(type_, StructType):
            return self.new_struct(type_, args, node, label)
        if isinstance(type_, Named) and type_.name == "ConvTile":
            return new_conv(self, type_, args, node, label)
        return self._named(type_, args, node)

    def template_of(self, found: Declared, args: list[Any], node: Any) -> Any:
        """Return the struct that a template is for what an object is made with."""
        raise NotImplementedError

    def _of_memory(self, type_: Any, args: list[Any], node: Any, label: str) -> Any:
        if isinstance(type_, TileType):
            return self._tile(type_, args, node, label)
        if isinstance(type_, GlobalType):
            return self._global(type_, args, node, label)
        return DimsValue(type_, self._sizes(type_, args, node))

    def _named(self, type_: Any, args: list[Any], node: Any) -> Any:
        if isinstance(type_, Named) and type_.name == "MrgSortExecutedNumList":
            fields = {f"mrgSortList{i}": self.cell(UNKNOWN, SCALARS["uint16_t"], soft=True)
                      for i in range(4)}  # fmt: skip
            return Struct(type_, fields)
        if isinstance(type_, Named) and type_.name in ("PadValueCustom", "PadCustom") and args:
            return args[0]
        if isinstance(type_, Named) and type_.name in ("pair", "tuple"):
            return self.grouped([self.as_type(a, t, node) for a, t in zip(args, type_.args,
                                 strict=False)], type_.name)  # fmt: skip
        if isinstance(type_, Named):
            return Struct(type_, {"args": args})
        raise CppError(node, "an object of this cannot be made here")

    def _plain_value(self, type_: Any, args: list[Any], node: Any) -> Any:
        if not args:
            return Num(type_, 0) if not isinstance(type_, Enum) else Member(type_.name, "", 0)
        return self.as_type(args[0], type_, node)

    def new_event(self, type_: EventType, args: list[Any], node: Any) -> Event:
        """Return an Event with its id."""
        raise NotImplementedError

    def new_pipe(self, type_: PipeType, args: list[Any], node: Any) -> Any:
        """Return a FIFO object; it is set up here."""
        raise NotImplementedError

    def grouped(self, values: list[Any], word: str = "tuple") -> Struct:
        """Return a pair or tuple of values."""
        raise NotImplementedError

    def new_struct(self, type_: StructType, args: list[Any], node: Any, label: str) -> Struct:
        """Return an object of a struct of the file."""
        raise NotImplementedError

    def _array(self, type_: ArrayType, args: list[Any], node: Any, label: str) -> Array:
        args = self._braced(type_, args, node)
        if len(args) > type_.count:
            raise CppError(node, f"{len(args)} values for an array of {type_.count}")
        if type_.count > 65_536:
            raise CppError(node, f"an array of {type_.count} elements is too large to be followed")
        cells = []
        for i in range(type_.count):
            given = [args[i]] if i < len(args) else []
            if given and isinstance(given[0], list):
                given = given[0]
            made = self.constructed(type_.of, given, node, f"{label}{i}")
            cells.append(self.cell(made, type_.of))
        return Array(type_, cells)

    def _braced(self, type_: ArrayType, args: list[Any], node: Any) -> list[Any]:
        """Return the values of an array: `std::array` has one more pair of braces than it needs;
        where the inner ones are left out, numbers fill one element after the other."""
        is_inside = isinstance(type_, StandardArray) and len(args) == 1
        args = args[0] if is_inside and isinstance(args[0], list) else args
        of, has_numbers = type_.of, any(isinstance(a, Num) for a in args)
        if isinstance(of, ArrayType) and has_numbers:
            size = of.count
            while isinstance(of := of.of, ArrayType):
                size *= of.count
            if not isinstance(of, Scalar) or not all(isinstance(a, Num) for a in args):
                raise _left_out(node)
            return [args[i : i + size] for i in range(0, len(args), size)]
        if isinstance(of, StructType) and has_numbers and not self.has_constructor(of):
            raise _left_out(node)
        return args

    def has_constructor(self, type_: StructType) -> bool:
        """Has a struct of the file a constructor?"""
        raise NotImplementedError

    # -- tiles -------------------------------------------------------------------------------------

    def _tile(self, type_: TileType, args: list[Any], node: Any, label: str) -> Tile:
        dynamic = [type_.v_row < 0, type_.v_col < 0]
        sizes = [type_.v_row, type_.v_col]
        given = [self.num(a, node) for a in args]
        if len(given) not in (0, sum(dynamic)) and not (len(given) == 2 and any(dynamic)):
            raise CppError(node, f"the tile has {sum(dynamic)} dynamic extents, and "
                           f"{len(given)} values are given")  # fmt: skip
        if len(given) == 2:
            given = [g for g, d in zip(given, dynamic, strict=True) if d]
        extents = []
        for is_open, size, full in zip(dynamic, sizes, (type_.rows, type_.cols), strict=True):
            fallback = number(full) if is_open else number(size)
            extents.append(given.pop(0) if is_open and given else fallback)
        v_row, v_col = (self.cell(e, soft=True) for e in extents)
        block = self.make.ops
        name = self.fresh(label or "tile")
        return Tile(
            type_,
            self.cell(name, soft=True),
            label,
            self.cell(None, soft=True),
            None,
            (v_row, v_col),
            block,
            (block[-1] if block else None, tuple(extents), self.make.at),
        )

    def place_tile(self, tile: Tile, address: Num, node: Any) -> None:
        """`TASSIGN(tile, address)`: the first one where the tile is declared gives it storage."""
        self._refuse_change(tile, "placed", node)
        if self.is_auto:
            return
        is_first, is_same = tile.made is None, self.make.ops is tile.block
        if is_first:
            hoisted = address if is_same or address.is_known else number(0, LONG)
            self._allocate(tile, hoisted, node, in_place=is_same)
        if not is_first or not is_same:
            tile.is_moved = True
            self.move(self.tile(tile, node), address)
        tile.address.set(address)

    def _refuse_change(self, tile: Tile, what: str, node: Any) -> None:
        """Raise CppError for a tile that stands for one of several, and for one that several
        variables mean."""
        if tile.chosen is not None:
            raise NeedsConstant(node, f"which tile is {what} depends on values of the run")
        if tile.is_shared:
            why = f"`{tile.label}` was copied where its address depends on values of the run"
            raise NeedsConstant(node, f"{why}: one of the two cannot be {what} by itself",
                                "declare another tile, and place it by TASSIGN")  # fmt: skip

    def _allocate(self, tile: Tile, address: Num | None, node: Any, in_place: bool) -> None:
        after, extents, at = tile.place
        before = self.make.at
        with self.apart() as made:
            self.make.at = before if in_place else at
            items: list[Any] = []
            if address is not None:
                items.append(self.make.keyword("addr", self.place_word(address)))
            for word, extent, size in zip(
                ("valid_row", "valid_col"), extents, (tile.type.v_row, tile.type.v_col), strict=True
            ):
                if size < 0:
                    items.append(self.make.keyword(word, self.index(extent)))
            self.make.op("pto.alloc_tile", items, [tile.type.ir], results=[tile.name.value])
        self.make.at = before
        if in_place:
            position = len(tile.block)
        else:
            position = tile.block.index(after) + 1 if after is not None else 0
        tile.block[position:position] = made
        tile.made = made[-1]

        def undo() -> None:
            for op in made:
                if op in tile.block:
                    tile.block.remove(op)
            tile.made = None

        self.journal.did(undo)

    def place_word(self, address: Num) -> Typed:
        """Return an address as an operand."""
        return self.typed(address, "i64") if address.is_known else self.typed(address)

    def tile(self, tile: Tile, node: Any) -> Typed:
        """Return a tile as an operand; one that was never placed has no address."""
        self.renew(tile, node)
        name = self.read(tile.name, node, f"tile `{tile.label}`")
        if tile.made is None:
            self._allocate(tile, None, node, in_place=self.make.ops is tile.block)
        self.side_of(tile)
        return Typed(name, tile.type.ir)

    def side_of(self, tile: Tile) -> None:
        """Note which core has the memory of a tile."""
        if tile.type.loc == "vec":
            self.uses_vector = True
        else:
            self.uses_cube = True

    def address_of(self, tile: Tile, node: Any) -> Num:
        """Return the byte address of a tile."""
        self.renew(tile, node)
        address = self.read(tile.address, node, f"the address of `{tile.label}`")
        if address is None:
            raise CppError(
                node,
                f"tile `{tile.label}` has no address yet",
                f"write TASSIGN({tile.label}, …) in front of it",
            )
        return self.cast(address, LONG, node)

    renew: Any

    def set_valid(self, tile: Tile, row: Num | None, col: Num | None, node: Any) -> None:
        """Give a tile new valid extents: `pto.set_validshape`."""
        self._refuse_change(tile, "cut", node)
        for cell, value in zip(tile.valid, (row, col), strict=True):
            if value is not None:
                cell.set(value)
        if tile.made is None and self.make.ops is tile.block:
            before, _, at = tile.place
            tile.place = (before, tuple(c.value for c in tile.valid), at)
            return
        sizes = [self.index(self.extent(tile, i, node)) for i in (0, 1)]
        tile.is_moved = True
        self.cut(self.tile(tile, node), sizes)

    def move(self, tile: Typed, address: Num) -> None:
        """Append `pto.tassign`."""
        self.make.op("pto.tassign", [tile, self.place_word(address)], [tile.type])

    def cut(self, tile: Typed, sizes: list[Typed]) -> None:
        """Append `pto.set_validshape`."""
        self.make.op("pto.set_validshape", [tile, *sizes], [tile.type])

    def taken(self, value: Any, node: Any) -> Any:
        """Return what is in a cell, an element of memory or an extent of a tile."""
        if isinstance(value, Extent):
            return self.extent(value.tile, value.axis, node)
        return super().taken(value, node)

    def assign(self, target: Any, value: Any, node: Any) -> None:
        """Give a variable, an element of memory, an object or an extent another value."""
        if not isinstance(target, Extent):
            super().assign(target, value, node)
        elif target.axis == 0:
            self.set_valid(target.tile, self.num(value, node), None, node)
        else:
            self.set_valid(target.tile, None, self.num(value, node), node)

    def extent(self, tile: Tile, axis: int, node: Any) -> Num:
        """Return the valid rows or columns of a tile."""
        self.renew(tile, node)
        value = tile.valid[axis].value
        if value is not UNKNOWN:
            return value
        names = [self.fresh("rows"), self.fresh("cols")]
        operand = self.tile(tile, node)
        self.make.op("pto.get_validshape", [operand], results=names, arrow=["index", "index"],
                     bare=True)  # fmt: skip
        return Num(INT, None, names[axis])

    # -- global tensors ----------------------------------------------------------------------------

    def _global(self, type_: GlobalType, args: list[Any], node: Any, label: str) -> Global:
        pointer = Num(Pointer(type_.dtype), 0)
        rest = list(args)
        if rest and isinstance(rest[0], Num):
            pointer = self._pointer(rest.pop(0), type_, node)
        dims = Dims("Shape", type_.shape), Dims("Stride", type_.stride)
        for i, (type_of, part) in enumerate(zip(dims, rest, strict=False)):
            rest[i] = self.constructed(type_of, part, node) if isinstance(part, list) else part
        cells = [[self.cell(n) for n in self._dims_of(type_of, rest)] for type_of in dims]
        return Global(
            type_, self.cell(pointer), cells[0], cells[1], self.cell(None, soft=True), label
        )

    def _pointer(self, value: Num, type_: GlobalType, node: Any) -> Num:
        """Return the pointer of a global tensor: one to other elements needs a cast; what a pointer
        to bytes is for, the reader does not ask."""
        own, other = type_.dtype, getattr(value.type, "to", None)
        if isinstance(other, Scalar) and other.kind != "void" and other.ir not in ("i8", "ui8"):
            mixed = {own.kind, other.kind} == {"int", "float"}
            if mixed or own.size != other.size:
                why = f"the pointer is to {other.name}, the global tensor has {own.name}"
                raise CppError(node, why, f"cast it: `(__gm__ {own.name} *)p`")
        return self.cast(value, Pointer(own), node)

    def _dims_of(self, type_: Dims, given: list[Any]) -> list[Num]:
        found = next(
            (g for g in given if isinstance(g, DimsValue) and g.type.kind == type_.kind), None
        )
        values = found.values if found is not None else [number(1)] * 5
        return [number(s) if s >= 0 else v for s, v in zip(type_.sizes, values, strict=True)]

    def _sizes(self, type_: Dims, args: list[Any], node: Any) -> list[Num]:
        """Five values, as many as are dynamic, or none: then these are 1."""
        if args and isinstance(args[0], DimsValue):
            return args[0].values
        given = [self.num(a, node) for a in args]
        dynamic = [s < 0 for s in type_.sizes]
        if (
            type_.matrix is not None
            and given
            and sum(s < 0 for s in type_.matrix[1:]) == len(given)
        ):
            return library.of_matrix(type_, given, self.binary, node)
        if len(given) == 5:
            return [g if d else number(s)
                    for g, d, s in zip(given, dynamic, type_.sizes, strict=True)]  # fmt: skip
        if len(given) not in (0, sum(dynamic)):
            raise CppError(node, f"{type_.kind} has {sum(dynamic)} dynamic sizes, and {len(given)} "
                           "values are given", "give five, or one for each DYNAMIC")  # fmt: skip
        return [(given.pop(0) if given else number(1)) if d else number(s)
                for d, s in zip(dynamic, type_.sizes, strict=True)]  # fmt: skip

    def view(self, g: Global, node: Any) -> Typed:
        """Return the window that stands for a global tensor."""
        kept = g.view.value
        if kept is not None and kept is not UNKNOWN:
            return kept
        pointer = self.read(g.pointer, node, "the pointer")
        if pointer.is_known or pointer.type.in_tile:
            why = f"`{g.label or 'the global tensor'}` has no pointer to global memory"
            raise CppError(node, why, "give it one as it is declared, or by TASSIGN")
        sizes = [self.read(c, node) for c in g.sizes]
        strides = [self.read(c, node) for c in g.strides]
        type_ = g.type
        if type_.layout.upper() in library.SCALES:
            type_, sizes, strides = self._in_boxes(type_, sizes, strides, node)
        made = self.window(self.viewed(pointer, sizes, strides, type_), sizes, type_)
        g.view.set(made)
        return made

    def _in_boxes(
        self, type_: GlobalType, sizes: list[Num], strides: list[Num], node: Any
    ) -> tuple[GlobalType, list[Num], list[Num]]:
        """Return scales in rows or columns of pairs as boxes of 16 lines, which is what a tile of
        scales has: [1, lines / 16, pairs, 16, 2]."""
        layout, axis = library.SCALES[type_.layout.upper()]
        lines = sizes[axis]
        if lines.is_known and lines.const % 16 and lines.const > 16:
            raise refused(node, f"Layout::{type_.layout.upper()}", f"{lines.const} lines are no "
                          "whole number of boxes of 16", "load 16 lines at a time")  # fmt: skip
        height = lines if lines.is_known and lines.const < 16 else number(16)
        boxes = self.binary("/", lines, height, node)
        step = self.binary("*", strides[axis], number(16), node)
        sizes = [sizes[0], boxes, sizes[5 - axis], height, sizes[4]]
        strides = [strides[0], step, strides[5 - axis], strides[axis], strides[4]]
        return GlobalType(type_.dtype, (-1,) * 5, (-1,) * 5, layout), sizes, strides

    def viewed(
        self, pointer: Num, sizes: list[Num], strides: list[Num], type_: GlobalType
    ) -> Typed:
        """Append a view of global memory."""
        make, view = self.make, self.fresh("view")
        listed = [make.keyword(key, make.listed([self.index(v) for v in values]))
                  for key, values in (("shape", sizes), ("strides", strides))]  # fmt: skip
        attrs = [{"layout": f"#pto.layout<{type_.layout}>"}]
        whole = f"!pto.tensor_view<{_sizes_in(sizes)}x{type_.dtype.ir}>"
        items = [self.typed(pointer), *listed, *attrs]
        make.op("pto.make_tensor_view", items, [whole], results=[view])
        return Typed(view, whole)

    def window(self, view: Typed, sizes: list[Num], type_: GlobalType) -> Typed:
        """Append the partition that is a whole view."""
        make, part = self.make, self.fresh("part")
        zero = [self.constant(0, "index")] * len(sizes)
        items = [view, make.keyword("offsets", make.listed(zero)),
                 make.keyword("sizes", make.listed([self.index(v) for v in sizes]))]  # fmt: skip
        window = f"!pto.partition_tensor_view<{_sizes_in(sizes)}x{type_.dtype.ir}>"
        make.op("pto.partition_view", items, [view.type], results=[part], arrow=[window])
        return Typed(part, window)

    def repoint(self, g: Global, pointer: Num, node: Any) -> None:
        """`TASSIGN(global, pointer)`."""
        g.pointer.set(self._pointer(pointer, g.type, node))
        g.view.set(None)

    def assigned(self, target: Any, value: Any, node: Any) -> None:
        """`a = b` of objects: the address of a tile's data, a pointer, a whole global tensor."""
        if isinstance(target, Global) and isinstance(value, Global):
            self.repoint(target, self.read(value.pointer, node), node)
            for mine, other in zip((*target.sizes, *target.strides), (*value.sizes, *value.strides),
                                   strict=True):  # fmt: skip
                mine.set(other.value)
        elif isinstance(target, Tile) and isinstance(value, Tile) and target.type == value.type:
            self.place_tile(target, self.address_of(value, node), node)
        elif isinstance(target, Struct) and isinstance(value, Struct):
            for key, cell in target.fields.items():
                if key in value.fields:
                    self._assigned_part(cell, value.fields[key], node)
        elif not isinstance(target, Num):
            raise refused(
                node,
                text(node)[:40],
                "an object of this kind is assigned",
                "declare another object",
            )

    def _assigned_part(self, mine: Any, other: Any, node: Any) -> None:
        """Give a field or an element what another one is."""
        a, b = getattr(mine, "value", None), getattr(other, "value", None)
        if isinstance(a, Array) and isinstance(b, Array):
            for one, its in zip(a.cells, b.cells, strict=True):
                self._assigned_part(one, its, node)
        elif (
            isinstance(mine, Cell) and isinstance(other, Cell) and not isinstance(b, (Num, Struct))
        ):
            mine.set(self.copied(b))
        else:
            self.assign(mine, self.taken(other, node), node)

    copied: Any

    # -- members of objects ------------------------------------------------------------------------

    def tile_member(self, tile: Tile, word: str, args: list[Any], node: Any) -> Any:
        """Call a member function of a tile."""
        self.here(node)
        enough(word, args, _NEEDED.get(word, 0), node)
        if word in ("GetValidRow", "GetValidCol"):
            return self.extent(tile, int(word.endswith("Col")), node)
        if word in ("SetValidRow", "SetValidCol", "SetValidShape"):
            return self._set_valid(tile, word, [self.num(a, node) for a in args], node)
        if word == "data":
            address = tile.address.value
            address = self.address_of(tile, node) if address is not None else Num(LONG, 0)
            return Num(Pointer(tile.type.dtype, True), address.const, address.name)
        if word == "SetValue":
            value = self.cast(self.num(args[1], node), tile.type.dtype, node)
            at = self.index(self.num(args[0], node))
            item = self.typed(value, tile.type.dtype.stored)
            self.make.tile_op("pto.tsetval", [at, item], [self.tile(tile, node)])
            return None
        if word == "GetValue":
            return self._got(tile, self.num(args[0], node), node)
        if word in ("SetMadTF32Mode", "ResetMadMode"):
            away = any(isinstance(a, Member) and a.name == "CAST_ROUND" for a in args)
            switch = self.constant(int(word == "SetMadTF32Mode"), "i32")
            self.make.tile_op("pto.sethf32mode", [switch], [], {"mode": str(int(away))})
            return None
        if word in ("SetKAligned", "GetKAligned"):
            return Num(BOOL, False)  # how the rest of a block is read, not what it counts
        raise CppError(node, f"a tile has no member function `{word}`")

    def _set_valid(self, tile: Tile, word: str, args: list[Num], node: Any) -> None:
        if word == "SetValidShape":
            self.set_valid(tile, args[0], args[1], node)
        elif word == "SetValidRow":
            self.set_valid(tile, args[0], None, node)
        else:
            self.set_valid(tile, None, args[0], node)

    def _got(self, tile: Tile, at: Num, node: Any) -> Num:
        name = self.fresh("got")
        op = self.make.tile_op("pto.tgetval", [self.tile(tile, node), self.index(at)], [])
        op.result_tokens = [(name.removeprefix("%"), 1, self.make.at)]
        op.outs_types = self.make.types([tile.type.dtype.stored])
        return self.from_memory(name, tile.type.dtype)

    def global_member(
        self, g: Global, word: str, args: list[Any], targs: list[Any], node: Any
    ) -> Any:
        """Call a member function of a global tensor."""
        if word == "data":
            return self.read(g.pointer, node)
        cells = g.strides if "Stride" in word else g.sizes
        if word in ("GetShape", "GetStride"):
            enough(word, targs or args, 1, node)
            return self.read(cells[self._dimension((targs or args)[0], node)], node)
        if word in ("SetShape", "SetStride"):
            axes = [self._dimension(t, node) for t in targs] or list(range(len(args)))
            if len(axes) != len(args) or len(args) > len(cells):
                raise CppError(node, f"`{word}` takes a number for each of {len(axes)} dimensions")
            for axis, value in zip(axes, args, strict=True):
                cells[axis].set(self.num(value, node))
            g.view.set(None)
            return None
        raise CppError(node, f"a global tensor has no member function `{word}`")

    def _dimension(self, value: Any, node: Any) -> int:
        at = self.known(self.num(value, node), node, "the dimension")
        if not 0 <= at < 5:
            raise CppError(node, f"dimension {at} of a global tensor: it has 0 to 4")
        return at

    # -- declarations ------------------------------------------------------------------------------

    def initialised(self, type_: Any, value: Any, node: Any) -> Any:
        """Return what a variable of a type has, from the node of its value."""
        args = (
            [self.ev(p) for p in named(value)]
            if value.type in ("initializer_list", "argument_list")
            else None
        )
        if isinstance(type_, Named) and type_.name == "auto":
            return self.ev(value) if args is None else args[0]
        if args is None:
            found = self.ev(value)
            return self.as_type(found, type_, node) if library.is_numeric(found) else found
        return self.constructed(type_, args, node)


def _sizes_in(sizes: list[Num]) -> str:
    return "x".join(str(s.const) if s.is_known else "?" for s in sizes)


def _left_out(node: Any) -> CppError:
    return refused(node, text(node)[:40], "braces are left out", "write those of each element")


__all__ = ["Objects", "field_of", "has_word"]
