"""Which cores a function runs on: cube, vector, both kinds of a cluster, or one core with
everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptosim.ground.ir.attributes import attr_value
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import AbstractTileType

_MIXED_OPS = frozenset(
    f"pto.{name}"
    for name in (
        "section.cube", "section.vector", "tpush_to_aiv", "tpush_to_aic", "tpop_from_aic",
        "tpop_from_aiv", "aic_initialize_pipe", "aiv_initialize_pipe", "initialize_l2l_pipe",
        "initialize_l2g2l_pipe",
    )
)  # fmt: skip

_INITIALIZE = frozenset(name for name in _MIXED_OPS if "initialize" in name)


@dataclass(frozen=True, slots=True)
class CoreRole:
    """A core of every launched cluster: its kind, its number among the vector cores, what it
    runs."""

    kind: str
    sub_block: int
    sub_blocks: int
    function: str


def roles(resolved: ResolvedModule, entry: Function, reached: Sequence[Function]) -> list[CoreRole]:
    """Return the cores that a launch of `entry` uses.

    A function of kernel kind cube or vector runs on one core of that kind. Sections and cube-vector
    pipes make a mixed kernel: one cube and both vector cores run the whole function, each without
    the other's sections. A kernel whose pipe imports a peer's buffer runs beside that peer.
    Everything else runs on one core that has all memory spaces."""
    peer = _peer(resolved, entry)
    if peer is not None:
        return _pair(entry, peer, reached)
    mixed = any(op.name in _MIXED_OPS for f in reached for op in f.op.walk())
    mixed = mixed or {"cube", "vector"} <= {f.kernel_kind for f in reached}
    if entry.kernel_kind in ("cube", "vector") and not _has_sections(reached):
        return [CoreRole(entry.kernel_kind, 0, 1, entry.name)]
    if mixed:
        return _cluster(entry.name, entry.name, reached)
    return [CoreRole("any", 0, 1, entry.name)]


def _has_sections(reached: Sequence[Function]) -> bool:
    return any(op.name.startswith("pto.section.") for f in reached for op in f.op.walk())


def _cluster(cube: str, vector: str, reached: Sequence[Function]) -> list[CoreRole]:
    vectors = 1 if _is_single(reached) else 2
    return [
        CoreRole("cube", 0, vectors, cube),
        *(CoreRole("vector", k, vectors, vector) for k in range(vectors)),
    ]


def _is_single(reached: Sequence[Function]) -> bool:
    """True if only whole tiles go through FIFOs: such a kernel has one vector core beside each cube
    core."""
    ops = (op for f in reached for op in f.op.walk())
    splits = [_split(op) for op in ops if op.name.startswith(("pto.tpush", "pto.tpop"))]
    return bool(splits) and not any(splits)


def _split(op: Operation) -> int:
    attr = op.attrs.get("split")
    value = attr_value(attr) if attr is not None else 0
    return value if isinstance(value, int) else 0


def side_of(function: Function) -> str | None:
    """Return the kind of core that a function is for: its kernel kind, or that of its only kind of
    section."""
    if function.kernel_kind in ("cube", "vector"):
        return function.kernel_kind
    kinds = {op.name.rpartition(".")[2] for op in function.op.walk() if _is_section(op)}
    return kinds.pop() if len(kinds) == 1 else None


def _is_section(op: Operation) -> bool:
    return op.name.startswith("pto.section.")


def _pair(entry: Function, peer: Function, reached: Sequence[Function]) -> list[CoreRole]:
    cube, vector = (entry, peer) if side_of(entry) == "cube" else (peer, entry)
    return _cluster(cube.name, vector.name, reached)


def _peer(resolved: ResolvedModule, entry: Function) -> Function | None:
    """The kernel that runs beside `entry`: the one at the other end of its FIFO."""
    sides = {"cube": "vector", "vector": "cube"}
    wanted = sides.get(side_of(entry) or "")
    if wanted is None or not _has_pipe(entry):
        return None
    peer = _sharing(resolved, entry)
    if peer is None:
        others = [
            f
            for f in resolved.functions.values()
            if f is not entry and f.has_body and _has_pipe(f) and side_of(f) == wanted
        ]
        peer = others[0] if len(others) == 1 else None
    return peer if peer is not None and side_of(peer) == wanted else None


def _has_pipe(function: Function) -> bool:
    return any(op.name in _INITIALIZE for op in function.op.walk())


def _sharing(resolved: ResolvedModule, entry: Function) -> Function | None:
    """The function whose reserved buffer `entry` imports, or that imports `entry`'s."""
    for function in resolved.functions.values():
        for op in function.op.walk():
            if op.name != "pto.import_reserved_buffer":
                continue
            attr = op.attrs.get("peer_func")
            name = attr.atom.value.lstrip("@").strip('"') if attr is not None else ""
            if function is entry and name in resolved.functions and name != entry.name:
                return resolved.functions[name]
            if name == entry.name and function is not entry:
                return function
    return None


def peer_functions(resolved: ResolvedModule, entry: Function) -> list[Function]:
    """Return the entry and, for a cube-vector pair of kernels, its peer."""
    peer = _peer(resolved, entry)
    return [entry, peer] if peer is not None else [entry]


def reached_functions(resolved: ResolvedModule, launched: Sequence[Function]) -> list[Function]:
    """Return the launched functions and all that they call, callers first."""
    found = list(launched)
    for function in found:
        for op in function.op.walk():
            callee = op.bound.get("callee") if op.name == "func.call" else None
            known = resolved.functions.get(callee) if isinstance(callee, str) else None
            if known is not None and known.has_body and known not in found:
                found.append(known)
    return found


def has_abstract(function: Function) -> bool:
    """Does a value of the function take its shape from the arguments of the run?"""
    values = [*function.args, *(v for op in function.op.walk() for v in op.results)]
    return any(isinstance(v.type, AbstractTileType) for v in values)
