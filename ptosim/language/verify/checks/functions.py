"""Calls in circles, and control flow: what regions hand on, how loops count."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.core import Operand, Operation, Region, Value
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import ErrorType, HandleType, ScalarType, Type
from ptosim.ground.isa.targets import unit_rules
from ptosim.ground.source import Source, Span
from ptosim.language.bind.names import compatible
from ptosim.language.verify.operands import constant, operand_span


def recursion(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report recursive calls."""
    calls = {f.name: callees_of(f) for f in resolved.functions.values() if f.has_body}
    yield from _recursion(calls, resolved.module.source)


def callees_of(function: Function) -> list[tuple[str, Operation]]:
    """The calls of a function, each with the name of what it calls."""
    return [(op.bound["callee"], op) for op in function.ops if "call" in op.traits and op.bound]


def _recursion(
    calls: dict[str, list[tuple[str, Operation]]], source: Source
) -> Iterator[Diagnostic]:
    done: set[str] = set()
    for root in calls:
        path: list[str] = []
        stack = [(root, iter(calls[root]))] if root not in done else []
        path = [root]
        while stack:
            name, callees = stack[-1]
            step = next(callees, None)
            if step is None:
                done.add(name)
                stack.pop()
                path.pop()
                continue
            callee, op = step
            if callee in path:
                yield _recursive(op, callee, source)
            elif callee in calls and callee not in done:
                stack.append((callee, iter(calls[callee])))
                path.append(callee)


def _recursive(op: Operation, callee: str, source: Source):
    return finding(
        "PTO1012",
        f"recursive function calls are not supported for EmitC C++ emission (call of `@{callee}`)",
        Span(source, op.start, op.end),
        notes=("a device function has no call stack of its own",),
        help="write the recursion as a loop",
    )


_WITH_REGIONS = ("scf.if", "scf.execute_region", "scf.index_switch", "scf.for", "scf.while")
_WORDS = {"scf.yield": "yields", "scf.condition": "passes on"}


