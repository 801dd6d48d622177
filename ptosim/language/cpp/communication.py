"""Communication between devices: transfers through tiles, signals and collectives of a group, in
the orders that `isa/cpp.toml` says."""

from __future__ import annotations

from typing import Any, TypeGuard

from ptosim.ground.ir.core import Node
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import OpDef
from ptosim.language.build import Typed
from ptosim.language.cpp.forms import attribute, table
from ptosim.language.cpp.kinds import (
    BOOL,
    INT,
    Array,
    Event,
    Global,
    Member,
    Named,
    Num,
    Struct,
    Tile,
    number,
)
from ptosim.language.cpp.state import CppError

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
    values = [v for v in values if not isinstance(v, Event)]
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
                raise CppError(node, f"`{word}` takes one or two tiles at its end")
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
