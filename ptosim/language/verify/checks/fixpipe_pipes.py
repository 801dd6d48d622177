"""FIFOs whose pushes convert on their way out of the accumulator (`acc_push_epilogue`)."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.ir.attributes import number_of
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.ir.types import TileType
from ptosim.ground.isa.epilogues import Epilogue, Quant, layouts, quants, relus
from ptosim.ground.records import replace
from ptosim.ground.source import Source
from ptosim.language.verify.checks.pipe_ends import End, Use, owner
from ptosim.language.verify.checks.pipe_pairs import peer_of

_CODE = "PTO5045"


def check(ends: list[End], resolved: ResolvedModule) -> Iterator[Diagnostic]:
    """Report what is wrong with the fixpipe pipes of a module and with the factors for them."""
    source = resolved.module.source
    for end in ends:
        if end.epilogue is not None:
            yield from _words(end, end.epilogue, resolved.target, source)
            yield from _users(end, source)
        peer = peer_of(end, ends, resolved)
        if end.epilogue is not None or (peer is not None and peer.epilogue is not None):
            yield from _peers(end, peer, source)
        if end.epilogue is not None:
            _note_elements(end, peer, resolved)
        if end.epilogue is not None and _is_consumer(end):
            yield from _consumer(end, end.epilogue, peer, source)
    yield from _factors(ends, resolved, source)


def _note_elements(end: End, peer: End | None, resolved: ResolvedModule) -> None:
    """Keep what the consumer pops: the words of an epilogue leave the sign open."""
    users = (use for one in (end, peer) if one is not None for use in one.users)
    for use in users:
        if use.kind == "pop" and isinstance(use.entry, TileType):
            resolved.popped_as[end.op] = use.entry.dtype.name
            return


def _about(op: Operation, text: str, source: Source) -> Diagnostic:
    return finding(_CODE, f"'{op.name}' op {text}", op.span(source))


def _is_consumer(end: End) -> bool:
    return end.side == "vector"


def _words(end: End, epilogue: Epilogue, target: str, source: Source) -> Iterator[Diagnostic]:
    for enum, word, known in (
        ("Layout", epilogue.layout, tuple(layouts())),
        ("Quant", epilogue.quant, tuple(quants())),
        ("Relu", epilogue.relu, relus()),
    ):
        if word not in known:
            listed = ", ".join(known)
            text = f"expected ::mlir::pto::Fixpipe{enum} to be one of: {listed}"
            yield _about(end.op, text, source)
    quant = epilogue.conversion
    if quant is not None and target not in quant.targets:
        yield _about(end.op, quant.only, source)
    for _, operand in end.buffers:
        made = owner(operand)
        if made is None or not made.traits & {"reserves", "imports"}:
            text = "expects fixpipe pipe c2v_consumer_buf to trace to reserve_buffer or "
            yield _about(end.op, f"{text}import_reserved_buffer", source)
        elif _is_consumer(end) and "imports" in made.traits:
            text = "expects consumer-side fixpipe pipe to use reserve_buffer, not "
            yield _about(end.op, f"{text}import_reserved_buffer", source)
        elif end.side == "cube" and "reserves" in made.traits:
            text = "expects peer producer aic_initialize_pipe to use import_reserved_buffer"
            yield _about(end.op, text, source)


def _users(end: End, source: Source) -> Iterator[Diagnostic]:
    assert end.epilogue is not None
    quant = end.epilogue.conversion
    for use in end.users:
        word = f"T{use.kind.upper()}"
        if use.split:
            yield _about(use.op, f"expects fixpipe {word} to have split = 0", source)
        if use.kind == "push":
            yield from _pushed(end, use, quant, source)


def _pushed(end: End, use: Use, quant: Quant | None, source: Source) -> Iterator[Diagnostic]:
    tile = use.entry
    if not isinstance(tile, TileType) or tile.loc != "acc":
        yield _about(use.op, "expects fixpipe TPUSH source tile to use loc=acc", source)
        return
    if quant is None:
        return
    if tile.dtype.family not in quant.takes:
        text = "expects source element type to match acc_push_epilogue.quant mode requirements"
        yield _about(use.op, text, source)
    if quant.scale is not None and not _is_set(end, use, quant.scale):
        text = (
            f"expects a preceding pto.set_quant_{quant.scale} with id = {end.id} in the same block"
        )
        yield _about(use.op, text, source)


def _is_set(end: End, use: Use, word: str) -> bool:
    """True if a factor of the kind is set earlier in the block of a push."""
    before = use.block[: use.block.index(use.op)]
    return any(
        "sets_quant" in op.traits
        and op.name.endswith(word)
        and (number_of(op, "id") or 0) == end.id
        for op in before
    )


# -- both ends -----------------------------------------------------------------------------------


def _peers(end: End, peer: End | None, source: Source) -> Iterator[Diagnostic]:
    mine, other = end.epilogue, peer.epilogue if peer is not None else None
    here, there = ("consumer", "producer") if _is_consumer(end) else ("producer", "consumer")
    if mine is None:
        return  # said at the end that has one
    if peer is None:
        init = "aic_initialize_pipe" if _is_consumer(end) else "aiv_initialize_pipe"
        text = f"expects peer {there} function to contain a matching {init}"
        yield _about(end.op, text, source)
        return
    if other is None:
        text = f"expects peer {there} pipe init to also have 'acc_push_epilogue'"
        yield _about(end.op, text, source)
        return
    for name in ("layout", "quant", "relu"):
        one, two = getattr(mine, name), getattr(other, name)
        if one != two:
            yield _about(
                end.op,
                f"expects acc_push_epilogue.{name} to match peer {there} ({here} has {one}, "
                f"{there} has {two})",
                source,
            )


def _consumer(
    end: End, epilogue: Epilogue, peer: End | None, source: Source
) -> Iterator[Diagnostic]:
    pops = [use for use in end.users if use.kind == "pop"]
    if not pops:
        text = f"expects at least one tpop_from_aic for fixpipe pipe id = {end.id}"
        yield _about(end.op, text, source)
        return
    types = [t for use in pops if isinstance(t := use.entry, TileType)]
    if len({replace(t, ssa=False) for t in types}) > 1:
        text = "expects all tpop_from_aic results of a fixpipe pipe to have the same tile type"
        yield _about(pops[0].op, text, source)
    for use in pops:
        if isinstance(use.entry, TileType):
            yield from _popped(use, use.entry, epilogue, peer, source)
    if types:
        size = types[0].bytes
        for one, word in ((end, "consumer-side"), (peer, "peer producer")):
            given = one.number("slot_size") if one is not None else None
            if given is not None and given < size:
                text = f"expects {word} fixpipe slot_size to be at least {size} bytes"
                yield _about(end.op, text, source)


def _popped(
    use: Use, tile: TileType, epilogue: Epilogue, peer: End | None, source: Source
) -> Iterator[Diagnostic]:
    layout = layouts().get(epilogue.layout)
    if layout is not None and f"{tile.blayout} {tile.slayout}" != layout:
        text = "expects consumer tile layout to match acc_push_epilogue.layout"
        yield _about(use.op, f"{text} ({epilogue.layout})", source)
    quant = epilogue.conversion
    if quant is None:
        return
    if tile.dtype.name not in (quant.gives or quant.takes):
        text = "expects consumer element type to match acc_push_epilogue.quant"
        yield _about(use.op, f"{text} ({epilogue.quant})", source)
    pushed = {
        u.entry.dtype.name for u in (peer.users if peer is not None else ())
        if u.kind == "push" and isinstance(u.entry, TileType)
    }  # fmt: skip
    if not quant.gives and pushed and tile.dtype.name not in pushed:
        text = "expects producer source element type and consumer tpop result element type to "
        yield _about(use.op, f"{text}satisfy acc_push_epilogue.quant ({epilogue.quant})", source)


# -- factors -------------------------------------------------------------------------------------


def _factors(ends: list[End], resolved: ResolvedModule, source: Source) -> Iterator[Diagnostic]:
    for function in resolved.functions.values():
        mine = [end for end in ends if end.function is function]
        for op in function.ops:
            if "sets_quant" in op.traits:
                yield from _factor(op, mine, source)


def _factor(op: Operation, ends: list[End], source: Source) -> Iterator[Diagnostic]:
    number = number_of(op, "id") or 0
    named = [end for end in ends if end.id == number]
    word = "scalar" if op.name.endswith("scalar") else "vector"
    if not named:
        yield _about(
            op,
            f"expects 'id' = {number} to match a frontend or lowered initialize_pipe op in the "
            "same function",
            source,
        )
        return
    fixpipe = [end for end in named if end.epilogue is not None]
    if not fixpipe:
        yield _about(op, f"expects 'id' = {number} to reference a fixpipe pipe", source)
        return
    epilogue = fixpipe[0].epilogue
    quant = epilogue.conversion if epilogue is not None else None
    if quant is not None and quant.scale != word:
        yield _about(
            op,
            f"expects 'id' = {number} to reference a fixpipe pipe with {word} quantization mode, "
            f"but found non-{word} mode",
            source,
        )