def regions(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report regions that end without the values that their operation gives, or with others,
    conditions that are no i1, and constant steps that do not count up."""
    source, rules = resolved.module.source, unit_rules(resolved.date).rules
    for op in resolved.ops:
        if op.name in ("scf.if", "scf.condition"):
            yield from _truth(op, source)
        if op.name == "scf.for":
            yield from _bounds(op, source)
            yield from _step(op, source, refused="constant_step" in rules)
        if op.name in _WITH_REGIONS:
            yield from _regions(op, source)


def _truth(op: Operation, source: Source) -> Iterator[Diagnostic]:
    operand = op.bound.get("condition")
    type_ = operand.type if isinstance(operand, Operand) else None
    is_known = isinstance(operand, Operand) and type_ is not None
    if is_known and not isinstance(type_, ErrorType) and str(type_) != "i1":
        yield finding(
            "PTO1015",
            f"the condition of '{op.name}' has type {type_}, not i1",
            operand_span(operand, op, source),
            help="compare it: `arith.cmpi ne, %value, %zero`",
        )


def _bounds(op: Operation, source: Source) -> Iterator[Diagnostic]:
    """Report bounds and steps that are no whole numbers, or of several types (MLIR's verifier)."""
    operands = [op.bound.get(name) for name in ("lower", "upper", "step")]
    types: list[Type] = []
    for number, operand in enumerate(operands):
        type_ = operand.type if isinstance(operand, Operand) else None
        if type_ is None or isinstance(type_, ErrorType):
            return
        types.append(type_)
        if not isinstance(type_, ScalarType) or type_.dtype.is_float:
            yield finding(
                "PTO1103",
                f"'scf.for' op operand #{number} must be signless integer or index, "
                f"but got '{type_}'",
                operand_span(operand, op, source),
                help="count in whole numbers, and compute other values from the loop's variable",
            )
            return
    if len(set(map(str, types))) > 1:
        yield finding(
            "PTO1103",
            "'scf.for' op failed to verify that all of {lowerBound, upperBound, step} have same "
            f"type: {', '.join(map(str, types))}",
            op.span(source),
            help="convert them to one type with arith.index_cast",
        )


def _step(op: Operation, source: Source, *, refused: bool) -> Iterator[Diagnostic]:
    operand = op.bound.get("step")
    step = constant(operand)
    if step is not None and step <= 0:
        yield finding(
            "PTO1032" if refused else "PTO6006",
            f"'scf.for' op constant step operand must be positive, not {step}",
            operand_span(operand, op, source),
            help="count up, and compute the descending number from the loop's variable",
        )


def _regions(op: Operation, source: Source) -> Iterator[Diagnostic]:
    results = [value.type for value in op.results]
    if op.name == "scf.while":
        initial = [operand.type for operand in op.bound.get("init", ())]
        for region, word, types in zip(
            op.regions, ("scf.condition", "scf.yield"), (results, initial), strict=False
        ):
            yield from _end(op, region, word, types, source)
        return
    if op.name == "scf.if" and results and len(op.regions) < 2:
        yield finding(
            "PTO1015",
            "'scf.if' with results has no `else`",
            op.span(source),
            help="add `else { scf.yield … }` with the values for the other case",
        )
    for region in op.regions:
        yield from _end(op, region, "scf.yield", results, source)


def _end(
    op: Operation, region: Region, word: str, types: Sequence[Type | None], source: Source
) -> Iterator[Diagnostic]:
    """Compare what the last operation of a region hands on with what is wanted."""
    for block in region.blocks or (None,):
        last = block.ops[-1] if block is not None and block.ops else None
        if last is None or not last.jumps:
            yield from _handed_on(op, last, word, types, source)


def _handed_on(
    op: Operation, last: Operation | None, word: str, types: Sequence[Type | None], source: Source
) -> Iterator[Diagnostic]:
    found = last is not None and last.name == word
    values = last.bound.get("values", ()) if last is not None and found else ()
    given = [operand.type for operand in values]
    fits = len(given) == len(types) and all(
        g is None or t is None or compatible(g, t) for g, t in zip(given, types, strict=False)
    )
    if (fits and (found or word != "scf.condition")) or any(
        isinstance(t, ErrorType) for t in types
    ):
        return  # the types of the results are reported already
    wanted = ", ".join(map(str, types)) or "nothing"
    yield finding(
        "PTO1015",
        f"a region of '{op.name}' {_WORDS[word]} {', '.join(map(str, given)) or 'nothing'}, "
        f"where it needs {wanted}",
        (last if last is not None and found else op).span(source),
        more=(Label(op.span(source), f"needs {wanted}"),) if found else (),
        help=f"end the region with `{word}` and values of type {wanted}",
    )


# Streams of unaligned accesses: an align state begins a stream of loads or of stores, goes on from
# one access of its kind to the next, through loops and branches too, and is used once on a path.

LOADS, STORES = "loads", "stores"
_BEGINNINGS = {LOADS: "vldas", STORES: "init_align"}

Owners = dict[Value, Operation]
"""What makes each align state; of an argument of a loop the loop, of a function nothing."""


def check(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report align states of the other kind of stream, and those that are used twice."""
    if "align_streams" not in unit_rules(resolved.date).rules:
        return
    source = resolved.module.source
    for function in resolved.functions.values():
        users: dict[Value, list[Operation]] = defaultdict(list)
        owners: Owners = {}
        for op in function.ops:
            blocks = [block for region in op.regions for block in region.blocks]
            for value in (*op.results, *(v for block in blocks for v in block.values)):
                if _is_align(value.type):
                    owners[value] = op
            for value in op.operand_values():
                if _is_align(value.type):
                    users[value].append(op)
        for value, ops in users.items():
            for op in ops:
                yield from _kind(op, value, owners, source)
            yield from _used_again(value, ops, owners.get(value), source)


def _is_align(type_: Type | None) -> bool:
    return isinstance(type_, HandleType) and type_.kind == "align"


# -- kinds of streams ------------------------------------------------------------------------------


def _kind(op: Operation, value: Value, owners: Owners, source: Source) -> Iterator[Diagnostic]:
    wanted = LOADS if op.has(LOADS) else STORES if op.has(STORES) else None
    found = _stream_of(value, owners) if wanted is not None else None
    if wanted is None or found in (None, wanted):
        return
    yield finding(
        "PTO3032",
        f"'{op.name}' op requires an align state of a stream of {wanted}; "
        f"`%{value.name}` is one of {found}",
        op.span(source),
        more=(Label(value.span(source), "made here"),),
        help=f"begin the stream with `pto.{_BEGINNINGS[wanted]}`",
    )


def _stream_of(value: Value, owners: Owners) -> str | None:
    """Return the kind of stream an align state is of, None where it comes from a caller."""
    waiting, seen = [value], set[Value]()
    while waiting:
        value = waiting.pop()
        owner = owners.get(value)
        if owner is None or value in seen:
            continue
        seen.add(value)
        if owner.regions:
            waiting += reversed(_streams_handed_on(value, owner))
        elif not owner.has("call"):
            return LOADS if owner.has(LOADS) else STORES
    return None


def _streams_handed_on(value: Value, owner: Operation) -> list[Value]:
    """The values that an argument of a loop begins with, or that a region gives for a result."""
    arguments = owner.regions[0].blocks[0].values if owner.regions[0].blocks else []
    if value in arguments:
        given = owner.bound.get("init") or []
        at = arguments.index(value) - (len(arguments) - len(given))
        return [given[at].value] if at >= 0 and given[at].value is not None else []
    at = list(owner.results).index(value) if value in owner.results else None
    lasts = [r.last for r in owner.regions if r.last is not None and r.last.has("yields")]
    given = [last.bound.get("values", [])[at : at + 1] for last in lasts] if at is not None else []
    return [o.value for found in given for o in found if o.value is not None]


# -- one use on each path --------------------------------------------------------------------------


def _used_again(
    value: Value, ops: list[Operation], owner: Operation | None, source: Source
) -> Iterator[Diagnostic]:
    for number, op in enumerate(ops):
        earlier = next((o for o in ops[:number] if not _exclude(o, op)), None)
        if earlier is not None:
            yield _twice(value, op, Label(earlier.span(source), "used before"), source)
            return
        loop = _loop_around(value, owner, op)
        if loop is not None:
            again = Label(loop.span(source), "each round of this loop uses it")
            yield _twice(value, op, again, source)
            return


def _twice(value: Value, op: Operation, where: Label, source: Source) -> Diagnostic:
    return finding(
        "PTO3033",
        f"'{op.name}' op uses the align state `%{value.name}` again",
        op.span(source),
        more=(where,),
        notes=("an align state is what is left of a stream: each is used once on a path",),
        help="use the align state that the operation before gives; carry it through a loop",
    )


def _exclude(first: Operation, second: Operation) -> bool:
    """True if no path goes through both: they are in different regions of a branch, or in different
    blocks, of which the jumps decide."""
    holders = dict(_upwards(first))
    for holder, child in _upwards(second):
        if holder in holders:
            return _block_of(holder, child) != _block_of(holder, holders[holder])
    return True


def _upwards(op: Operation) -> Iterator[tuple[Operation, Operation]]:
    """The operations around one, each with the operation of its regions that it is in."""
    child = op
    for holder in op.around():
        yield holder, child
        child = holder


def _block_of(holder: Operation, child: Operation) -> tuple[int, int]:
    blocks = ((r, b) for r, region in enumerate(holder.regions) for b in range(len(region.blocks)))
    return next(at for at in blocks if child in holder.regions[at[0]].blocks[at[1]].ops)


def _loop_around(value: Value, owner: Operation | None, op: Operation) -> Operation | None:
    """The loop that uses an align state of outside in each of its rounds."""
    is_result = owner is not None and value in owner.results
    holder = owner.parent if owner is not None and is_result else owner
    for around in op.around():
        if around is holder:
            return None
        if around.has("loop"):
            return around
    return None
