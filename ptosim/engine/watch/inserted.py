"""Which accesses the assembler orders by flags and barriers of its own, where it inserts them.

It sees conflicts of one function: tiles by constant addresses, global memory by the argument that
a pointer comes from. Tiles at computed addresses and two arguments never meet for it, so where they
do the conflict is real. Every function ends with a barrier of all pipes."""

from __future__ import annotations

from ptosim.engine.watch.access import Access
from ptosim.engine.watch.shadow import Footprint
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import ResolvedModule


class Inserted:
    """Asks of two accesses of one core that conflict whether the assembler orders them."""

    def __init__(self, resolved: ResolvedModule) -> None:
        names = resolved.settings.ordered
        self.functions: set[Operation | None] = {
            f.op for f in resolved.functions.values() if f.name in names
        }
        self._resolved = resolved
        self._reached: dict[Operation, set[Operation]] = {}

    def __bool__(self) -> bool:
        return bool(self.functions)

    def orders(
        self, first: Access, second: Access, print_: Footprint, extent: tuple[int, int]
    ) -> bool:
        """True if flags that the assembler inserts keep the first access before the second, which
        is at `print_`; `extent` is what they share."""
        one, two = first.inst.op, second.inst.op
        if one is None or two is None or first.core is not second.core:
            return False
        home, there = one.function, two.function
        if home not in self.functions:
            return False
        if one.passes is not None and one.passes.modelled is not None:
            return False  # its flags are set by a pipe that does not do it
        if there not in self.functions:  # done at the end of its function
            return home is not None and there is not None and there not in self._calls(home)
        return self._meet(_owner_at(first, print_, extent), print_.owner, print_)

    def _meet(self, one: Value | None, two: Value | None, print_: Footprint) -> bool:
        """True if the assembler knows that two storages share bytes."""
        if one is two or one is None or two is None:
            return True
        if print_.shadow.is_global:
            return not (one.is_argument and two.is_argument)
        return not (_is_computed(one) or _is_computed(two))

    def _calls(self, function: Operation) -> set[Operation]:
        """The functions that one calls, at any depth, and itself."""
        found = self._reached.get(function)
        if found is None:
            by_name = self._resolved.functions
            found, todo = {function}, [function]
            while todo:
                for op in todo.pop().walk():
                    callee = by_name.get(op.bound.get("callee", "")) if op.has("call") else None
                    if callee is not None and callee.op not in found:
                        found.add(callee.op)
                        todo.append(callee.op)
            self._reached[function] = found
        return found


def _owner_at(access: Access, print_: Footprint, extent: tuple[int, int]) -> Value | None:
    for found in (*access.writes, *access.reads, *(p for p, _ in access.spoils)):
        low, high = found.span
        if found.shadow is print_.shadow and low < extent[1] and extent[0] < high:
            return found.owner
    return None


def _is_computed(value: Value) -> bool:
    """True for a tile at an address that is no constant."""
    owner = value.owner
    given = owner.bound.get("addr") if owner is not None else None
    return isinstance(given, Operand) and given.value is not None and given.const is None
