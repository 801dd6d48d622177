"""What names mean: variables, types, templates with their arguments, members of types."""

from __future__ import annotations

import math
import re
from typing import Any

from ptosim.language.cpp import library
from ptosim.language.cpp.communication import conv_type
from ptosim.language.cpp.declared import (
    Declared,
    Overloads,
    field_of,
    named,
    struct_name,
    text,
)
from ptosim.language.cpp.forms import refusal, table
from ptosim.language.cpp.kinds import (
    BOOL,
    INT,
    SCALARS,
    ArrayType,
    Cell,
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
    StandardArray,
    Struct,
    StructType,
    TileType,
    number,
)
from ptosim.language.cpp.state import CppError, Scope, refused
from ptosim.language.cpp.templates import SILENT, Templates, spread

_TYPES = (Scalar, Pointer, TileType, Dims, GlobalType, EventType, PipeType, ArrayType, Named, Enum,
          StructType)  # fmt: skip
AUTO = Named("auto")
MASK = "$"
"""What stands for each digit of a number that is read as a name."""


_MASK = MASK.encode()


def unknown(node: Any, why: str) -> CppError:
    """Return what is said of a name that nothing declares: known parts of other interfaces are
    refused with their reason."""
    whole = text(node)
    for word in re.findall(r"\w+", whole):
        found = refusal(word)
        if found is not None:
            return refused(node, whole, *found)
    return CppError(node, f"`{whole}`: {why}", "headers are not read but those beside the file")


def is_type(thing: Any) -> bool:
    """Is this a type?"""
    return isinstance(thing, _TYPES)


_MADE = {
    "GlobalTensor": library.global_type,
    "Event": library.event_type,
    "TPipe": library.pipe_type,
    "ConvTile": conv_type,
}


def _global_named(word: str, args: list[Any], node: Any) -> GlobalType:
    """Return a type of global tensors that the library has a name for: dense, last sizes given."""
    sizes = [library.whole(a, node, f"a size of {word}") for a in args]
    shape = (*[1] * (5 - len(sizes)), *sizes)
    strides = tuple(math.prod(shape[i + 1 :]) for i in range(5))
    return GlobalType(SCALARS[table()["globals"][word]["element"]], shape, strides, "nd")


