"""The contract of a kernel: what it requires of its caller, and what it does with its arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ptosim.ground.diagnostics.model import Severity
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.program import Function
from ptosim.ground.ir.types import PtrType, ScalarType
from ptosim.ground.isa.dates import Profile
from ptosim.language.frontend import Front
from ptosim.language.same_blocks import global_windows, roots_of
from ptosim.language.toolchains import Promise, promises_of, tells_core
from ptosim.launch.dry_run import BUDGET, follow
from ptosim.launch.paths.requirement import Requirement

_BETWEEN_BLOCKS = ("handshake", "publishes", "collective")
_RACE = "PTO5205"


def contract_of(
    front: Front,
    profile: Profile,
    entry: str,
    args: Mapping[str, Any],
    requirements: Sequence[Requirement],
    inside: Mapping[str, int],
    coverage: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the contract of an entry as plain data. `inside` are values of its open scalars that
    meet what it requires, with which two blocks are followed; `coverage` says of which lines no
    sum says what they ask."""
    plan = front.plans.get(entry)
    functions = list(plan.reached) if plan is not None else [front.resolved.functions[entry]]
    own = [r for r in requirements if r.entry == entry]
    told = [r for r in own if r.kind != "data"]
    return {
        "entry": entry,
        "arguments": list(_arguments(front, functions, told)),
        "requirements": [r.to_dict() for r in own],
        **({"unsaid": coverage["unsaid"]} if "unsaid" in coverage else {}),
        "launch": _launch(told),
        "blocks": _blocks(front, profile, entry, {**args, **inside}, functions),
    }


def _arguments(
    front: Front, functions: Sequence[Function], told: Sequence[Requirement]
) -> Iterator[dict[str, Any]]:
    used = _used(front, functions)
    seen: set[str] = set()
    for function in functions:
        promised = promises_of(function, front.resolved.settings.maker)
        for value in function.args:
            if value.name in seen or not _is_launched(front, function):
                continue
            seen.add(value.name)
            made: dict[str, Any] = {"name": value.name, "type": str(value.type)}
            promise = promised.get(value.name)
            if isinstance(value.type, ScalarType):
                made["role"] = promise.kind if promise is not None else "free"
                made |= _range(value.name, told, promise.low if promise is not None else None)
            else:
                read, written = used.get(value.name, (set(), set()))
                made["access"] = _ACCESS[bool(read), bool(written)]
                made |= {"read": sorted(read), "written": sorted(written)}
                made |= _of_pointer(value, promise)
            yield made


def _of_pointer(value: Value, promise: Promise | None) -> dict[str, Any]:
    """What may be counted on of a pointer, and what not: bytes that it is a multiple of, whether
    another argument may name its buffer, whether each block has a part of it."""
    if promise is None or not isinstance(value.type, PtrType):
        return {}
    return {
        "aligned": max(value.type.elem.bits // 8, 1),
        "may_share": promise.may_share,
        "per_block": promise.per_block,
    }


_ACCESS = {
    (True, True): "in-out", (True, False): "read", (False, True): "written",
    (False, False): "not used",
}  # fmt: skip


def _is_launched(front: Front, function: Function) -> bool:
    return function.name in front.resolved.entries or not front.resolved.entries


def _range(name: str, told: Sequence[Requirement], promised: int | None) -> dict[str, Any]:
    """The range of a scalar by itself, and what it is a multiple of."""
    low, high, multiple = promised, None, None
    for made in told:
        if made.terms == {name: 1} and not made.when:
            low = made.low if low is None or (made.low or low) > low else low
            high = made.high if made.high is not None else high
            multiple = made.multiple or multiple
    return {"low": low, "high": high, "multiple": multiple}


def _used(front: Front, functions: Sequence[Function]) -> dict[str, tuple[set[int], set[int]]]:
    """The lines that read each argument, and those that write it, by name."""
    found: dict[str, tuple[set[int], set[int]]] = {}
    ops = [op for function in functions for op in function.ops]
    roots = roots_of(ops)
    for op in ops:
        line = front.source.line_column(op.start)[0]
        for side, writes in enumerate((False, True)):
            for window in _windows(op, writes=writes):
                root = roots.get(id(window), window)
                if root.is_argument:
                    found.setdefault(root.name, (set(), set()))[side].add(line)
    return found


def _windows(op: Operation, *, writes: bool) -> list[Value]:
    """The places that an operation uses; what is added to is read, too."""
    atomic = [str(value) for name, value in op.attrs.items() if "atomic" in name.lower()]
    adds = not writes and any("none" not in value for value in atomic)
    found = global_windows(op, writes=writes)
    return [*found, *global_windows(op, writes=True)] if adds else found


def _launch(told: Sequence[Requirement]) -> dict[str, Any]:
    """How many blocks, and how many of anything else that an index counts, may be launched."""
    most: dict[str, int] = {}
    for made in told:
        if made.kind == "index" and made.high is not None and len(made.terms) == 1:
            (name,) = made.terms
            most[name] = min(most.get(name, made.high + 1), made.high + 1)
    return {"most": most}


def _blocks(
    front: Front,
    profile: Profile,
    entry: str,
    args: Mapping[str, Any],
    functions: Sequence[Function],
) -> dict[str, Any]:
    """Whether blocks may run in any order, and why: two are followed."""
    for op in (op for function in functions for op in function.ops):
        if any(op.has(trait) for trait in _BETWEEN_BLOCKS):
            line = front.source.line_column(op.start)[0]
            return {"any_order": False, "why": f"they wait for each other in line {line}"}
    outcome = follow(front, profile, entry, args, budget=BUDGET, block_num=2)
    races = [d for d in outcome.findings if d.code == _RACE and d.severity is Severity.ERROR]
    if races:
        line = races[0].span.line if races[0].span is not None else 0
        return {"any_order": False, "why": f"two blocks reach the same bytes: line {line}"}
    if outcome.ended and not outcome.stopped:
        return {"any_order": None, "why": f"not followed to the end: {outcome}"}
    if not any(map(tells_core, functions)):
        return {"any_order": True, "why": "each does the same, and none asks which one it is"}
    return {
        "any_order": True,
        "why": "nothing that two of them reach depends on it: shown for blocks 0 and 1",
    }
