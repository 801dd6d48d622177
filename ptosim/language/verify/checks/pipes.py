"""FIFOs between cores as August 2026 has them: several for each function, with ids; entries that
are tiles or views of global memory; odd halves.

The assembler lowers aic/aiv_initialize_pipe before it looks at both ends, so its messages about a
pair, and these, name the lowered operation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.attributes import number_of
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.ir.types import TileType, ViewType
from ptosim.ground.isa.units import unit_rules
from ptosim.ground.source import Source
from ptosim.language.verify.checks import fifos, fixpipe_pipes, pipe_pairs
from ptosim.language.verify.checks.pipe_ends import DIRECTIONS, End, Use, ends_of, row


def ends(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report what is wrong with the FIFOs of a module, by the rules of its date."""
    if "pipe_ids" not in unit_rules(resolved.date).rules:
        yield from fifos.ends(resolved, level)
        return
    source = resolved.module.source
    yield from fifos.placed(resolved)
    found, strays = ends_of(resolved)
    for end in found:
        yield from _header(end, source)
        yield from _users(end, source)
    yield from _unique(found, source)
    for _, use in strays:
        if row(use.op).side is not None:
            yield _no_end(use, source)
    yield from pipe_pairs.pairs(found, resolved)
    yield from fixpipe_pipes.check(found, resolved)


# -- the initialisation --------------------------------------------------------------------------

_KEYS = (
    "id",
    "dir_mask",
    "slot_size",
    "slot_num",
    "local_slot_num",
    "nosplit",
    "acc_push_epilogue",
)
_OPERANDS = ("gm_slot_buffer", "gm_slot_tensor", "c2v_consumer_buf", "v2c_consumer_buf")
_HIDDEN = frozenset(
    (
        "stPhase", "st_phase", "atomicType", "atomic_type", "subBlockId", "subBlockid",
        "sub_blockid", "clipReluMode", "clip_relu_mode", "isChannelSplit", "is_channel_split",
        "channelSplit", "channel_split", )
)  # fmt: skip
_NAME = re.compile(r"(\w+)\s*=(?!=)")


def _header(end: End, source: Source) -> Iterator[Diagnostic]:
    """Keys of the braces and names of the operands: each once, none that the form does not have."""
    if end.is_lowered or end.op.form == "generic":
        return
    braces, operands = _written(end.op, source)
    for names, known, what, unknown in (
        (braces, _KEYS, "clause", "unexpected keyword"),
        (operands, _OPERANDS, "operand", "unexpected initialize_pipe operand"),
    ):
        for at, name in enumerate(names):
            if name in _HIDDEN:
                continue
            if name not in known:
                yield _about(end.op, "PTO5047", f"{unknown} '{name}'", source)
            elif name in names[:at]:
                yield _about(end.op, "PTO5047", f"duplicate '{name}' {what}", source)


def _written(op: Operation, source: Source) -> tuple[list[str], list[str]]:
    """The names in the braces after the operation, and those in its parentheses."""
    text = source.text[op.name_end : op.end]
    braces, rest = _enclosed(text, "{", "}")
    operands, _ = _enclosed(rest, "(", ")")
    return _names(braces), _names(operands)


def _enclosed(text: str, opens: str, closes: str) -> tuple[str, str]:
    """The text between the first bracket and its partner, and what follows."""
    start = text.find(opens)
    if start < 0:
        return "", text
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == opens) - (text[at] == closes)
        if not depth:
            return text[start + 1 : at], text[at + 1 :]
    return text[start + 1 :], ""


def _names(text: str) -> list[str]:
    """The names with a value, those inside `<…>` left out."""
    flat = re.sub(r"<[^<>]*>", "", re.sub(r"<[^<>]*>", "", text))
    return _NAME.findall(flat)


def _unique(ends: list[End], source: Source) -> Iterator[Diagnostic]:
    first: dict[tuple[str, int], End] = {}
    for end in ends:
        if end.is_lowered:
            continue
        key = (end.function.name, end.id)
        if key in first:
            yield finding(
                "PTO5043",
                f"'{end.op.name}' op requires 'id' to be unique across frontend initialize_pipe "
                "ops",
                end.op.span(source),
                more=(Label(first[key].op.span(source), f"the first one with id = {end.id}"),),
            )
        first.setdefault(key, end)


# -- those who use it ----------------------------------------------------------------------------


def _no_end(use: Use, source: Source) -> Diagnostic:
    number = number_of(use.op, "id") or 0
    return _about(
        use.op,
        "PTO5043",
        f"expects 'id' = {number} to match a frontend initialize_pipe op in the same function "
        f"{_with_mask(use)}",
        source,
        help="initialise the pipe in this function, with the id that its users name",
    )


def _with_mask(use: Use) -> str:
    return f"with dir_mask = {'1 or 3' if use.direction == 'c2v' else '2 or 3'}"


def _users(end: End, source: Source) -> Iterator[Diagnostic]:
    for use in end.users:
        if not end.is_lowered and use.direction and not end.mask & DIRECTIONS[use.direction]:
            yield _no_end(use, source)
            continue
        yield from _hidden(use.op, source)
        yield from _entry(end, use, source)
        yield from _parity(end, use, source)
        yield from _odd(end, use, source)
    if not end.is_lowered:
        yield from _hidden(end.op, source)
    splits = sorted({use.split for use in end.users if use.says_split})
    if 0 in splits and len(splits) > 1:
        yield _about(
            end.op,
            "PTO5016",
            f"cannot mix 'split = 0' with 'split = {splits[1]}' on one pipe",
            source,
            more=tuple(Label(u.op.span(source), f"split = {u.split}") for u in end.users),
        )