class Names(Templates):
    """Lookup of names and types."""

    # -- names -------------------------------------------------------------------------------------

    def look(self, word: str, node: Any) -> Any:
        """Return what a plain name is: of the file, or of the library."""
        found = self.scope.find(word)
        if found is not None:
            return self.settled(found, node)
        return self.built_in(word, node)

    def settled(self, found: Any, node: Any) -> Any:
        """Return what a declaration declares, where it is no template or function."""
        if not isinstance(found, Declared) or found.params is not None:
            return found
        if found.kind == "enumerator":
            return self._enumerator(found)
        if found.kind == "enum":
            return Enum(found.name)
        return self.instance(found, (), node)

    def _enumerator(self, found: Declared) -> Member:
        if () not in found.made:
            part, last = found.node
            value = field_of(part, "value")
            with self._within(found.scope):
                if value is not None:
                    const = self.known(self.num(self.ev(value), value), value, "an enumerator")
                else:
                    const = self._enumerator(last).const + 1 if last is not None else 0
            found.made[()] = Member(found.scope.label, found.name, const, is_own=True)
        return found.made[()]

    def built_in(self, word: str, node: Any) -> Any:
        """Return a name of the library; raises CppError for one that nobody knows."""
        if word in SCALARS:
            return SCALARS[word]
        if word in library.TYPES or word.endswith("Algorithm"):
            return Named(word)
        if word.startswith("PIPE_"):
            return Member("pipe", word)
        if word.startswith("EVENT_ID") and word[8:].isdigit():
            return number(int(word[8:]))
        if word in table()["globals"]:
            return _global_named(word, [], node)
        if word in table()["arrays"]:
            row = table()["arrays"][word]
            return ArrayType(SCALARS[row["element"]], row["count"])
        if word in library.CONSTANTS:
            return library.CONSTANTS[word]
        if word in table()["constants"]:
            return number(table()["constants"][word]["value"])
        if word in library.ENUMS:
            return Named(word)
        return None

    def _within(self, scope: Scope) -> Any:
        return self.scoped(scope)

    # -- members -----------------------------------------------------------------------------------

    def member(self, owner: Any, word: str, node: Any) -> Any:
        """Return `owner::word`."""
        if isinstance(owner, Scope):
            spaces = (owner, *owner.using)
            found = next((s.names[word] for s in spaces if word in s.names), None)
            return self.settled(found, node) if found is not None else None
        if isinstance(owner, Declared) and owner.kind == "enum":
            found = owner.scope.names.get(word)
            return self._enumerator(found) if found is not None else None
        if isinstance(owner, StructType):
            return self.static_member(owner, word, node)
        if isinstance(owner, Named):
            return self._library_member(owner, word, node)
        made = _MEMBERS.get(type(owner))
        return made(owner, word) if made is not None else None

    def _library_member(self, owner: Named, word: str, node: Any) -> Any:
        if (owner.name, word) in library.NUMBERS:
            return Member(owner.name, word, library.NUMBERS[owner.name, word])
        if not owner.args and (owner.name in library.ENUMS or owner.name.endswith("Algorithm")):
            return Member(owner.name, word)
        return library.member_of_trait(owner, word)

    def static_member(self, owner: StructType, word: str, node: Any) -> Any:
        """Return a static member of a struct, or of what it is derived from."""
        found = owner.scope.names.get(word)
        if found is not None:
            return self.settled(found, node)
        for base in owner.bases:
            found = self.member(base, word, node)
            if found is not None:
                return found
        return None

    def qualified(self, node: Any) -> Any:
        """Return what `a::b` is."""
        owner_node, name = field_of(node, "scope"), field_of(node, "name")
        if owner_node is None:
            return self.entity(name)
        word = text(owner_node)
        if word in SILENT and not isinstance(self.scope.find(word), Scope):
            return self.entity(name)
        owner = self._owner(owner_node)
        return self._inside(owner, name, node)

    def _owner(self, node: Any) -> Any:
        if node.type == "template_type":
            return self.entity(node)
        found = self.scope.space(text(node))
        if isinstance(found, Scope) or (isinstance(found, Declared) and found.kind == "enum"):
            return found
        return self.entity(node)

    def _inside(self, owner: Any, name: Any, node: Any) -> Any:
        if isinstance(owner, Cell) and isinstance(owner.value, Struct):
            owner = owner.value.type
        if name.type == "qualified_identifier":
            inner = field_of(name, "scope")
            enum = owner.names.get(text(inner)) if isinstance(owner, Scope) else None
            if not isinstance(enum, Declared) or enum.kind != "enum":
                enum = self._inside(owner, inner, node)
            return self._inside(enum, field_of(name, "name"), node)
        if name.type in ("template_type", "template_function", "template_method"):
            found = self._raw_member(owner, text(field_of(name, "name")), node)
            return self.with_arguments(found, self.arguments(name), name)
        if name.type == "dependent_name":
            return self._inside(owner, named(name)[-1], node)
        found = self.member(owner, text(name), node)
        if found is None:
            raise unknown(node, "nothing of that name is known")
        return found

    def _raw_member(self, owner: Any, word: str, node: Any) -> Any:
        scope = owner.scope if isinstance(owner, StructType) else owner
        found = scope.names.get(word) if isinstance(scope, Scope) else None
        if found is None:
            raise unknown(node, f"there is no template `{word}` here")
        return found

    # -- entities: what a name in any form is ------------------------------------------------------

    def entity(self, node: Any) -> Any:
        """Return a type, variable, function, template or value by the node of its name."""
        kind = node.type
        if kind == "qualified_identifier":
            return self.qualified(node)
        if kind in ("template_type", "template_function"):
            return self.template(node)
        if kind in ("primitive_type", "sized_type_specifier"):
            return self.type_of(node)
        if kind in ("dependent_type", "dependent_name"):
            return self.entity(named(node)[-1])
        if kind == "decltype":
            return self.type_of(node)
        found = self.look(text(node), node)
        if found is None and kind == "nested_namespace_specifier":
            return self._path(text(node).split("::"), node)
        return found

    def _path(self, words: list[str], node: Any) -> Any:
        found: Any = None
        for word in words:
            if word not in SILENT:
                space = self.scope.space(word) if found is None else None
                if space is not None:
                    found = self.settled(space, node)
                    continue
                found = self.look(word, node) if found is None else self.member(found, word, node)
        return found

    def template(self, node: Any) -> Any:
        """Return a template with its arguments."""
        name = field_of(node, "name")
        word = text(name)
        args = self.arguments(node)
        found = self.scope.find(word)
        if isinstance(found, StructType) and found.scope.parent is not None:
            found = found.scope.parent.find(word)  # inside itself its name is the template too
        if found is not None:
            return self.with_arguments(found, args, node)
        return self.library_template(word, args, node)

    def with_arguments(self, found: Any, args: list[Any], node: Any) -> Any:
        """Return a declaration of the file with template arguments."""
        if isinstance(found, Overloads):
            return (found, args)
        if isinstance(found, Declared):
            return self.instance(found, tuple(args), node)
        if isinstance(found, Named):
            return self.library_template(found.name, args, node)
        cure = "if it is compared, write brackets around each comparison"
        raise CppError(node, f"`{text(node)}` is no template", cure)

    def library_template(self, word: str, args: list[Any], node: Any) -> Any:
        """Return a type or trait of the library; a pair for a function of it."""
        if word in ("Shape", "Stride"):
            return library.dims_type(word, args, node)
        if word in ("TileShape2D", "BaseShape2D"):
            return library.shape_2d(word, args, node)
        if word.startswith("Tile") and word in library.TYPES:
            return library.tile_type(word, args, node, self.arch)
        if word in _MADE:
            return _MADE[word](args, node)
        if word == "array":
            return StandardArray(args[0], library.whole(args[1], node, "the size of an array"))
        if word in ("PadValueCustom", "PadCustom") and args and isinstance(args[0], Num):
            return args[0]
        if word in table()["globals"]:
            return _global_named(word, args, node)
        found = library.trait(word, args, node) if word in library.TYPES else None
        if found is not None:
            return found
        return Named(word, tuple(args)) if word in library.TYPES else (word, args)

    def unmasked(self, node: Any) -> Num:
        """Return the number in whose place a name was read."""
        raise NotImplementedError

    def arguments(self, node: Any) -> list[Any]:
        """Return the arguments of a template: types and values."""
        parts = spread(named(field_of(node, "arguments")), self.scope)
        return [self.argument(part) for part in parts]

    def argument(self, part: Any) -> Any:
        """Return one argument of a template."""
        if part.type == "pack_element":
            if part.is_plain and not isinstance(part.value, (Cell, Member)):
                return part.value
            with self.scoped() as scope:
                scope.names[part.name] = part.value
                return self.argument(part.pattern)
        if part.text.startswith(_MASK):
            return self.unmasked(part)
        if part.type == "type_descriptor":
            declarator = field_of(part, "declarator")
            if declarator is None:
                found = self.entity_or_type(field_of(part, "type"))
            elif declarator.type in ("abstract_array_declarator", "abstract_function_declarator"):
                found = self.ev(self.as_value(part))  # `a[0]`, `f(n)`: no type of either is used
            else:
                return self.type_of(part)
        else:
            found = self.ev(part)
        if isinstance(found, Cell):
            found = self.read(found, part, f"`{text(part)}`")
        if isinstance(found, Member) and found.enum in ("bool",):
            return number(found.const, BOOL)
        if found is None:
            raise unknown(part, "nothing of that name is known")
        return found

    def as_value(self, node: Any) -> Any:
        """Return the expression of what was read as a type."""
        raise NotImplementedError

    def entity_or_type(self, node: Any) -> Any:
        """Return what a type node names: it may be a value in the place of a type."""
        if node.type in ("primitive_type", "sized_type_specifier", "placeholder_type_specifier"):
            return self.type_of(node)
        return self.entity(node)

    # -- types -------------------------------------------------------------------------------------

    def type_of(self, node: Any) -> Any:
        """Return the type that a node names."""
        kind = node.type
        if kind == "type_descriptor":
            return self.declared_type(field_of(node, "type"), field_of(node, "declarator"))
        if kind in ("primitive_type", "sized_type_specifier"):
            return self._plain(node)
        if kind == "placeholder_type_specifier":
            inside = named(node)[0]
            is_open = inside.type != "decltype" or text(named(inside)[-1]) == "auto"
            return AUTO if is_open else self.type_of(inside)
        if kind == "auto":
            return AUTO
        if kind == "decltype":
            inside = named(node)[-1]
            place = self.lv(inside) if inside.type == "identifier" else None
            found = place if isinstance(place, Cell) else self.ev(inside)
            return self.type_of_value(found, node)
        if kind.endswith("_specifier"):
            found = self.look(struct_name(node), node)
        else:
            found = self.entity(node)
        if isinstance(found, Declared) and found.kind == "struct" and found.params is not None:
            return found
        if found == Named("Shape") or found == Named("Stride"):
            return Dims(found.name, (-1,) * 5)
        if not is_type(found):
            raise unknown(node, "it is no type that is known here")
        return found

    def _plain(self, node: Any) -> Any:
        word = " ".join(w for w in text(node).split() if w not in ("const",))
        if word not in SCALARS:
            word = word.removesuffix(" int")
        if word not in SCALARS:
            raise unknown(node, "it is no type that is known here")
        return SCALARS[word]

    def declared_type(self, type_node: Any, declarator: Any) -> Any:
        """Return a type with the pointers and brackets of a declarator."""
        if type_node is None:
            raise CppError(self.make.at, "a type is missing here")
        made = self.type_of(type_node)
        while declarator is not None:
            if declarator.type in ("pointer_declarator", "abstract_pointer_declarator"):
                made = made if made == AUTO else Pointer(made)
            elif declarator.type in ("array_declarator", "abstract_array_declarator"):
                size = field_of(declarator, "size")
                if size is not None:
                    count = self.known(self.num(self.ev(size), size), size, "an array's size")
                    made = ArrayType(made, count)
            declarator = next((c for c in named(declarator) if "declarator" in c.type), None)
        return made

    def type_of_value(self, value: Any, node: Any) -> Any:
        """Return the type of a value."""
        if isinstance(value, Cell):
            value = value.enum or value.value
        if is_type(value):
            return value
        if isinstance(value, Member):
            return Enum(value.enum)
        found = getattr(value, "type", None)
        if found is None:
            raise CppError(node, "the type of this is not known")
        return found


