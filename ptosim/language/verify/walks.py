"""What the checks of `isa/structure.toml` go through: for each walk its groups (the program, or
each function), and of a group its things in order, each with its kind and the names that rules have
for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import Function
from ptosim.language.verify.verbs import Verbs

_NONE: frozenset[str] = frozenset()

Thing = tuple[str, dict[str, Any]]
Wanted = dict[str, frozenset[str] | None]
"""Kinds of things, each with the traits of the operations that are wanted; None: all of them."""
Things = Callable[[Wanted], Iterator[Thing]]
Group = tuple[dict[str, Any], Things]
"""Names for all of its things, and what gives those that are wanted."""
Walk = Callable[[Verbs], Iterator[Group]]


def _ops(program: Verbs) -> Iterator[Group]:
    """Of each operation its regions, their blocks, then the operation."""

    def things(wanted: Wanted) -> Iterator[Thing]:
        has_regions = not wanted.keys().isdisjoint(("region", "block"))
        traits = wanted.get("op", _NONE)
        for op in program.resolved.ops:
            if has_regions and op.regions:
                yield from _regions(op)
            if traits is None or not traits.isdisjoint(op.traits):
                yield "op", {"op": op}

    yield {}, things


def _regions(op: Operation) -> Iterator[Thing]:
    for region in op.regions:
        ops = region.ops
        yield "region", {"op": op, "region": region, "last": ops[-1] if ops else None}
        for block in region.blocks:
            last = block.ops[-1] if block.ops else None
            yield "block", {"op": op, "region": region, "block": block, "last": last}


def _functions(program: Verbs) -> Iterator[Group]:
    """The function, its arguments and results, its operations (its own is an `op` too, and none of
    the `inner` ones), and what is said after them."""
    for function in program.resolved.functions.values():
        yield {"fn": function, "op": function.op}, lambda wanted, f=function: _function(f, wanted)


def _function(function: Function, wanted: Wanted) -> Iterator[Thing]:
    yield "function", {}
    for number, value in enumerate(function.args):
        yield "argument", {"value": value, "type": value.type, "number": number}
    for number, type_ in enumerate(function.results):
        yield "result", {"type": type_, "number": number}
    for kind, ops in (("op", function.ops), ("inner", function.ops[1:])):
        traits = wanted.get(kind, _NONE)
        for op in ops if traits is None or traits else ():
            if traits is None or not traits.isdisjoint(op.traits):
                yield kind, {"op": op}
    yield "after", {}


def _units(program: Verbs) -> Iterator[Group]:
    yield (
        {"op": None},
        lambda wanted: (("unit", {"unit": unit}) for unit in program.resolved.unit.walk()),
    )


def _values(program: Verbs) -> Iterator[Group]:
    """Every value where it is defined."""

    def things(wanted: Wanted) -> Iterator[Thing]:
        for function in program.resolved.functions.values():
            yield from (("value", {"value": value}) for value in function.args)
        for op in program.resolved.ops:
            yield from (("value", {"value": value}) for value in op.results)
            for region in op.regions:
                own = region.blocks[:1] if op.has("function") else ()  # given above
                for block in region.blocks:
                    if block not in own:
                        yield from (("value", {"value": value}) for value in block.values)

    yield {}, things


def _keys(program: Verbs) -> Iterator[Group]:
    """Keys that their dictionary has before."""
    yield {}, lambda wanted: (("key", {"key": key}) for key in program.resolved.module.repeated)


def _fifos(program: Verbs) -> Iterator[Group]:
    """Operations on FIFOs, with the kind of core that executes each."""
    for function in program.resolved.functions.values():
        yield {"fn": function}, lambda wanted, f=function: _on_fifos(f)


def _on_fifos(function: Function) -> Iterator[Thing]:
    for op in function.ops:
        if op.definition is not None and op.definition.fifo is not None:
            section = op.inside("section")
            row = section.definition if section is not None else None
            yield "fifo", {"op": op, "side": row.side if row is not None else function.kernel_kind}


def _ends(program: Verbs) -> Iterator[Group]:
    """Ends of FIFOs, each with its buffers and users; then what is said of all of them, of its
    pops, and at last of the end again."""

    def things(wanted: Wanted) -> Iterator[Thing]:
        for end in program.ends:
            names = {"end": end, "op": end.op, "fn": end.function}
            yield "end", names
            yield from (("buffer", {**names, "operand": operand}) for _, operand in end.buffers)
            uses = [{**names, "use": use, "op": use.op} for use in end.users]
            yield from (("use", use) for use in uses)
            yield "ended", names
            yield from (("pop", use) for use in uses if use["use"].kind == "pop")
            yield "closed", names

    yield {}, things


def _strays(program: Verbs) -> Iterator[Group]:
    """Users that belong to no end."""
    strays = program.strays
    yield {}, lambda wanted: (("stray", {"op": use.op, "use": use, "fn": fn}) for fn, use in strays)


WALKS: dict[str, Walk] = {
    "ops": _ops,
    "functions": _functions,
    "units": _units,
    "values": _values,
    "keys": _keys,
    "fifos": _fifos,
    "ends": _ends,
    "strays": _strays,
}