def _hidden(op: Operation, source: Source) -> Iterator[Diagnostic]:
    for name in op.attrs:
        if name in _HIDDEN:
            yield _about(op, "PTO5049", f"does not allow unpublished fixpipe attr '{name}'", source)


def hidden(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report attributes of the fixpipe that `set_quant_*` does not have."""
    for op in resolved.ops:
        if "sets_quant" in op.traits:
            yield from _hidden(op, resolved.module.source)


def _entry(end: End, use: Use, source: Source) -> Iterator[Diagnostic]:
    """An entry that is a view is a slot of the pipe's own view."""
    entry, slot = use.entry, end.tensor
    if not isinstance(entry, ViewType):
        return
    what = "initialize_l2g2l_pipe gm_addr" if end.is_lowered else "gm_slot_tensor"
    if slot is None:
        if end.is_lowered:
            made = "initialize_l2g2l" in end.op.name
            text = (
                "expects !pto.tensor_view pipe entry to use global-only pto.initialize_l2g2l_pipe"
                if made
                else "expects !pto.tensor_view pipe entry to use a pipe produced by "
                "pto.initialize_l2g2l_pipe"
            )
        else:
            text = (
                f"expects 'id' = {end.id} to match a frontend initialize_pipe op in the same "
                "function with 'gm_slot_tensor' when the pipe entry is !pto.tensor_view"
            )
        yield _about(use.op, "PTO5044", text, source)
        return
    if end.buffers:
        text = "expects !pto.tensor_view pipe entry to use global-only pto.initialize_l2g2l_pipe"
        yield _about(use.op, "PTO5044", text, source)
        return
    if len(entry.dims) != len(slot.dims):
        text = f"expects pipe entry rank to match {what} rank"
        yield _about(use.op, "PTO5044", text, source)
        return
    if entry.elem.family != slot.elem.family:
        text = f"expects pipe entry element type to match {what} element type"
        yield _about(use.op, "PTO5044", text, source)
    yield from _dims(use, entry, slot, what, source)
    if end.is_lowered and use.split == 0 and None not in entry.dims:
        size = entry.elem.bytes_for(_product(entry.dims))
        if end.number("slot_size") not in (None, size):
            text = "expects pipe entry byte size to match initialize_l2g2l_pipe slot_size"
            yield _about(use.op, "PTO5044", text, source)


def _product(dims: tuple[int | None, ...]) -> int:
    total = 1
    for dim in dims:
        total *= dim or 1
    return total


def _dims(
    use: Use, entry: ViewType, slot: ViewType, what: str, source: Source
) -> Iterator[Diagnostic]:
    """Extents are those of a slot; of a split entry half of the rows or columns, or all of them."""
    halved = len(entry.dims) - {1: 2, 2: 1}.get(use.split, 0) if use.split else None
    for k, (dim, whole) in enumerate(zip(entry.dims, slot.dims, strict=True)):
        if dim is None or whole is None or dim == whole:
            continue
        if k == halved and dim * 2 in (whole, 4 * whole):
            continue
        yield _about(
            use.op,
            "PTO5044",
            f"expects pipe entry dimension {dim} to match {what} dimension {whole}",
            source,
            label=f"dimension number {k}",
        )


def _parity(end: End, use: Use, source: Source) -> Iterator[Diagnostic]:
    """What is halved evenly has an even extent, else an odd one: of an entry of rank 2 whose type
    fixes the extent."""
    if use.kind != "push" or use.split not in (1, 2, 3, 4) or use.direction == "v2c":
        return
    entry = use.entry
    if isinstance(entry, TileType):
        extents: tuple[int | None, ...] = (entry.v_row, entry.v_col)
    elif isinstance(entry, ViewType) and len(entry.dims) == 2:
        extents = entry.dims
    else:
        return
    axis = 0 if use.split in (1, 3) else 1
    extent, odd = extents[axis], use.split >= 3
    if extent is None or extent % 2 == odd:
        return
    word = "odd" if odd else "even"
    side = ("row", "column")[axis]
    yield _about(
        use.op,
        "PTO5046",
        f"expects a statically {word} valid-{side} count for split = {use.split}",
        source,
        label=f"it is {extent}",
    )


def _odd(end: End, use: Use, source: Source) -> Iterator[Diagnostic]:
    """Halves of different sizes: of tiles, from the cube, through global memory."""
    if use.split not in (3, 4):
        return
    through = "gm_slot_buffer", "gm_slot_tensor", "gm_addr"
    backed = any(end.op.bound.get(name) is not None for name in through)
    buffered = any(direction == "c2v" for direction, _ in end.buffers)
    if use.direction == "v2c" or end.mask != 1 or not backed or not buffered:
        yield _about(
            use.op,
            "PTO5046",
            "supports odd split modes (split = 3 or 4) only for cube-to-vector pipes with "
            "dir_mask = 1, slots in global memory and a c2v consumer buffer",
            source,
        )
    elif isinstance(use.entry, ViewType):
        yield _about(
            use.op,
            "PTO5046",
            "supports odd split modes (split = 3 or 4) only for tile entries",
            source,
        )
    elif use.kind == "pop" and use.op.results and use.op.bound.get("valid_row") is None:
        yield _about(
            use.op,
            "PTO5046",
            "expects odd C2V split tpop to provide per-sub-core valid_row and valid_col",
            source,
        )


def _about(
    op: Operation,
    code: str,
    text: str,
    source: Source,
    *,
    label: str = "",
    more: tuple[Label, ...] = (),
    help: str | None = None,
) -> Diagnostic:
    return finding(
        code, f"'{op.name}' op {text}", op.span(source), label=label, more=more, help=help
    )