def _of_tile(tile: TileType, word: str) -> Any:
    box = tile.box
    row = tile.blayout == "row_major"
    values = {
        "Rows": tile.rows, "Cols": tile.cols, "ValidRow": tile.v_row, "ValidCol": tile.v_col,
        "SFractalSize": tile.fractal, "Numel": tile.rows * tile.cols, "InnerRows": box[0],
        "InnerCols": box[1], "RowStride": tile.cols if row else 1,
        "ColStride": 1 if row else tile.rows,
    }  # fmt: skip
    if word in values:
        return number(values[word])
    truths = {"isRowMajor": row, "isBoxedLayout": tile.slayout != "none_box",
              "isInnerRowMajor": tile.slayout == "row_major",
              "isInnerColMajor": tile.slayout == "col_major"}  # fmt: skip
    if word in truths:
        return Num(BOOL, truths[word])
    if word == "DType":
        return tile.dtype
    args = library.arguments_of(tile)[1]
    return {
        "Loc": args[0],
        "BFractal": args[4],
        "SFractal": args[7],
        "PadVal": args[9],
        "Compact": args[10],
    }.get(word)


def _of_global(type_: GlobalType, word: str) -> Any:
    if word in ("DType", "RawDType"):
        return type_.dtype
    if word in ("Shape", "Stride"):
        return Dims(word, type_.shape if word == "Shape" else type_.stride)
    if word == "layout":
        return Member("Layout", type_.layout.upper())
    for kind, sizes in (("staticShape", type_.shape), ("staticStride", type_.stride)):
        if word == kind:
            return Named("sizes", tuple(number(s) for s in sizes))
    return None


def _of_dims(type_: Dims, word: str) -> Any:
    return Named("sizes", tuple(map(number, type_.sizes))) if word.startswith("static") else None


def _of_pipe(type_: PipeType, word: str) -> Any:
    found = {"SlotSize": type_.slot_size, "SlotNum": type_.slot_num}.get(word)
    return number(found, INT) if found is not None else None


_MEMBERS = {
    TileType: _of_tile, GlobalType: _of_global, Dims: _of_dims, PipeType: _of_pipe,
}  # fmt: skip
